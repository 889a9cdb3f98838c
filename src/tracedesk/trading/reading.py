"""The reading tools: each makes the body of one answer and notes what it rests on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tracedesk.errors import ToolError
from tracedesk.primitives.money import divide, from_units, to_units
from tracedesk.primitives.time import HOUR, format
from tracedesk.trading import book, limits, params
from tracedesk.trading import risk as risk_of
from tracedesk.trading.model import Order, OrderState, Portfolio
from tracedesk.trading.sources.seam import BAD_FILE, METRICS, Quote, Ratios, Series, Story
from tracedesk.trading.units import PRICE_PLACES, micros, money, price, quantity

if TYPE_CHECKING:
    from pathlib import Path

    from tracedesk.trading.audit import Report
    from tracedesk.trading.sources.gate import Got
    from tracedesk.trading.trader import Request, Trader

T = TypeVar("T")
MOST_HOURS: Final = 720
MOST_WEIGHT: Final = 1_000
QUOTE_FIELDS: Final = ("price", "change", "change_percent", "volume")
_PERCENT_PLACES: Final = 4


# --- the account -------------------------------------------------------------------------------


async def portfolio(trader: Trader, request: Request) -> dict[str, Any]:
    account = await trader.ledger(lambda ledger: ledger.portfolio(request.account))
    quotes = await priced(trader, request, list(account.positions))
    marks = {symbol: micros(got.value.price) for symbol, got in quotes.items()}
    valued = limits.value(account, marks)
    positions = [
        {
            "symbol": symbol,
            "quantity": quantity(position.quantity),
            "avg_price": price(book.average(position)),
            "current_price": price(marks[symbol]),
            "market_value": money(valued.market_values[symbol]),
            "weight": valued.weights[symbol],
        }
        for symbol, position in account.positions.items()
        if position.quantity
    ]
    body = {
        "positions": positions,
        "cash": money(account.cash),
        "total_value": money(valued.total_cents),
        "as_of": format(request.now_ns),
        "version": account.version,
    }
    return {"portfolio": body}


async def priced(trader: Trader, request: Request, symbols: Sequence[str]) -> dict[str, Got[Quote]]:
    """The quotes of symbols that are held: without one of them nothing can be valued."""
    found: dict[str, Got[Quote]] = {}
    if not symbols:
        return found
    for symbol, answer in (await trader.gate.quotes(symbols, request.now_ns, request.by)).items():
        if isinstance(answer, ToolError):
            raise answer
        request.used(answer, "priced_by")
        found[symbol] = answer
    return found


async def orders(trader: Trader, request: Request) -> dict[str, Any]:
    args = request.args
    limit, cursor = args["limit"], args.get("cursor")
    only_open = args["status"] == "open"
    after = None if cursor is None else await trader.ledger(lambda ledger: ledger.order(cursor))
    if cursor is not None and (after is None or after[0].account != request.account):
        message = "cursor is not one of this desk's. Send nextCursor of the page before, or none."
        raise ToolError("INVALID_INPUT", message, {"path": ["cursor"], "retryable": False})
    found = await trader.ledger(
        lambda ledger: ledger.orders_placed(
            request.account, open_only=only_open, after=cursor, limit=limit + 1
        )
    )
    rows = [shown_order(*placed) for placed in found[:limit]]
    body: dict[str, Any] = {"orders": rows, "truncated": len(found) > limit}
    if len(found) > limit:
        body["nextCursor"] = rows[-1]["order_id"]
    return body


def shown_order(order: Order, state: OrderState, placed_ns: int) -> dict[str, Any]:
    trade = order.trade
    return {
        "order_id": order.id,
        "symbol": trade.symbol,
        "action": trade.side,
        "order_type": trade.type,
        "quantity": quantity(trade.quantity),
        "filled_quantity": quantity(state.filled),
        "price": None if trade.price is None else price(trade.price),
        "stop_price": None if trade.stop_price is None else price(trade.stop_price),
        "time_in_force": trade.time_in_force,
        "status": state.status,
        "reason": state.reason,
        "placed_at": format(placed_ns),
    }


async def verification(trader: Trader, request: Request) -> dict[str, Any]:
    report = await asyncio.to_thread(_verified, trader.desk.home)
    return {
        "sound": report.is_sound,
        "entries": report.entries,
        "head": report.head,
        "faults": [{"seq": fault.seq, "problem": fault.problem} for fault in report.faults],
    }


def _verified(home: Path) -> Report:
    """Check the ledger by itself, and by what the trace has stored of it."""
    from tracedesk.rollback import LEDGER, check
    from tracedesk.trading.audit import verify

    report = verify(home / LEDGER)
    for loss in check(home, (LEDGER,)):
        report.blame(loss.seq, loss.problem_by)
    return report


# --- the market --------------------------------------------------------------------------------


async def quotes(trader: Trader, request: Request) -> dict[str, Any]:
    kept = _chosen(request.args.get("fields"), QUOTE_FIELDS, "fields")
    symbols = params.symbols(request.args["symbols"])
    answers = await trader.gate.quotes(symbols, request.now_ns, request.by)
    return _rows(request, "quotes", answers, lambda got: _quote(got, kept))


def _quote(got: Got[Quote], kept: Sequence[str]) -> dict[str, Any]:
    quote = got.value
    change = _change(quote)
    values = {
        "price": quote.price,
        "change": change,
        "change_percent": _percent(change, quote),
        "volume": quote.volume,
    }
    row: dict[str, Any] = {"symbol": quote.symbol, **{name: values[name] for name in kept}}
    row["timestamp"] = format(quote.as_of_ns)
    if quote.volume_day is not None and "volume" in kept:
        row["volume_session"] = quote.volume_day.isoformat()
    return {**row, "stale": True} if got.stale else row


def _change(quote: Quote) -> Decimal | None:
    if quote.previous_close is None:
        return None
    return price(micros(quote.price) - micros(quote.previous_close))


def _percent(change: Decimal | None, quote: Quote) -> Decimal | None:
    if change is None or not quote.previous_close:
        return None
    top = to_units(change, PRICE_PLACES) * 10 ** (_PERCENT_PLACES + 2)
    return from_units(divide(top, micros(quote.previous_close)), _PERCENT_PLACES)


async def fundamentals(trader: Trader, request: Request) -> dict[str, Any]:
    kept = _chosen(request.args.get("metrics"), METRICS, "metrics")
    symbols = params.symbols(request.args["symbols"])
    answers = await trader.gate.fundamentals(symbols, request.now_ns, request.by)
    return _rows(request, "fundamentals", answers, lambda got: _ratios(got.value, kept))


def _ratios(ratios: Ratios, kept: Sequence[str]) -> dict[str, Any]:
    missing = {name: reason for name, reason in ratios.missing.items() if name in kept}
    row: dict[str, Any] = {"symbol": ratios.symbol, **{name: ratios.values.get(name) for name in kept}}
    row["timestamp"] = format(ratios.as_of_ns)
    row["period_end"] = None if ratios.period_end is None else ratios.period_end.isoformat()
    if ratios.currency is not None:
        row["currency"] = ratios.currency
    return {**row, "missing": missing} if missing else row


async def news(trader: Trader, request: Request) -> dict[str, Any]:
    from tracedesk.trading.sentiment import MODEL

    hours = params.number(request.args.get("hours_back", 24), ["hours_back"])
    if not 0 < hours <= MOST_HOURS:
        message = f"hours_back must be above 0 and at most {MOST_HOURS}."
        raise ToolError("INVALID_INPUT", message, {"path": ["hours_back"], "retryable": False})
    symbols = params.symbols(request.args["symbols"])
    since = request.now_ns - int(hours * HOUR)
    answers = await trader.gate.news(symbols, since, request.now_ns, request.by)
    body = _rows(request, "news", answers, lambda got: got.value)
    stories: list[Story] = [story for found in body["news"] for story in found]
    stories.sort(key=lambda story: story.published_ns, reverse=True)
    left_out = sum(got.left_out for got in answers.values() if not isinstance(got, ToolError))
    if left_out:
        body |= {"truncated": True, "left_out": left_out}
    return {**body, "news": [_story(s) for s in stories], "sentiment_model": MODEL, "trust": "external_text"}


def _story(story: Story) -> dict[str, Any]:
    from tracedesk.trading.sentiment import score

    felt = score(f"{story.headline}. {story.summary}")
    return {
        "symbol": story.symbol,
        "headline": story.headline,
        "summary": story.summary,
        "sentiment": felt.label,
        "impact_score": felt.impact_score,
        "published_at": format(story.published_ns),
        "source": story.source,
    }


def _chosen(names: Sequence[str] | None, known: Sequence[str], field: str) -> tuple[str, ...]:
    if not names:
        return tuple(known)
    asked = set(names) - {"symbol", "timestamp"}
    for index, name in enumerate(names):
        if name in asked and name not in known:
            message = f"{field}[{index}] {name[:80]!r} is not known. Use {', '.join(known)}."
            raise ToolError("INVALID_INPUT", message, {"path": [field, index], "retryable": False})
    return tuple(name for name in known if name in asked)


def _rows(
    request: Request, name: str, answers: Mapping[str, Got[T] | ToolError], show: Callable[[Got[T]], Any]
) -> dict[str, Any]:
    """The rows of the symbols that were found, and the errors of the others; all failed is an error."""
    rows: list[Any] = []
    errors: list[dict[str, Any]] = []
    failure: ToolError | None = None
    for symbol, answer in answers.items():
        if isinstance(answer, ToolError):
            failure = failure or answer
            errors.append({"symbol": symbol, "code": answer.code, "message": answer.message})
        else:
            request.used(answer)
            rows.append(show(answer))
    if failure is not None and not rows:
        details = {**(failure.details or {}), "errors": errors} if len(errors) > 1 else failure.details
        raise ToolError(failure.code, failure.message, details)
    return {name: rows, "errors": errors} if errors else {name: rows}


# --- risk --------------------------------------------------------------------------------------


async def risk(trader: Trader, request: Request) -> dict[str, Any]:
    args = request.args
    as_of = args.get("as_of")
    now_ns = request.now_ns if as_of is None else params.known_moment(as_of, "as_of", request.now_ns)
    window = args.get("window", trader.settings.window)
    if "weights" in args:
        weights, total, basis = _given_weights(args["weights"]), None, "given"
    else:
        account = await trader.ledger(lambda ledger: ledger.portfolio(request.account))
        valued = await _valued(trader, request, account)
        weights, total, basis = valued.risk_weights(), valued.total_cents, "current"
    series = await daily(trader, request, list(weights or {}), window + 1, now_ns)
    found = risk_of.metrics(
        weights,
        series,
        window=window,
        minimum=trader.settings.minimum_returns,
        risk_free=trader.settings.risk_free,
        total_value_cents=total,
        weighting=basis,
    )
    return {"risk_metrics": shown_risk(found), "weights": weights or {}}


async def _valued(trader: Trader, request: Request, account: Portfolio) -> limits.Valued:
    quotes = await priced(trader, request, list(account.positions))
    return limits.value(account, {symbol: micros(got.value.price) for symbol, got in quotes.items()})


async def daily(
    trader: Trader, request: Request, symbols: Sequence[str], count: int, now_ns: int
) -> dict[str, Series]:
    """The series of symbols; without one of them the risk is unknown. A bad file is refused."""
    if not symbols:
        return {}
    found: dict[str, Series] = {}
    for symbol, answer in (await trader.gate.daily(symbols, count, now_ns, request.by)).items():
        if not isinstance(answer, ToolError):
            request.used(answer, "risk_from")
            found[symbol] = answer.value
        elif answer.code != "DATA_UNAVAILABLE" or BAD_FILE in (answer.details or {}):
            raise answer
    return found


def shown_risk(found: risk_of.Metrics) -> dict[str, Any]:
    body: dict[str, Any] = {
        "var_95_1d": found.var_95_1d,
        "var_95_1d_amount": found.var_95_1d_amount,
        "max_drawdown": found.max_drawdown,
        "sharpe_ratio": found.sharpe_ratio,
        "basis": found.basis,
    }
    return {**body, "reasons": found.reasons} if found.reasons else body


def _given_weights(value: Mapping[str, Any]) -> dict[str, float]:
    return {params.symbol(name, ["weights", name]): _weight(name, weight) for name, weight in value.items()}


def _weight(name: str, weight: Any) -> float:
    """A weight with all its digits, so that those of an answer can be given back."""
    if not -MOST_WEIGHT <= weight <= MOST_WEIGHT:
        message = f"weights.{name[:40]} must be from -{MOST_WEIGHT} to {MOST_WEIGHT}; 1 is the total value."
        raise ToolError("INVALID_INPUT", message, {"path": ["weights", name], "retryable": False})
    return float(weight)
