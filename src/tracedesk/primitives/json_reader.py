"""Reader of large or hostile JSON documents: pieces of bounded length, with room for other threads between.

A decoder written in C holds the interpreter's lock until it has read the whole document, in whatever thread
it runs. This reader gives the same decoder pieces of a few kilobytes, and skips the parts beyond the limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, Final, cast

Scan = Callable[[str, int], tuple[Any, int]]
"""`(text, place) -> the value that begins there, and the place after it`: the decoder of one value."""

PIECE: Final = 8_192
"""Characters that the decoder is given at once: about a millisecond even where all of them are fractions."""

_STEP: Final = 65_536
"""Characters that one search looks at, for the same reason."""
_LONG_TEXT: Final = 262_144
"""Characters of a text from which on it is read in pieces."""
FEW: Final = 1_000
"""Values that are read of a document with too many, and members of its envelope's objects."""

_DROPPED: Final = 256
"""Members that are let go of at once: each may hold a piece's worth of others."""

_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{_STEP}}}")
_BRACKETS: Final = re.compile(r'"|[\[{]+|[\]}]+')
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_EMPTY: Final = re.compile(rb"\[[ \t\r\n]*\]|\{[ \t\r\n]*\}")
_MARK: Final = re.compile(rb'"|\\')
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_QUOTE: Final = re.compile(r'"|\\')
_PART_OF_TEXT: Final = re.compile(r'(?:[^"\\]|\\(?:u[0-9a-fA-F]{4}|[^u])){1,4096}')
_HALF_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_CLOSING: Final = {"[": "]", "{": "}"}
_OPENED: Final = object()


class CutObject(dict[str, Any]):
    """An object of which a part was skipped, because it passed a limit: `why` says which."""

    why: str = ""


class CutArray(list[Any]):
    """An array of which a part was skipped, because it passed a limit: `why` says which."""

    why: str = ""


def cut_of(value: Any) -> str | None:
    """The limit that a part of `value` passed; None for a value that was read whole."""
    return value.why if isinstance(value, (CutObject, CutArray)) else None


def is_deeper(value: Any, levels: int) -> bool:
    """True when objects and arrays nest deeper than that in `value`."""
    layer: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        inner: list[Any] = []
        for part in layer:
            inner += [each for each in _children(part) if isinstance(each, (dict, list))]
        if not inner:
            return False
        layer = inner
    return bool(layer)


def count_values(value: Any, most: int | None = None) -> int:
    """Count of values in `value`, itself and all members included; past `most`, any larger number."""
    parts: list[Any] = [value]
    for part in parts:  # which grows meanwhile
        if isinstance(part, (dict, list)):
            parts += _children(cast("Any", part))
            if most is not None and len(parts) > most:
                break
    return len(parts)


def has_more_values(raw: bytes, most: int, pause: Callable[[], None]) -> bool:
    """True when a document surely has more values than `most`; found without reading any."""
    at = count = 0
    while at < len(raw):
        pause()
        bare = _TEXT.sub(b"0", raw[at : at + _STEP])
        edge = bare.find(b'"')  # the text that begins here ends in a later step
        rest = 0 if edge < 0 else len(bare) - edge
        if rest:
            bare = bare[:edge]
        # Each opening and each comma has a value behind it; of what is empty, one may be cut by the edge.
        count += sum(map(bare.count, (b",", b"[", b"{"))) - len(_EMPTY.findall(bare)) - 1
        at += _STEP
        if rest:
            at = _after_text(raw, min(at, len(raw)) - rest)
    return count > most


def _after_text(raw: bytes, at: int) -> int:
    """The place after the text that begins there."""
    at += 1
    while (found := _MARK.search(raw, at)) is not None:
        if found[0] == b'"':
            return found.end()
        at = found.end() + 1
    return len(raw)


def _children(part: Any) -> Any:
    return cast("dict[str, Any]", part).values() if isinstance(part, dict) else part


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one document."""

    levels: int
    """Most levels of objects and arrays; a deeper one is skipped."""
    values: int | None = None
    """Most values; the rest of the array or object that passes it is skipped."""
    envelope: int = 0
    """Outermost levels that are not the caller's arguments: these are always read whole."""

    @property
    def too_deep(self) -> str:
        return f"nests deeper than {self.levels - self.envelope} levels"

    @property
    def too_many(self) -> str:
        return f"has more than {self.values} values"


@dataclass(slots=True)
class _Frame:
    """An object or array that is being filled."""

    value: Any
    opening: str
    name: str = ""
    """The member whose value is being read."""
    is_fresh: bool = True
    why: str = ""

    def put(self, value: Any) -> None:
        if self.opening == "{":
            self.value[self.name] = value
        else:
            self.value.append(value)

    def add(self, several: Any) -> None:
        if self.opening == "{":
            if not self.value.keys().isdisjoint(several):
                raise ValueError("an object repeats a member name")
            self.value.update(several)
        else:
            self.value += several

    def closed(self) -> Any:
        if not self.why:
            return self.value
        cut = CutObject(self.value) if self.opening == "{" else CutArray(self.value)
        cut.why = self.why
        return cut


class Reader:
    """Reads one document. `pause` is called between pieces."""

    def __init__(
        self, text: str, scan: Scan, limits: Limits, *, most: int | None, pause: Callable[[], None]
    ) -> None:
        self._text = text
        self._scan = scan
        self._limits = limits
        self._most = most
        """Values after which the rest is skipped; None where they need not be counted."""
        self._pause = pause
        self._at = 0
        self._count = 0
        self._wasted = 0
        self._frames: list[_Frame] = []

    def read(self) -> Any:
        """The document; its parts beyond the limits are skipped, and `cut_of` names the limit."""
        self._skip_blank()
        value = self._next()
        while self._frames:
            value = self._fill(self._frames[-1])
        self._skip_blank()
        if self._at != len(self._text):
            raise self._fault("Extra data")
        if self._is_over and cut_of(value) is None:
            raise ValueError(f"the document {self._limits.too_many}")
        return value

    # --- objects and arrays

    def _fill(self, frame: _Frame) -> Any:
        """Read on in the innermost object or array, until it ends or another begins in it."""
        while self._comes_another(frame):
            if self._is_over and len(self._frames) > self._limits.envelope:
                self._at = self._past(self._at, 1)
                frame.why = frame.why or self._limits.too_many
                break
            if self._is_over and len(frame.value) > FEW:
                raise ValueError(f"the document {self._limits.too_many}")
            if self._read_several(frame):
                continue
            if frame.opening == "{":
                frame.name = self._name(frame)
            value = self._next()
            if value is _OPENED:
                return value
            frame.put(value)
        return self._close(self._frames.pop())

    def _comes_another(self, frame: _Frame) -> bool:
        """Step to the next member; False where the closing bracket was stepped over."""
        self._skip_blank()
        char = self._text[self._at : self._at + 1]
        if char == _CLOSING[frame.opening]:
            self._at += 1
            return False
        if frame.is_fresh:
            frame.is_fresh = False
            return True
        if char != ",":
            raise self._fault("Expecting ',' delimiter")
        self._at += 1
        self._skip_blank()
        if self._text[self._at : self._at + 1] in ("]", "}"):
            raise self._fault("Illegal trailing comma before end of " + _kind(frame.opening))
        return True

    def _close(self, frame: _Frame) -> Any:
        if self._is_over and len(self._frames) >= self._limits.envelope:
            frame.why = frame.why or self._limits.too_many
            self._drop_most(frame.value)
        value = frame.closed()
        if self._frames:
            holder = self._frames[-1]
            holder.put(value)
            holder.why = holder.why or frame.why
        return value

    def _drop_most(self, value: dict[str, Any] | list[Any]) -> None:
        """Let go of all but the first members, which nobody will read: a few at once, for it takes long."""
        while (left := len(value) - FEW) > 0:
            self._pause()
            step = min(left, _DROPPED)
            if isinstance(value, dict):
                for _ in range(step):
                    value.popitem()
            else:
                del value[-step:]

    def _name(self, frame: _Frame) -> str:
        if self._text[self._at : self._at + 1] != '"':
            raise self._fault("Expecting property name enclosed in double quotes")
        name = self._read_text()
        if name in frame.value:
            raise ValueError("an object repeats a member name")
        self._skip_blank()
        if self._text[self._at : self._at + 1] != ":":
            raise self._fault("Expecting ':' delimiter")
        self._at += 1
        self._skip_blank()
        return name

    # --- values

    def _next(self) -> Any:
        """The value here, if it is short or no object and no array; else it is opened."""
        char = self._text[self._at : self._at + 1]
        if char == '"':
            self._count += 1
            return self._read_text()
        if char not in _CLOSING:
            self._count += 1
            return self._scalar()
        depth = len(self._frames)
        if depth >= self._limits.levels or (self._is_over and depth >= self._limits.envelope):
            return self._skipped(self._limits.too_deep if not self._is_over else self._limits.too_many)
        if self._may_try:
            piece = self._text[self._at : self._at + PIECE]
            found = self._tried(piece, depth)
            if found is not None:
                self._count_in(found[0], 0)
                self._at += found[1]
                return found[0]
        self._count += 1
        self._frames.append(_Frame({} if char == "{" else [], char))
        self._at += 1
        return _OPENED

    def _read_several(self, frame: _Frame) -> bool:
        """Read as many members as are whole in the next piece, if any are."""
        if not self._may_try:
            return False
        for end in self._ends():
            is_last = end >= len(self._text)
            piece = frame.opening + self._text[self._at : end] + ("" if is_last else _CLOSING[frame.opening])
            found = self._tried(piece, len(self._frames) - 1)
            if found is not None:
                frame.add(found[0])
                self._count_in(found[0], 1)
                self._at += found[1] - 2  # at the comma, or at the bracket that closes the frame
                return True
        return False

    def _ends(self) -> list[int]:
        """Possible ends of the members of the next piece: its last comma, or after its last bracket."""
        edge = self._at + PIECE
        if edge >= len(self._text):
            return [len(self._text)]
        comma = self._text.rfind(",", self._at, edge)
        bracket = max(self._text.rfind(close, self._at, edge) for close in ("},", "],")) + 1
        return [end for end in dict.fromkeys((comma, bracket)) if end > self._at]

    def _tried(self, piece: str, depth: int) -> tuple[Any, int] | None:
        """The value that begins a piece, and where it ends; None if it does not end there, or is too deep."""
        self._pause()
        try:
            value, end = self._scan(piece, 0)
        except (StopIteration, ValueError, RecursionError):
            value, end = None, 0  # not whole; or wrong, and read again by itself, which finds the fault
        if not end or self._is_too_deep(piece, value, depth):
            self._wasted += len(piece)
            return None
        return value, end

    def _is_too_deep(self, piece: str, value: Any, depth: int) -> bool:
        room = self._limits.levels - depth
        return piece.count("[") + piece.count("{") > room and is_deeper(value, room)

    @property
    def _may_try(self) -> bool:
        """True when so little was read in vain that the whole stays within three times the length."""
        return self._wasted <= 2 * self._at + 8 * PIECE

    def _scalar(self) -> Any:
        try:
            value, self._at = self._scan(self._text, self._at)
        except StopIteration:
            raise self._fault("Expecting value") from None
        return value

    def _count_in(self, values: Any, less: int) -> None:
        if self._most is not None:
            self._count += count_values(values) - less

    @property
    def _is_over(self) -> bool:
        return self._most is not None and self._count > self._most

    def _skipped(self, why: str) -> Any:
        """Step over an object or array; an empty one stands for it, and what it is in is marked."""
        frame = _Frame({} if self._text[self._at] == "{" else [], self._text[self._at], why=why)
        self._at = self._past(self._at, 0)
        if self._frames:
            self._frames[-1].why = self._frames[-1].why or why
        return frame.closed()

    # --- texts

    def _read_text(self) -> str:
        quote = self._text.find('"', self._at + 1)
        if quote < 0 or (quote - self._at < _LONG_TEXT and "\\" not in self._text[self._at : quote]):
            return self._scalar()
        if self._text.find("\\", self._at + 1, quote) < 0:
            return self._read_plain_text(quote)
        return self._scalar() if self._is_short_text() else self._read_long_text()

    def _read_plain_text(self, quote: int) -> str:
        """The long text that ends there, in which nothing is escaped."""
        begin = self._at + 1
        for at in range(begin, quote, _STEP):
            self._pause()
            if (odd := _CONTROL.search(self._text, at, min(at + _STEP, quote))) is not None:
                self._at = odd.start()
                raise self._fault("Invalid control character at")
        self._at = quote + 1
        return self._text[begin:quote]

    def _is_short_text(self) -> bool:
        """True when a text ends soon, or never: the decoder reports the fault of one that never ends."""
        edge = self._at + _LONG_TEXT
        try:
            return self._past_text(self._at + 1, edge) < edge
        except JSONDecodeError:
            return True

    def _read_long_text(self) -> str:
        parts: list[str] = []
        self._at += 1
        while self._text[self._at : self._at + 1] != '"':
            self._pause()
            found = _PART_OF_TEXT.match(self._text, self._at)
            if found is None:
                raise self._fault("Invalid \\escape")
            part = found[0]
            half = _HALF_PAIR.search(part, max(0, len(part) - 6))
            if half is not None and half.start():
                part = part[: half.start()]
            parts.append(self._scan(f'"{part}"', 0)[0])
            self._at += len(part)
        self._at += 1
        return "".join(parts)

    # --- places

    def _skip_blank(self) -> None:
        while (found := _BLANK.match(self._text, self._at)) and found[0]:
            self._at = found.end()

    def _past(self, at: int, level: int) -> int:
        """The place after the bracket that closes so many levels."""
        while at < len(self._text):
            found = _BRACKETS.search(self._text, at, at + _STEP)
            if found is None:
                at += _STEP
                self._pause()
            elif found[0] == '"':
                at = self._past_text(found.end())
            elif found[0][0] in _CLOSING:
                level, at = level + len(found[0]), found.end()
            elif level > len(found[0]):
                level, at = level - len(found[0]), found.end()
            else:
                return found.start() + level
        raise JSONDecodeError("Unterminated object or array", self._text, len(self._text))

    def _past_text(self, at: int, edge: int | None = None) -> int:
        """The place after the quotation mark that ends a text, or one past `edge`, where it is longer."""
        while at < len(self._text):
            if edge is not None and at >= edge:
                return at
            found = _QUOTE.search(self._text, at, at + _STEP)
            if found is None:
                at += _STEP
                self._pause()
            elif found[0] == '"':
                return found.end()
            else:
                at = found.end() + 1
        raise JSONDecodeError("Unterminated string", self._text, len(self._text))

    def _fault(self, problem: str) -> JSONDecodeError:
        return JSONDecodeError(problem, self._text, self._at)


def _kind(opening: str) -> str:
    return "object" if opening == "{" else "array"
