"""A campaign's stream in the journal: its events, each with a reference, written by one thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from tracedesk.contract import Edge, Source
from tracedesk.journal import Entry, Event, Journal, JournalError, Reader, StreamPruned
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.primitives import json
from tracedesk.primitives.ids import StreamRef
from tracedesk.primitives.time import Clock, format

STREAM: Final = "campaign"
TOOLSET: Final = "fuzz"
FIRST: Final = 1
"""The seq of the event that tells how the campaign began; all others follow from it."""


def ref(campaign: str, seq: int) -> str:
    """The reference of one event of a campaign."""
    return str(StreamRef(TOOLSET, campaign, seq))


_ref = ref


class Diary:
    """Numbers events as they are noted, from any thread; `flush` puts them on the disk in order."""

    def __init__(
        self, path: Path, campaign: str, meta: Mapping[str, Any], clock: Clock | None = None
    ) -> None:
        self.campaign = campaign
        self._journal = Journal(path, clock)
        self._journal.open(campaign, STREAM, meta)
        self._lock = threading.Lock()
        self._waiting: list[Entry] = []
        self._next = FIRST
        self._written = 0

    def note(self, kind: str, time_ns: int, body: Mapping[str, Any], parent: int | None = FIRST) -> int:
        """Number an event; it is on the disk after the next `flush`."""
        with self._lock:
            seq = self._next
            self._next += 1
            cause = parent if seq > FIRST else None
            self._waiting.append(Entry(kind, time_ns, json.dumps(body), cause))
            return seq

    def ref(self, seq: int) -> str:
        return ref(self.campaign, seq)

    @property
    def has_news(self) -> bool:
        return bool(self._waiting)

    def flush(self) -> None:
        """Write what was noted; only one thread may do this."""
        with self._lock:
            batch, self._waiting = self._waiting, []
        if batch:
            self._journal.append(self.campaign, batch, expect=self._written + 1)
            self._written += len(batch)

    def seal(self, status: Literal["ended", "crashed"], summary: Mapping[str, Any]) -> None:
        """End the stream."""
        self.flush()
        self._journal.seal(self.campaign, status, summary)

    def close(self) -> None:
        self._journal.close()


# --- reading -----------------------------------------------------------------------------------


def status(path: Path, campaign: str) -> Literal["running", "ended", "crashed"]:
    """What the stream says of itself."""
    with Reader(path) as reader:
        seal = reader.seal(campaign)
    return seal.status if seal is not None else "running"


def newest(path: Path, campaign: str, limit: int) -> list[Event]:
    """The last events of a campaign, in order; none when they were pruned."""
    with Reader(path) as reader, suppress(StreamPruned):
        head = reader.head(campaign).seq
        return reader.events(campaign, after=max(0, head - limit))
    return []


def event(path: Path, campaign: str, seq: int) -> Event | None:
    """One event of a campaign."""
    with Reader(path) as reader:
        return reader.event(campaign, seq)


def source(path: Path, campaign: str, seq: int, ref: str) -> Source | None:
    """One event with where it came from: the campaign's beginning, or the call that steered it."""
    found = event(path, campaign, seq)
    if found is None:
        return None
    body = {"campaign_id": campaign, "time": format(found.time_ns), **json.loads(found.body)}
    edges = [Edge("campaign", _ref(campaign, found.parent))] if found.parent else []
    if body.get("call") and found.kind == "Command":
        edges.append(Edge("call", f"tracedesk://calls/{body['call']}"))
    return Source(ref, found.kind, body, tuple(edges))


def settle(path: Path, campaign: str) -> None:
    """Seal the stream of a campaign whose host is gone; sealing it twice is sealing it once."""
    with suppress(JournalError, SQLiteError, OSError):
        if status(path, campaign) == "running":
            with Journal(path) as journal:
                journal.seal(campaign, "crashed", {"reason": "the campaign's process ended without a word"})
