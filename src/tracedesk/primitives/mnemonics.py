"""Wallet phrases of BIP-39 in texts: 12 to 24 words of its English list that carry a valid checksum."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Final

Span = tuple[int, int]

LENGTHS: Final = (24, 21, 18, 15, 12)
_FEWEST: Final = 12
SHORTEST_PHRASE: Final = 12 * 3 + 11
"""Characters of twelve words of three letters with a character between each two."""

_LONGEST_RUN: Final = 36
"""Words in a row among which a phrase is looked for at every place.

A longer row is a list of words, of which one window in sixteen has a valid checksum by chance.
"""

_SHORT: Final = 3
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz"
_BETWEEN: Final = b" \t\r\n,\"'\\-_|/;+*"
_BLANKS: Final = dict.fromkeys(map(ord, "\u00a0\u3000\u200b"), " ")
"""Blanks of more than a byte."""
_PIECES: Final = bytes(
    byte if byte in _LETTERS else 32 if byte in _BETWEEN else 46  # a full stop ends a row of words
    for byte in range(256)
)
_WORD: Final = re.compile(r"(?:(?<=\\)[nrt])?([A-Za-z]+)")
_GAP: Final = re.compile(r"(?:[\s\u200b,\"'\\_|/;+*-]|%20|(?<=\\)[nrt]){1,12}")
_PLACE: Final = r"[0-9]{1,2}(?:[.):]\s{0,4}|[ \t]{1,4})"
_NUMBERED: Final = re.compile(
    rf"(?<![0-9A-Za-z.]){_PLACE}[a-z]{{3,8}}(?:(?:[\s,;|]|\\n){{1,8}}{_PLACE}[a-z]{{3,8}}){{11,23}}",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(rf"({_PLACE})([A-Za-z]{{3,8}})")
_MEMBER: Final = r"\"[a-z0-9_ .-]{1,16}\":[ ]?\"[a-z]{3,8}\""
_MEMBERS: Final = re.compile(rf"{_MEMBER}(?:,[ ]?{_MEMBER}){{11}}")
"""Twelve members of a JSON object, each with a word."""


def phrase_shapes() -> tuple[str, ...]:
    """Return what phrases look like in small letters, as expressions that any engine understands.

    Prose looks like it seldom, for most of its short words are not in the list. Longer words are not
    compared here: an expression of all of them takes more memory than it saves time. They are several, for
    one of all of them is too large for an engine's fast search.
    """
    short = "|".join(sorted(word.decode() for word in _words() if len(word) == _SHORT))
    word = rf"(?:{short}|[a-z]{{{_SHORT + 1},8}})"
    row = rf"(?:{word}(?:[ \t\r\n,\"'_|/;+*-]|\\[nrt]?){{1,12}}){{11}}{word}"
    place = r"[0-9]{1,2}(?:[.):][ \t]{0,4}|[ \t]{1,4})"
    numbered = rf"(?:{place}[a-z]{{3,8}}(?:[ \t\r\n,;|]|\\n){{1,8}}){{11}}{place}"
    return row, numbered, rf"{_MEMBER}(?:,[ ]?{_MEMBER}){{11}}"


def with_plain_blanks(text: str) -> str:
    """Return the text with a blank in place of each that is wider or encoded, to look for phrases in."""
    if "%20" in text:
        text = text.replace("%20", " ")
    return text if text.isascii() else text.translate(_BLANKS)


def may_hold_phrase(folded: bytes) -> bool:
    """Return whether twelve words of the list stand in a row in this text of small letters."""
    if len(folded) < SHORTEST_PHRASE:
        return False
    if b"\\" in folded:
        folded = folded.replace(b"\\n", b"  ").replace(b"\\r", b"  ").replace(b"\\t", b"  ")
    for piece in folded.translate(_PIECES).split(b"."):
        if len(piece) >= SHORTEST_PHRASE and _has_row(piece.split()):
            return True
    text = folded.decode(errors="replace")
    return (b"12" in folded and _NUMBERED.search(text) is not None) or _MEMBERS.search(text) is not None


def phrases(text: str) -> list[Span]:
    """Return where the phrases of a text stand, in order."""
    found = [span for row in _rows(text) for span in _in_row(row)]
    if "12" in text:
        found += [match.span() for match in _NUMBERED.finditer(text) if _is_numbered_phrase(match[0])]
    return sorted(found)


def is_phrase(words: Sequence[str]) -> bool:
    """Return whether these words are a phrase: all of the list, with the checksum that BIP-39 gives them."""
    if len(words) not in LENGTHS:
        return False
    known = _words()
    numbers = [known.get(word.lower().encode(errors="replace")) for word in words]
    return None not in numbers and _is_valid([number for number in numbers if number is not None])


@cache
def _words() -> Mapping[bytes, int]:
    from pathlib import Path

    listed = (Path(__file__).parent / "data" / "bip39_english.txt").read_bytes().split()
    return {word: number for number, word in enumerate(listed)}


def _has_row(words: list[bytes]) -> bool:
    """Return whether twelve of the list are in a row: one of those stands at every twelfth place."""
    known = _words()
    for place in range(_FEWEST - 1, len(words), _FEWEST):
        if words[place] not in known:
            continue
        first = last = place
        while first and words[first - 1] in known and place - first < _FEWEST:
            first -= 1
        while last + 1 < len(words) and words[last + 1] in known and last - first < _FEWEST:
            last += 1
        if last - first + 1 >= _FEWEST:
            return True
    return False


class _Row:
    """Words of the list in a row, with where each stands and what separates it from the one before."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.spans: list[Span] = []
        self.gaps: list[str] = []

    def add(self, number: int, span: Span, gap: str) -> None:
        self.numbers.append(number)
        self.spans.append(span)
        self.gaps.append(gap)


def _rows(text: str) -> Iterator[_Row]:
    """Yield every row of at least twelve words."""
    known, row, end = _words(), _Row(), -1
    for match in _WORD.finditer(text):
        if match[0] in ("n", "r", "t") and text[match.start() - 1 : match.start()] == "\\":
            continue  # an escaped line break
        number = known.get(match[1].lower().encode())
        begin = match.start(1)
        gap = text[end:begin] if end >= 0 else ""
        if number is None or not _GAP.fullmatch(gap):
            if len(row.numbers) >= _FEWEST:
                yield row
            row = _Row()
        if number is not None:
            row.add(number, match.span(1), gap)
        end = match.end()
    if len(row.numbers) >= _FEWEST:
        yield row


def _in_row(row: _Row) -> list[Span]:
    """Return the phrases of a row: of the whole of it, else of its lines or of its quoted parts."""
    whole = _in_words(row, range(len(row.numbers)))
    if whole:
        return whole
    found: list[Span] = []
    for _, part in groupby(range(len(row.numbers)), key=_parts(row).__getitem__):
        found += _in_words(row, list(part))
    return found


def _parts(row: _Row) -> list[int]:
    """Number each word's part: a new one begins after a gap that is more than blanks."""
    parts: list[int] = []
    for gap in row.gaps:
        is_new = bool(parts) and gap.strip(" \t") != ""
        parts.append((parts[-1] if parts else 0) + is_new)
    return parts


def _in_words(row: _Row, places: Sequence[int]) -> list[Span]:
    """Return the phrases among some neighbours of a row."""
    if len(places) in LENGTHS and _is_valid([row.numbers[place] for place in places]):
        return [(row.spans[places[0]][0], row.spans[places[-1]][1])]
    if len(places) > _LONGEST_RUN or any("," in row.gaps[place] for place in places[1:]):
        return []
    found: list[Span] = []
    at = 0
    while at + _FEWEST <= len(places):
        size = next((size for size in LENGTHS if _is_window(row, places, at, size)), 0)
        if size:
            found.append((row.spans[places[at]][0], row.spans[places[at + size - 1]][1]))
        at += size or 1
    return found


def _is_window(row: _Row, places: Sequence[int], at: int, size: int) -> bool:
    return at + size <= len(places) and _is_valid(row.numbers[places[at] : places[at] + size])


def _is_valid(numbers: Sequence[int]) -> bool:
    """Check the checksum: a bit of SHA-256 for every 32 bits of entropy, after those."""
    whole = 0
    for number in numbers:
        whole = whole << 11 | number
    check = len(numbers) // 3
    entropy = (whole >> check).to_bytes(check * 4, "big")
    return hashlib.sha256(entropy).digest()[0] >> (8 - check) == whole & ((1 << check) - 1)


def _is_numbered_phrase(text: str) -> bool:
    """Check words that have numbers: these say their order, also in columns."""
    pairs = sorted((int(re.sub("[^0-9]", "", place)), word) for place, word in _PAIR.findall(text))
    return [number for number, _ in pairs] == list(range(1, len(pairs) + 1)) and is_phrase(
        [word for _, word in pairs]
    )
