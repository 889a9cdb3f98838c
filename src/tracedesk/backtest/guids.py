"""Ids that events bring: the first event that brings one has it, a later one keeps its own and says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from tracedesk.backtest.ids import event_id, guid_bytes, guid_text
from tracedesk.backtest.projection import Given
from tracedesk.journal.file import MAX_SEQ
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json

_PLACES: Final = 512
_OWN_DIGITS: Final = 10
"""Bytes that the derived ids of a run have in common; the others are the seq."""


class Guids:
    """The ids that the events of one run have brought."""

    def __init__(self, run: str) -> None:
        self._head = guid_bytes(event_id(run, 1))[:_OWN_DIGITS]

    def settled(self, connection: Connection, given: Mapping[int, Given]) -> dict[int, Given]:
        """What the next events were given, by their seqs in order, less the ids that are taken."""
        known = self._known(connection, [one.guid for one in given.values() if one.guid])
        settled: dict[int, Given] = {}
        for seq, one in given.items():
            kept = one if one.guid is None else self._judged(one, one.guid, known, seq)
            if kept is not None:
                settled[seq] = kept
        return settled

    def _judged(self, one: Given, guid: bytes, known: dict[bytes, int], seq: int) -> Given | None:
        owner = self._owner(guid) or known.setdefault(guid, seq)
        if owner == seq:
            return one if self._owner(guid) is None else _without_id(one)
        words = f"{guid_text(guid)} is the id of event {owner} already; it has one of its own"
        fault = {"Field": "EventId", "Error": words, "Severity": "Error"}
        faults = cast("list[Any]", json.loads(one.faults)) if one.faults else []
        return one._replace(guid=None, faults=json.dumps([*faults, fault]))

    def _owner(self, guid: bytes) -> int | None:
        """The event of the run whose derived id this is, recorded or still to come."""
        return int.from_bytes(guid[_OWN_DIGITS:]) if guid[:_OWN_DIGITS] == self._head else None

    def _known(self, connection: Connection, guids: Sequence[bytes]) -> dict[bytes, int]:
        known: dict[bytes, int] = {}
        for start in range(0, len(guids), _PLACES):
            part = guids[start : start + _PLACES]
            query = f"SELECT guid, event FROM given WHERE guid IN ({','.join('?' * len(part))})"
            known |= {guid: event & MAX_SEQ for guid, event in connection.execute(query, part)}
        return known


def _without_id(one: Given) -> Given | None:
    rest = one._replace(guid=None)
    return rest if any(value is not None for value in rest) else None
