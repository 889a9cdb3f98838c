"""The outline of Solidity: routines and decisions found by keywords, parentheses and braces."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from tracedesk.fuzz.outline import Decision, Kind, Outline, Range, Routine

# What is not closed is hidden too, and nothing is read twice: else a hostile source takes hours.
_HIDDEN: Final = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n])*+'?", re.DOTALL
)
_CONTRACT: Final = re.compile(r"\b(?:contract|library|interface)\s+([A-Za-z_$][\w$]*+)[^{};]*+(\{)?")
_ROUTINE: Final = re.compile(
    r"\b(?:(function|modifier)\b(?:\s+([A-Za-z_$][\w$]*))?|(constructor|receive|fallback)(?=\s*\())"
)
_DECISION: Final = re.compile(r"\b(?:(if|for|while|do)\b|(require|assert)(?=\s*\())")
_WORD: Final = re.compile(r"[A-Za-z_$][\w$]*")
_CLOSERS: Final = {"(": ")", "{": "}", "[": "]"}
_LONGEST: Final = 4_000
"""Characters of a conditional expression."""
_LOOKS: Final = 8
"""Times that each character may be looked at, on average: statements in statements share theirs."""


def hidden(text: str) -> str:
    """The text with blanks for comments and strings, every other character in its place."""
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def has_contract(plain: str) -> bool:
    """True when a text without comments declares a contract."""
    return any(True for _ in _contracts(plain))


def _contracts(plain: str) -> Iterator[re.Match[str]]:
    return (match for match in _CONTRACT.finditer(plain) if match[2])


def outline(text: str) -> Outline:
    """The outline of one Solidity source; empty when it takes more work than any that people write."""
    scan = _Scan(hidden(text))
    try:
        routines = tuple(scan.routines())
        decisions = tuple(d for routine in routines for d in scan.decisions(routine.body))
    except (_TooMuch, RecursionError):
        return Outline((), ())
    return Outline(routines, decisions)


def ternary(text: str, start: int, end: int) -> Decision | None:
    """The conditional expression that fills a range, when it is one: `a ? b : c`, assigned to nothing."""
    if end - start > _LONGEST or "?" not in text[start:end]:
        return None
    plain = hidden(text[start:end])
    if re.match(r"\s*(?:return|emit|revert|delete|if|for|while|do)\b", plain):
        return None
    marks = list(_outer(plain))
    asked = next((place for place, mark in marks if mark == "?"), None)
    if asked is None or any(mark == "=" for _, mark in marks):
        return None
    depth = 0
    for place, mark in marks:
        depth += (mark == "?") - (mark == ":")
        if mark == ":" and depth == 0:
            middle = start + place
            return Decision(
                "ternary", start, end, None, Range(start + asked + 1, middle), Range(middle + 1, end)
            )
    return None


def _outer(plain: str) -> Iterator[tuple[int, str]]:
    """The marks `?`, `:` and `=` (of an assignment) outside all brackets."""
    depth = 0
    for place, mark in enumerate(plain):
        if mark in "({[":
            depth += 1
        elif mark in ")}]":
            depth -= 1
        elif depth == 0 and (mark in "?:" or (mark == "=" and _assigns(plain, place))):
            yield place, mark


def _assigns(plain: str, place: int) -> bool:
    before, after = plain[place - 1 : place], plain[place + 1 : place + 2]
    if before in ("<", ">"):
        return plain[place - 2 : place] in ("<<", ">>")
    return before not in ("=", "!") and after not in ("=", ">")


class _TooMuch(Exception):
    """A source that takes more work than any that people write."""


class _Scan:
    """One source without comments and strings, and where each bracket closes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._close = dict(_pairs(text))
        self._looks = _LOOKS * (len(text) + 50_000)

    def _looked(self, count: int) -> None:
        """Characters were looked at; raises when they are too many."""
        self._looks -= count
        if self._looks < 0:
            raise _TooMuch

    def routines(self) -> Iterator[Routine]:
        found = ((m.end(), self._closing(m.end() - 1), m[1]) for m in _contracts(self._text))
        contracts = [(0, 0, ""), *found]
        past = 0
        for match in _ROUTINE.finditer(self._text):
            if match.start() < past:
                continue
            opening = self._opening(match.end())
            if opening is None:
                continue
            past = self._closing(opening)
            # Contracts do not nest: the last one that began before is the only one that may hold it.
            start, end, contract = contracts[bisect(contracts, match.start(), key=itemgetter(0)) - 1]
            name = match[2] or match[3] or "fallback"
            body = Range(opening + 1, past)
            owner = contract if start <= match.start() < end else ""
            yield Routine(owner, name, match.start(), body, match[1] == "modifier")

    def decisions(self, body: Range) -> Iterator[Decision]:
        tails: set[int] = set()
        for match in _DECISION.finditer(self._text, body.start, body.end):
            if match.start() in tails:
                continue
            found = self._decision(match, tails)
            if found is not None:
                yield found

    def _decision(self, match: re.Match[str], tails: set[int]) -> Decision | None:
        after = self._skip(match.end())
        word = match[1] or match[2]
        if match[2]:
            kind: Kind = "assert" if word == "assert" else "require"
            return Decision(kind, match.start(), self._closing(after) + 1)
        if word == "do":
            return self._do(match.start(), after, tails)
        if self._text[after : after + 1] != "(":
            return self._yul(word, match.start(), after)
        return self._if(match.start(), after) if word == "if" else self._loop(word, match.start(), after)

    def _if(self, start: int, opening: int) -> Decision:
        chosen = self._statement(self._closing(opening) + 1)
        other = self._else(chosen.end)
        return Decision("if", start, (other or chosen).end, None, chosen, other)

    def _loop(self, word: str, start: int, opening: int) -> Decision:
        closing = self._closing(opening)
        inner = Range(opening + 1, closing)
        condition = inner if word == "while" else self._middle(inner)
        body = self._statement(closing + 1)
        # The step of a `for` runs when the condition held, but before it is asked; only the body tells.
        return Decision(
            "while" if word == "while" else "for", start, body.end, self._trimmed(condition), body, None
        )

    def _do(self, start: int, after: int, tails: set[int]) -> Decision | None:
        body = self._statement(after)
        tail = self._skip(body.end)
        opening = self._skip(tail + len("while"))
        if not self._text.startswith("while", tail) or self._text[opening : opening + 1] != "(":
            return None
        tails.add(tail)
        condition = self._trimmed(Range(opening + 1, self._closing(opening)))
        return Decision("do", start, self._closing(opening) + 1, condition, body, None)

    def _yul(self, word: str, start: int, after: int) -> Decision | None:
        """`if` and `for` of inline assembly, which have blocks but no parentheses."""
        openings = self._blocks(after, 3 if word == "for" else 1)
        if word not in ("if", "for") or not openings:
            return None
        body = Range(openings[-1], self._closing(openings[-1]) + 1)
        return Decision("if" if word == "if" else "for", start, body.end, None, body, None)

    def _blocks(self, place: int, count: int) -> list[int]:
        found: list[int] = []
        start = place
        while len(found) < count and place < len(self._text) and self._text[place] not in ";}":
            if self._text[place] == "{":
                found.append(place)
            place = self._closing(place) + 1 if self._text[place] in _CLOSERS else place + 1
        self._looked(place - start)
        return found if len(found) == count else []

    def _else(self, place: int) -> Range | None:
        after = self._skip(place)
        is_else = _WORD.match(self._text, after)
        return self._statement(is_else.end()) if is_else and is_else[0] == "else" else None

    def _statement(self, place: int) -> Range:
        """The statement that begins here, to its last byte."""
        start = self._skip(place)
        word = _WORD.match(self._text, start)
        if word and word[0] in ("if", "for", "while"):
            body = self._statement(self._closing(self._skip(word.end())) + 1)
            other = self._else(body.end) if word[0] == "if" else None
            return Range(start, (other or body).end)
        if self._text[start : start + 1] == "{":
            return Range(start, self._closing(start) + 1)
        return Range(start, self._end(start, word))

    def _end(self, start: int, word: re.Match[str] | None) -> int:
        """Past the semicolon of a simple statement, or past the last block of one made of blocks."""
        of_blocks = word is not None and word[0] in ("unchecked", "assembly", "try", "do")
        place = start
        while place < len(self._text) and self._text[place] not in ";}":
            if self._text[place] in _CLOSERS:
                is_block = self._text[place] == "{"
                place = self._closing(place)
                if of_blocks and is_block and not self._continues(place + 1):
                    break
            place += 1
        self._looked(place - start)
        return place + 1

    def _continues(self, place: int) -> bool:
        word = _WORD.match(self._text, self._skip(place))
        return word is not None and word[0] in ("catch", "while")

    def _middle(self, inner: Range) -> Range:
        """What stands between the two semicolons of a `for`."""
        places: list[int] = []
        place = inner.start
        while place < inner.end:
            if self._text[place] == ";":
                places.append(place)
            place = self._closing(place) + 1 if self._text[place] in _CLOSERS else place + 1
        self._looked(place - inner.start)
        return Range(places[0] + 1, places[1]) if len(places) == 2 else inner

    def _trimmed(self, inner: Range) -> Range | None:
        text = self._text[inner.start : inner.end]
        start = inner.start + len(text) - len(text.lstrip())
        return Range(start, start + len(text.strip())) if text.strip() else None

    def _opening(self, place: int) -> int | None:
        """The brace that opens a routine's body; none when it is only declared."""
        start = place
        while place < len(self._text) and self._text[place] not in "{;}=":
            place = self._closing(place) + 1 if self._text[place] == "(" else place + 1
        self._looked(place - start)
        return place if self._text[place : place + 1] == "{" else None

    def _skip(self, place: int) -> int:
        start = place
        while place < len(self._text) and self._text[place].isspace():
            place += 1
        self._looked(place - start)
        return place

    def _closing(self, opening: int) -> int:
        return self._close.get(opening, len(self._text))


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    waiting: list[int] = []
    for match in re.finditer(r"[(){}\[\]]", text):
        if match[0] in _CLOSERS:
            waiting.append(match.start())
        elif waiting and _CLOSERS[text[waiting[-1]]] == match[0]:
            yield waiting.pop(), match.start()
