"""The fuzz tools: each is a contract and one function; what they do is in `Campaigns` and beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Annotations, Arguments, Call, Link, Linked, Source, Toolset
from tracedesk.errors import FUZZ
from tracedesk.fuzz import settings as settings_of
from tracedesk.hooks import Requester

if TYPE_CHECKING:
    from tracedesk.fuzz.desk import Campaigns
    from tracedesk.fuzz.settings import Fuzz

_READS: Final = Annotations(read_only=True, idempotent=True)
_STEERS: Final = Annotations(read_only=False, idempotent=True)
_INJECTS: Final = Annotations(read_only=False)
_STARTS: Final = Annotations(read_only=False)
_STOPS: Final = Annotations(read_only=False, destructive=True, idempotent=True)
_SEED_SECONDS: Final = 0.1
_OWN_SECONDS: Final = 30.0
_LONG_SECONDS: Final = 330.0


def _open(desk: Any) -> AbstractAsyncContextManager[Campaigns]:
    return _opened(desk, settings_of.read(desk.settings.tables.get("fuzz", {})))


@asynccontextmanager
async def _opened(desk: Any, settings: Fuzz) -> AsyncGenerator[Campaigns]:
    from tracedesk.fuzz.desk import Campaigns
    from tracedesk.home import Home

    campaigns = Campaigns(
        Home(desk.settings.home),
        settings,
        read_only=desk.settings.read_only,
        max_bytes=desk.settings.max_bytes,
    )
    try:
        yield campaigns
    finally:
        await campaigns.close()


fuzz: Toolset[Campaigns] = Toolset(
    "fuzz",
    summary="Coverage-guided fuzzing of EVM contracts: start a campaign, watch it, steer it, see what broke.",
    guide="call start_campaign with the path of a contract, then campaign_status; get_reproducers shows what "
    "broke, show_coverage what was never reached. inject_transaction and prioritize_function steer it.",
    family=FUZZ,
    open=_open,
)


@fuzz.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS, page_size="count", rows="events")
async def read_logs(args: Arguments, call: Call[Campaigns]) -> Any:
    """The newest events of the campaign, newest first; executed transactions are a sample."""
    return await call.state.ask("read_logs", args, timeout=_SEED_SECONDS)


@fuzz.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS)
async def show_coverage(args: Arguments, call: Call[Campaigns]) -> Any:
    """Line and branch coverage in percent, per contract and over all lines."""
    return await call.state.ask("show_coverage", args, timeout=_SEED_SECONDS)


@fuzz.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS, writes=("outputPath",))
async def dump_lcov(args: Arguments, call: Call[Campaigns]) -> Linked | str:
    """Coverage as LCOV text with branches. `outputPath`: a .lcov or .info file in the campaign's folder."""
    text, place = await call.state.lcov(args, timeout=_SEED_SECONDS)
    if place is None:
        return text
    return Linked(text, (Link(place.as_uri(), place.name, "text/plain"),))


@fuzz.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS)
async def get_corpus_size(args: Arguments, call: Call[Campaigns]) -> Any:
    """How many transactions, in how many sequences, the corpus holds."""
    return await call.state.ask("get_corpus_size", args, timeout=_SEED_SECONDS)


@fuzz.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS, page_size="limit", rows="transactions")
async def inspect_corpus_transactions(args: Arguments, call: Call[Campaigns]) -> Any:
    """Transactions of the corpus by index, which never changes."""
    return await call.state.ask("inspect_corpus_transactions", args, timeout=_SEED_SECONDS)


@fuzz.tool(annotations=_READS, scope="read", deadline=_SEED_SECONDS)
async def find_transaction_in_corpus(args: Arguments, call: Call[Campaigns]) -> Any:
    """Transactions of the corpus by function, sender or least value; all are counted, 500 shown."""
    return await call.state.ask("find_transaction_in_corpus", args, timeout=_SEED_SECONDS)


@fuzz.tool(annotations=_INJECTS, scope="write", deadline=_SEED_SECONDS)
async def inject_transaction(args: Arguments, call: Call[Campaigns]) -> Any:
    """Have every worker run these calls next, then vary them. `?` as an argument is filled by the fuzzer.

    `value` goes with payable calls only.
    """
    return await call.state.apply("inject_transaction", args, call=call.id)


@fuzz.tool(annotations=_STEERS, scope="write", deadline=_SEED_SECONDS)
async def prioritize_function(args: Arguments, call: Call[Campaigns]) -> Any:
    """Give 90 % of new calls to the functions prioritized so far and this one."""
    return await call.state.apply("prioritize_function", args, call=call.id)


@fuzz.tool(annotations=_STEERS, scope="write", deadline=_SEED_SECONDS)
async def clear_priorities(args: Arguments, call: Call[Campaigns]) -> Any:
    """Spread new calls over all functions again."""
    return await call.state.apply("clear_priorities", args, call=call.id)


@fuzz.tool(annotations=_STARTS, scope="write", deadline=_LONG_SECONDS)
async def start_campaign(args: Arguments, call: Call[Campaigns]) -> Any:
    """Compile a contract and fuzz it in a process of its own, which goes on when you leave.

    Names like echidna_x() that return bool are properties; `testMode` chooses other kinds of tests.
    """
    return await call.state.start(args)


@fuzz.tool(annotations=_STOPS, scope="write", deadline=_OWN_SECONDS)
async def stop_campaign(args: Arguments, call: Call[Campaigns]) -> Any:
    """End a campaign; what it found stays readable."""
    return await call.state.apply("stop_campaign", args, patience=_OWN_SECONDS - 10)


@fuzz.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def campaign_status(args: Arguments, call: Call[Campaigns]) -> Any:
    """How a campaign stands: speed, coverage, time since anything new, and each test's state."""
    return await call.state.ask("campaign_status", args, timeout=_OWN_SECONDS, budget=call.budget)


@fuzz.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def target(args: Arguments, call: Call[Campaigns]) -> Any:
    """What is fuzzed: contracts, addresses, callable functions, tests and senders."""
    return await call.state.ask("target", args, timeout=_OWN_SECONDS, budget=call.budget)


@fuzz.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def execute_sequence(args: Arguments, call: Call[Campaigns]) -> Any:
    """Run calls once on the deployed state: status, gas, reasons, events, storage, and failing tests.

    The campaign is not touched.
    """
    return await call.state.ask("execute_sequence", args, timeout=_OWN_SECONDS, budget=call.budget)


@fuzz.tool(annotations=_READS, scope="read", deadline=_OWN_SECONDS)
async def get_reproducers(args: Arguments, call: Call[Campaigns]) -> Any:
    """The shortest calls that break each test, as a list or as a Foundry test."""
    return await call.state.ask("get_reproducers", args, timeout=_OWN_SECONDS, budget=call.budget)


@fuzz.tool(annotations=_STEERS, scope="write", deadline=_OWN_SECONDS)
async def sample_function(args: Arguments, call: Call[Campaigns]) -> Any:
    """Watch one function: calls, reverts with recent reasons, least and greatest values it returns."""
    return await call.state.ask("sample_function", args, timeout=_OWN_SECONDS)


@fuzz.tool(annotations=_STEERS, scope="write", deadline=_OWN_SECONDS)
async def avoid_function(args: Arguments, call: Call[Campaigns]) -> Any:
    """Make no new calls of a function, e.g. one that only reverts; `avoid: false` takes it back."""
    return await call.state.apply("avoid_function", args, call=call.id)


@fuzz.resolves
async def resolve(ref: str, state: Campaigns, requester: Requester) -> Source | None:
    """Events of campaigns."""
    import asyncio

    from tracedesk.primitives.ids import StreamRef, parse_ref

    try:
        found = parse_ref(ref)
    except ValueError:
        return None
    if not isinstance(found, StreamRef) or found.toolset != "fuzz":
        return None
    return await asyncio.to_thread(state.source, ref, found.stream, found.seq)
