"""Recorded streams: one message a line, `<local ns> <raw JSON>`, packed where the name ends in `.gz`.

A recording may hold stream messages, bare or wrapped as `{"stream", "data"}`, and REST depth snapshots.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import orjson


class RecordingError(ValueError):
    """A recording that cannot be read; the message names the file, the line and what is wrong."""


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The messages as they were recorded, with the local time of each."""
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                yield _split(path, number, line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise RecordingError(f"{path.name} is cut or damaged after line {number}: {fault}") from None


def frames(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The messages parsed; numbers of money are texts on this wire, so that nothing is rounded."""
    for number, (ns, raw) in enumerate(lines(path), 1):
        try:
            frame = orjson.loads(raw)
        except orjson.JSONDecodeError as fault:
            raise RecordingError(f"{path.name}, line {number}: not JSON ({fault})") from None
        if not isinstance(frame, dict):
            raise RecordingError(f"{path.name}, line {number}: not a JSON object")
        yield ns, cast("dict[str, Any]", frame)


def payload(frame: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a message says, without the name of the stream it may be wrapped in."""
    return frame["data"] if "stream" in frame else frame


def _open(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _split(path: Path, number: int, line: bytes) -> tuple[int, bytes]:
    time, _, raw = line.rstrip(b"\r\n").partition(b" ")
    if not time.isdigit() or not raw:
        raise RecordingError(f"{path.name}, line {number}: not '<local ns> <JSON>'")
    return int(time), raw


class Recorder:
    """Writes a recording; the same messages make the same file, byte for byte."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        packed = path.suffix == ".gz"
        self._out: Any = gzip.GzipFile("", "wb", 9, self._file, 0) if packed else self._file

    def write(self, local_ns: int, message: bytes | str | Mapping[str, Any]) -> None:
        """Add one message as it came; one with a line break in it is written without."""
        raw = message.encode() if isinstance(message, str) else message
        if not isinstance(raw, bytes) or b"\n" in raw or b"\r" in raw:
            raw = orjson.dumps(orjson.loads(raw) if isinstance(raw, bytes) else raw)
        self._out.write(b"%d %b\n" % (local_ns, raw))

    def close(self) -> None:
        if self._out is not self._file:
            self._out.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
