"""What was compiled: sources, contracts, and the code of each with its way back to the source."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tracedesk.errors import ToolError
from tracedesk.foreign import listed
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.sourcemap import SourceMap

Language = Literal["solidity", "vyper"]
Abi = Sequence[Mapping[str, Any]]


class CompileError(ToolError):
    """A target that could not be compiled or read, with the remedy."""

    def __init__(self, kind: str, message: str, **details: Any) -> None:
        super().__init__("INVALID_INPUT", message, {"kind": kind, **details})


@dataclass(frozen=True)
class Source:
    """One source file: the compiler's name of it, where it lies, and its bytes."""

    path: str
    """As the compiler names it, which for a file of the project is its path below the root."""
    data: bytes
    language: Language
    file: Path | None = None
    """Where it lies on disk, when it does."""

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The byte at which each line begins."""
        starts = [0]
        while (end := self.data.find(b"\n", starts[-1])) >= 0:
            starts.append(end + 1)
        return tuple(starts)

    @cached_property
    def text(self) -> str:
        """One character for each byte, so that offsets of compilers are offsets in it."""
        return self.data.decode("latin-1")

    @cached_property
    def digest(self) -> str:
        """The hash that compilers put into the metadata of what they made."""
        return f"0x{keccak(self.data).hex()}"

    def line_of(self, offset: int) -> int:
        """The line, counted from 1, that holds a byte."""
        return bisect_right(self.starts, offset)

    def offset_of(self, line: int, column: int) -> int:
        """The byte at a line, counted from 1, and a column, counted from 0."""
        return self.starts[min(line, len(self.starts)) - 1] + column

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The text line by line, as people read it."""
        text = self.data.decode("utf-8", "replace").removesuffix("\n")
        return tuple(line.rstrip("\r") for line in text.split("\n"))

    def relative_to(self, root: Path) -> str:
        """The path that reports show: below the root where the file lies, else the compiler's name."""
        if self.file is None:
            return self.path
        return Path(os.path.relpath(self.file, root)).as_posix()


@dataclass(frozen=True, slots=True)
class Link:
    """A place in a code that takes the address of a library."""

    path: str
    library: str
    offset: int

    @property
    def qualified(self) -> str:
        return f"{self.path}:{self.library}" if self.path else self.library


@dataclass(frozen=True, slots=True)
class Code:
    """Byte code with what the compiler says about it; places of libraries and immutables are zero."""

    data: bytes
    map: SourceMap
    links: tuple[Link, ...] = ()
    immutables: tuple[tuple[int, int], ...] = ()
    """Start and length of what is written into the code when it is deployed."""


@dataclass(frozen=True, slots=True)
class Contract:
    """A compiled contract."""

    name: str
    path: str
    language: Language
    abi: Abi
    init: Code
    runtime: Code
    source_ids: Mapping[int, str] = field(default_factory=dict[int, str])
    """The paths behind the numbers of the source maps."""
    compiler: str = ""
    needs: tuple[str, ...] = ()
    """The sources that it was made from, where the compiler says so."""

    @property
    def qualified(self) -> str:
        """Path and name, which no other contract of the project shares."""
        return f"{self.path}:{self.name}"

    @property
    def deployable(self) -> bool:
        """Whether there is code; interfaces and abstract contracts have none."""
        return bool(self.init.data)


@dataclass(frozen=True, slots=True)
class Project:
    """Everything compiled from one target."""

    root: Path
    contracts: tuple[Contract, ...]
    sources: Mapping[str, Source]
    targets: tuple[str, ...] = ()
    """The paths that were asked for; other sources were only imported."""
    origin: str = ""
    """Where the codes came from, in words."""
    unbuilt: tuple[str, ...] = ()
    """Files that were asked for and have neither a current artifact nor a compiler that takes them."""
    warnings: tuple[str, ...] = ()

    def contract(self, name: str) -> Contract:
        """The contract of a name, or of `path:Name`; raises with the names there are."""
        found = [c for c in self.contracts if name in (c.name, c.qualified)]
        if len(found) > 1:
            found = [c for c in found if c.path in self.targets] or found
        if len(found) == 1:
            return found[0]
        if found:
            several = listed([c.qualified for c in found])
            raise invalid(
                "AMBIGUOUS_CONTRACT", f"contract: {name!r} is in several files; name one of {several}."
            )
        known = self.names()
        raise invalid(
            "UNKNOWN_CONTRACT",
            f"contract: there is no {name[:80]!r}. There are: {listed(known) or 'none with code'}.",
            known=known,
        )

    def candidates(self) -> tuple[Contract, ...]:
        """The contracts with code in the files that were asked for, in order of the source."""
        return tuple(
            c for c in self.contracts if c.deployable and (not self.targets or c.path in self.targets)
        )

    def names(self) -> list[str]:
        """What each contract with code is called: its name, qualified only where two share it."""
        named = self.candidates()
        count = [c.name for c in named].count
        return [c.name if count(c.name) == 1 else c.qualified for c in named]
