"""Journal users in processes of their own, all let go at the same moment."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, Final, TypeVar

from tests.journal.samples import entries
from tracedesk.journal import Journal, Reader

T = TypeVar("T")
BOUND: Final = 60.0
_CONTEXT: Final = multiprocessing.get_context("forkserver")
_start: Any = None


def _remember(barrier: Barrier) -> None:
    global _start
    _start = barrier


def together(count: int, work: Callable[..., T], *args: object) -> list[T]:
    """The results of `work(number, *args)` in so many processes at once."""
    _CONTEXT.set_forkserver_preload([__name__])
    barrier = _CONTEXT.Barrier(count)
    with ProcessPoolExecutor(count, _CONTEXT, initializer=_remember, initargs=(barrier,)) as pool:
        running = [pool.submit(work, number, *args) for number in range(count)]
        return [future.result(BOUND) for future in running]


def wait_for_the_others() -> None:
    _start.wait(BOUND)


def append_to_both(number: int, path: Path, batches: int, size: int) -> list[tuple[str, int, int]]:
    """Append in turn to a stream of one's own and to one that all share; say which seqs came back."""
    done: list[tuple[str, int, int]] = []
    with Journal(path) as journal:
        names = (f"own-{number}", "shared")
        for name in names:
            journal.open(name, "run")
        wait_for_the_others()
        for n in range(batches):
            for name in names:
                seqs = journal.append(name, entries(size, number * 1_000_000 + n * size))
                done.append((name, seqs[0], seqs[-1]))
    return done


def create_at_once(number: int, folder: Path, files: int) -> list[int]:
    """Make each file at the same moment as the others; the seq each first append got."""
    got: list[int] = []
    for n in range(files):
        wait_for_the_others()
        with Journal(folder / f"{n}.db") as journal:
            journal.open("a", "run")
            got.append(journal.append("a", entries(1, number))[0])
    return got


def write_then_seal(_: int, path: Path, batches: int) -> None:
    with Journal(path) as journal:
        for n in range(batches):
            journal.append("a", entries(7, n * 7 + 1))
        journal.seal("a")


def read_until_sealed(path: Path) -> list[int]:
    """Every seq, as a follower of the stream sees them."""
    seen: list[int] = []
    cursor = None
    with Reader(path) as reader:
        while True:
            ended = reader.seal("a") is not None
            page, cursor = reader.page("a", cursor, 10)
            seen += [event.seq for event in page]
            if ended and not page:
                return seen


def write_or_follow(number: int, path: Path, batches: int) -> list[int]:
    wait_for_the_others()
    if number == 0:
        write_then_seal(number, path, batches)
        return []
    return read_until_sealed(path)
