"""Chains of events by their parents: one root's, all of them, or those that follow a pattern or fail to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tracedesk.backtest import tables
from tracedesk.backtest.costs import cost
from tracedesk.backtest.cursors import Cursor, Key
from tracedesk.backtest.model import TYPES
from tracedesk.backtest.page import Ask, cut_note, event_json, fitting, shortener, take_up, too_large
from tracedesk.backtest.query import TYPE_NAMES, Recording, Row
from tracedesk.errors import ToolError
from tracedesk.primitives import json

MOST_NODES: Final = 1_000
"""Events of one chain that are followed; a chain that has more says so."""

MOST_TYPES: Final = 50
_CHAINS: Final = 100
"""Tokens kept for the table of chains, and for saying that one is cut."""
_SEQ: Final = 4
"""Tokens of a seq among a chain's events."""


class Chain(NamedTuple):
    """A root, and how far its pattern was matched."""

    root: int
    matched: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The chains of a page, and what lies around them."""

    chains: list[Chain]
    total: int
    mark: int
    more: bool
    index: int = 0
    complete: int | None = None
    incomplete: int | None = None


@dataclass(slots=True)
class Told:
    """One chain as it is shown."""

    root: Row
    rows: list[Row]
    missing: list[str]
    is_cut: bool
    is_short: bool = False
    """Whether the answer has no room for all of its events."""


def answer(recording: Recording, ask: Ask) -> dict[str, Any]:
    """The sequences that the question asks for, ordered by the seq of their roots."""
    args = ask.args
    pattern = tuple(TYPES[name].value for name in args.get("sequencePattern", ()))
    _check(args, pattern)
    query = ask.query
    found = _find(recording, ask, pattern, query)
    shown = [_sequence(recording, chain, pattern, args["maxDepth"], found.mark) for chain in found.chains]
    if ask.is_table:
        body, kept = _tables(recording, ask, shown, found, query)
    else:
        body, kept = _objects(recording, ask, shown, found, query)
    body["metadata"] = _metadata(recording, ask, found, shown, kept, query)
    return body


def _check(args: Any, pattern: Sequence[int]) -> None:
    if args["findIncomplete"] and not pattern:
        message = "findIncomplete: it needs a sequencePattern to compare with. Give the expected types."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["findIncomplete"]})
    if len(pattern) > MOST_TYPES:
        message = f"sequencePattern: at most {MOST_TYPES} types. A chain is not followed deeper than that."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["sequencePattern"]})


# --- which chains -------------------------------------------------------------------------------------


def _find(recording: Recording, ask: Ask, pattern: Sequence[int], query: str) -> Found:
    size, index = ask.args["pageSize"], ask.args["pageIndex"]
    root = recording.seq(ask.args["rootEventId"], "rootEventId") if "rootEventId" in ask.args else None
    mark, floor = recording.head, 0
    if "cursor" in ask.args:
        window, _ = take_up(recording, ask, lambda: 0)
        mark, floor, index = window.mark, max(window.floor, window.last.seq if window.last else 0), 0
    if pattern:
        return _matching(recording, ask, pattern, root, (floor, mark), index)
    if root is not None:
        return Found([] if index or floor >= root else [Chain(root)], 1, mark, False, index)
    total = _count_roots(recording, mark)
    rows = _roots(recording, floor, mark, size + 1, index * size) if index * size < total else []
    return Found([Chain(seq) for seq in rows[:size]], total, mark, len(rows) > size, index)


def _count_roots(recording: Recording, mark: int) -> int:
    query = "SELECT count(*) FROM fact WHERE parent IS NOT NULL AND event <= ?"
    return mark - next(recording.connection.execute(query, (recording.base + mark,)))[0]


def _roots(recording: Recording, floor: int, mark: int, limit: int, offset: int) -> list[int]:
    query = (
        "SELECT event FROM fact WHERE event > ? AND event <= ? AND +parent IS NULL "
        "ORDER BY event LIMIT ? OFFSET ?"
    )
    bounds = (recording.base + floor, recording.base + mark)
    found = recording.connection.execute(query, (*bounds, limit, offset))
    return [event - recording.base for (event,) in found]


def _matching(
    recording: Recording,
    ask: Ask,
    pattern: Sequence[int],
    root: int | None,
    bounds: tuple[int, int],
    index: int,
) -> Found:
    """All starts with how far they match, then those of the asked kind, then the page of them."""
    floor, mark = bounds
    size = ask.args["pageSize"]
    every = _matches(recording, pattern, root, mark, ask.args["maxDepth"])
    whole = sum(chain.matched == len(pattern) for chain in every)
    wanted = [c for c in every if (c.matched < len(pattern)) == ask.args["findIncomplete"]]
    rest = [chain for chain in wanted if chain.root > floor]
    page = rest[index * size : index * size + size]
    more = len(rest) > index * size + len(page)
    return Found(page, len(wanted), mark, more and bool(page), index, whole, len(every) - whole)


def _matches(
    recording: Recording, pattern: Sequence[int], root: int | None, mark: int, depth: int
) -> list[Chain]:
    """For each start, the longest beginning of the pattern along one of its paths.

    Taking the first fitting event on a path is never worse than skipping it, so one counter a path is enough.
    A type is one digit, so the pattern is a text of digits. A child has a later seq than its parent, so
    there are no cycles.
    """
    start = "event = ?" if root is not None else "type = ?"
    query = f"""
        WITH RECURSIVE walk(root, node, k, depth) AS (
          SELECT event, event, type = ?1, 1 FROM fact WHERE {start.replace("?", "?2")} AND event <= ?3
          UNION ALL
          SELECT w.root, f.event, w.k + (f.type = CAST(substr(?4, w.k + 1, 1) AS INTEGER)), w.depth + 1
          FROM walk w CROSS JOIN fact f ON f.parent = w.node - ?5
          WHERE w.depth < ?6 AND w.k < ?7 AND f.event <= ?3
        )
        SELECT root, max(k) FROM walk GROUP BY root ORDER BY root
    """
    chosen = recording.base + root if root is not None else pattern[0]
    digits = "".join(str(kind) for kind in pattern)
    values = (pattern[0], chosen, recording.base + mark, digits, recording.base, depth, len(pattern))
    found = recording.connection.execute(query, values)
    return [Chain(event - recording.base, matched) for event, matched in found]


# --- one chain ----------------------------------------------------------------------------------------


class _Node(NamedTuple):
    seq: int
    parent: int | None
    type: int
    depth: int


def _sequence(recording: Recording, chain: Chain, pattern: Sequence[int], depth: int, mark: int) -> Told:
    nodes, is_cut = _descendants(recording, chain.root, depth, mark)
    seqs = _best_path(nodes, pattern) if pattern else [node.seq for node in nodes]
    rows = sorted(recording.events(seqs), key=lambda row: row.key)
    (root,) = recording.events((chain.root,))
    missing = [TYPE_NAMES[kind] for kind in pattern[chain.matched :]]
    return Told(root, rows, missing, is_cut)


def _descendants(recording: Recording, root: int, depth: int, mark: int) -> tuple[list[_Node], bool]:
    """The chain below a root, nearest first, and whether anything of it was left out."""
    query = """
        WITH RECURSIVE walk(node, depth) AS (
          SELECT ?1, 1
          UNION ALL
          SELECT f.event, w.depth + 1 FROM walk w CROSS JOIN fact f ON f.parent = w.node - ?2
          WHERE w.depth <= ?3 AND f.event <= ?5
          ORDER BY 2, 1 LIMIT ?4
        )
        SELECT w.node, f.parent, f.type, w.depth FROM walk w CROSS JOIN fact f ON f.event = w.node
        ORDER BY w.depth, w.node
    """
    base = recording.base
    values = (base + root, base, depth, MOST_NODES + 1, base + mark)
    found = [_Node(e - base, p, t, d) for e, p, t, d in recording.connection.execute(query, values)]
    kept = [node for node in found if node.depth <= depth][:MOST_NODES]
    return kept, len(kept) < len(found)


def _best_path(nodes: Sequence[_Node], pattern: Sequence[int]) -> list[int]:
    """The path from the root to the event where the pattern was matched furthest, the earliest of them."""
    matched: dict[int, int] = {}
    parents: dict[int, int | None] = {}
    best = nodes[0].seq
    for node in nodes:
        is_root = node.seq == nodes[0].seq
        so_far = 0 if is_root else matched[node.parent or 0]
        fits = so_far < len(pattern) and node.type == pattern[so_far]
        matched[node.seq] = so_far + fits
        parents[node.seq] = None if is_root else node.parent
        if matched[node.seq] > matched[best]:
            best = node.seq
    path: list[int] = []
    place: int | None = best
    while place is not None:
        path.append(place)
        place = parents[place]
    return path[::-1]


# --- as answers ---------------------------------------------------------------------------------------


def _objects(
    recording: Recording, ask: Ask, shown: Sequence[Told], found: Found, query: str
) -> tuple[dict[str, Any], int]:
    parts = [_object(recording, one) for one in shown]
    kept = fitting(parts, ask) if "cursor" in ask.args else len(parts)
    if parts and not kept:
        raise too_large(len(parts[0]), ask, _cursor(recording, found, 1, query))
    return {"sequences": [json.Raw(part) for part in parts[:kept]]}, kept


def _object(recording: Recording, one: Told) -> bytes:
    return json.dumps(
        {
            "rootEventId": recording.id_of(one.root.seq, one.root.guid),
            "events": [json.Raw(event_json(recording, row)) for row in one.rows],
            "complete": not one.missing,
            "missingEventTypes": one.missing or None,
        }
    )


class _Tables:
    """Chains as tables within a room: one table for each event type, and one of the chains by seq.

    An event that is in two chains is told once.
    """

    def __init__(self, shorten: tables.Shorten, room: int) -> None:
        self._filling = tables.Filling(None, shorten)
        self._room = room - _CHAINS
        self._told: set[int] = set()
        self._chains: list[list[Any]] = []

    def add(self, one: Told) -> bool:
        """A whole chain, if there is room for it."""
        mark, told = self._filling.mark(), set(self._told)
        if all(self._add(row) for row in one.rows) and self._name(one, one.rows):
            return True
        self._filling.back(mark)
        self._told = told
        return False

    def add_part(self, one: Told) -> tuple[int, bool]:
        """How many first events of a chain that is too large there is room for, and whether one was cut."""
        room = self._room
        rows: list[Row] = []
        for row in one.rows:
            self._room -= _SEQ
            if not self._add(row):
                break
            rows.append(row)
        is_cut = not rows and self._filling.add_short(one.rows[0], self._room)
        rows = rows or one.rows[: int(is_cut)]
        self._room = room
        return (len(rows), is_cut) if rows and self._name(one, rows) else (0, False)

    def body(self) -> dict[str, Any]:
        names = ["root", "events", "missing"]
        chains = {"eventType": "(chains)", "columns": names, "rows": self._chains}
        return {"sequences": [], "tables": [chains, *self._filling.bodies()]}

    def _add(self, row: Row) -> bool:
        if row.seq in self._told:
            return True
        self._told.add(row.seq)
        return self._filling.add(row, self._room - self._filling.spent)

    def _name(self, one: Told, rows: Sequence[Row]) -> bool:
        chain = [one.root.seq, [row.seq for row in rows], one.missing or None]
        price = cost(json.dumps(chain)) + 1
        if price > self._room - self._filling.spent:
            return False
        self._room -= price
        self._chains.append(chain)
        return True


def _tables(
    recording: Recording, ask: Ask, shown: Sequence[Told], found: Found, query: str
) -> tuple[dict[str, Any], int]:
    """As many whole chains as there is room for; of a first one that is too large, its first events."""
    filled = _Tables(shortener(recording), ask.room)
    kept = 0
    while kept < len(shown) and filled.add(shown[kept]):
        kept += 1
    if shown and not kept:
        kept = 1
        events, is_cut = filled.add_part(shown[0])
        if not events:
            raise too_large(len(shown[0].rows[0].body), ask, _cursor(recording, found, 1, query))
        shown[0].is_short = True
        if events < len(shown[0].rows):
            ask.warnings.append(f"the chain is cut to {events} of its {len(shown[0].rows)} events")
        if is_cut:
            ask.warnings.append(cut_note(shown[0].rows[0].seq))
    return filled.body(), kept


def _cursor(recording: Recording, found: Found, kept: int, query: str) -> str | None:
    if kept and (kept < len(found.chains) or found.more):
        last = Key(0, found.chains[kept - 1].root)
        return Cursor(0, found.mark, last, found.total).text(query)
    grows = recording.is_running or found.mark < recording.head
    return Cursor(found.mark).text(query) if grows else None


def _metadata(
    recording: Recording, ask: Ask, found: Found, shown: Sequence[Told], kept: int, query: str
) -> dict[str, Any]:
    cut = kept < len(found.chains)
    body = ask.metadata(
        recording,
        totalSequences=found.total,
        returnedCount=kept,
        pageIndex=found.index,
        pageSize=ask.args["pageSize"],
        hasMore=cut or found.more,
        truncated=cut or any(one.is_short for one in shown),
    )
    if found.complete is not None:
        body |= {"completeCount": found.complete, "incompleteCount": found.incomplete}
    if any(one.is_cut for one in shown[:kept]):
        body["depthTruncated"] = True
    cursor = _cursor(recording, found, kept, query)
    if cursor is not None:
        body["nextCursor"] = cursor
    return body
