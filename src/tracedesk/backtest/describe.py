"""What is in a run, and which runs there are: what an agent must know before it asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.backtest.costs import cost, cut
from tracedesk.backtest.explain import run_ref
from tracedesk.backtest.model import EventType
from tracedesk.backtest.page import Ask
from tracedesk.backtest.paths import LONGEST, parse
from tracedesk.backtest.query import CATEGORY_NAMES, SEVERITY_NAMES, TYPE_NAMES, Recording
from tracedesk.backtest.schema import INDICATOR_TEXT, SYMBOL_TEXT
from tracedesk.catalog import Catalog, Run, UnknownRun, describe
from tracedesk.errors import ToolError
from tracedesk.home import Home
from tracedesk.journal import JournalError
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.primitives import json
from tracedesk.primitives.time import format

TOKENS: Final = 1_500
"""What a description may cost, whatever the run holds."""

_FRAME: Final = 60
"""Tokens kept for what says that the description was cut."""

_MOST_TOKENS: Final = 60
"""Tokens of one text; names of runs cost less unless they are noise or of a rare script."""

_CONFIG_TOKENS: Final = 200
_NAMES_TOKENS: Final = 120
_MOST_NAMES: Final = 12
_LONGEST_SAMPLE: Final = 24
_LONGEST_CONFIG: Final = 400
_NAMES: Final = "SELECT count(DISTINCT t.id) FROM used u CROSS JOIN text t ON t.id = u.text WHERE t.kind = ?"
_PATHS: Final = "path, numbers, texts, decimals, unfit, booleans, nulls, objects, arrays, min, max, sample"


# --- one run ------------------------------------------------------------------------------------------


def answer(recording: Recording, ask: Ask) -> dict[str, Any]:
    """The run, its event types with counts and times, and every property path with its kind and range."""
    chosen = _chosen(ask.args.get("eventType"))
    # One type alone may use the whole budget; the overview of all keeps to its own.
    room = _Room((min(ask.budget, TOKENS) if chosen is None else ask.budget) - _FRAME)
    body: dict[str, Any] = {"run": _run(recording), "eventTypes": _types(recording, chosen)}
    metadata = ask.metadata(recording, truncated=False, how=_HOW)
    room.take([body, metadata])
    left_out = _add_names(recording, body["run"], room) + _add_shares(recording, body["eventTypes"], room)
    omitted = _add_paths(recording, body["eventTypes"], room)
    if omitted:
        metadata["omittedPaths"] = omitted
        metadata["next"] = "give eventType to see all paths of one type"
    if left_out:
        metadata["omitted"] = left_out
    metadata["truncated"] = bool(omitted or left_out)
    return {**body, "metadata": metadata}


_HOW: Final = "paths: [path, kind, min or sample, max]; propertyPath takes all but those of kind 'no path: …'"


@dataclass(slots=True)
class _Room:
    """Tokens that are left."""

    left: int

    def take(self, value: Any) -> bool:
        """Take what a value costs; False, and nothing taken, when it does not fit."""
        price = cost(json.dumps(value)) + 1
        if price > self.left:
            return False
        self.left -= price
        return True


def _chosen(name: str | None) -> EventType | None:
    if name is None:
        return None
    if name not in EventType.__members__:
        message = f"eventType: {name[:40]!r} is none. Use one of {', '.join(EventType.__members__)}."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["eventType"]})
    return EventType[name]


def _run(recording: Recording) -> dict[str, Any]:
    meta = recording.meta
    body: dict[str, Any] = {
        "runId": recording.run,
        "ref": run_ref(recording.run),
        "name": cut(str(meta.get("name") or ""), 80, _MOST_TOKENS),
        "engine": cut(str(meta.get("engine") or ""), 40, _MOST_TOKENS),
        "status": recording.status,
        "events": recording.head,
    }
    if recording.times is not None:
        body |= {"start": format(recording.times[0]), "end": format(recording.times[1])}
    if meta.get("configHash"):
        body["configHash"] = str(meta["configHash"])[:16]
    problem = recording.manifest.get("traceback") or recording.manifest.get("reason")
    if recording.status == "crashed" and problem:
        body["problem"] = cut(str(problem).strip().rpartition("\n")[2], 200, _MOST_TOKENS)
    faulty = recording.connection.execute("SELECT count(*) FROM fault")
    body["eventsWithValidationErrors"] = next(faulty)[0]
    return body


def _add_names(recording: Recording, run: dict[str, Any], room: _Room) -> list[str]:
    """Configuration, symbols and indicators as far as there is room; which of them are not whole."""
    left_out = _add_config(recording, run, room)
    for name, kind in (("symbols", SYMBOL_TEXT), ("indicators", INDICATOR_TEXT)):
        total = next(recording.connection.execute(_NAMES, (kind,)))[0]
        found = _some(_most_used(recording, kind), room)
        if total:
            run[name] = found
        if total > len(found):
            run[f"{name}Total"] = total
            left_out.append(name)
    return left_out


def _add_config(recording: Recording, run: dict[str, Any], room: _Room) -> list[str]:
    config = json.dumps(recording.meta.get("config") or {})
    if config == b"{}":
        return []
    if len(config) <= _LONGEST_CONFIG and cost(config) <= _CONFIG_TOKENS:
        run["config"] = json.Raw(config)
    else:
        run["config"] = cut(config.decode(), _LONGEST_CONFIG, _CONFIG_TOKENS)
    room.take(run["config"])
    return [] if isinstance(run["config"], json.Raw) else ["config"]


def _most_used(recording: Recording, kind: int) -> list[str]:
    query = (
        "SELECT t.value FROM used u CROSS JOIN text t ON t.id = u.text WHERE t.kind = ? "
        "GROUP BY t.id ORDER BY sum(u.n) DESC, t.id LIMIT ?"
    )
    return [value for (value,) in recording.connection.execute(query, (kind, _MOST_NAMES))]


def _some(names: Sequence[str], room: _Room) -> list[str]:
    """As many of the names as their share of the room holds."""
    share = _Room(min(room.left, _NAMES_TOKENS))
    before = share.left
    found = [name for name in (cut(name, 32) for name in names) if share.take(name)]
    room.left -= before - share.left
    return found


def _types(recording: Recording, chosen: EventType | None) -> list[dict[str, Any]]:
    types: list[dict[str, Any]] = []
    for kind, n, first, last in recording.connection.execute(
        "SELECT type, n, min_ts, max_ts FROM span ORDER BY n DESC, type"
    ):
        if chosen is None or chosen == kind:
            row: dict[str, Any] = {"eventType": TYPE_NAMES[kind], "count": n}
            if recording.times != (first, last):
                row |= {"first": format(first), "last": format(last)}
            types.append(row)
    return types


def _add_shares(recording: Recording, types: Sequence[dict[str, Any]], room: _Room) -> list[str]:
    """Counts by severity and category where there is room; the names of those that are left out."""
    left_out: dict[str, None] = {}
    for row in types:
        for label, counts in _severities(recording, EventType[row["eventType"]]).items():
            if room.take({label: counts}):
                row[label] = counts
            else:
                left_out[label] = None
    return list(left_out)


def _severities(recording: Recording, kind: int) -> dict[str, Any]:
    """Counts by severity and category, where there is more than one."""
    facts: dict[str, Any] = {}
    for column, names, label in (
        ("severity", SEVERITY_NAMES, "severities"),
        ("category", CATEGORY_NAMES, "categories"),
    ):
        query = f"SELECT {column}, sum(n) FROM tally WHERE type = ? GROUP BY {column}"
        counts: dict[str, int] = {}
        for value, n in recording.connection.execute(query, (kind,)):
            counts[names[value]] = counts.get(names[value], 0) + n
        if len(counts) > 1:
            facts[label] = counts
    return facts


def _add_paths(recording: Recording, types: Sequence[dict[str, Any]], room: _Room) -> int:
    """The paths of each type in turn, so that what does not fit is the last of every type alike."""
    queues = [(row, _paths(recording, EventType[row["eventType"]])) for row in types]
    for row, _ in queues:
        row["paths"] = list[Any]()
    omitted = 0
    for number in range(max((len(paths) for _, paths in queues), default=0)):
        for row, paths in queues:
            if number >= len(paths):
                continue
            if omitted or not room.take(paths[number]):
                omitted += 1
            else:
                row["paths"].append(paths[number])
    return omitted


def _paths(recording: Recording, kind: EventType) -> list[list[Any]]:
    query = f"SELECT {_PATHS} FROM path WHERE type = ? ORDER BY id"
    rows = list(recording.connection.execute(query, (kind.value,)))
    stored = {row[0] for row in rows}
    return [_path(*_spelled(path, stored), *more) for path, *more in rows]


def _spelled(path: str, stored: Collection[str]) -> tuple[str, bool]:
    """A stored path as propertyPath takes it, and whether it does.

    A name with dots is found by them, unless something nests there.
    """
    if not path.startswith("$["):
        return path, _is_taken(path)
    try:
        dotted = f"$.{json.loads(path[2:-1])}"
    except ValueError:
        return path, False
    return (dotted, True) if dotted not in stored and _is_taken(dotted) else (path, False)


def _is_taken(path: str) -> bool:
    try:
        parse(path)
    except ToolError:
        return False
    return True


def _path(
    path: str,
    is_taken: bool,
    numbers: int,
    texts: int,
    decimals: int,
    unfit: int,
    booleans: int,
    nulls: int,
    objects: int,
    arrays: int,
    least: str | None,
    greatest: str | None,
    sample: str,
) -> list[Any]:
    """A path, the kinds of its values, and the numeric range or a sample."""
    counts = {
        "number": numbers,
        "decimal text": decimals,
        "text": texts - decimals,
        "boolean": booleans,
        "null": nulls,
        "object": objects,
        "array": arrays,
    }
    kinds = "|".join(name for name, count in counts.items() if count)
    if not is_taken:
        path, kinds = cut(path, LONGEST), f"no path: {kinds}"
    if least is not None and numbers + decimals > unfit:
        return [path, kinds, json.Raw(least.encode()), json.Raw((greatest or least).encode())]
    return [path, kinds] if objects or arrays else [path, kinds, cut(_plain(sample), _LONGEST_SAMPLE)]


def _plain(sample: str) -> str:
    """A sample is JSON; a text is shown without its quotes."""
    found = json.loads(sample)
    return found if isinstance(found, str) else sample


# --- all runs -----------------------------------------------------------------------------------------


def runs(home: Home, args: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Run], bool]:
    """Runs, newest first: as rows, as they are, and whether there are more."""
    limit, wanted = args["limit"], args.get("name")
    found: list[Run] = []
    with Catalog(home) as catalog:
        after = _after(catalog, args.get("cursor"))
        while len(found) <= limit:
            page = catalog.list(status=args.get("status"), after=after, limit=limit + 1)
            found += [run for run in page if wanted is None or wanted.lower() in run.name.lower()]
            if len(page) <= limit:
                break
            after = page[-1]
    rows = [_entry(home, run) for run in found[:limit]]
    return rows, found[:limit], len(found) > limit


def _after(catalog: Catalog, cursor: str | None) -> Run | None:
    if cursor is None:
        return None
    try:
        return catalog.get(cursor)
    except UnknownRun:
        message = "cursor: this is none of this tool's. Send metadata.nextCursor of the last page, or none."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["cursor"]}) from None


def _fresh(home: Home, run: Run) -> Run | None:
    """A running run as its file says now; the catalog learns of its events only at the end."""
    if run.is_settled:
        return run
    try:
        return describe(home, home.run_file(run.id))
    except (JournalError, SQLiteError):
        return None


def _entry(home: Home, known: Run) -> dict[str, Any]:
    fresh = _fresh(home, known)
    run = fresh or known
    row: dict[str, Any] = {
        "runId": run.id,
        "name": cut(run.name, 120),
        "engine": cut(run.kind, 60),
        "status": run.status,
        "events": run.events,
        "recordedAt": format(run.created_ns),
    }
    if fresh is None:
        row["unreadable"] = True
    if run.pruned:
        row["pruned"] = True
    if run.meta.get("parentRun"):
        row["parentRun"] = str(run.meta["parentRun"])
    return row
