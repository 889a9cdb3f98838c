"""Texts by number: symbols, ids and names are stored once, and so is everything that has a latest value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from tracedesk.backtest.model import POSITION, EventType, canonical, exactly
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

    def known(self, kind: int) -> dict[str, int]:
        """The remembered numbers of a kind, for a quick look before `number`."""
        return self._known.setdefault(kind, {})

    def number(self, kind: int, value: Any, event: int) -> int | None:
        """The number of a text, given now if it is new; None for values that name nothing."""
        text = canonical(value)
        if text is None:
            return None
        known = self.known(kind)
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
        query = "SELECT id FROM text WHERE kind = ? AND value = ?"
        while True:
            try:
                return next((number for (number,) in self._connection.execute(query, (kind, text))), None)
            except InterruptError:
                # What was taken in by half could not be taken back, and the writing is interrupted as well.
                continue


class Slots:
    """What has one latest value at any time, by number."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int | None, int | None, str], int] = {}
        self._new: list[tuple[int, int, int | None, int | None, str, int]] = []
        self._forms: dict[bytes, str] = {}

    def number(
        self, kind: int, symbol: int | None, indicator: int | None, row: Mapping[str, Any], event: int
    ) -> int | None:
        """The slot that an event sets, or None when it sets none."""
        params = ""
        if kind == EventType.IndicatorCalculation:
            if indicator is None:
                return None
            params = self._params(row)
        elif kind == EventType.PositionUpdate:
            if symbol is None:
                return None
            params = (canonical(row[POSITION]) or "") if POSITION in row else ""
        elif not _is_profit(row.get("StateType")):
            return None
        key = (kind, symbol, indicator if params or indicator else None, params)
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

    def _params(self, row: Mapping[str, Any]) -> str:
        given = row.get("Parameters")
        if given is None:
            return ""
        raw = _key(given)
        form = self._forms.get(raw)
        if form is None:
            form = parameters(given)
            if len(self._forms) < _FORMS:
                self._forms[raw] = form
        return form


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
