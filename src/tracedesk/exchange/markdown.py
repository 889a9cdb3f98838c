"""Markdown that says what the data says: text of others escaped, numbers with fixed places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from tracedesk.foreign import quoted
from tracedesk.primitives import money
from tracedesk.primitives.text import escape_markdown, sanitize_terminal, strip_invisible


class Number(str):
    """Digits or words of our own making, ready for a page."""

    __slots__ = ()


def number(value: Decimal | int | str, places: int | None = None) -> Number:
    """A number with exactly `places` places, rounded half-even, or with the digits it came with."""
    exact = money.parse(value) if isinstance(value, str) else Decimal(value)
    return Number(money.to_text(exact if places is None else money.quantise(exact, places)))


def ratio(value: float, places: int = 4) -> Number:
    """A derived statistic, which is binary64, with fixed places."""
    return Number(f"{value:.{places}f}")


def own(text: str) -> Number:
    """Words of our own in one line, in which strangers' text is quoted already."""
    return Number(escape_markdown(_in_one_line(text)))


def plain(text: str) -> str:
    """Text of others in one line, quoted: no controls, nothing invisible, no markup."""
    return escape_markdown(quoted(_in_one_line(text)))


def _in_one_line(text: str) -> str:
    return " ".join(sanitize_terminal(strip_invisible(text)).split())


def cell(value: object) -> str:
    if value is None:
        return "—"
    return str(value) if isinstance(value, (Number, int)) else plain(str(value))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[int] = ()) -> str:
    """A pipe table; the columns in `right` are numbers."""
    to_right = set(right)
    rule = ["---:" if i in to_right else "---" for i in range(len(heads))]
    lines = [heads, rule, *([cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(*parts: str) -> str:
    """Blocks with an empty line between them, and one line end."""
    return "\n\n".join(part for part in parts if part) + "\n"
