"""The little Markdown that the generated pages need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracedesk.primitives.text import escape_markdown


def rows(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown already."""
    lines = [heads, ["---"] * len(heads), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    """A span of code, safe inside a table."""
    escaped = text.replace("|", "\\|")
    return f"``{escaped}``" if "`" in text else f"`{escaped}`"


def prose(text: str) -> str:
    """Foreign text on one line, with no markup of its own."""
    return escape_markdown(" ".join(text.split()))
