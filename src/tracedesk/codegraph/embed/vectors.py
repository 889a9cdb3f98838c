"""Vectors by what was embedded: one file per model, eight-bit rows under the key of the text.

A file is a header with the number of its records, and the records. New records are written behind the last
and made durable before the number counts them: what a crash leaves behind it is overwritten. One process
writes at a time (a lock), any number reads. The files hold nothing that cannot be computed again: one that
is damaged counts as empty, and the next writer moves it aside. They are read and never mapped, so that one
that is cut off under a reader costs him vectors and not his life.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import struct
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.primitives.disk import sync
from tracedesk.primitives.locks import try_lock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tracedesk.codegraph.embed.model import Embedder

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]

log = logging.getLogger(__name__)

KEY: Final = 16
"""Bytes of a key: the beginning of the SHA-256 of the text."""
_MAGIC: Final = b"TDVECTS1"
_HEAD: Final = struct.Struct("<8sQII")
_HEADER: Final = 256
_COUNT_AT: Final = 8
_BLOCK: Final = 1024
"""Rows read and scored in one step: as floats they fit the processor's cache."""
_LOOK_SECONDS: Final = 0.02
"""How often a lock that another holds is looked at again."""


class Stopped(Exception):
    """Waiting for another process's lock was given up."""


class _Damaged(OSError):
    """A file that does not hold whole vectors of the model."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of some chunks have a vector of this model."""

    model: str
    embedded: int
    chunks: int
    problem: str | None = None
    """Why the vectors that were there cannot be used."""

    @property
    def share(self) -> float:
        return self.embedded / self.chunks if self.chunks else 0.0

    def document(self) -> dict[str, Any]:
        said = {
            "model": self.model,
            "embedded": self.embedded,
            "chunks": self.chunks,
            "share": round(self.share, 4),
        }
        return said if self.problem is None else {**said, "problem": self.problem}


class Vectors:
    """The vectors of one model in a folder. Safe to use from several threads."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.embedder = embedder
        self.model = embedder.id
        self.dim = embedder.dim
        self._path = folder / f"{re.sub(r'[^A-Za-z0-9.-]', '_', embedder.id)}.vectors"
        self._lock = threading.Lock()
        self._file: _File | None = None
        self._places: dict[bytes, int] = {}
        self._count = 0
        self._problem: OSError | None = None

    def missing(self, keys: Sequence[bytes]) -> list[bytes]:
        """Those of the keys without a vector, once each, in their order."""
        with self._lock:
            self._refresh()
            return [key for key in dict.fromkeys(keys) if key not in self._places]

    def coverage(self, keys: Sequence[bytes]) -> Coverage:
        with self._lock:
            self._refresh()
            embedded = sum(key in self._places for key in keys)
            return Coverage(self.model, embedded, len(keys), self._problem and str(self._problem))

    def put(self, keys: Sequence[bytes], vectors: Floats, cancelled: Callable[[], bool] | None = None) -> int:
        """Keep vectors of unit length; how many were new. Durable when it returns.

        Stopped is raised when `cancelled` says so while another process writes.
        """
        self._check(keys, vectors)
        with self._locked(".lock", cancelled), self._lock:
            self._refresh_to_write()
            fresh = {key: n for n, key in enumerate(keys) if key not in self._places}
            if fresh:
                self._append(_packed(list(fresh), vectors[list(fresh.values())]))
                self._refresh()
            return len(fresh)

    def select(self, keys: Sequence[bytes]) -> Selection:
        """The keys as places in this file, to be scored again and again."""
        import numpy as np

        with self._lock:
            self._refresh()
            get = self._places.get
            rows = np.fromiter((get(key, -1) for key in keys), np.int64, len(keys))
            return Selection(self.model, self.dim, rows, self._file)

    def scores(self, query: Floats, keys: Sequence[bytes]) -> Floats:
        """The cosine of each key's vector with the query's; not a number where there is no vector."""
        return self.select(keys).scores(query)

    def get(self, keys: Sequence[bytes]) -> Floats:
        """The vectors themselves, rows of not-a-number where there is none."""
        return self.select(keys).vectors()

    def compact(self, keep: Collection[bytes]) -> int:
        """Drop every vector but those of `keep`; how many went."""
        with self._locked(".lock"), self._lock:
            self._refresh_to_write()
            before = len(self._places)
            if self._file is not None and not self._places.keys() <= set(keep):
                self._create(b"".join(self._file.records_of(keep, self._count)))
                self._refresh()
            return before - len(self._places)

    @contextmanager
    def filling(self, cancelled: Callable[[], bool] | None = None) -> Generator[None]:
        """One at a time, of all processes, computes vectors of this model; reading goes on meanwhile.

        Stopped is raised when `cancelled` says so while it is another's turn.
        """
        with self._locked(".filling", cancelled):
            yield

    def _check(self, keys: Sequence[bytes], vectors: Floats) -> None:
        import numpy as np

        if len(keys) != len(vectors):
            raise ValueError(f"{len(keys)} keys for {len(vectors)} vectors; give one vector per key")
        if keys and vectors.shape[1:] != (self.dim,):
            raise ValueError(
                f"vectors of the shape {vectors.shape}; {self.model} has {self.dim} numbers each"
            )
        if any(len(key) != KEY for key in keys):
            raise ValueError(f"a key that is not {KEY} bytes long; take the beginning of the text's SHA-256")
        if not np.isfinite(vectors).all():
            raise ValueError("a vector with numbers that are not finite; keep only what the model embedded")

    # --- the file

    def _refresh(self) -> None:
        """Take in what others wrote since; a file that cannot be read counts as none."""
        self._problem = None
        try:
            self._take()
        except FileNotFoundError:
            self._forget()
        except OSError as problem:
            self._forget()
            self._problem = problem

    def _refresh_to_write(self) -> None:
        """The same, and a damaged file is moved aside."""
        self._refresh()
        if self._problem is not None:
            if not isinstance(self._problem, _Damaged):
                raise self._problem
            aside = self._path.with_suffix(".broken")
            os.replace(self._path, aside)
            log.warning("%s; it is %s now, and its vectors are computed again", self._problem, aside.name)
            self._refresh()

    def _forget(self) -> None:
        self._file, self._places, self._count = None, {}, 0

    def _take(self) -> None:
        """Read the keys that are new; another file under the name is read from its start."""
        file = _File(self._path, _record(self.dim))
        count = self._counted(file.descriptor)
        if self._file is None or file.inode != self._file.inode or count < self._count:
            self._forget()
            self._file = file
        buffer = self._file.buffer() if count > self._count else bytearray()
        for first in range(self._count, count, _BLOCK):
            wanted = min(_BLOCK, count - first)
            raw = self._file.read(first, wanted, buffer)["key"].tobytes()
            if len(raw) < wanted * KEY:
                raise _Damaged(f"{self._path} became shorter while it was read")
            self._places.update((raw[at : at + KEY], first + at // KEY) for at in range(0, len(raw), KEY))
        self._count = count

    def _counted(self, descriptor: int) -> int:
        """How many records the header counts, after a look at whether the file is ours."""
        found = os.fstat(descriptor)
        head = os.pread(descriptor, _HEADER, 0) if stat.S_ISREG(found.st_mode) else b""
        if len(head) == _HEADER:
            magic, count, dim, length = _HEAD.unpack_from(head)
            name = head[_HEAD.size : _HEAD.size + length]
            whole = found.st_size >= _HEADER + count * _record(self.dim).itemsize
            if (magic, dim, name) == (_MAGIC, self.dim, self.model.encode()) and whole:
                return count
        raise _Damaged(f"{self._path} holds no whole vectors of {self.model}")

    def _append(self, records: bytes) -> None:
        if not self._path.exists():
            return self._create(records)
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            count = self._counted(descriptor)
            size = _record(self.dim).itemsize
            _write(descriptor, records, _HEADER + count * size)
            os.fsync(descriptor)
            _write(descriptor, struct.pack("<Q", count + len(records) // size), _COUNT_AT)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return None

    def _create(self, records: bytes) -> None:
        name = self.model.encode()
        count = len(records) // _record(self.dim).itemsize
        head = _HEAD.pack(_MAGIC, count, self.dim, len(name)) + name
        fresh = self._path.with_suffix(".fresh")
        with open(fresh, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(head.ljust(_HEADER, b"\0") + records)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)
        sync(self._path.parent)

    @contextmanager
    def _locked(self, suffix: str, cancelled: Callable[[], bool] | None = None) -> Generator[None]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path.with_suffix(suffix), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not try_lock(descriptor):
                if cancelled is not None and cancelled():
                    raise Stopped(f"another process holds {self._path.with_suffix(suffix)}")
                time.sleep(_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)


class _File:
    """An open file of records, closed when nobody has it any more."""

    def __init__(self, path: Path, record: np.dtype[Any]) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found = os.fstat(self.descriptor)
        self.inode = found.st_ino, found.st_dev
        self._record = record

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def buffer(self) -> bytearray:
        """Room for the records of one reading after the other, which spares asking for it each time."""
        return bytearray(_BLOCK * self._record.itemsize)

    def read(self, first: int, count: int, buffer: bytearray) -> NDArray[np.void]:
        """At most a block of records, until the next are read; fewer when the file has been cut off."""
        import numpy as np

        size = self._record.itemsize
        with memoryview(buffer) as room:
            got = os.preadv(self.descriptor, [room[: count * size]], _HEADER + first * size)
        return np.frombuffer(buffer, self._record, got // size)

    def records_of(self, keys: Collection[bytes], count: int) -> Iterator[bytes]:
        """Those of the first records whose keys are among some."""
        buffer = self.buffer()
        for first in range(0, count, _BLOCK):
            records = self.read(first, min(_BLOCK, count - first), buffer)
            yield records[[key.tobytes() in keys for key in records["key"]]].tobytes()


@dataclass(frozen=True, slots=True)
class Selection:
    """Some keys' places in a file as it was when they were looked up."""

    model: str
    dim: int
    rows: Rows
    """-1 where a key has no vector."""
    file: _File | None

    def scores(self, query: Floats) -> Floats:
        """Cosines with a query of unit length."""
        import numpy as np

        found = np.full(len(self.rows), np.nan, np.float32)
        asked = np.ascontiguousarray(query, np.float32)
        for part, block, scale in self._blocks():
            found[part] = (block @ asked) * scale
        return found

    def vectors(self) -> Floats:
        """The vectors themselves, rows of not-a-number where there is none."""
        import numpy as np

        found = np.full((len(self.rows), self.dim), np.nan, np.float32)
        for part, block, scale in self._blocks():
            found[part] = block * scale[:, None]
        return found

    def _blocks(self) -> Iterator[tuple[Rows, Floats, Floats]]:
        """Places among the keys, their rows as floats (the next block overwrites them) and their scales."""
        import numpy as np

        if self.file is None:
            return
        buffer, floats = self.file.buffer(), np.empty((_BLOCK, self.dim), np.float32)
        for part in self._parts():
            first = int(self.rows[part[0]])
            records = self.file.read(first, int(self.rows[part[-1]]) - first + 1, buffer)
            part = part[self.rows[part] < first + len(records)]
            if len(part):
                wanted = _run(self.rows[part] - first)
                block = floats[: len(part)]
                np.copyto(block, records["row"][wanted])
                yield part, block, records["scale"][wanted]

    def _parts(self) -> Iterator[Rows]:
        """Places among the keys, in the order of the file, those together that lie near one another."""
        import numpy as np

        known = np.flatnonzero(self.rows >= 0)
        rows = self.rows[known]
        if (np.diff(rows) < 0).any():
            order = np.argsort(rows, kind="stable")
            known, rows = known[order], rows[order]
        at = 0
        while at < len(known):
            end = min(at + _BLOCK, int(np.searchsorted(rows, rows[at] + _BLOCK)))
            yield known[at:end]
            at = end


def _run(rows: Rows) -> Rows | slice:
    """A slice where the rows follow one another, which spares copying them."""
    import numpy as np

    first = int(rows[0])
    follow = int(rows[-1]) - first == len(rows) - 1 and bool((np.diff(rows) == 1).all())
    return slice(first, first + len(rows)) if follow else rows


def _record(dim: int) -> np.dtype[Any]:
    import numpy as np

    return np.dtype([("key", f"V{KEY}"), ("scale", "<f4"), ("row", "i1", (dim,))])


def _packed(keys: Sequence[bytes], vectors: Floats) -> bytes:
    import numpy as np

    scale = np.maximum(np.abs(vectors).max(axis=1), 1e-12).astype(np.float32) / np.float32(127)
    records = np.zeros(len(keys), _record(vectors.shape[1]))
    records["key"] = np.frombuffer(b"".join(keys), f"V{KEY}")
    records["scale"] = scale
    records["row"] = np.round(vectors / scale[:, None])
    return records.tobytes()


def _write(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(descriptor, view, at)
        view, at = view[done:], at + done
