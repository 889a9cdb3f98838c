"""Texts by number: symbols, ids and names are stored once, and so is everything that has a latest value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, cast

import orjson

from tracedesk.backtest.model import POSITION, EventType, canonical, exactly
from tracedesk.backtest.schema import FIND_TEXT
from tracedesk.journal.sqlite import Connection, InterruptError, insert
from tracedesk.primitives import json

_REMEMBERED: Final = 1 << 18
"""Texts of a kind that are kept in memory; the file knows the others."""

_FORMS: Final = 4_096


class Texts:
    """The dictionary of one run while it is recorded."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._known: dict[int, dict[str, int]] = {}
        self._cut: set[int] = set()
        self._next = 1
        self._new: list[tuple[int, int, str, int]] = []
        self._connection: Connection | None = None

    def begin(self, connection: Connection) -> None:
        """The connection to look forgotten texts up with, for one batch."""
        self._connection = connection

    def known_of(self, kind: int, values: Sequence[Any]) -> Sequence[int | None]:
        """A quick look before `number`: the numbers that are remembered of a column of texts."""
        if set(map(type, values)) == {str}:
            return list(map(self._remembered_of(kind).get, values))
        return [None] * len(values)

    def _remembered_of(self, kind: int) -> dict[str, int]:
        return self._known.setdefault(kind, {})

    def number(self, kind: int, value: Any, event: int) -> int | None:
        """The number of a text, given now if it is new; None for values that name nothing."""
        text = canonical(value)
        if text is None:
            return None
        known = self._remembered_of(kind)
        found = known.get(text)
        if found is None:
            found = self._stored(kind, text) if kind in self._cut else None
            known[text] = found = found or self._add(kind, text, event)
        return found

    def put(self, connection: Connection) -> None:
        """Write what is new."""
        if self._new:
            insert(connection, "INSERT INTO text", list(zip(*self._new, strict=True)))

    def settle(self) -> None:
        """What is new is written; forget the older half of what has grown too large."""
        self._new.clear()
        for kind, known in self._known.items():
            if len(known) > self._remembered:
                self._cut.add(kind)
                for text in list(known)[: len(known) // 2]:
                    del known[text]

    def _add(self, kind: int, text: str, event: int) -> int:
        number = self._next
        self._next += 1
        self._new.append((number, kind, text, event))
        return number

    def _stored(self, kind: int, text: str) -> int | None:
        if self._connection is None:
            return None
        while True:
            try:
                found = self._connection.execute(FIND_TEXT, (kind, text))
                return next((number for (number,) in found), None)
            except InterruptError:
                # What was taken in by half could not be taken back, and the writing is interrupted as well.
                continue


SlotKey = tuple[int, int | None, int | None, str]
"""Type, symbol, indicator and parameters: what a slot is known by."""


class Slots:
    """What has one latest value at any time, by number."""

    def __init__(self) -> None:
        self._known: dict[SlotKey | None, int] = {}
        self._new: list[tuple[int, int, int | None, int | None, str, int]] = []
        self._forms: dict[bytes, str] = {}

    def keys(
        self,
        kind: EventType,
        symbols: Sequence[int | None],
        indicators: Sequence[int | None],
        columns: Mapping[str, Sequence[Any]],
    ) -> list[SlotKey | None]:
        """The slot that each of some events sets, or None where it sets none."""
        if kind == EventType.IndicatorCalculation:
            forms = map(self._form, columns["Parameters"]) if "Parameters" in columns else repeat("")
            return _keys(kind, symbols, indicators, forms, indicators)
        if kind == EventType.PositionUpdate:
            ids = [canonical(id) or "" for id in columns[POSITION]] if POSITION in columns else repeat("")
            return _keys(kind, symbols, indicators, ids, symbols)
        states = columns.get("StateType")
        if states is None:
            return [None] * len(symbols)
        return _keys(kind, symbols, indicators, repeat(""), [_is_profit(state) or None for state in states])

    def known_of(self, keys: Sequence[SlotKey | None]) -> list[int | None]:
        """A quick look before `number`."""
        return list(map(self._known.get, keys))

    def number(self, key: SlotKey, event: int) -> int:
        """The number of a slot, given now if it is new."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._known) + 1
            self._new.append((found, *key, event))
        return found

    def put(self, connection: Connection) -> None:
        if self._new:
            insert(connection, "INSERT INTO slot", list(zip(*self._new, strict=True)))

    def settle(self) -> None:
        self._new.clear()

    def _form(self, given: Any) -> str:
        if given is None:
            return ""
        raw = _key(given)
        form = self._forms.get(raw)
        if form is None:
            form = parameters(given)
            if len(self._forms) < _FORMS:
                self._forms[raw] = form
        return form


def _keys(
    kind: EventType,
    symbols: Iterable[int | None],
    indicators: Iterable[int | None],
    params: Iterable[str],
    needed: Sequence[int | None],
) -> list[SlotKey | None]:
    """The keys of events; none where what is needed is not there."""
    keys = list(zip(repeat(kind), symbols, indicators, params, strict=False))
    if None not in needed:
        return cast("list[SlotKey | None]", keys)
    return [None if missing is None else key for key, missing in zip(keys, needed, strict=True)]


def _is_profit(state_type: Any) -> bool:
    return state_type == "PnL" or (isinstance(state_type, str) and state_type.lower() == "pnl")


def _key(value: Any) -> bytes:
    """Something to know the same parameters by, quickly."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value)


def parameters(value: Any) -> str:
    """An indicator's parameters in their one form: compact, names sorted, digits as given; '' for none."""
    return "" if value is None else json.dumps(_sorted(exactly(value))).decode()


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_sorted(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
