"""What one source file holds, as its extractor says it.

The rows are named tuples: an index makes them by the hundred thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

_Row = TypeVar("_Row", bound=tuple[Any, ...])


class _Make(Protocol):
    def __call__(self, kind: type[_Row], values: tuple[Any, ...], /) -> _Row: ...


make: Final = cast("_Make", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""Makes a named tuple of all its values in half the time that calling its type takes."""


class Span(NamedTuple):
    """Lines, 1-based and inclusive; bytes, 0-based and half open."""

    start: int
    end: int
    start_byte: int
    end_byte: int


class Symbol(NamedTuple):
    """A definition. `name` is its own, `qualified` has the definitions around it before it, with dots."""

    name: str
    qualified: str
    kind: str
    span: Span
    signature: str
    """Its first line or lines up to the body, in one line, at most 200 characters."""
    doc: str
    """The first sentence of its docstring or of the comment before it; empty without one."""
    exported: bool
    """Whether other files may use it, by the language's own rule."""
    parent: int | None
    """The place, in the file's symbols, of the definition around it."""
    about: str = ""
    """All of its documentation that is read, for the full text."""


class Reference(NamedTuple):
    """A name that is used: a call, a type, a base class, or another mention. `holder`: the symbol it is in.

    One for each name, kind and holder; `line` is where the holder first uses it.
    """

    name: str
    kind: str
    line: int
    holder: int | None


class Import(NamedTuple):
    """What a file takes from another: the module as written, and the names (empty: the module itself)."""

    module: str
    names: tuple[str, ...]
    line: int


class Chunk(NamedTuple):
    """A piece of text to be found and shown: a symbol's body, or the head of the file (`symbol` is None)."""

    span: Span
    symbol: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Extract:
    """Everything the graph keeps of one file's text; `problem` says what could not be read of it."""

    language: str
    lines: int
    doc: str
    symbols: tuple[Symbol, ...]
    references: tuple[Reference, ...]
    imports: tuple[Import, ...]
    chunks: tuple[Chunk, ...]
    problem: str | None = None
