"""Rows of properties turned into columns: rows of one shape together, each path once."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter
from typing import Any, Final

from tracedesk.backtest.model import EventType
from tracedesk.primitives import json

DEEPEST: Final = 16
"""Objects nested further down are counted but not entered."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
ROOT: Final = "$"

Row = Mapping[str, Any]


@dataclass(slots=True)
class Group:
    """Rows with the same names in the same order."""

    names: tuple[str, ...]
    rows: list[Row] = field(default_factory=list[Row])
    ordinals: list[int] = field(default_factory=list[int])

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The values of each name, in the rows' order."""
        values = zip(*[row.values() for row in self.rows], strict=True)
        return dict(zip(self.names, values, strict=True))


@dataclass(slots=True)
class Column:
    """The values at one path, with the ordinals of the events that have them."""

    rank: tuple[int, int]
    """The first event that has the path, and the path's turn in it: the same however events are batched."""
    pieces: list[tuple[Sequence[int], Sequence[Any]]]
    kinds: set[type]
    """The types of the values."""

    def joined(self) -> tuple[Sequence[int], Sequence[Any]]:
        """Ordinals and values in recording order."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        pairs = [pair for ordinals, values in self.pieces for pair in zip(ordinals, values, strict=True)]
        pairs.sort(key=_ordinal)
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _ordinal(pair: tuple[int, Any]) -> int:
    return pair[0]


def grouped(rows: Sequence[Row], ordinals: Sequence[int]) -> list[Group]:
    """The rows by their shape, in the order in which the shapes first appear."""
    shapes = set(map(tuple, rows))
    if len(shapes) == 1:
        return [Group(shapes.pop(), list(rows), list(ordinals))]
    groups: dict[tuple[str, ...], Group] = {}
    for row, ordinal in zip(rows, ordinals, strict=True):
        names = tuple(row)
        group = groups.get(names)
        if group is None:
            group = groups[names] = Group(names)
        group.rows.append(row)
        group.ordinals.append(ordinal)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class Share:
    """A group of a batch's rows, by columns, and where in the batch they are."""

    group: Group
    columns: Mapping[str, tuple[Any, ...]]
    places: Sequence[int]


@dataclass(frozen=True, slots=True)
class Part:
    """The events of one type in a batch that lie in one chunk."""

    kind: EventType
    places: Sequence[int]
    shares: Sequence[Share]

    @classmethod
    def of(cls, kind: EventType, places: Sequence[int], ordinal: int, rows: Sequence[Row]) -> Part:
        """Of a batch's rows those at these places; the first of them has this ordinal in its chunk."""
        groups = grouped(at_places(places)(rows), range(ordinal, ordinal + len(places)))
        if len(groups) == 1:
            return cls(kind, places, [Share(groups[0], groups[0].columns(), places)])
        shares = [
            Share(group, group.columns(), [places[at - ordinal] for at in group.ordinals]) for group in groups
        ]
        return cls(kind, places, shares)


def at_places(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the items at these places out of a column."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda column: (column[places[0]],)


class Gathering:
    """The columns of many rows by path."""

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}
        self._turn = 0

    def add(
        self, group: Group, columns: Mapping[str, Sequence[Any]], prefix: str = ROOT, depth: int = 1
    ) -> None:
        """Take in a group's columns and, below objects, theirs."""
        for name, values in columns.items():
            path = prefix + step(name)
            kinds = set(map(type, values))
            self._put(path, group.ordinals, values, kinds)
            if dict in kinds and depth < DEEPEST:
                for inner in _inner(group.ordinals, values):
                    self.add(inner, inner.columns(), path, depth + 1)

    def _put(self, path: str, ordinals: Sequence[int], values: Sequence[Any], kinds: set[type]) -> None:
        rank = (ordinals[0], self._turn)
        self._turn += 1
        known = self.columns.get(path)
        if known is None:
            self.columns[path] = Column(rank, [(ordinals, values)], kinds)
        else:
            known.rank = min(known.rank, rank)
            known.pieces.append((ordinals, values))
            known.kinds |= kinds


def _inner(ordinals: Sequence[int], values: Sequence[Any]) -> Generator[Group]:
    """The objects among a column's values, by their shape; empty ones have no columns."""
    objects = [type(value) is dict and value != {} for value in values]
    rows: list[Row] = list(compress(values, objects))
    if rows:
        yield from grouped(rows, list(compress(ordinals, objects)))


_steps: dict[str, str] = {}


def step(name: str) -> str:
    """One step of a path: `.name`, or `["na.me"]` for names that a dotted path cannot spell."""
    known = _steps.get(name)
    if known is None:
        known = f".{name}" if _PLAIN_NAME.fullmatch(name) else f"[{json.dumps(name).decode()}]"
        if len(_steps) < 4_096:
            _steps[name] = known
    return known
