"""The backtest tools: each is a contract and one function; what they do is in the modules they name."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Annotations, Arguments, Call, Source, Toolset
from tracedesk.errors import ToolError
from tracedesk.hooks import Requester
from tracedesk.primitives import json
from tracedesk.tables import read_toolset

if TYPE_CHECKING:
    from tracedesk.backtest.desk import Shelf
    from tracedesk.backtest.page import Ask
    from tracedesk.backtest.query import Recording

_READS: Final = Annotations(read_only=True, idempotent=True)
_SEED_SECONDS: Final = 10.0
_OWN_SECONDS: Final = 30.0


def _open(desk: Any) -> AbstractAsyncContextManager[Shelf]:
    read_toolset("backtest", desk.settings.tables.get("backtest", {}))
    return _opened(desk)


@asynccontextmanager
async def _opened(desk: Any) -> AsyncGenerator[Shelf]:
    from tracedesk.backtest.desk import Shelf
    from tracedesk.home import Home

    shelf = Shelf(Home(desk.settings.home), max_bytes=desk.settings.max_bytes, clock=desk.clock)
    try:
        await shelf.open(settle=not desk.settings.read_only)
        yield shelf
    finally:
        await shelf.close()


backtest: Toolset[Shelf] = Toolset(
    "backtest",
    summary="Recorded backtest runs: every event with its cause, the state at any time, exact aggregates.",
    guide="call list_backtest_runs, then describe_run; ask for format 'table' to save tokens. Event ids are "
    "GUIDs, seqs or references; explain_event tells why something happened.",
    open=_open,
)


@backtest.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS, page_size="pageSize", rows="events")
async def get_events_by_type(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """Events of one type, by time. `fields`: properties to keep. `category`: e.g. Execution or Risk."""
    from tracedesk.backtest import page

    ask = _ask("get_events_by_type", args, call)
    selection = page.by_type(ask)
    return await _read(call, args, lambda recording: page.answer(recording, ask, selection))


@backtest.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS, page_size="pageSize", rows="events")
async def get_events_by_entity(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """All events of one order, security, position or indicator, by time; takes short ids (o7) of tables."""
    from tracedesk.backtest import page

    ask = _ask("get_events_by_entity", args, call)
    return await _read(
        call, args, lambda recording: page.answer(recording, ask, page.by_entity(ask, recording))
    )


@backtest.tool(
    annotations=_READS, scope="read", deadline=_SEED_SECONDS, codes={"propertyPath": "INVALID_JSON_PATH"}
)
async def aggregate_metrics(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """Exact statistics of a numeric property. `groupBy` a property, e.g. SecuritySymbol; RejectionCode."""
    from tracedesk.backtest import aggregate

    ask = _ask("aggregate_metrics", args, call)
    return await _read(call, args, lambda recording: aggregate.answer(recording, ask))


@backtest.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS)
async def get_state_snapshot(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """Positions, indicators, open orders and P&L as of a time (inclusive)."""
    from tracedesk.backtest import snapshot

    ask = _ask("get_state_snapshot", args, call)
    return await _read(call, args, lambda recording: snapshot.answer(recording, ask))


@backtest.tool(
    annotations=_READS, scope="read", deadline=_SEED_SECONDS, page_size="pageSize", rows="sequences"
)
async def query_event_sequence(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """Chains of cause and effect: below one root, all, or those that (in)completely follow a pattern."""
    from tracedesk.backtest import sequence

    ask = _ask("query_event_sequence", args, call)
    return await _read(call, args, lambda recording: sequence.answer(recording, ask))


@backtest.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS, page_size="pageSize", rows="events")
async def get_validation_errors(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """Events that failed validation when they were recorded, with what is wrong."""
    from tracedesk.backtest import page
    from tracedesk.backtest.model import HAS_ERROR, HAS_WARNING
    from tracedesk.backtest.query import Selection

    bits = {"Error": HAS_ERROR, "Warning": HAS_WARNING, None: HAS_ERROR | HAS_WARNING}
    ask = _ask("get_validation_errors", args, call)
    selection = Selection(faults=bits[args.get("severityFilter")])
    return await _read(call, args, lambda recording: page.answer(recording, ask, selection))


@backtest.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def list_backtest_runs(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """The recorded runs, newest first. `name`: part of a name."""
    from tracedesk.backtest import describe, page

    rows, runs, more = await call.state.in_thread(lambda home: describe.runs(home, args))
    parts = [json.dumps(row) for row in rows]
    kept = page.fitting(parts, _ask("list_backtest_runs", args, call))
    cut = kept < len(rows)
    metadata: dict[str, Any] = {"returnedCount": kept, "hasMore": more or cut, "truncated": cut}
    if more or cut:
        metadata["nextCursor"] = runs[kept - 1].id
    return {"runs": [json.Raw(part) for part in parts[:kept]], "metadata": metadata}


@backtest.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def describe_run(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """What a run holds: event types, counts, times, every property path with its kind and range."""
    from tracedesk.backtest import describe

    ask = _ask("describe_run", args, call)
    return await _read(call, args, lambda recording: describe.answer(recording, ask))


@backtest.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def state_delta(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """What changed in positions, orders, indicators and P&L between two times."""
    from tracedesk.backtest import snapshot

    ask = _ask("state_delta", args, call)
    return await _read(call, args, lambda recording: snapshot.delta(recording, ask))


@backtest.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def compare_runs(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """Two runs: trades, P&L, win rate, drawdown, Sharpe, rejections, and the first decision that differs."""
    from tracedesk.backtest import compare

    return await compare.answer(call.state, _ask("compare_runs", args, call))


@backtest.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def explain_event(args: Arguments, call: Call[Shelf]) -> dict[str, Any]:
    """Why an event happened: its causes, effects and order in words. `eventId`: GUID, seq or reference."""
    from tracedesk.backtest import explain

    ask = _ask("explain_event", args, call)
    return await _read(call, args, lambda recording: explain.answer(recording, ask))


@backtest.resolves
async def resolve(ref: str, state: Shelf, requester: Requester) -> Source | None:
    """Recorded runs, and their events."""
    from tracedesk.backtest import explain

    run, seq = _place(ref)
    if run is None:
        return None
    try:
        if seq is None:
            return await state.read(run, explain.run_source)
        return await state.read(run, lambda recording: explain.source(recording, ref, seq))
    except ToolError as error:
        if error.code == "RUN_NOT_FOUND":
            return None
        raise


def _place(ref: str) -> tuple[str | None, int | None]:
    """Return the run and the event that a reference names; a reference of a run names no event."""
    from tracedesk.backtest.explain import run_ref
    from tracedesk.primitives.ids import StreamRef, is_uuid, parse_ref

    run = ref.removeprefix(run_ref(""))
    if ref != run and is_uuid(run):
        return run, None
    try:
        found = parse_ref(ref)
    except ValueError:
        return None, None
    if not isinstance(found, StreamRef) or found.toolset != "backtest" or not is_uuid(found.stream):
        return None, None
    return found.stream, found.seq


def _ask(tool: str, args: Arguments, call: Call[Shelf]) -> Ask:
    from tracedesk.backtest.page import Ask

    return Ask(tool, args, call.budget, call.state.max_bytes)


async def _read(
    call: Call[Shelf], args: Arguments, work: Callable[[Recording], dict[str, Any]]
) -> dict[str, Any]:
    from tracedesk.backtest.times import refuse_future

    now = call.state.clock.now_ns()

    def checked(recording: Recording) -> dict[str, Any]:
        refuse_future(args, now, None if recording.times is None else recording.times[1])
        return work(recording)

    return await call.state.read(args["runId"], checked)
