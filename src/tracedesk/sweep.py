"""Payloads that nothing refers to any more: found by looking at every place a reference could stand."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Container, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracedesk.home import Home
from tracedesk.journal.file import SEQ_BITS
from tracedesk.journal.sqlite import Connection, SQLiteError, connect
from tracedesk.primitives.time import DAY

AGE_NS: Final = DAY
"""A younger payload may belong to a call whose record is not written yet."""

_HEX: Final = re.compile(rb"[0-9a-fA-F]{64,}")
_NAME: Final = re.compile(r"[0-9a-f]{64}")
_ASIDE: Final = ".going"

Skip = Callable[[Path], Container[int]]
"""The ids of streams, by file, whose events no longer count because they are about to go."""


class Unsure(Exception):
    """Some place cannot be read, so nothing can be proved unreferenced."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A body that nothing refers to."""

    path: Path
    bytes: int


def unreferenced(home: Home, now_ns: int, skip: Skip | None = None) -> list[Payload]:
    """The payloads older than a day whose names stand nowhere in the home. Raises `Unsure`."""
    left = {path.name: path for path in _settled(home.payloads, now_ns - AGE_NS)}
    for text in _texts(home, skip or _nothing):
        if not left:
            break
        for name in _names(text, left):
            del left[name]
    return [Payload(path, path.stat().st_size) for path in left.values()]


def remove(payload: Payload, now_ns: int) -> bool:
    """Remove one payload, unless a writer has just taken it into use again.

    It is moved aside before its age is looked at once more: a writer either touched it before, and it
    is put back, or does not find it and writes it anew.
    """
    aside = payload.path.with_name(f".{payload.path.name}{_ASIDE}")
    try:
        payload.path.rename(aside)
    except FileNotFoundError:
        return False
    if _is_older(aside, now_ns - AGE_NS):
        aside.unlink()
        return True
    aside.rename(payload.path)
    return False


def tidy(folder: Path, now_ns: int) -> None:
    """Finish what a killed sweep or a killed writer left."""
    for path in folder.glob("??/.*"):
        place = path.with_name(path.name[1:].removesuffix(_ASIDE))
        if path.name.endswith(_ASIDE) and not place.exists():
            path.rename(place)
        elif _is_older(path, now_ns - AGE_NS):
            path.unlink(missing_ok=True)


def _settled(folder: Path, before_ns: int) -> Iterator[Path]:
    for path in folder.glob("??/*"):
        if _NAME.fullmatch(path.name) and _is_older(path, before_ns):
            yield path


def _is_older(path: Path, before_ns: int) -> bool:
    try:
        return path.lstat().st_mtime_ns < before_ns
    except FileNotFoundError:
        return False


def _nothing(_: Path) -> Container[int]:
    return ()


def _names(text: bytes | mmap.mmap, known: dict[str, Path]) -> set[str]:
    """The known names in `text`, also inside longer runs of digits."""
    found: set[str] = set()
    for match in _HEX.finditer(text):
        run = match[0].decode("ascii").lower()
        found |= {name for i in range(len(run) - 63) if (name := run[i : i + 64]) in known}
    return found


# --- every place -------------------------------------------------------------------------------


def _texts(home: Home, skip: Skip) -> Iterator[bytes | mmap.mmap]:
    for file in home.databases():
        yield from _database(file, skip(file))
    for folder in (home.inbox, home.campaigns):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith((".db", ".db-wal", ".db-shm")):
                yield from _file(path)


def _file(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield content


def texts(connection: Connection) -> Iterator[bytes]:
    """Every text and every hash in the tables of a database; hashes as hexadecimal digits."""
    for table in _tables(connection):
        yield from _rows(connection, table)


def _database(file: Path, skipped: Container[int]) -> Iterator[bytes]:
    try:
        with closing(connect(file, read_only=True)) as connection:
            connection.execute("PRAGMA busy_timeout = 5000")
            for table in _tables(connection):
                rows = _events(connection, file, skipped) if table == "event" else _rows(connection, table)
                yield from rows
    except SQLiteError as problem:
        raise Unsure(f"{file.name} cannot be read ({problem})") from None


def _tables(connection: Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    return [name for (name,) in connection.execute(query)]


def _rows(connection: Connection, table: str) -> Iterator[bytes]:
    quoted = table.replace('"', '""')
    for row in connection.execute(f'SELECT * FROM "{quoted}"'):
        yield from (text for value in row if (text := _text(value)))


def _text(value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value.hex().encode() if len(value) == 32 else value
    return None


def _events(connection: Connection, file: Path, skipped: Container[int]) -> Iterator[bytes]:
    """Bodies as they are; one that is not text could hide a name, so it makes the sweep unsure."""
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(event)")}
    if not {"id", "body"} <= columns:
        yield from _rows(connection, "event")
        return
    for id, body in connection.execute("SELECT id, body FROM event"):
        if id >> SEQ_BITS in skipped:
            continue
        text = _text(body) or b""
        if not _is_text(text):
            raise Unsure(f"{file.name} has events that are not text")
        yield text


def _is_text(body: bytes) -> bool:
    if body.isascii():
        return b"\0" not in body
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in body
