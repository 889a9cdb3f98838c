"""Literals of sources: the numbers, addresses and texts that a contract compares with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

# Also what is not closed, so that nothing is read twice: else a hostile source takes hours.
_QUOTED: Final = r'"(?:\\[\s\S]|[^"\\\n])*+"?|' + r"'(?:\\[\s\S]|[^'\\\n])*+'?"
_SOLIDITY: Final = re.compile(
    rf"(?P<comment>//[^\n\r]*|/\*[\s\S]*?(?:\*/|\Z))|(?:(?<![\w$])(?P<kind>hex|unicode))?(?P<text>{_QUOTED})"
)
_VYPER: Final = re.compile(
    r"(?P<comment>\#[^\n]*|\"\"\"[\s\S]*?(?:\"\"\"|\Z)|'''[\s\S]*?(?:'''|\Z))"
    rf"|(?:(?<!\w)(?P<kind>[xb]))?(?P<text>{_QUOTED})"
)
"""Strings and comments in one pass: either may hold what begins the other."""
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))")
_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_ENUM: Final = re.compile(r"\benum\s+[A-Za-z_$][\w$]*\s*\{([^{}]*)\}")
_FLAG: Final = re.compile(r"^(?:flag|enum)[ \t]+\w+[ \t]*:[ \t]*\n((?:[ \t]+\w+[ \t]*\n|[ \t]*\n)+)", re.M)
_HEX: Final = re.compile(r"\b0x([0-9a-fA-F][0-9a-fA-F_]*)\b")
_NUMBER: Final = re.compile(
    r"(?<![\w.])([0-9][0-9_]*)(?:\.([0-9_]+))?(?:[eE]([0-9]{1,3}))?(?:\s*\b(wei|gwei|ether|seconds|minutes|hours|days|weeks)\b)?"
)
_POWER: Final = re.compile(r"\b([0-9]{1,3})\s*\*\*\s*([0-9]{1,3})\b")
_UNITS: Final = {
    None: 1,
    "wei": 1,
    "gwei": 10**9,
    "ether": 10**18,
    "seconds": 1,
    "minutes": 60,
    "hours": 3_600,
    "days": 86_400,
    "weeks": 604_800,
}
_MOST: Final = 2**256 - 1
_DIGITS: Final = 400
"""Digits of a number, more than which none that fits has, its fraction included."""
_LONGEST: Final = 1_024
MOST: Final = 4_096
"""Literals of one kind that are kept."""


@dataclass(frozen=True, slots=True)
class Literals:
    """What was found, each value once, in the order of the sources."""

    ints: tuple[int, ...] = ()
    addresses: tuple[str, ...] = ()
    bytes: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As the native core takes them."""
        return {
            "ints": [str(number) for number in self.ints],
            "addresses": list(self.addresses),
            "bytes": [f"0x{digits}" for digits in self.bytes],
            "strings": list(self.strings),
        }


def find(sources: Iterable[tuple[str, str | bytes]]) -> Literals:
    """The literals of sources, each given as its language and its text, or the UTF-8 of it."""
    found = _Found()
    for language, source in sources:
        text = source if isinstance(source, str) else source.decode("utf-8", "replace")
        found.take(language, text)
    return Literals(_first(found.ints), _first(found.addresses), _first(found.data), _first(found.strings))


def _first(found: dict[Any, None]) -> tuple[Any, ...]:
    return tuple(found)[:MOST]


@dataclass(slots=True)
class _Found:
    """Literals by kind, each once."""

    ints: dict[int, None] = field(default_factory=dict[int, None])
    addresses: dict[str, None] = field(default_factory=dict[str, None])
    data: dict[str, None] = field(default_factory=dict[str, None])
    strings: dict[str, None] = field(default_factory=dict[str, None])

    def take(self, language: str, text: str) -> None:
        """What one source holds."""
        scanner = _SOLIDITY if language == "solidity" else _VYPER
        for match in scanner.finditer(text):
            if match["text"] is not None:
                self._take_string(language, match["kind"] or "", match["text"][1:-1])
        plain = scanner.sub(" ", text)
        for match in _HEX.finditer(plain):
            self._take_hex(match[1].replace("_", ""))
        numbers = (*_sizes(language, plain), *_numbers(_HEX.sub(" ", plain)))
        self.ints |= dict.fromkeys(number for number in numbers if number <= _MOST)

    def _take_string(self, language: str, kind: str, text: str) -> None:
        if kind in ("hex", "x"):
            digits = text.replace("_", "").lower()
            if len(digits) % 2 == 0 and re.fullmatch(r"[0-9a-f]+", digits) and len(digits) <= 2 * _LONGEST:
                self.data[digits] = None
            return
        # In Vyper \xff is a character, but a byte in its byte strings; in Solidity it is always a byte.
        value = _unescaped(text, raw=language == "solidity" or kind == "b")
        if not 0 < len(value) <= _LONGEST:
            return
        shown = _decoded(value)
        if kind == "b" or shown is None:
            self.data[value.hex()] = None
        else:
            self.strings[shown] = None

    def _take_hex(self, digits: str) -> None:
        if len(digits) == 40:
            self.addresses[f"0x{digits.lower()}"] = None
            return
        if len(digits) <= 64:
            self.ints[int(digits, 16)] = None
        if len(digits) % 2 == 0 and len(digits) <= 2 * _LONGEST:
            self.data[digits.lower()] = None


def _unescaped(text: str, *, raw: bool) -> bytes:
    """The bytes that a string's text spells."""
    found: list[bytes] = []
    past = 0
    for match in _ESCAPE.finditer(text):
        found += [_utf8(text[past : match.start()]), _escaped(match, raw)]
        past = match.end()
    return b"".join((*found, _utf8(text[past:])))


def _escaped(match: re.Match[str], raw: bool) -> bytes:
    if match[1] and raw:
        return bytes.fromhex(match[1])
    code = match[1] or match[2] or match[3]
    if code:
        return _utf8(chr(min(int(code, 16), 0x10FFFF)))
    return _utf8(_SIMPLE.get(match[4], match[4]))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _sizes(language: str, plain: str) -> Iterator[int]:
    """How many members enums have, which is the first value that is none; for Vyper's flags all bits."""
    for match in (_ENUM if language == "solidity" else _FLAG).finditer(plain):
        members = len(re.findall(r"[A-Za-z_$][\w$]*", match[1]))
        if 0 < members <= 256:
            last = members if language == "solidity" else 1 << members
            yield from (last - 1, last)


def _numbers(text: str) -> Iterator[int]:
    for match in _POWER.finditer(text):
        base, power = int(match[1]), int(match[2])
        if base and power <= 256:
            yield base**power
            yield base**power - 1
    for match in _NUMBER.finditer(text):
        whole, fraction = match[1].replace("_", ""), (match[2] or "").replace("_", "")
        if len(whole) + len(fraction) > _DIGITS:
            continue
        scaled = int(whole + fraction) * 10 ** int(match[3] or 0) * _UNITS[match[4]]
        if scaled % 10 ** len(fraction) == 0:
            yield scaled // 10 ** len(fraction)
