"""Backups: a home copied while desks write, into a folder that is a home itself."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, cast

import tracedesk
from tracedesk import rollback
from tracedesk.home import FOLDERS, FORMAT, HomeError, HomeTooNew, alone, read_format
from tracedesk.journal import JournalError, Reader, StreamPruned, verify
from tracedesk.journal.sqlite import Connection, NotADBError, SQLiteError, connect
from tracedesk.primitives import json
from tracedesk.primitives.disk import sync
from tracedesk.primitives.redaction import redact_text
from tracedesk.primitives.time import Clock, SystemClock, format

LEDGER: Final = "ledger.db"
MANIFEST: Final = "manifest.json"
MANIFEST_FORMAT: Final = 1
PARTIAL: Final = ".partial"
_PAGES: Final = 256
"""Pages of a database copied in one step."""
_CHUNK: Final = 1 << 20
_SIDE_FILES: Final = ("-wal", "-shm", "-journal", ".lock")
_TRANSIENT: Final = ("run", "logs")
"""Folders that say something about processes, not about what was done."""
_CREDENTIALS: Final = ("token", "tokens.json", "*.key", "*.pem", "*.secret")
"""Live credentials by name: its finder must not be able to act with a backup."""
_LARGEST_CREDENTIALS: Final = 16_384
"""A larger file holds no keys of an account; a smaller one is looked into."""
_DATA: Final = ("runs", "campaigns", "payloads", "inbox", "vectors", "models", "graph.locks")
_SETTINGS: Final = ("tracedesk.toml", "format.json")
_INDEXES: Final = ("catalog.db", "graph.db")
_RECORDS: Final = ("trace.db", "ledger.db")

Kind = Literal["journal", "database", "file"]
Progress = Callable[[int, int, str], None]
"""Told the bytes done, the bytes there were at the start, and the file that is being read."""


class BackupError(HomeError):
    """A backup that cannot be made or read, with what to do."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a backup; a journal's heads say how far each of its streams reaches."""

    path: str
    kind: Kind
    bytes: int
    sha256: str
    heads: dict[str, dict[str, Any]] | None = None

    def document(self) -> dict[str, Any]:
        facts = {"path": self.path, "kind": self.kind, "bytes": self.bytes, "sha256": self.sha256}
        return facts if self.heads is None else {**facts, "heads": self.heads}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds."""

    home_format: int
    started_at: str
    ended_at: str
    items: tuple[Item, ...]
    left_out: tuple[str, ...] = ()
    """Links, sockets and the like, which a person may have expected to find."""
    credentials: tuple[str, ...] = ()
    """Files with live credentials, which are left out too."""

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)

    @property
    def journals(self) -> int:
        return sum(item.kind == "journal" for item in self.items)

    @property
    def events(self) -> int:
        heads = (head for item in self.items for head in (item.heads or {}).values())
        return sum(head.get("seq", 0) for head in heads)

    def document(self) -> dict[str, Any]:
        return {
            "format": MANIFEST_FORMAT,
            "homeFormat": self.home_format,
            "writtenBy": tracedesk.__version__,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "files": [item.document() for item in self.items],
            "leftOut": list(self.left_out),
            "credentials": list(self.credentials),
        }


@dataclass(slots=True)
class Verdict:
    """What checking a backup found."""

    files: int = 0
    bytes: int = 0
    events: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def is_sound(self) -> bool:
        return not self.faults


# --- making one --------------------------------------------------------------------------------


def back_up(
    home: Path, target: Path, *, clock: Clock | None = None, progress: Progress | None = None
) -> Manifest:
    """Copy the home at `home` into the new folder `target`; it appears there whole or not at all."""
    home, target = home.resolve(), target.resolve()
    number = _home_format(home)
    _check_target(home, target)
    clock = clock or SystemClock()
    with alone(home), _becoming(target) as folder:
        started = format(clock.now_ns())
        copying = _Copying(home, folder, progress)
        copying.run()
        items = tuple(sorted(copying.items, key=lambda item: item.path))
        left_out, credentials = tuple(sorted(copying.left_out)), tuple(sorted(copying.credentials))
        manifest = Manifest(number, started, format(clock.now_ns()), items, left_out, credentials)
        _write_manifest(folder, manifest)
    return manifest


def _home_format(home: Path) -> int:
    if not home.is_dir():
        raise BackupError(f"there is no home at {home}; name it with --home")
    found = read_format(home)
    if found is not None and found.number > FORMAT:
        raise HomeTooNew(home, found, FORMAT)
    return found.number if found else 0


def _check_target(home: Path, target: Path) -> None:
    if target.is_relative_to(home):
        raise BackupError(f"{target} lies in the home itself; choose a folder outside it")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(f"{target} is there already; choose a new folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    needed, free = _weight(home), shutil.disk_usage(target.parent).free
    if needed > free:
        raise BackupError(f"{target.parent} has {free} bytes free, and the home has {needed}; make room")


def _weight(home: Path) -> int:
    return sum(_size(file) for file in _Walk(home).under(home))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0  # it went while we looked


@contextmanager
def _becoming(target: Path) -> Generator[Path]:
    """A folder beside `target` that takes its name when everything in it is on the disk."""
    folder = target.with_name(target.name + PARTIAL)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise BackupError(f"{folder} is left of a backup that was cut off; remove it first") from None
    try:
        yield folder
        for below, _, _ in os.walk(folder, topdown=False):
            sync(Path(below))
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sync(target.parent)


class _Walk:
    """The files of a home that belong in a backup. Links at the top are followed; deeper ones are not."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.left_out: set[str] = set()
        self.credentials: set[str] = set()

    def under(self, folder: Path, *, without: tuple[str, ...] = ()) -> Iterator[Path]:
        """The files below `folder` now, in order."""
        if not folder.is_dir():
            return
        for path in sorted(folder.iterdir()):
            if path.name in without or self._is_transient(path):
                continue
            mode = self._mode(path)
            if stat.S_ISDIR(mode):
                yield from self.under(path)
            elif stat.S_ISREG(mode):
                if self._holds_credentials(path):
                    self.credentials.add(self.relative(path))
                else:
                    yield path
            elif mode:
                self.left_out.add(self.relative(path))

    def relative(self, path: Path) -> str:
        return path.relative_to(self._home).as_posix()

    def _is_transient(self, path: Path) -> bool:
        if path.parent == self._home and path.name in (*_TRANSIENT, MANIFEST):
            return True
        return path.name.startswith(".") or path.name.endswith(_SIDE_FILES)

    def _holds_credentials(self, path: Path) -> bool:
        """Judge a file by its name, and a small one that is none of the desk's own by its text."""
        parts = path.relative_to(self._home).parts
        if parts[0] in _DATA or path.name in _SETTINGS or path.suffix == ".db":
            return False
        if any(path.match(pattern) for pattern in _CREDENTIALS):
            return True
        try:
            if path.stat().st_size > _LARGEST_CREDENTIALS:
                return False
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False
        return redact_text(text) != text

    def _mode(self, path: Path) -> int:
        try:
            return (path.stat() if path.parent == self._home else path.lstat()).st_mode
        except FileNotFoundError:
            return 0


class _Copying:
    """One backup under way.

    The order keeps references whole while others write: the inbox before the journal it is drained into,
    indexes before what they point at, records before runs and payloads that they cite. What is listed
    later is there for everything that was copied earlier.
    """

    def __init__(self, home: Path, target: Path, progress: Progress | None) -> None:
        self._home = home
        self._target = target
        self._walk = _Walk(home)
        self._progress = progress
        self._total = _weight(home) if progress else 0
        self._done = 0
        self.items: list[Item] = []

    @property
    def left_out(self) -> set[str]:
        return self._walk.left_out

    @property
    def credentials(self) -> set[str]:
        return self._walk.credentials

    def run(self) -> None:
        for name in FOLDERS:
            (self._target / name).mkdir(mode=0o700)
        self._copy_all(self._walk.under(self._home / "inbox"))
        self._copy_all(self._named(_INDEXES))
        # Of one moment: neither file may store a head that the copy of the other lacks.
        with rollback.snapshot(self._home) as opened:
            self._copy_all(self._named(_RECORDS), opened)
        others = (*_INDEXES, *_RECORDS, "inbox", "payloads")
        self._copy_all(self._walk.under(self._home, without=others))
        self._copy_all(self._walk.under(self._home / "payloads"))

    def _named(self, names: tuple[str, ...]) -> Iterator[Path]:
        return (path for name in names if (path := self._home / name).exists())

    def _copy_all(self, paths: Iterator[Path], opened: Mapping[str, Connection] | None = None) -> None:
        for path in paths:
            self._copy(path, (opened or {}).get(path.name))

    def _copy(self, source: Path, opened: Connection | None) -> None:
        relative = self._walk.relative(source)
        target = self._target / relative
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            item = self._copied(source, target, relative, opened)
        except FileNotFoundError:
            target.unlink(missing_ok=True)  # it went between the listing and now, like drained inbox files
        except SQLiteError as problem:
            raise BackupError(f"{source} could not be copied: {problem}") from None
        else:
            self.items.append(item)
            self._done += item.bytes
            self._tell(0, relative)

    def _copied(self, source: Path, target: Path, relative: str, opened: Connection | None) -> Item:
        if source.suffix != ".db":
            return self._file(source, target, relative)
        try:
            copy_database(source, target, lambda done: self._tell(done, relative), opened)
        except NotADBError:
            target.unlink()
            return self._file(source, target, relative)
        heads = journal_heads(target)
        kind: Kind = "database" if heads is None else "journal"
        return Item(relative, kind, target.stat().st_size, _digest(target), heads)

    def _file(self, source: Path, target: Path, relative: str) -> Item:
        digest, size = hashlib.sha256(), 0
        with source.open("rb") as origin, _private(target) as copy:
            while chunk := origin.read(_CHUNK):
                copy.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                self._tell(size, relative)
            _sync(copy)
        return Item(relative, "file", size, digest.hexdigest())

    def _tell(self, done: int, name: str) -> None:
        if self._progress is not None:
            self._progress(self._done + done, self._total, name)


def copy_database(
    source: Path,
    target: Path,
    progress: Callable[[int], None] | None = None,
    opened: Connection | None = None,
) -> None:
    """Copy one SQLite file as it stands now, in small steps, while others write it.

    A connection that is open in a read transaction is copied as that transaction sees the file.

    The read transaction pins one state: without it every write of another process would start the copy
    over. Writers are not held up; only the write-ahead log cannot be reset until the copy is done.
    """
    if not source.exists():
        raise FileNotFoundError(source)
    _private(target).close()
    with _reading(source, opened) as origin, closing(connect(target)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        page = int(origin.pragma("page_size"))
        with copy.backup("main", origin, "main") as steps:
            while not steps.done:
                steps.step(_PAGES)
                if progress is not None:
                    progress((steps.page_count - steps.remaining) * page)
        # A copy in rollback mode is one file: reading it leaves nothing beside it, even on read-only media.
        copy.execute("PRAGMA journal_mode = DELETE")
    with target.open("rb+") as file:
        _sync(file)


@contextmanager
def _reading(source: Path, opened: Connection | None) -> Generator[Connection]:
    """A connection in a read transaction."""
    if opened is not None:
        yield opened
        return
    with closing(connect(source, read_only=True)) as origin:
        origin.execute("PRAGMA busy_timeout = 5000")
        origin.execute("BEGIN")
        origin.pragma("user_version")  # the first read fixes the state
        yield origin


def journal_heads(path: Path) -> dict[str, dict[str, Any]] | None:
    """How far each stream of a journal reaches; None when the file is not a journal."""
    try:
        with Reader(path) as reader:
            return {stream.name: _head(reader, stream.name) for stream in reader.streams()}
    except (JournalError, SQLiteError):
        return None


def _head(reader: Reader, name: str) -> dict[str, Any]:
    try:
        head = reader.head(name)
    except StreamPruned:
        return {"pruned": True}
    return {"seq": head.seq, "hash": head.hash.hex()}


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    with _private(folder / MANIFEST) as file:
        file.write(json.dumps(manifest.document()) + b"\n")
        _sync(file)


def _private(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- checking one ------------------------------------------------------------------------------


def check(folder: Path, *, progress: Progress | None = None) -> Verdict:
    """Check every file of a backup against its manifest, and every journal against its chain."""
    manifest = read_manifest(folder)
    expected = {item.path: item for item in manifest.items}
    paths = (path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir())
    present = {path.relative_to(folder).as_posix(): path for path in paths}
    present.pop(MANIFEST)
    verdict = Verdict()
    verdict.faults += [(name, "it is missing") for name in expected if name not in present]
    verdict.faults += [(name, "it is not in the manifest") for name in present if name not in expected]
    for name, item in expected.items():
        if name in present:
            _check_item(present[name], item, verdict)
            if progress is not None:
                progress(verdict.bytes, manifest.bytes, name)
    verdict.faults += [(loss.file, loss.problem_by) for loss in rollback.check(folder)]
    return verdict


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the backup in `folder`."""
    try:
        document = json.loads((folder / MANIFEST).read_bytes())
        if document["format"] > MANIFEST_FORMAT:
            raise BackupError(f"{folder} was made by a newer tracedesk; update this one to read it")
        return _manifest(document)
    except (FileNotFoundError, NotADirectoryError):
        raise BackupError(f"{folder} is not a backup: it has no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError):
        raise BackupError(f"{folder / MANIFEST} is damaged") from None


def _manifest(document: dict[str, Any]) -> Manifest:
    items = tuple(
        Item(str(i["path"]), i["kind"], int(i["bytes"]), str(i["sha256"]), i.get("heads"))
        for i in cast("list[dict[str, Any]]", document["files"])
    )
    times = str(document["startedAt"]), str(document["endedAt"])
    return Manifest(
        int(document["homeFormat"]),
        *times,
        items,
        tuple(document["leftOut"]),
        tuple(document.get("credentials", ())),
    )


def _check_item(path: Path, item: Item, verdict: Verdict) -> None:
    verdict.files += 1
    verdict.bytes += item.bytes
    if path.stat().st_size != item.bytes or _digest(path) != item.sha256:
        verdict.faults.append((item.path, "it is not what was written: its digest differs"))
    elif item.kind == "journal":
        verdict.faults += [(item.path, problem) for problem in _journal_faults(path, item, verdict)]
    elif item.path == LEDGER:
        verdict.faults += [(item.path, problem) for problem in _ledger_faults(path)]


def _ledger_faults(path: Path) -> list[str]:
    from tracedesk.trading.audit import verify as audit

    return [f"entry {fault.seq}: {fault.problem}" for fault in audit(path).faults]


def _journal_faults(path: Path, item: Item, verdict: Verdict) -> Iterator[str]:
    report = verify(path)
    verdict.events += report.events
    for fault in report.faults:
        where = f" at {fault.seq}" if fault.seq is not None else ""
        yield f"stream {fault.stream!r}{where}: {fault.problem}" if fault.stream else fault.problem
    heads = {name: head["hash"] for name, head in (item.heads or {}).items() if "hash" in head}
    if report.is_sound and heads != report.heads:
        yield "its heads are not those of the manifest"
