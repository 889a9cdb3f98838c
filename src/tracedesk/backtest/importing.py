"""Runs from files: every line becomes an event, and the same file is brought in only once.

An import is written aside and takes its place when it is complete, so one that is killed leaves no run, and
the next one begins anew.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, cast

import orjson

from tracedesk.backtest import lines
from tracedesk.backtest.ids import guid_text, run_id_of
from tracedesk.backtest.intake import Intake
from tracedesk.backtest.runs import Plan
from tracedesk.catalog import Catalog, CatalogError, Run
from tracedesk.home import Home
from tracedesk.journal import JournalError
from tracedesk.journal.verify import has_log
from tracedesk.primitives.disk import sync

Progress = Callable[[float, float | None, str | None], None]
"""Told bytes of the file that were read, of how many, and in words."""

MOST_RUNS: Final = 200
"""Runs that one file may hold: each has a file of its own open while the import lasts."""
LONGEST_LINE: Final = 64 * 2**20
ENGINE: Final = "jsonl"
"""What an imported run names as its engine when nothing else is known."""
_LOCK: Final = ".import.lock"
_ASIDE: Final = ".import-"
_LOOKED_AT: Final = 1_000
REPORT_EVERY = 2_000
"""Lines between two words about progress."""
_BOM: Final = b"\xef\xbb\xbf"


class ImportRefused(Exception):
    """A file that cannot be brought in, with what to do; nothing of it was kept."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One run that a file holds."""

    id: str
    name: str
    events: int
    invalid: int
    """Events with validation errors."""
    malformed: int
    """Lines that hold no event object of a known type."""
    is_new: bool
    """False when it was there already."""


def import_file(
    home: Home,
    path: Path,
    *,
    name: str | None = None,
    run_id: str | None = None,
    engine: str = ENGINE,
    config: Mapping[str, Any] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> list[Imported]:
    """Bring in a file of event objects, one a line, plain or gzipped; its runs, in the file's order.

    Name, engine and configuration are what the file does not tell of its runs. A file without any event is
    refused unless `force` is given.
    """
    wanted = run_id_of(run_id) if run_id else None
    with _opened(home, path) as file:
        source = _Source(file, path.name, progress)
        digest, first = source.survey()
        key = hashlib.sha256(f"{digest}\0{wanted or ''}".encode()).hexdigest()
        known = _known(home, key)
        if known:
            return [_present(run) for run in known]
        with _aside(home, key) as folder:
            plan = Plan(name or _stem(path), engine, config or {})
            work = _Work(home, folder, digest, key, plan, wanted, first)
            work.take(source)
            return work.finish(path.name, force=force)


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl") or path.name


# --- what is there already --------------------------------------------------------------------


def _known(home: Home, key: str) -> list[Run] | None:
    """The runs of an earlier import of the same, if all of them are still there."""
    with Catalog(home) as catalog:
        found = {run.id: run for run in catalog.list() if _key_of(run) == key}
    listed: list[str] = next((run.meta["source"]["runs"] for run in found.values()), list[str]())
    return [found[id] for id in listed] if listed and set(listed) <= set(found) else None


def _key_of(run: Run) -> str | None:
    source: Any = run.meta.get("source")
    return source.get("key") if isinstance(source, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _present(run: Run) -> Imported:
    source = run.meta["source"]
    return Imported(run.id, run.name, run.events, source["invalid"], source["malformed"], is_new=False)


# --- the file ---------------------------------------------------------------------------------


@contextmanager
def _opened(home: Home, path: Path) -> Generator[IO[bytes]]:
    """The file; what comes through a pipe can be read only once, so it is first kept in a nameless one."""
    with path.open("rb") as file:
        if file.seekable():
            yield file
            return
        with TemporaryFile(dir=home.runs) as kept:
            shutil.copyfileobj(file, kept)
            yield cast("IO[bytes]", kept)


class _Source:
    """The lines of a file, read twice: once to know it, once to take it."""

    def __init__(self, file: IO[bytes], name: str, progress: Progress | None) -> None:
        self._raw = file
        self._name = name
        self._progress = progress
        self._size = file.seek(0, os.SEEK_END)
        self.digest = ""

    def survey(self) -> tuple[str, str | None]:
        """The SHA-256 of the content, and the first run id near its beginning."""
        first: str | None = None
        for number, line in enumerate(self.lines("reading"), 1):
            if first is None and number <= _LOOKED_AT:
                first = _run_named_in(line)
        return self.digest, first

    def lines(self, words: str) -> Iterator[bytes]:
        """Every line without its end; at the end, `digest` is that of the content."""
        content = hashlib.sha256()
        with _unpacked(self._raw) as file:
            for number, line in enumerate(self._bounded(file)):
                content.update(line)
                if number % REPORT_EVERY == 0 and self._progress:
                    self._progress(self._raw.tell(), self._size, f"{words}, line {number:,}")
                yield line.removeprefix(_BOM).strip() if number == 0 else line.strip()
        self.digest = content.hexdigest()

    def _bounded(self, file: IO[bytes]) -> Iterator[bytes]:
        number = 0
        try:
            while line := file.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    raise ImportRefused(
                        f"line {number} is longer than {LONGEST_LINE >> 20} MiB; give one event object a line"
                    )
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ImportRefused(
                f"{self._name} is damaged after line {number}: its compression breaks off; fetch it again"
            ) from None


@contextmanager
def _unpacked(raw: IO[bytes]) -> Generator[IO[bytes]]:
    """The content from its beginning, whatever the file is called."""
    raw.seek(0)
    magic = raw.read(2)
    raw.seek(0)
    if magic == b"\x1f\x8b":
        with gzip.open(raw) as file:
            yield cast("IO[bytes]", file)
    else:
        yield raw


def _run_named_in(line: bytes) -> str | None:
    with suppress(orjson.JSONDecodeError):
        members = orjson.loads(line)
        if isinstance(members, dict):
            value = cast("dict[str, Any]", members).get("runId")
            return value if isinstance(value, str) and value else None
    return None


# --- aside ------------------------------------------------------------------------------------


@contextmanager
def _aside(home: Home, key: str) -> Generator[Path]:
    """A folder for this import alone; those of imports that were killed are removed on the way."""
    folder = home.runs / f"{_ASIDE}{key[:16]}"
    with ExitStack() as stack:
        with _locked(home.runs / _LOCK):
            for old in sorted(home.runs.glob(f"{_ASIDE}*")):
                _clear(old)
            if folder.exists():
                raise ImportRefused("another process is importing the same; wait for it")
            (folder / "runs").mkdir(mode=0o700, parents=True)
            stack.enter_context(_locked(folder / _LOCK))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove what a dead import left; a living one holds its lock."""
    with suppress(BlockingIOError), _locked(folder / _LOCK, wait=False):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Generator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


# --- the import -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    """Which run each line belongs to, and what becomes of the runs."""

    home: Home
    folder: Path
    digest: str
    key: str
    plan: Plan
    wanted: str | None
    first: str | None
    named: dict[str, str] = field(default_factory=dict[str, str])
    """Run ids by what the file calls them."""
    open: dict[str, Intake] = field(default_factory=dict[str, Intake])
    present: dict[str, Run] = field(default_factory=dict[str, Run])

    def take(self, source: _Source) -> None:
        """Every line to its run; one that names none belongs to the run of the line before."""
        current = self.first or ""
        try:
            for raw in source.lines("importing"):
                if not raw:
                    continue
                line = lines.read(raw)
                current = line.run or current
                run = self._run(current)
                if run is not None:
                    run.add(line)
            if source.digest != self.digest:
                raise ImportRefused("the file changed while it was read; import it again when it is complete")
        except BaseException:
            self._close()
            raise

    def finish(self, file: str, *, force: bool) -> list[Imported]:
        """Seal the runs, and put them in their place."""
        if not self.named:
            raise ImportRefused("the file has no lines, so there is nothing to import")
        ids = list(dict.fromkeys(self.named.values()))
        source = {"sha256": self.digest, "key": self.key, "runs": ids}
        try:
            for run in self.open.values():
                run.finish(source)
        finally:
            self._close()
        if not force:
            self._refuse_without_events(file)
        self._place()
        with Catalog(self.home) as catalog:
            for id in self.open:
                catalog.refresh(id)
        return [self._outcome(id) for id in ids]

    def _refuse_without_events(self, file: str) -> None:
        """Refuse a file that only holds something else; one that shares a run with another holds events."""
        found = list(self.open.values())
        if self.present or any(run.typed for run in found):
            return
        count = sum(run.events for run in found)
        raise ImportRefused(
            f"{file} holds no event: none of its {count:,} lines is a JSON object with a known eventType. "
            "Give one event object a line, or keep the lines as malformed events with --force"
        )

    def _place(self) -> None:
        """Give the runs their names among the others: to all of them, or to none."""
        placed: list[Path] = []
        try:
            for id in self.open:
                path, place = Home(self.folder).run_file(id), self.home.run_file(id)
                if has_log(path):
                    raise ImportRefused(f"{path} could not be written whole; is the disk full?")
                # A link takes no name that somebody else was given meanwhile; a rename would.
                os.link(path, place)
                placed.append(place)
        except BaseException as problem:
            for place in placed:
                place.unlink()
            if isinstance(problem, FileExistsError):
                raise _taken(Path(problem.filename2).stem) from None
            raise
        finally:
            sync(self.home.runs)

    def _outcome(self, id: str) -> Imported:
        if id in self.present:
            return _present(self.present[id])
        run = self.open[id]
        return Imported(id, run.name, run.events, run.invalid, run.malformed, is_new=True)

    def _close(self) -> None:
        for run in self.open.values():
            run.close()

    def _run(self, called: str) -> Intake | None:
        """Where a run's lines go; None when the run is there already."""
        id = self.named.get(called)
        if id is None:
            id = self._begin(called)
        return self.open.get(id)

    def _begin(self, called: str) -> str:
        if self.wanted and self.named:
            raise ImportRefused("--run-id names one run, but the file holds several; import it without")
        if len(self.named) == MOST_RUNS:
            raise ImportRefused(f"the file holds more than {MOST_RUNS} runs; split it")
        id = self.named[called] = self.wanted or _id_of(called, self.digest)
        if self.home.run_file(id).exists():
            self.present[id] = self._same(id)
        elif id not in self.open:
            number = len(self.named)
            plan = self.plan if number == 1 else replace(self.plan, name=f"{self.plan.name} {number}")
            self.open[id] = Intake.begin(Home(self.folder), id, plan)
        return id

    def _same(self, id: str) -> Run:
        """The run of that id, if an earlier import of this file made it; else the ids clash."""
        with suppress(CatalogError, JournalError), Catalog(self.home) as catalog:
            run = catalog.refresh(id)
            if _key_of(run) == self.key:
                return run
        raise _taken(id)


def _taken(id: str) -> ImportRefused:
    return ImportRefused(
        f"run {id} is here already, with other content; import the file under another id with --run-id"
    )


def _id_of(called: str, digest: str) -> str:
    """A run's id: its own if it is a GUID, else one made from its name and the content."""
    with suppress(ValueError):
        return run_id_of(called)
    return guid_text(lines.foreign(f"run {called} of {digest}"))
