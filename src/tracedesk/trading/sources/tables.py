"""Tables of the folder of dropped files: strict CSV and JSON lines, whose errors name file and line."""

from __future__ import annotations

import csv
import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from tracedesk.primitives import json
from tracedesk.trading.sources import shapes

T = TypeVar("T")

LARGEST_FILE: Final = 16 << 20
KEPT_BYTES: Final = 64 << 20
"""Contents of read files that are kept in memory, the ones unused for longest going first."""

Mark = tuple[int, int, int]

_WITHOUT_WAITING: Final = (
    os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
)


class BadFile(ValueError):
    """A file that cannot be used: where, and why."""


@dataclass(frozen=True, slots=True)
class File(Generic[T]):
    """A file as it was read: its name in the folder, the digest of its bytes, and what they say."""

    name: str
    sha256: str
    content: T


class Shelf:
    """Reads files once, and again when they change; no thread waits for what another reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[Mark, int, File[Any]]] = OrderedDict()
        self._bytes = 0

    def read(self, name: str, parse: Callable[[str, bytes], T]) -> File[T] | None:
        """Return the file, parsed, or None when it is not there; raises `BadFile`."""
        path = self.folder / name
        try:
            kept = self._known(name, _mark(name, path.stat()))
            if kept is not None:
                return kept
            mark, raw = read(name, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadFile(f"{name} cannot be read ({error.strerror})") from None
        file = File(name, hashlib.sha256(raw).hexdigest(), parse(name, raw))
        self._keep(name, mark, len(raw), file)
        return file

    def _known(self, name: str, mark: Mark) -> File[Any] | None:
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept[0] != mark:
                return None
            self._kept.move_to_end(name)
            return kept[2]

    def _keep(self, name: str, mark: Mark, size: int, file: File[Any]) -> None:
        with self._lock:
            old = self._kept.pop(name, None)
            self._bytes += size - (old[1] if old else 0)
            self._kept[name] = (mark, size, file)
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                _, (_, freed, _) = self._kept.popitem(last=False)
                self._bytes -= freed


def _mark(name: str, found: os.stat_result) -> Mark:
    """How a file's change is noticed. One that could keep a reader waiting, or has no end, is refused."""
    if not stat.S_ISREG(found.st_mode):
        raise BadFile(f"{name} is not a regular file")
    if found.st_size > LARGEST_FILE:
        raise BadFile(f"{name} has {found.st_size} bytes; at most {LARGEST_FILE} are read")
    return found.st_mtime_ns, found.st_size, found.st_ino


def read(name: str, path: Path) -> tuple[Mark, bytes]:
    """The bytes of what is there now, which may be another file than the one just looked at."""
    with open(os.open(path, _WITHOUT_WAITING), "rb") as file:
        mark = _mark(name, os.fstat(file.fileno()))
        raw = file.read(LARGEST_FILE + 1)
    if len(raw) > LARGEST_FILE:
        raise BadFile(f"{name} grows while it is read, past {LARGEST_FILE} bytes")
    return mark, raw


# --- other tables ---------------------------------------------------------------------------------


def csv_rows(
    name: str, raw: bytes, needed: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row as its line number and its cells by column."""
    try:
        reader = csv.reader(raw.decode("utf-8-sig").splitlines(keepends=True), strict=True)
        header = [column.strip() for column in next(reader, list[str]())]
        _check_header(name, header, needed, optional)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise BadFile(f"{name} line {reader.line_num}: {len(cells)} cells, not {len(header)}")
            yield reader.line_num, {c: cell.strip() for c, cell in zip(header, cells, strict=True)}
    except UnicodeDecodeError:
        raise BadFile(f"{name} is not UTF-8") from None
    except csv.Error as error:
        raise BadFile(f"{name} is not CSV: {error}") from None


def json_rows(name: str, raw: bytes) -> Iterator[tuple[int, Any]]:
    """Yield each line that is not blank as its number and its JSON object."""
    for at, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                yield at, shapes.record(json.loads(line, levels=json.DEEPEST), "the line")
            except ValueError as error:
                raise BadFile(f"{name} line {at}: {error}") from None


def symbol(value: Any) -> str:
    """A symbol as the desk writes them."""
    if not isinstance(value, str) or not shapes.SYMBOL.fullmatch(value):
        raise shapes.BadShape(f"symbol {shapes.shown(value)} must be 1 to 15 of A-Z, 0-9 and . ^ = -")
    return value


def _check_header(name: str, header: Sequence[str], needed: Sequence[str], optional: Sequence[str]) -> None:
    missing = [column for column in needed if column not in header]
    other = [column for column in header if column not in (*needed, *optional)]
    if missing or other or len(set(header)) != len(header):
        wanted = ",".join((*needed, *(f"[{column}]" for column in optional)))
        raise BadFile(f"{name} line 1: the columns must be {wanted}, not {shapes.shown(','.join(header))}")
