"""Words about an attempt, taken from its events and never made up: what is compared, and a summary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, cast

from tracedesk.primitives.text import sanitize_terminal, strip_invisible

EXTRACTIVE: Final = "extractive:1"
CLIENT: Final = "client"
LONGEST_SAID: Final = 2_000
"""Characters of one query or message that count."""

_LONGEST_PART: Final = 3_000
"""Characters of all queries, or of all messages, that are compared."""

LONGEST_SUMMARY: Final = 600
_LONGEST_SENTENCE: Final = 300
_LONGEST_QUERY: Final = 240
_MOST_MESSAGES: Final = 3
_MOST_FAILING: Final = 5
_LONGEST_NAME: Final = 200

_BLANKS: Final = re.compile(r"\s+")
_SENTENCE: Final = re.compile(r"(.+?[.!?…。])(?=\s|$)|(.+)", re.DOTALL)
_FENCE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKS: Final = re.compile(r"^[#>*\s-]+")


@dataclass(frozen=True, slots=True)
class Said:
    """The words of an attempt, in the order of its events."""

    queries: Sequence[str]
    messages: Sequence[str]
    failing: Sequence[str]
    """Failing tools, each once."""
    answer: str | None


def query_key(query: str) -> int:
    """Return a number that is equal for queries that differ in case and blanks alone."""
    return int.from_bytes(sha256(" ".join(query.lower().split()).encode()).digest()[:7], "big")


def clean(text: str, longest: int) -> str:
    """One line without control or invisible characters, cut at a word where it is too long."""
    line = _BLANKS.sub(" ", strip_invisible(sanitize_terminal(text[: 4 * longest + 64]))).strip()
    if len(line) <= longest:
        return line
    cut = line[: longest - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[longest // 2 :] else cut).rstrip() + "…"


def visible(value: Any, longest: int | None = None) -> Any:
    """A document that someone else wrote, its texts as data: visible characters only, and so many of each."""
    if isinstance(value, str):
        plain = strip_invisible(sanitize_terminal(value))
        return plain if longest is None or len(plain) <= longest else plain[: longest - 1] + "…"
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {visible(name, _LONGEST_NAME): visible(item, longest) for name, item in items}
    if isinstance(value, Sequence):
        return [visible(item, longest) for item in cast("Sequence[Any]", value)]
    return value


def first_sentence(text: str) -> str:
    """The first sentence of an answer's prose: its code says less than what was said about it."""
    prose = _FENCE.sub(" ", text[:20_000]).strip() or text.strip()
    paragraph = _MARKS.sub("", prose.partition("\n\n")[0])
    found = _SENTENCE.match(clean(paragraph, LONGEST_SAID))
    return clean(found[0], _LONGEST_SENTENCE) if found else ""


def evidence(said: Said) -> str:
    """What is compared with a question: query, messages, failing tools, first sentence of the answer."""
    queries, messages = _distinct(said)
    parts = ["\n".join(queries)[:_LONGEST_PART], "\n".join(messages)[-_LONGEST_PART:]]
    if said.failing:
        parts.append("failed: " + " ".join(said.failing))
    return "\n".join(part for part in (*parts, said.answer) if part)


def summarise(said: Said) -> str:
    """The same in a few lines for a reader."""
    queries, messages = _distinct(said)
    parts = [clean(query, _LONGEST_QUERY) for query in queries[:1]]
    if messages:
        shown = "; ".join(clean(message, _LONGEST_QUERY) for message in messages[-_MOST_MESSAGES:])
        parts.append(f"Steps: {'… ' if len(messages) > _MOST_MESSAGES else ''}{shown}")
    if said.failing:
        parts.append(f"Failed: {', '.join(said.failing[:_MOST_FAILING])}")
    if said.answer:
        parts.append(f"Answer: {said.answer}")
    return clean(" | ".join(parts), LONGEST_SUMMARY)


def _distinct(said: Said) -> tuple[list[str], list[str]]:
    """Queries and messages, each text once; a message that begins the first query adds nothing to it."""
    queries = dict.fromkeys(said.queries)
    first = next(iter(queries), "")
    messages = [text for text in dict.fromkeys(said.messages) if not first.startswith(text)]
    return list(queries), [text for text in messages if text not in queries]
