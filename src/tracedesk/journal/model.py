"""What a journal holds: streams of numbered events, their seals, and the ways they can fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tracedesk.primitives import json

Status = Literal["ended", "crashed"]


class Entry(NamedTuple):
    """An event to append. `parent` is the seq of an earlier event of the same stream."""

    kind: str
    time_ns: int
    body: bytes
    parent: int | None = None


class Event(NamedTuple):
    """An appended event: its seq is its identity and its order."""

    seq: int
    kind: str
    time_ns: int
    body: bytes
    parent: int | None = None


class Columns(NamedTuple):
    """A batch of entries, turned on its side; a parent of 0 is none."""

    kinds: Sequence[str]
    times: Sequence[int]
    bodies: Sequence[bytes]
    parents: Sequence[int]


def columns(events: Iterable[Event]) -> Columns:
    """Appended events as the columns they were appended by."""
    _, kinds, times, bodies, parents = zip(*events, strict=True)
    return Columns(kinds, times, bodies, [parent or 0 for parent in parents])


class Head(NamedTuple):
    """How far a stream reaches: its last seq (0 when empty) and the chain's hash there."""

    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of a stream: nothing is appended after it."""

    status: Status
    ended_ns: int
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stream:
    """A named sequence of events in a journal file."""

    id: int
    name: str
    kind: str
    created_ns: int
    raw_meta: bytes = b"{}"
    framing: int = 2
    """Framing of a batch in the chain; 1 in streams that were begun by the first journals.

    In 3, of calls and events, it reads the hash of each body, so that a body can be taken out.
    """

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the stream was opened with."""
        return json.loads(self.raw_meta)


class JournalError(Exception):
    """Something the journal refuses or cannot do."""


class UnknownStream(JournalError):
    """No stream of that name is in the file."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no stream {name!r} in this journal")
        self.name = name


class StreamSealed(JournalError):
    """The stream has ended; it takes no more events."""

    def __init__(self, name: str) -> None:
        super().__init__(f"stream {name!r} is sealed; open a new one")
        self.name = name


class OldFraming(JournalError):
    """The chain of the stream reads its bodies themselves; none can be taken out."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the chain of stream {name!r} holds its bodies themselves, so none can be taken out alone; "
            "`tracedesk prune` removes the whole stream once it has ended"
        )
        self.name = name


class StreamPruned(JournalError):
    """The stream's events were pruned; its manifest is what is left."""

    def __init__(self, name: str, manifest: Mapping[str, Any]) -> None:
        super().__init__(f"the events of stream {name!r} were pruned; its manifest remains")
        self.name = name
        self.manifest = manifest


class SeqConflict(JournalError):
    """Another writer appended first."""

    def __init__(self, name: str, expected: int, found: int) -> None:
        super().__init__(f"stream {name!r} continues at {found}, not at {expected}: another writer was there")
        self.expected = expected
        self.found = found


class BadEntry(JournalError, ValueError):
    """An event that cannot be appended, with what is wrong with it."""


class JournalBusy(JournalError):
    """Other writers held the file for longer than the busy timeout."""
