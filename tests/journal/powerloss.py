"""A disk that can lose power: every write is recorded, and any moment of it can be rebuilt.

What was written to a file since its last sync may be on the disk or not, whole or in part; what was synced
is. The shared-memory index is not written to the disk: it goes with the machine.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import apsw

from tests.journal.samples import rows
from tracedesk.journal import Entry, Journal, verify
from tracedesk.journal.sqlite import Connection

_SECTOR: Final = 512


class Step(NamedTuple):
    """One thing that happened to the disk, or (`ack`) that a commit returned to its caller."""

    what: Literal["write", "truncate", "delete", "sync", "sync folder", "ack"]
    file: str = ""
    data: bytes = b""
    at: int = 0


class Disk(apsw.VFS):
    """The real file system, with a record of what was asked of it."""

    def __init__(self, name: str) -> None:
        self.steps: list[Step] = []
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _RecordedFile:
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.steps.append(Step("delete", Path(filename).name))
        if syncdir:
            self.steps.append(Step("sync folder"))


class _RecordedFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._file = Path(text or "").name
        self._steps = disk.steps
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]
        self._steps.append(Step("write", self._file, bytes(data), offset))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._steps.append(Step("truncate", self._file, at=newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._steps.append(Step("sync", self._file))


@contextmanager
def recording(name: str) -> Generator[Disk]:
    """A disk that SQLite knows under `name`."""
    disk = Disk(name)
    try:
        yield disk
    finally:
        disk.unregister()


# --- what is on the disk when the power goes

Image = dict[str, bytes]
Kept = Callable[[Sequence[Step], random.Random], Iterator[Step]]


def dropped(_pending: Sequence[Step], _dice: random.Random) -> Iterator[Step]:
    """Nothing that was not synced."""
    yield from ()


def torn(pending: Sequence[Step], _dice: random.Random) -> Iterator[Step]:
    """The first half of it, the last write of that cut in two."""
    kept = list(pending[: (len(pending) + 1) // 2])
    yield from kept[:-1]
    yield from (step._replace(data=step.data[: len(step.data) // 2]) for step in kept[-1:])


def scattered(pending: Sequence[Step], dice: random.Random) -> Iterator[Step]:
    """Any of it, and of each write any run of sectors."""
    for step in pending:
        if dice.random() < 0.5:
            continue
        sectors = len(step.data) // _SECTOR
        start, end = sorted((dice.randint(0, sectors), dice.randint(0, sectors)))
        if step.what != "write" or sectors == 0 or dice.random() < 0.5:
            yield step
        elif start < end:
            yield step._replace(data=step.data[start * _SECTOR : end * _SECTOR], at=step.at + start * _SECTOR)


PATTERNS: Final[tuple[Kept, ...]] = (dropped, torn, scattered)


@dataclass(slots=True)
class _File:
    synced: bytearray | None = None
    pending: list[Step] = field(default_factory=list[Step])

    def settle(self, count: int) -> None:
        """Take so many of the pending steps for done."""
        self.synced = self.after(iter(self.pending[:count]))
        del self.pending[:count]

    def after(self, steps: Iterator[Step]) -> bytearray | None:
        content = None if self.synced is None else bytearray(self.synced)
        for step in steps:
            content = _apply(content, step)
        return content


def _apply(content: bytearray | None, step: Step) -> bytearray | None:
    if step.what == "delete":
        return None
    content = bytearray() if content is None else content
    if step.what == "truncate":
        del content[step.at :]
    else:
        content.extend(bytes(max(0, step.at - len(content))))
        content[step.at : step.at + len(step.data)] = step.data
    return content


def _sync_folder(files: dict[str, _File]) -> None:
    """SQLite syncs the folder with the first sync of a file it made; so removals are settled then."""
    for file in files.values():
        whats = [step.what for step in file.pending]
        if "delete" in whats:
            file.settle(whats.index("delete") + 1)


def moments(steps: Sequence[Step], dice: random.Random) -> Iterator[tuple[int, Image]]:
    """At every boundary between two steps: how many commits were acknowledged, and an image a pattern."""
    files: dict[str, _File] = {}
    acknowledged = 0
    for step in steps:
        file = files.setdefault(step.file, _File())
        if step.what == "ack":
            acknowledged += 1
        elif step.what == "sync folder":
            _sync_folder(files)
        elif step.what == "sync":
            if file.synced is None:
                _sync_folder(files)
            file.settle(len(file.pending))
        else:
            file.pending.append(step)
        for pattern in PATTERNS:
            found = {name: f.after(pattern(f.pending, dice)) for name, f in files.items() if name}
            yield (
                acknowledged,
                {name: bytes(content) for name, content in found.items() if content is not None},
            )


# --- what a desk finds after the power came back


@dataclass(slots=True)
class Losses:
    """What all the power losses of one history did."""

    commits: int
    moments: int = 0
    images: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list[str])


class Connected(Protocol):
    """Something open, and its connection."""

    @property
    def connection(self) -> Connection: ...


T = TypeVar("T", bound=Connected)


@dataclass(frozen=True, slots=True)
class Store(Generic[T]):
    """A kind of file: its name, everything one holds, and how one is opened and checked."""

    file: str
    rows: Callable[[Connection], object]
    open: Callable[..., AbstractContextManager[T]]
    faults: Callable[[Path], Sequence[object]]

    def state(self, connection: Connection) -> str:
        """One word for everything in the file."""
        return hashlib.sha256(repr(self.rows(connection)).encode()).hexdigest()


JOURNAL: Final = Store("journal.db", rows, Journal, lambda path: verify(path).faults)


class History:
    """Commits on a recorded disk, with the state that each left."""

    def __init__(self, store: Store[Any], connection: Connection, disk: Disk) -> None:
        self.states: list[str] = [""]
        """By commits acknowledged; the first is a file that holds nothing yet."""
        self.store = store
        self._connection = connection
        self._disk = disk
        self.acknowledge()

    def acknowledge(self) -> None:
        self.states.append(self.store.state(self._connection))
        self._disk.steps.append(Step("ack"))


def lose_power(
    store: Store[T],
    folder: Path,
    work: Callable[[T, Callable[[], None]], None],
    *,
    pages: int,
    synchronous: str | None = None,
    enough: int | None = None,
) -> Losses:
    """Lose the power at every moment of the work, which acknowledges each commit as it returns.

    Checkpoints come every few `pages`, so that pages move from the log to the file many times on the way.
    """
    images = folder / "images"
    images.mkdir()
    with recording("recorded") as disk, store.open(folder / store.file, vfs="recorded") as opened:
        history = History(store, opened.connection, disk)
        opened.connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        if synchronous:
            opened.connection.execute(f"PRAGMA synchronous = {synchronous}")
        work(opened, history.acknowledge)
    result = _examine(history, disk.steps, images, enough)
    print(f"{len(disk.steps)} steps, {result.moments} moments, {result.images} images: {result.lost} lost")
    return result


def _examine(history: History, steps: Sequence[Step], folder: Path, enough: int | None) -> Losses:
    """Lose the power at every moment of a history (until `enough` was lost), and reopen what is left."""
    result = Losses(len(history.states) - 2)
    known: dict[bytes, int | str] = {}
    for acknowledged, image in moments(steps, random.Random(1)):
        digest = _digest(image)
        if digest not in known:
            known[digest] = _reopened(history, image, folder)
        found = known[digest]
        result.moments += 1
        if isinstance(found, str):
            result.problems.append(found)
        elif found < acknowledged:
            result.lost += 1
        elif found > acknowledged + 1:
            result.problems.append(f"{found} commits after {acknowledged} acknowledged ones")
        if result.lost == enough:
            break
    result.images = len(known)
    return result


def _digest(image: Image) -> bytes:
    """One word for the files of an image."""
    whole = hashlib.sha256()
    for name, content in sorted(image.items()):
        whole.update(b"%s %d\n" % (name.encode(), len(content)))
        whole.update(content)
    return whole.digest()


def _reopened(history: History, image: Image, folder: Path) -> int | str:
    """How many commits an image holds, or what is wrong with it."""
    for leftover in folder.iterdir():
        leftover.unlink()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    store, path = history.store, folder / history.store.file
    is_new = not path.exists() or path.stat().st_size == 0
    try:
        with store.open(path) as opened:
            opened.connection.execute("PRAGMA synchronous = OFF")
            found = store.state(opened.connection)
        faults = store.faults(path)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    if faults:
        return str(faults)
    if found in history.states:
        return history.states.index(found)
    return 0 if is_new else "the file holds what was never written"


def workload(journal: Journal, acknowledge: Callable[[], None], commits: int) -> None:
    """Streams opened, appended to, sealed and pruned, each commit acknowledged as it returns."""
    dice = random.Random(7)
    names = ("a", "b", "c")
    acts: list[Callable[[], Any]] = [lambda n=n: journal.open(n, "run") for n in names]
    acts += [lambda: journal.append(dice.choice(names), _entries(dice)) for _ in range(commits - 8)]
    acts += [lambda: journal.seal("a"), lambda: journal.prune("a"), lambda: journal.seal("b")]
    acts += [lambda: journal.append("c", _entries(dice)) for _ in range(2)]
    for act in acts:
        act()
        acknowledge()


def _entries(dice: random.Random) -> list[Entry]:
    size = dice.choice((0, 40, 130, 6_000))
    return [Entry("Trade", dice.getrandbits(60), dice.randbytes(size)) for _ in range(dice.randint(1, 8))]
