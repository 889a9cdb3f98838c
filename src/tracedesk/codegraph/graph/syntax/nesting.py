"""Definitions inside definitions: one pass over the sorted marks gives each thing its holder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tracedesk.codegraph.graph.model import make
from tracedesk.codegraph.graph.syntax.marks import (
    DOC,
    EXPORTED,
    IMPORT,
    REFERENCE,
    REFERENCES,
    SCOPE,
    Mark,
    Place,
)

CLASSES = frozenset(("class", "interface", "struct", "enum", "trait", "contract", "library"))
CALLABLES = frozenset(("function", "method", "constructor", "modifier"))
SPACES = frozenset(("impl", "space"))
"""Kinds that give a prefix to the names inside and are no symbols themselves."""

_LOCAL = frozenset(("variable", "constant", "field", "member"))
"""Kinds that count only outside functions."""

_HOLD_FIELDS = CLASSES | {"event", "error"}
_IN_CLASS = {"function": "method", "member": "method", "variable": "field"}
_ELEMENT = REFERENCE + REFERENCES.index("element")
KINDS = {REFERENCE + rank: kind for rank, kind in enumerate(REFERENCES)} | {_ELEMENT: "call"}
"""The kind of reference that an action stands for; a JSX tag is a call of its component."""


class Nested(NamedTuple):
    """A definition that is kept, with the place of the one around it and the spaces between the two."""

    mark: Mark
    kind: str
    parent: int
    spaces: tuple[Mark, ...]


class _Frame(NamedTuple):
    end: int
    symbol: int
    local: bool
    kind: str
    spaces: tuple[Mark, ...] = ()


_TOP = _Frame(1 << 62, -1, False, "")


@dataclass(slots=True)
class Nest:
    """What one pass found. References are by name bytes, kind and holder, with the first place of each."""

    definitions: list[Nested] = field(default_factory=list[Nested])
    references: dict[tuple[bytes, int, int], int] = field(default_factory=dict[tuple[bytes, int, int], int])
    docs: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    imports: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    exported: set[bytes] = field(default_factory=set[bytes])


def nest(text: bytes, places: Iterable[Place]) -> Nest:
    """Give each of the sorted places the definition it is in."""
    found = Nest()
    refer = found.references.setdefault
    stack = [_TOP]
    top = _TOP
    names: set[int] = set()
    last = -1
    until, holder = top.end, top.symbol
    for place in places:
        start = place[0]
        if until <= start:
            while stack[-1].end <= start:
                stack.pop()
            top = stack[-1]
            until, holder = top.end, top.symbol
        action = place[2]
        if action >= REFERENCE:
            if start != last and start not in names:
                last = start
                name = text[start : -place[1]]
                if action != _ELEMENT or not name[:1].islower():
                    refer((name, action, holder), start)
            continue
        if len(place) == 4:
            mark = place[3]
            names.add(mark.name_start)
            if top.local and mark.kind in _LOCAL:
                continue
            top = _define(found, mark, top)
        elif action == SCOPE:
            top = top._replace(end=min(-place[1], top.end), local=True)
        else:
            _note(found, text, place, holder)
        if top is not stack[-1]:
            stack.append(top)
            until, holder = top.end, top.symbol
    return found


def _note(found: Nest, text: bytes, place: tuple[int, int, int], holder: int) -> None:
    start, end, action = place
    if action == DOC:
        found.docs.setdefault(holder, (start, -end))
    elif action == IMPORT:
        found.imports.append((start, -end))
    elif action == EXPORTED:
        found.exported.add(text[start:-end])


def _define(found: Nest, mark: Mark, around: _Frame) -> _Frame:
    kind = mark.kind
    end = min(-mark.end, around.end)
    if kind in SPACES:
        return around._replace(
            end=end, kind="class" if kind == "impl" else around.kind, spaces=(*around.spaces, mark)
        )
    if around.local and kind in CALLABLES and not mark.header_end:
        return around
    if around.kind in _HOLD_FIELDS and not around.local:
        kind = _IN_CLASS.get(kind, kind)
    elif kind == "member":
        kind = "function" if around.symbol < 0 else "method"
    found.definitions.append(make(Nested, (mark, kind, around.symbol, around.spaces)))
    return make(_Frame, (end, len(found.definitions) - 1, around.local or kind in CALLABLES, kind, ()))
