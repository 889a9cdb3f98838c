"""Attempts kept up with their events: each event is taken in with it, in any order, to the same result.

An attempt's rows are a function of its events. Taking one in is quick when it is the attempt's newest; what
comes late makes the part that depends on order be worked out anew.
"""

from __future__ import annotations

from typing import Any, Final

from tracedesk.codegraph.etg import body, pairing, text
from tracedesk.codegraph.etg.body import Stored
from tracedesk.codegraph.etg.files import normalised
from tracedesk.codegraph.etg.model import DEFAULT_PROJECT, FAILING, is_own
from tracedesk.codegraph.etg.text import Said
from tracedesk.codegraph.rank.terms import searchable
from tracedesk.journal.file import SEQ_BITS
from tracedesk.journal.sqlite import Connection

MOST_PATHS: Final = 500
_MOST_SPOKEN: Final = 64
"""Speaking events, from either end of an attempt, whose words are compared."""

_MOST_FAILING: Final = 20
_TOLD, _GUESSED, _UNKNOWN = 0, 1, 2
"""How an attempt's project is known; less is surer."""


class Taking:
    """Events of one transaction being taken in: what depends on several is worked out once, at the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._whole: set[int] = set()
        """Attempts to be worked out anew."""
        self._tools: set[tuple[int, str]] = set()
        """Tools of attempts whose calls are to be paired anew."""
        self._words: set[int] = set()
        """Attempts whose words have changed."""

    def apply(self, event: Stored) -> None:
        """Take one event of the journal in."""
        project, certainty = _project(event)
        query = "SELECT id, project, certainty, latest FROM attempt WHERE name = ?"
        found = next(iter(self._connection.execute(query, (event.attempt,))), None)
        if found is None:
            attempt = _create(self._connection, event, project, certainty)
        else:
            attempt, known, how, latest = found
            if event.event < latest or (certainty < how and project != known):
                self._whole.add(attempt)
            project = known
            _update(self._connection, attempt, event, min(certainty, how), latest)
        _note(self._connection, attempt, event)
        if attempt not in self._whole:
            self._take(attempt, event, project)

    def _take(self, attempt: int, event: Stored, project: str) -> None:
        fails = False
        if event.kind in ("tool_start", "tool_end"):
            fails = event.kind == "tool_end" and (
                event.payload["status"] in FAILING or event.spoken in ("failed", "broken")
            )
            place = attempt, event.payload["tool"]
            if place not in self._tools and not pairing.add(self._connection, attempt, event):
                self._tools.add(place)
                self._words.add(attempt)
        touches = _link_files(self._connection, attempt, event, project)
        if touches or fails or any(word is not None for word in _words(event)):
            self._words.add(attempt)

    def settle(self) -> None:
        """Work out what has been put off."""
        for attempt in sorted(self._whole):
            refold(self._connection, attempt)
        for attempt, tool in sorted(self._tools):
            if attempt not in self._whole:
                pairing.pair_anew(self._connection, attempt, tool)
        for attempt in sorted(self._words - self._whole):
            refresh(self._connection, attempt)
        self._whole, self._tools, self._words = set(), set(), set()


def _project(event: Stored) -> tuple[str, int]:
    told, guessed = event.body.get("project"), event.body.get("hint")
    if told is not None:
        return told, _TOLD
    return (guessed, _GUESSED) if guessed is not None else (DEFAULT_PROJECT, _UNKNOWN)


def _create(connection: Connection, event: Stored, project: str, certainty: int) -> int:
    counts = int(is_evidence(event))
    row = (event.attempt, project, certainty, event.time_ns, event.time_ns, event.body.get("graph"))
    connection.execute(
        "INSERT INTO attempt VALUES(NULL,?,?,?,?,?,?,?,?,0,?,?,NULL)",
        (*row, event.event, counts, counts, event.source),
    )
    attempt = next(iter(connection.execute("SELECT last_insert_rowid()")))[0]
    belong(connection, event.event >> SEQ_BITS, attempt)
    return attempt


def _update(connection: Connection, attempt: int, event: Stored, certainty: int, latest: int) -> None:
    counts = int(is_evidence(event))
    begin_by(connection, attempt, event.time_ns)
    connection.execute(
        "UPDATE attempt SET certainty = ?, last_ns = max(last_ns, ?), "
        "graph_version = CASE latest WHEN 0 THEN ? ELSE graph_version END, source = coalesce(source, ?), "
        "latest = max(latest, ?), events = events + ?, evidence = max(evidence, ?) WHERE id = ?",
        (
            certainty,
            event.time_ns,
            event.body.get("graph"),
            event.source,
            event.event,
            counts,
            counts,
            attempt,
        ),
    )
    if event.event >> SEQ_BITS != latest >> SEQ_BITS:
        belong(connection, event.event >> SEQ_BITS, attempt)


def begin_by(connection: Connection, attempt: int, time_ns: int) -> None:
    """An attempt began at that time at the latest.

    Apart from what else changes of it: a change of its start, even to the same, writes two indexes.
    """
    change = "UPDATE attempt SET started_ns = ? WHERE id = ? AND started_ns > ?"
    connection.execute(change, (time_ns, attempt, time_ns))


def belong(connection: Connection, stream: int, attempt: int) -> None:
    """Remember that events of a stream are in an attempt, so that pruning the stream finds it."""
    connection.execute("INSERT OR IGNORE INTO attempt_stream VALUES(?,?)", (stream, attempt))


def is_evidence(event: Stored) -> bool:
    """Whether an event tells of the work: our own look-ups do not."""
    return event.source != "self" and not ("tool" in event.payload and _is_own_tool(event))


def _is_own_tool(event: Stored) -> bool:
    return event.kind in ("tool_start", "tool_end") and is_own(event.payload["tool"])


# --- one event's rows --------------------------------------------------------------------------


def _note(connection: Connection, attempt: int, event: Stored) -> None:
    query, said, told = _words(event)
    tool = event.payload["tool"] if event.kind in ("tool_start", "tool_end") else None
    speaks = int(any(word is not None for word in (query, said, told, event.outcome)))
    row = (event.event, attempt, event.time_ns, event.kind, event.event_id, event.digest, tool, speaks)
    connection.execute(
        "INSERT INTO attempt_event VALUES(?,?,?,?,?,?,?,?,?,?,?,?)", (*row, query, said, told, event.outcome)
    )


def _words(event: Stored) -> tuple[str | None, str | None, str | None]:
    """The event's query, what it says, and the client's own summary."""
    if not is_evidence(event):
        return None, None, None
    payload = event.payload
    query, told = _clean(payload.get("query")), _clean(payload.get("summary"), text.LONGEST_SUMMARY)
    if event.kind == "checkpoint":
        return query, _clean(payload["message"]), told
    if event.kind == "answer_rendered":
        return query, text.first_sentence(payload["content"]), told
    return query, None, told


def _clean(value: Any, longest: int = text.LONGEST_SAID) -> str | None:
    return text.clean(value, longest) or None if isinstance(value, str) else None


def _link_files(connection: Connection, attempt: int, event: Stored, project: str) -> bool:
    if not is_evidence(event):
        return False
    roles: dict[str, str] = {}
    for path, role in event.files:
        plain = normalised(path, project)
        if plain is not None and roles.get(plain) != "changed":
            roles[plain] = role
    rows = [(attempt, path, event.event, role) for path, role in roles.items()]
    if rows:
        connection.executemany("INSERT OR IGNORE INTO attempt_file VALUES(?,?,?,?)", rows)
    return bool(rows)


# --- an attempt's words ------------------------------------------------------------------------


def refresh(connection: Connection, attempt: int) -> None:
    """Work out an attempt's summary and what is compared of it, and index that if it is new."""
    said, told = _said(connection, attempt)
    paths = "\n".join(_paths(connection, attempt))
    row = (told or text.summarise(said), text.CLIENT if told else text.EXTRACTIVE, text.evidence(said), paths)
    query = "SELECT text, source, evidence, paths FROM summary WHERE attempt = ?"
    before = next(iter(connection.execute(query, (attempt,))), None)
    if before == row:
        return
    connection.execute("INSERT OR REPLACE INTO summary VALUES(?,?,?,?,?)", (attempt, *row))
    if before is None or before[2:] != row[2:]:
        words = (attempt, searchable(row[2]), searchable(row[3]))
        connection.execute("INSERT OR REPLACE INTO attempt_fts(rowid, text, paths) VALUES(?,?,?)", words)
    key = text.query_key(said.queries[0]) if said.queries else None
    connection.execute("UPDATE attempt SET query_key = ? WHERE id = ?", (key, attempt))


def _said(connection: Connection, attempt: int) -> tuple[Said, str | None]:
    spoken = _spoken(connection, attempt)
    answers = [said for kind, _, said, _ in spoken if kind == "answer_rendered" and said]
    summaries = [told for *_, told in spoken if told]
    said = Said(
        queries=[query for _, query, _, _ in spoken if query],
        messages=[said for kind, _, said, _ in spoken if kind == "checkpoint" and said],
        failing=_failing(connection, attempt),
        answer=answers[-1] if answers else None,
    )
    return said, summaries[-1] if summaries else None


def _spoken(connection: Connection, attempt: int) -> list[tuple[str, str | None, str | None, str | None]]:
    """Kind, query, said and summary of the speaking events, in order: the first ones and the last ones."""
    rows: dict[int, tuple[Any, ...]] = {}
    for way in ("", " DESC"):
        query = (
            "SELECT event, time_ns, kind, query, said, summary FROM attempt_event "
            f"WHERE attempt = ? AND speaks ORDER BY time_ns{way}, event{way} LIMIT {_MOST_SPOKEN}"
        )
        found = list(connection.execute(query, (attempt,)))
        rows |= {row[0]: row for row in found}
        if len(found) < _MOST_SPOKEN:
            break
    return [row[2:] for row in sorted(rows.values(), key=lambda row: (row[1], row[0]))]


def _failing(connection: Connection, attempt: int) -> list[str]:
    query = (
        "SELECT tool FROM tool_call WHERE attempt = ? AND judged IN ('error', 'timeout') "
        "AND origin != 'self' GROUP BY tool ORDER BY min(end_ns), tool LIMIT ?"
    )
    return [tool for (tool,) in connection.execute(query, (attempt, _MOST_FAILING))]


def _paths(connection: Connection, attempt: int) -> list[str]:
    query = "SELECT DISTINCT path FROM attempt_file WHERE attempt = ? ORDER BY path LIMIT ?"
    return [path for (path,) in connection.execute(query, (attempt, MOST_PATHS))]


# --- working an attempt out anew ---------------------------------------------------------------


def refold(connection: Connection, attempt: int) -> None:
    """Make an attempt's rows anew from the events and calls that are left of it; without any, it goes."""
    query = (
        "SELECT e.id, e.kind, e.time_ns, e.body FROM attempt_event a JOIN event e ON e.id = a.event "
        "WHERE a.attempt = ? ORDER BY e.id"
    )
    events = [body.read(*row) for row in connection.execute(query, (attempt,))]
    for table in ("attempt_event", "attempt_file"):
        connection.execute(f"DELETE FROM {table} WHERE attempt = ?", (attempt,))
    connection.execute("DELETE FROM tool_call WHERE attempt = ? AND pairing != 'record'", (attempt,))
    if not _restart(connection, attempt, events):
        remove(connection, attempt)
        return
    project = next(iter(connection.execute("SELECT project FROM attempt WHERE id = ?", (attempt,))))[0]
    for event in events:
        belong(connection, event.event >> SEQ_BITS, attempt)
        _note(connection, attempt, event)
        _link_files(connection, attempt, event, project)
    for tool in {event.payload["tool"] for event in events if event.kind in ("tool_start", "tool_end")}:
        pairing.pair_anew(connection, attempt, tool)
    refresh(connection, attempt)


def _restart(connection: Connection, attempt: int, events: list[Stored]) -> bool:
    """Write an attempt's own row anew; False when nothing is left to write."""
    started, last, records, calls = next(
        iter(
            connection.execute(
                "SELECT min(start_ns), max(end_ns), count(*), total(origin = 'desk') FROM tool_call "
                "WHERE attempt = ? AND pairing = 'record'",
                (attempt,),
            )
        )
    )
    if not events and not records:
        return False
    times = [event.time_ns for event in events] + [time for time in (started, last) if time is not None]
    counted = sum(map(is_evidence, events))
    certainty, _, project = min(
        ((_project(e)[1], e.event, _project(e)[0]) for e in events), default=(2, 0, "")
    )
    graph, source = (events[0].body.get("graph"), events[0].source) if events else (None, None)
    row = (project or DEFAULT_PROJECT, certainty, min(times), max(times), graph)
    latest = max((event.event for event in events), default=0)
    connection.execute(
        "UPDATE attempt SET project = ?, certainty = ?, started_ns = ?, last_ns = ?, graph_version = ?, "
        "source = ?, latest = ?, events = ?, calls = ?, evidence = ? WHERE id = ?",
        (*row, source, latest, counted, int(calls), int(bool(counted or calls)), attempt),
    )
    return True


def remove(connection: Connection, attempt: int) -> None:
    """Take an attempt out of every table."""
    connection.execute("DELETE FROM attempt WHERE id = ?", (attempt,))
    connection.execute("DELETE FROM attempt_fts WHERE rowid = ?", (attempt,))
    for table in ("attempt_event", "attempt_file", "tool_call", "attempt_stream", "summary"):
        connection.execute(f"DELETE FROM {table} WHERE attempt = ?", (attempt,))
