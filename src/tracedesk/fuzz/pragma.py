"""Versions of compilers, and which of them a `pragma solidity` allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Version = tuple[int, int, int]

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_PRAGMA: Final = re.compile(r"\bpragma\s+solidity\b([^;]{0,1024}+);")
_TERM: Final = re.compile(r"(\^|~|>=|<=|>|<|=)?\s*v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?")
_HYPHEN: Final = re.compile(r"(?<!\S)(\S++)\s++-\s++(\S+)")
_MANY: Final = 1_000_000


def version_of(text: str) -> Version | None:
    """The first version that a text names."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def shown(version: Version) -> str:
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """From a version to before another."""

    least: Version
    past: Version

    def holds(self, version: Version) -> bool:
        return self.least <= version < self.past


@dataclass(frozen=True, slots=True)
class Pragma:
    """One pragma: alternatives, each a list of bounds that all must hold."""

    text: str
    alternatives: tuple[tuple[_Bounds, ...], ...]

    @classmethod
    def of(cls, text: str) -> Pragma:
        parts = (_HYPHEN.sub(r">=\1 <=\2", part) for part in text.split("||"))
        return cls(text.strip(), tuple(tuple(_bounds(match) for match in _TERM.finditer(p)) for p in parts))

    def allows(self, version: Version) -> bool:
        return any(all(bounds.holds(version) for bounds in group) for group in self.alternatives)


def pragmas(plain: str) -> tuple[Pragma, ...]:
    """The pragmas of a source whose comments are gone."""
    return tuple(Pragma.of(match[1]) for match in _PRAGMA.finditer(plain))


def allowed(version: Version, wanted: Iterable[Pragma]) -> bool:
    """Whether every pragma allows a version."""
    return all(pragma.allows(version) for pragma in wanted)


def _bounds(match: re.Match[str]) -> _Bounds:
    numbers = [int(part) for part in match.groups()[1:] if part and part.isdigit()]
    first, second, third = (*numbers, 0, 0, 0)[:3]
    least: Version = (first, second, third)
    past = _past(least, len(numbers))
    match match[1]:
        case "^":
            return _Bounds(least, _caret(least))
        case "~":
            return _Bounds(least, _past(least, min(len(numbers), 2)))
        case ">=":
            return _Bounds(least, (_MANY, 0, 0))
        case ">":
            return _Bounds(past, (_MANY, 0, 0))
        case "<":
            return _Bounds((0, 0, 0), least)
        case "<=":
            return _Bounds((0, 0, 0), past)
        case _:
            return _Bounds(least, past)


def _past(version: Version, named: int) -> Version:
    """The first version after all that begin like this one, of which `named` numbers are given."""
    first, second, third = version
    return ((_MANY, 0, 0), (first + 1, 0, 0), (first, second + 1, 0), (first, second, third + 1))[named]


def _caret(version: Version) -> Version:
    """Up to the next change of the leftmost number that is not zero."""
    first, second, third = version
    if first:
        return first + 1, 0, 0
    return (0, second + 1, 0) if second else (0, 0, third + 1)
