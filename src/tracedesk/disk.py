"""What a home holds: bytes by kind of file, write-ahead logs, streams by state."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracedesk.home import Home
from tracedesk.journal import JournalError, Reader
from tracedesk.journal.sqlite import SQLiteError

KINDS: Final = ("trace", "runs", "payloads", "ledger", "graph", "campaigns", "catalog", "logs", "other")
_DATABASES: Final = ("trace", "ledger", "graph", "catalog")
_FOLDERS: Final = ("runs", "campaigns", "payloads", "logs")


@dataclass(slots=True)
class Sizes:
    """Bytes of a home by kind, and how many of them are write-ahead logs."""

    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    wal: int = 0

    @property
    def total(self) -> int:
        return sum(self.kinds.values())


@dataclass(slots=True)
class Streams:
    """The journals of a home: how many streams there are, and how many of them have ended or gone."""

    journals: int = 0
    streams: int = 0
    sealed: int = 0
    pruned: int = 0
    unreadable: list[str] = field(default_factory=list[str])

    def document(self) -> dict[str, Any]:
        figures = {"journals": self.journals, "streams": self.streams}
        return {**figures, "sealed": self.sealed, "pruned": self.pruned, "unreadable": self.unreadable}


def sizes(path: Path) -> Sizes:
    """Measure every file of the folder."""
    found = Sizes()
    for file, size in _files(path):
        found.kinds[_kind(file.relative_to(path))] += size
        if file.name.endswith("-wal"):
            found.wal += size
    return found


def _files(path: Path) -> Iterator[tuple[Path, int]]:
    for folder, _, names in os.walk(path):
        for file in (Path(folder, name) for name in names):
            try:
                known = file.lstat()
            except FileNotFoundError:
                continue  # it went while we looked
            if stat.S_ISREG(known.st_mode):
                yield file, known.st_size


def _kind(relative: Path) -> str:
    first = relative.parts[0]
    if len(relative.parts) > 1:
        return first if first in _FOLDERS else "other"
    name, _, suffix = first.partition(".db")
    return name if name in _DATABASES and suffix in ("", "-wal", "-shm") else "other"


def journals(home: Home) -> Iterator[tuple[Path, Reader]]:
    """Each journal of the home, open for reading; other databases are passed over."""
    for file in home.databases():
        try:
            reader = Reader(file)
        except (JournalError, SQLiteError):
            continue
        with reader:
            yield file, reader


def streams(home: Home) -> Streams:
    """Count the streams of every journal. What should be a journal and is not is named."""
    found = Streams()
    for file in home.databases():
        try:
            with Reader(file) as reader:
                counts = [_count(reader, table) for table in ("stream", "seal", "tombstone")]
        except (JournalError, SQLiteError):
            if file == home.trace or file.parent == home.runs:
                found.unreadable.append(file.relative_to(home.path).as_posix())
            continue
        found.journals += 1
        found.streams += counts[0]
        found.sealed += counts[1]
        found.pruned += counts[2]
    return found


def _count(reader: Reader, table: str) -> int:
    return next(iter(reader.connection.execute(f"SELECT count(*) FROM {table}")))[0]
