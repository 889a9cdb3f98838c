"""`trade_execute` and `cancel_trade_order`: checked whole, committed once, answered from the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import tracedesk
from tracedesk.errors import ToolError
from tracedesk.market import calendar
from tracedesk.primitives import json
from tracedesk.primitives.time import format
from tracedesk.trading import params, simulation
from tracedesk.trading.clockwork import SAMPLE
from tracedesk.trading.draft import Market, gather, named, order_id
from tracedesk.trading.ledger import CallRow, Ledger, New, Reading, Writer
from tracedesk.trading.limits import Violation
from tracedesk.trading.memory import Told
from tracedesk.trading.model import EdgeTo, Order, OrderState, Trade
from tracedesk.trading.reading import shown_order
from tracedesk.trading.simulation import Judged, Standing, judged, shown_leg, standing
from tracedesk.trading.trader import Already

if TYPE_CHECKING:
    from tracedesk.trading.sources.gate import Got
    from tracedesk.trading.sources.seam import Quote
    from tracedesk.trading.trader import Request, Trader

FINAL: Final = frozenset(
    {
        "INSUFFICIENT_FUNDS",
        "INSUFFICIENT_POSITION",
        "INVALID_SYMBOL",
        "MARKET_CLOSED",
        "RISK_LIMIT_EXCEEDED",
    }
)
"""Refusals that depend on the moment: an id that got one keeps it, so that a retry cannot trade later."""

CANCELLED: Final = "CANCELLED_BY_CALLER"
MOST_REFS: Final = 100
"""References that one call may cite."""
_ATTEMPTS: Final = 5


class Moved(Exception):
    """The clock or the account moved while the market was asked."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a call asks for, checked as far as it can be without the market."""

    trades: list[Trade]
    orders: tuple[Order, ...]
    rationale: tuple[str, ...]
    simulated: Told | None


async def execute(trader: Trader, request: Request) -> bytes:
    """Trade, or refuse; either way the id has its answer."""
    first = order_id(request.account, request.id, 0)
    if await trader.ledger(lambda ledger: ledger.entry_of_order(first)) is not None:
        from tracedesk.trading import outbox

        # Before every check: what was sent is asked about, whatever has been forbidden or closed since.
        answer = await outbox.resume(trader, request)
        if answer is not None:
            return answer
    check_enabled(trader)
    intent = await _intent(trader, request)
    try:
        return await _execute(trader, request, intent)
    except ToolError as refused:
        if refused.code in FINAL:
            await trader.commit(partial(_refuse, request=request, refused=refused))
            request.call.recorded = True
        raise


async def _intent(trader: Trader, request: Request) -> Intent:
    settings, args = trader.settings, request.args
    trades = params.trades(
        args["trades"], fractional=settings.fractional, resting_orders=settings.resting_orders
    )
    if trader.is_live:
        _check_immediate(trades)
    rationale = await resolved(request, args.get("rationale_refs", ()), "rationale_refs")
    simulated = await _simulation(trader, request)
    return Intent(trades, named(request.account, request.id, trades), rationale, simulated)


async def _execute(trader: Trader, request: Request, intent: Intent) -> bytes:
    for _ in range(_ATTEMPTS):
        opened_ns = await _opened(trader, request.now_ns)
        account = await trader.ledger(partial(_standing, trader=trader, request=request))
        market = await gather(trader, request, intent.trades, sorted(account.symbols))
        _check_prices(intent.trades, market, opened_ns)
        try:
            if trader.broker is not None:
                from tracedesk.trading import outbox

                return await outbox.execute(trader, request, intent, market)
            work = partial(_commit, trader=trader, request=request, intent=intent, market=market)
            # From here on the deadline cannot say that nothing was done: the commit goes on without the call.
            request.call.sent = True
            return await trader.commit(work)
        except Moved:
            request.call.sent = False
            request.now_ns = await trader.now_ns()
    message = "The market's clock or the account kept moving while the order was priced. Send it again."
    raise ToolError("RATE_LIMITED", message, {"retryable": True, "retry_after_s": 1})


# --- what is checked ---------------------------------------------------------------------------


def check_enabled(trader: Trader) -> None:
    """Refuse every change where trading is off."""
    if trader.desk.settings.read_only:
        message = "This desk was started with --read-only. Start it without to trade."
        raise ToolError("EXECUTION_DISABLED", message, {"retryable": False})
    if trader.broker is not None and not trader.settings.live_trading:
        message = "A real broker is configured, and its owner has not opted in: set [trading] live_trading."
        raise ToolError("EXECUTION_DISABLED", message, {"retryable": False})


async def _opened(trader: Trader, now_ns: int) -> int:
    """Return when the session in progress opened; raises when there is none."""
    session = simulation.session_at(now_ns)
    if session is not None:
        return calendar.open_ns(session)
    opens = await asyncio.to_thread(trader.next_open, now_ns)
    if opens is None:
        ends = "The replay ends" if not trader.is_live else "The exchange's calendar ends"
        message = f"The exchange is closed at {format(now_ns)}. {ends} before it opens again."
        raise ToolError("MARKET_CLOSED", message, {"next_open": None, "retryable": False})
    remedy = (
        "trade_simulate works now"
        if trader.is_live
        else "trade_simulate works now, and advance_clock goes there"
    )
    message = f"The exchange is closed at {format(now_ns)}; it opens at {format(opens)}. {remedy}."
    raise ToolError("MARKET_CLOSED", message, {"next_open": format(opens), "retryable": False})


def _check_immediate(trades: Sequence[Trade]) -> None:
    for index, trade in enumerate(trades):
        if trade.time_in_force != "ioc":
            problem = "orders rest only where a replay's clock is moved, and [trading] clock is 'system'"
            raise _no_rest(index, trade, f"{problem}. Send it as 'ioc'.")


def _check_prices(trades: Sequence[Trade], market: Market, opened_ns: int) -> None:
    """Refuse what would trade at a price of an earlier session, or rest where our bars do not judge it."""
    for index, trade in enumerate(trades):
        quote = market.quotes[trade.symbol]
        # A market with sessions of its own says when the one of its price began.
        if quote.value.as_of_ns < (quote.value.session_ns or opened_ns):
            raise _stale(index, trade, quote, opened_ns)
        daily = market.daily.get(trade.symbol)
        providers = {quote.provider, *(() if daily is None else (daily.provider,))}
        if trade.time_in_force != "ioc" and providers != {SAMPLE}:
            others = ", ".join(sorted(providers - {SAMPLE}))
            problem = (
                f"resting orders are judged on the embedded bars, and {trade.symbol} is priced by {others}"
            )
            raise _no_rest(index, trade, f"{problem}. Send it as 'ioc'.")


def _no_rest(index: int, trade: Trade, problem: str) -> ToolError:
    message = f"trades[{index}].time_in_force {trade.time_in_force!r}: {problem}"
    path = ["trades", index, "time_in_force"]
    return ToolError("INVALID_INPUT", message, {"path": path, "trade_index": index, "retryable": False})


def _stale(index: int, trade: Trade, quote: Got[Quote], opened_ns: int) -> ToolError:
    as_of = format(quote.value.as_of_ns)
    message = (
        f"trades[{index}].symbol {trade.symbol}: its last price by {quote.provider} is of {as_of}, before "
        f"this session opened at {format(opened_ns)}. Wait for one of this session, or use another provider."
    )
    path = ["trades", index, "symbol"]
    details = {"path": path, "trade_index": index, "symbol": trade.symbol, "as_of": as_of, "retryable": False}
    return ToolError("DATA_UNAVAILABLE", message, details)


async def resolved(request: Request, refs: Any, path: str) -> tuple[str, ...]:
    """The references, each once and as what it resolves to; one that does not is refused."""
    if len(refs) > MOST_REFS:
        message = f"{path} has {len(refs)} references; give at most {MOST_REFS}."
        raise ToolError("INVALID_INPUT", message, {"path": [path], "retryable": False})
    found: dict[str, None] = {}
    for index, ref in enumerate(refs):
        source = await request.call.resolve(ref)
        if source is None:
            message = (
                f"{path}[{index}] {ref[:120]!r} resolves to nothing. Cite ids and references you were given."
            )
            raise ToolError("INVALID_INPUT", message, {"path": [path, index], "retryable": False})
        found[source.ref] = None
    return tuple(found)


async def _simulation(trader: Trader, request: Request) -> Told | None:
    ref = request.args.get("simulation_ref")
    if ref is None:
        return None
    told = await trader.simulation(request, ref)
    if told is None:
        message = f"Unknown simulation_ref {ref[:120]!r}. Call trade_simulate, and pass its tool_call_id."
        raise ToolError("INVALID_INPUT", message, {"path": ["simulation_ref"], "retryable": False})
    return told


def _unlike_simulated(
    told: Told, intent: Intent, account: Standing, now_ns: int, ttl_s: int
) -> list[Violation]:
    """How an execution differs from the simulation it is bound to."""
    facts = told.facts
    found: list[Violation] = []
    if facts["trades"] != intent.trades:
        found.append(Violation("simulation_trades", "the trades that were simulated", "other trades"))
    if facts["version"] != account.portfolio.version:
        found.append(Violation("simulation_version", facts["version"], account.portfolio.version))
    if facts["order_change"] != account.order_change:
        found.append(Violation("simulation_orders", facts["order_change"], account.order_change))
    age = (now_ns - facts["now_ns"]) // 1_000_000_000
    if age > ttl_s:
        found.append(Violation("simulation_age_seconds", ttl_s, age))
    return found


def _check_limits(violations: list[Violation]) -> None:
    if not violations:
        return
    names = ", ".join(dict.fromkeys(violation.limit for violation in violations))
    message = f"The batch would break {names}. Nothing was traded; trade_simulate shows by how much."
    details = {"violations": [violation.as_json() for violation in violations], "retryable": False}
    raise ToolError("RISK_LIMIT_EXCEEDED", message, details)


# --- what is committed -------------------------------------------------------------------------


def _commit(ledger: Ledger, trader: Trader, request: Request, intent: Intent, market: Market) -> bytes:
    """One transaction: the id is looked up, the batch judged on the account as it is now, and written."""
    with ledger.writing() as writer:
        found = judge(trader, writer, request, intent, market)
        simulation.cite(request, market)
        body = json.dumps(answer(found, request))
        writer.append(
            New(
                "trade",
                request.account,
                request.now_ns,
                facts(request, found, market),
                call=row(request, body),
                orders=[leg.order for leg in found.draft.legs],
                states=[leg.state for leg in found.draft.legs],
                fills=found.draft.fills,
                postings=found.draft.postings,
                edges=edges(request, intent, market),
            )
        )
    return body


def judge(trader: Trader, writer: Writer, request: Request, intent: Intent, market: Market) -> Judged:
    """The batch on the account as it is inside the transaction; raises for whatever forbids it."""
    absent(writer, request)
    if not trader.is_live and writer.clock_ns() != request.now_ns:
        raise Moved
    account = _standing(writer, trader, request)
    if account.symbols.difference(market.quotes, market.unpriced):
        raise Moved
    found = judged(account, intent.orders, market, trader.settings)
    violations = list(found.judgement.violations)
    if intent.simulated is not None:
        ttl = trader.settings.simulation_ttl
        violations += _unlike_simulated(intent.simulated, intent, account, request.now_ns, ttl)
    _check_limits(violations)
    return found


def _standing(ledger: Reading, trader: Trader, request: Request) -> Standing:
    return standing(ledger, request.account, request.now_ns, trader.desk.clock.now_ns())


def absent(writer: Writer, request: Request) -> None:
    """Raise `Already` when another desk has answered the id."""
    known = writer.call(request.account, request.id)
    if known is not None:
        raise Already(known)


def answer(found: Judged, request: Request) -> dict[str, Any]:
    """The body of `trade_execute`."""
    trades = [{**shown_leg(leg), "order_id": leg.order.id} for leg in found.draft.legs]
    execution = {"trades": trades, "portfolio_after": found.portfolio_after, **found.not_judged}
    return {"execution": execution, "source_refs": request.source_refs}


def row(request: Request, response: bytes, code: str | None = None) -> CallRow:
    """The call's own row in the ledger."""
    return CallRow(
        request.id,
        request.tool,
        request.params_sha256,
        request.params,
        request.call.id,
        response,
        code,
    )


def facts(request: Request, found: Judged, market: Market) -> dict[str, Any]:
    """What the entry's body says beside its rows."""
    symbols = {leg.trade.symbol for leg in found.draft.legs}
    body: dict[str, Any] = {
        "version": tracedesk.__version__,
        "clock": format(request.now_ns),
        "quotes": {s: market.quotes[s].value.price for s in sorted(symbols)},
        "providers": {s: market.quotes[s].provider for s in sorted(symbols)},
    }
    if found.judgement.skipped:
        body["limitsNotJudged"] = [skipped.as_json() for skipped in found.judgement.skipped]
    return body


def edges(request: Request, intent: Intent, market: Market) -> list[EdgeTo]:
    """What the batch was made from: prices, risk, the simulation, the reasons, and the call itself."""
    found = [EdgeTo("priced_by", got.ref, symbol) for symbol, got in market.quotes.items()]
    found += [EdgeTo("risk_from", got.ref, symbol) for symbol, got in market.daily.items()]
    found += [EdgeTo("rationale", ref) for ref in intent.rationale]
    if intent.simulated is not None:
        found.append(EdgeTo("simulated_by", f"tracedesk://calls/{intent.simulated.call}"))
    return [*found, EdgeTo("recorded_as", request.by)]


def _refuse(ledger: Ledger, request: Request, refused: ToolError) -> None:
    """Keep a refusal under its id; it moves nothing."""
    response = json.dumps({"message": refused.message, "details": refused.details})
    with ledger.writing() as writer:
        absent(writer, request)
        body = {"version": tracedesk.__version__, "code": refused.code}
        call = row(request, response, refused.code)
        edge = EdgeTo("recorded_as", request.by)
        writer.append(New("refusal", request.account, request.now_ns, body, call=call, edges=[edge]))


# --- cancelling --------------------------------------------------------------------------------


async def cancel(trader: Trader, request: Request) -> bytes:
    """Cancel an open order of the account."""
    check_enabled(trader)
    request.call.sent = True
    return await trader.commit(lambda ledger: _cancel(ledger, request))


def _cancel(ledger: Ledger, request: Request) -> bytes:
    with ledger.writing() as writer:
        absent(writer, request)
        order, state = _open_order(writer, request)
        placed = writer.entry(writer.entry_of_order(order.id) or 0)
        ended = replace(state, status="cancelled", reason=CANCELLED)
        shown = shown_order(order, ended, placed.clock_ns if placed else 0)
        body = json.dumps({"order": shown, "source_refs": request.source_refs})
        writer.append(
            New(
                "cancel",
                request.account,
                request.now_ns,
                {"version": tracedesk.__version__},
                call=row(request, body),
                states=[ended],
                edges=[EdgeTo("recorded_as", request.by)],
            )
        )
    return body


def _open_order(writer: Writer, request: Request) -> tuple[Order, OrderState]:
    identity = request.args["order_id"]
    found = writer.order(identity)
    if found is None or found[0].account != request.account:
        message = f"order_id {identity[:80]!r} is no order of this account. list_trade_orders has them."
        raise ToolError("INVALID_INPUT", message, {"path": ["order_id"], "retryable": False})
    if found[1].status != "open":
        message = f"order_id {identity!r} is {found[1].status}; only an open order can be cancelled."
        raise ToolError("INVALID_INPUT", message, {"path": ["order_id"], "status": found[1].status})
    return found
