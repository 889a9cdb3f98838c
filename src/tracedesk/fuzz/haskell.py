"""Byte strings as Haskell shows them, which is how Echidna writes bytes into its files."""

from __future__ import annotations

import re
from typing import Final

from tracedesk.foreign import named

_NAMES: Final[tuple[str, ...]] = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "a", "b", "t", "n", "v", "f", "r", "SO", "SI"),
    *(
        "DLE",
        "DC1",
        "DC2",
        "DC3",
        "DC4",
        "NAK",
        "SYN",
        "ETB",
        "CAN",
        "EM",
        "SUB",
        "ESC",
        "FS",
        "GS",
        "RS",
        "US",
    ),
)
_LONG: Final = {"a": "BEL", "b": "BS", "t": "HT", "n": "LF", "v": "VT", "f": "FF", "r": "CR"}
_CODES: Final = {
    **{name: code for code, name in enumerate(_NAMES)},
    **{long: _NAMES.index(short) for short, long in _LONG.items()},
    "SP": 32,
    "DEL": 127,
    '"': 34,
    "'": 39,
    "\\": 92,
}
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<empty>&)|(?P<decimal>[0-9]+)|o(?P<octal>[0-7]+)|x(?P<hex>[0-9a-fA-F]+)|\^(?P<control>[@-_])"
    r"|(?P<name>" + "|".join(sorted(map(re.escape, _CODES), key=len, reverse=True)) + r")|\s+\\)"
)


def shown(data: bytes) -> str:
    """The literal of these bytes, with its quotes."""
    parts: list[str] = []
    for byte in data:
        char = chr(byte)
        # `\SOH` is one character; a number would take the digit after it.
        if parts and ((parts[-1] == "\\SO" and char == "H") or (parts[-1][1:].isdigit() and char.isdigit())):
            parts.append("\\&")
        parts.append(_escaped(byte, char))
    return f'"{"".join(parts)}"'


def _escaped(byte: int, char: str) -> str:
    if char in ('"', "\\"):
        return f"\\{char}"
    if byte < 32:
        return f"\\{_NAMES[byte]}"
    if byte == 127:
        return "\\DEL"
    return char if byte < 127 else f"\\{byte}"


def read(literal: str) -> bytes:
    """The bytes that a literal shows; raises `ValueError` for anything else."""
    if len(literal) < 2 or literal[0] != '"' or literal[-1] != '"':
        raise ValueError(f"{named(literal[:40])} is not a byte string in quotes")
    found = bytearray()
    place, end = 1, len(literal) - 1
    while place < end:
        if literal[place] != "\\":
            code, place = ord(literal[place]), place + 1
        else:
            match = _ESCAPE.match(literal, place, end)
            if match is None:
                raise ValueError(f"{named(literal[place : place + 8])} is no escape of a byte string")
            code, place = _code(match), match.end()
        if code is not None:
            if code > 255:
                raise ValueError(f"character {code} is no byte")
            found.append(code)
    return bytes(found)


def _code(match: re.Match[str]) -> int | None:
    if match["decimal"]:
        return int(match["decimal"])
    if match["octal"]:
        return int(match["octal"], 8)
    if match["hex"]:
        return int(match["hex"], 16)
    if match["control"]:
        return ord(match["control"]) - 64
    return _CODES[match["name"]] if match["name"] else None
