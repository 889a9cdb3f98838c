"""The outline of Vyper: routines and decisions found by keywords and indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tracedesk.fuzz.outline import Decision, Outline, Range, Routine

# What is not closed is hidden too, and nothing is read twice: else a hostile source takes hours.
_HIDDEN: Final = re.compile(
    r"#[^\n]*|\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n])*+'?",
    re.DOTALL,
)
_DEF: Final = re.compile(r"def\s+([A-Za-z_]\w*)\s*\(")
_KEYWORD: Final = re.compile(r"(if|elif|else|for|assert)\b")


def hidden(text: str) -> str:
    """The text with blanks for comments and strings, every other character in its place."""
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


@dataclass(frozen=True, slots=True)
class _Line:
    """A logical line: brackets hold it together over line ends."""

    start: int
    end: int
    indent: int
    text: str

    @property
    def colon(self) -> int:
        """Past the colon that ends a header: the last one outside brackets."""
        depth, found = 0, self.end
        for place, mark in enumerate(self.text):
            depth += (mark in "([{") - (mark in ")]}")
            if mark == ":" and depth == 0:
                found = self.start + place + 1
        return found


def outline(text: str) -> Outline:
    """The outline of one Vyper source."""
    lines = tuple(_lines(hidden(text)))
    routines = tuple(_routines(lines))
    return Outline(routines, tuple(_decisions(lines)))


def ternary(text: str, start: int, end: int) -> Decision | None:
    """The conditional expression that fills a range, when it is one: `a if c else b`."""
    plain = hidden(text[start:end])
    if _KEYWORD.match(plain):
        return None
    words = list(_outer(plain))
    asked = next((place for place, word in words if word == "if"), None)
    other = next((place for place, word in words if word == "else"), None)
    if asked is None or other is None:
        return None
    chosen, otherwise = Range(start, start + asked), Range(start + other + len("else"), end)
    return Decision("ternary", start, end, None, chosen, otherwise)


def _outer(plain: str) -> Iterator[tuple[int, str]]:
    depth = 0
    for match in re.finditer(r"[()\[\]{}]|\b(?:if|else)\b", plain):
        if match[0] in ("if", "else"):
            if depth == 0:
                yield match.start(), match[0]
        else:
            depth += 1 if match[0] in "([{" else -1


def _lines(plain: str) -> Iterator[_Line]:
    start = depth = 0
    for place, mark in enumerate(f"{plain}\n"):
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "\n" and depth <= 0:
            text = plain[start:place]
            blank = len(text) - len(text.lstrip())
            if text.strip():
                yield _Line(start + blank, start + len(text.rstrip()), blank, text.strip())
            start = place + 1


def _block(lines: Sequence[_Line], number: int) -> tuple[Range, int]:
    """What a header holds, also on its own line, and the number of the line after it."""
    header = lines[number]
    past = number + 1
    while past < len(lines) and lines[past].indent > header.indent:
        past += 1
    return Range(min(header.colon, header.end), lines[past - 1].end), past


def _routines(lines: Sequence[_Line]) -> Iterator[Routine]:
    for number, line in enumerate(lines):
        match = _DEF.match(line.text)
        if match and line.indent == 0:
            body, past = _block(lines, number)
            # The header's own colon may follow a return type; the body begins on the next line.
            inner = Range(lines[number + 1].start, body.end) if past > number + 1 else body
            yield Routine("", match[1], line.start, inner)


def _decisions(lines: Sequence[_Line]) -> Iterator[Decision]:
    for number, line in enumerate(lines):
        match = _KEYWORD.match(line.text)
        if match is None or match[1] == "else":
            continue
        if match[1] == "assert":
            yield Decision("assert", line.start, line.end)
            continue
        body, past = _block(lines, number)
        if match[1] == "for":
            yield Decision("for", line.start, body.end, None, body)
            continue
        other = _other(lines, past, line.indent)
        yield Decision("if", line.start, (other or body).end, None, body, other)


def _other(lines: Sequence[_Line], number: int, indent: int) -> Range | None:
    """The `elif` or `else` part of the same `if`, to the end of the chain."""
    start = past = number
    while (
        past < len(lines) and lines[past].indent == indent and re.match(r"(?:elif|else)\b", lines[past].text)
    ):
        past = _block(lines, past)[1]
    return Range(lines[start].start, lines[past - 1].end) if past > start else None
