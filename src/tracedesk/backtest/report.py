"""A run as one page: equity, drawdown, trades on price, rejections by reason, event counts.

The page holds everything it shows, asks for nothing from anywhere, and is the same for the same run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from importlib import resources
from typing import Final

from tracedesk.backtest import charts
from tracedesk.backtest.charts import COLUMNS, Marks, Series
from tracedesk.backtest.performance import DailyReturns, Performance, performance_of
from tracedesk.backtest.positions import Positions
from tracedesk.backtest.query import Recording
from tracedesk.backtest.story import (
    EXACT,
    Counts,
    Rejected,
    Story,
    counts_of,
    deepest,
    drawdown,
    events_of,
    tell,
)
from tracedesk.journal import Event
from tracedesk.primitives import money
from tracedesk.primitives.text import strip_invisible
from tracedesk.primitives.time import format

_TEMPLATE: Final = "report_template.html"
_PRICE_CHARTS: Final = 8
_REASONS: Final = 25
_PLACES: Final = 2
_LONGEST: Final = 300
_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")
_SEVERITIES: Final = ("Error", "Warning", "Info", "Debug")

_STEP: Final = 20_000

Progress = Callable[[float, float | None, str | None], None]

_KEY: Final = (
    '<p class="key"><span class="buy">▲</span> buy &nbsp; <span class="sell">▼</span> sell &nbsp; '
    '<span class="rejected">✕</span> rejected; point at a mark to read it.</p>'
)


@dataclass(frozen=True, slots=True)
class Heading:
    """Which run it is, and how it stands."""

    id: str
    name: str
    engine: str
    status: str
    head: str
    """The chain's hash at the last event, which binds everything the page was made from."""


def page_of(recording: Recording, name: str, *, progress: Progress | None = None) -> bytes:
    """The page of a run as it is now."""
    start, end = recording.times or (0, 0)
    events = _watched(events_of(recording), recording.head, progress)
    story = tell(events, start, end, Positions.of(recording))
    engine = str(recording.meta.get("engine") or "")
    heading = Heading(recording.run, name, engine, recording.status, recording.chain_head.hex())
    return page(heading, story, counts_of(recording), performance_of(recording))


def _watched(events: Iterator[Event], total: int, progress: Progress | None) -> Iterator[Event]:
    for done, event in enumerate(events):
        if progress and done % _STEP == 0:
            progress(done, total, None)
        yield event


def page(heading: Heading, story: Story, counts: Counts, performance: Performance) -> bytes:
    """The whole page; every value in it is escaped."""
    parts = {
        "name": _shown(heading.name),
        "lead": _lead(heading, story),
        "figures": "".join(_figures(story, counts, performance)),
        "sections": "".join((_equity(story), _prices(story), _rejections(heading, story), _counts(counts))),
        "notes": _notes(heading, story),
    }
    template = (resources.files("tracedesk.backtest") / _TEMPLATE).read_text(encoding="utf-8")
    # One pass, so that braces in a run's own words are never filled in.
    return _PLACE.sub(lambda place: parts[place[1]], template).encode()


# --- the head ---------------------------------------------------------------------------------


def _lead(heading: Heading, story: Story) -> str:
    badge = f'<span class="badge {escape(heading.status)}">{escape(heading.status)}</span>'
    span = f"{format(story.start)} to {format(story.end)}" if story.events else "no events"
    engine = f" · {_shown(heading.engine)}" if heading.engine else ""
    return f"{badge}{engine} · {span}<br><code>{_shown(heading.id)}</code>"


def _figures(story: Story, counts: Counts, performance: Performance) -> list[str]:
    rejected = sum(group.count for group in story.rejections.values())
    sides = ", ".join(f"{count:,} {side}" for side, count in sorted(story.sides.items()))
    found = [*_value_figures(story), *_sharpe(performance.returns)]
    found.append(_figure("executions", f"{sum(story.sides.values()):,}", note=sides))
    trades = performance.trades
    if trades.count:
        found.append(_figure("trades closed at a profit", f"{trades.wins:,} of {trades.count:,}"))
    if story.commission is not None:
        found.append(_figure("commission", _amount(story.commission), exact=story.commission))
    found.append(_figure("rejected orders", f"{rejected:,}", "loss" if rejected else ""))
    found.append(_figure("invalid events", f"{counts.invalid:,}"))
    return found


def _value_figures(story: Story) -> list[str]:
    first, last = story.first_value, story.last_value
    if first is None or last is None:
        return []
    if story.basis != "equity":
        profit = _figure("profit and loss", _signed(last), _mood(last), exact=last)
        return [profit, _deepest(story)]
    change = EXACT.subtract(last, first)
    found = [
        _figure("final equity", _amount(last), note=f"from {_amount(first)}", exact=last),
        _figure("change", _signed(change), _mood(change), exact=change),
    ]
    if first > 0:
        found.append(_figure("return", f"{_percent(change, first):+f}%", _mood(change)))
    return [*found, _deepest(story)]


def _sharpe(returns: DailyReturns) -> list[str]:
    """The ratio with its number of returns; a run without an equity has none."""
    if not returns.count:
        return []
    if returns.sharpe is None:
        return [_figure("Sharpe ratio", "not given", note=str(returns.caveat))]
    note = f"{returns.count:,} daily returns, {returns.periods} a year"
    return [_figure("Sharpe ratio", f"{returns.sharpe:.2f}", note=note)]


def _deepest(story: Story) -> str:
    relative = _is_relative(story)
    amount, peak = deepest(story.curve, relative=relative)
    if relative:
        return _figure("largest drawdown", f"{_percent(amount, peak):f}%")
    rounded = money.quantise(amount, _PLACES).copy_sign(amount)
    return _figure("largest drawdown", f"{rounded:,f}", exact=amount)


def _percent(part: Decimal, whole: Decimal) -> Decimal:
    """Of a positive whole: exact, then rounded half-even to two places, with the sign of the part."""
    top, bottom = part.as_integer_ratio()
    over, under = whole.as_integer_ratio()
    units = money.divide(top * under * 10 ** (2 + _PLACES), bottom * over)
    return money.from_units(units, _PLACES).copy_sign(part)


def _figure(name: str, value: str, mood: str = "", note: str = "", exact: Decimal | None = None) -> str:
    style = f' class="{mood}"' if mood else ""
    title = "" if exact is None else f' title="{exact:f}"'
    small = f"<small>{escape(note)}</small>" if note else ""
    return f"<div><dt>{escape(name)}</dt><dd{style}{title}>{escape(value)}{small}</dd></div>"


def _amount(value: Decimal) -> str:
    """Money as people read it; a figure's title has all its digits."""
    is_long = abs(value) >= 1 and money.scale_of(value) > _PLACES
    return f"{money.quantise(value, _PLACES) if is_long else value:,f}"


def _signed(value: Decimal) -> str:
    return f"+{_amount(value)}" if value > 0 else _amount(value)


def _mood(value: Decimal) -> str:
    return "gain" if value > 0 else "loss" if value < 0 else ""


# --- charts -----------------------------------------------------------------------------------


def _is_relative(story: Story) -> bool:
    """A fall in percent needs a value that was always positive; otherwise it is told in money."""
    return story.basis == "equity" and min(story.curve.values, default=0) > 0


def _equity(story: Story) -> str:
    curve = story.curve.drawn()
    if not len(curve):
        return _section("Equity", "<p>The run recorded neither its equity nor its profit and loss.</p>")
    title = {"equity": "Equity", "profit and loss": "Profit and loss", "positions": "Profit of positions"}
    window = charts.frame(story.start, story.end, curve.values, 260)
    label = title[story.basis]
    body = charts.svg(window, label, charts.line(curve, window, "equity"))
    return _section(label, _reduction(curve) + _wide(body)) + _fall(story)


def _fall(story: Story) -> str:
    relative = _is_relative(story)
    fall = drawdown(story.curve, relative=relative)
    window = charts.frame(story.start, story.end, fall.values, 170, zero=True)
    ink = charts.area(fall, window, "fall-area") + charts.line(fall, window, "fall")
    words = "Below the highest value so far" + (", in percent of it." if relative else ".")
    return _section(
        "Drawdown", f"<p>{words}</p>" + _wide(charts.svg(window, "Drawdown", ink, percent=relative))
    )


def _prices(story: Story) -> str:
    names = sorted(set(story.prices) | set(story.trades), key=lambda name: (-_traded(story, name), name))
    if not names:
        return ""
    shown = names[:_PRICE_CHARTS]
    body = "".join(_price(story, name) for name in shown)
    left = len(names) - len(shown)
    rest = f"<p>{left:,} more symbols, with fewer executions, are not drawn.</p>" if left else ""
    return _section("Trades on price", _KEY + body + rest)


def _traded(story: Story, name: str) -> int:
    return story.trades[name].count if name in story.trades else 0


def _price(story: Story, name: str) -> str:
    series = story.prices.get(name, Series()).sorted()
    found = story.trades.get(name, Marks(story.start, story.end))
    values = [*series.values, *(mark.value for mark in found)]
    window = charts.frame(story.start, story.end, values, 240)
    ink = charts.line(series, window, "price") + charts.marks(found, window)
    said = _told(found)
    head = f'<h3>{_shown(name)} <span class="key">{said}</span></h3>{_reduction(series)}'
    return head + _wide(charts.svg(window, f"Price of {name[:_LONGEST]} with executions", ink))


def _told(found: Marks) -> str:
    """How many executions and rejections the marks stand for."""
    rejected = sum(mark.count for mark in found if mark.side == "rejected")
    parts = [f"executions: {found.count - rejected:,}"]
    parts += [f"rejections: {rejected:,}"] if rejected else []
    parts += [f"in {len(found):,} marks"] if len(found) < found.count else []
    return ", ".join(parts)


def _reduction(series: Series) -> str:
    if len(series) <= 2 * COLUMNS:
        return ""
    each = -(-len(series) // COLUMNS)
    words = (
        f"{len(series):,} values, about {each:,} to a column: its first, lowest, highest and last are drawn."
    )
    return f"<p>{words}</p>"


# --- tables -----------------------------------------------------------------------------------


def _rejections(heading: Heading, story: Story) -> str:
    groups = sorted(story.rejections.items(), key=lambda item: (-item[1].count, item[1].first_seq))
    if not groups:
        return _section("Rejections by reason", "<p>No order was rejected.</p>")
    total = sum(group.count for _, group in groups)
    rows = [_reason(heading, code, group, groups[0][1].count) for code, group in groups[:_REASONS]]
    heads = ("Reason", "#Orders", "", "Symbols", "First", "Last", "First event")
    left = groups[_REASONS:]
    more = f"<p>{len(left):,} more reasons, {sum(g.count for _, g in left):,} orders.</p>" if left else ""
    said = f"<p>{total:,} rejected orders, {len(groups):,} {'reasons' if len(groups) > 1 else 'reason'}.</p>"
    return _section("Rejections by reason", said + _table(heads, rows) + more)


def _reason(heading: Heading, code: str, group: Rejected, most: int) -> str:
    symbols = sorted(group.symbols)
    named = ", ".join(symbols[:5]) + (f" and {len(symbols) - 5} more" if len(symbols) > 5 else "")
    bar = f'<span style="width:{max(1, 100 * group.count // most)}%"></span>'
    reference = f"tracedesk://backtest/{heading.id}/{group.first_seq}"
    title = "" if group.reason == code else f' title="{_shown(group.reason)}"'
    return (
        f'<td class="w"{title}>{_shown(code)}</td><td class="n">{group.count:,}</td>'
        f'<td class="share">{bar}</td><td>{_shown(named)}</td>'
        f'<td class="t">{_moment(group.first_ns)}</td><td class="t">{_moment(group.last_ns)}</td>'
        f'<td class="n" title="{escape(reference, quote=True)}">{group.first_seq}</td>'
    )


def _moment(ns: int) -> str:
    text = format(ns)
    return text[:10] if text.endswith("T00:00:00Z") else f"{text[:10]} {text[11:19]}"


def _counts(counts: Counts) -> str:
    used = [name for name in _SEVERITIES if any(row.get(name) for row in counts.by_type.values())]
    rows: list[str] = []
    for name, row in sorted(counts.by_type.items(), key=lambda item: -sum(item[1].values())):
        cells = "".join(f'<td class="n">{row.get(severity, 0):,}</td>' for severity in used)
        rows.append(f'<td>{_shown(name)}</td><td class="n">{sum(row.values()):,}</td>{cells}')
    return _section("Events", _table(("Type", "#Events", *(f"#{name}" for name in used)), rows))


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    """Rows under their heads; a head with # is over numbers."""
    top = "".join(
        f'<th class="n">{escape(head[1:])}</th>' if head[:1] == "#" else f"<th>{escape(head)}</th>"
        for head in heads
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _wide(body: str) -> str:
    """What keeps its width, and scrolls where the page is narrower."""
    return f'<div class="wide">{body}</div>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _notes(heading: Heading, story: Story) -> str:
    return (
        f"Made from {story.events:,} events; the chain's head is <code>{escape(heading.head)}</code>. "
        "Sums of money are exact; point at one for all its digits. "
        "Percentages are exact before they are rounded, half to even; only the places of ink are binary64. "
        "Times are simulated, in UTC."
    )


def _shown(text: str) -> str:
    """A run's own words: what cannot be seen is gone, what is too long is cut, the rest is escaped."""
    plain = strip_invisible(text)
    return escape(plain if len(plain) <= _LONGEST else plain[:_LONGEST] + "…", quote=True)
