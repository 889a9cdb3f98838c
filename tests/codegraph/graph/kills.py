"""Indexes that are killed: a server forks them, a harness kills them and looks at the graph they left.

The project on the disk is one of two trees. The graph may be that of the one it was at or that of the one it
was going to, whole; anything else is a fault.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.codegraph.graph.projects import Here, dangling, graph
from tests.codegraph.graph.test_parity import module
from tests.journal import forks
from tests.journal.forks import Server, fork_server
from tracedesk.codegraph.graph import index
from tracedesk.codegraph.graph.store import Store
from tracedesk.codegraph.graph.update import update_files
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.paths import Jail

FILES: Final = 24


def tree(seed: int) -> dict[str, str]:
    """The files of a tree; most are the same in every tree."""
    dice = random.Random(1)
    texts = {f"pkg{number % 4}/m{number}.py": module(dice) for number in range(FILES)}
    dice = random.Random(seed)
    for path in dice.sample(sorted(texts), 8):
        texts[path] = module(dice)
    for path in dice.sample(sorted(texts), 3):
        del texts[path]
    return {**texts, f"only{seed}.py": module(dice)}


def lay(root: Path, files: dict[str, str]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


# --- the worker's side -------------------------------------------------------------------------


def _in_place(store: Store, jail: Jail, root: str) -> None:
    index.index_project(store, jail, root, [])


def _anew(store: Store, jail: Jail, root: str) -> None:
    setattr(index, "IN_PLACE_FILES", 0)  # noqa: B010
    setattr(index, "_BATCH_FILES", 3)  # noqa: B010
    index.index_project(store, jail, root, [])


def _update(store: Store, jail: Jail, root: str) -> None:
    update_files(store, jail, root, ["."])


def _large_update(store: Store, jail: Jail, root: str) -> None:
    setattr(index, "IN_PLACE_FILES", 3)  # noqa: B010
    setattr(index, "_BATCH_FILES", 3)  # noqa: B010
    update_files(store, jail, root, ["."])


def _naive(store: Store, jail: Jail, root: str) -> None:
    """Without transactions, as a writer that trusts its luck."""

    @contextmanager
    def careless() -> Generator[Connection]:
        yield store._writer()  # pyright: ignore[reportPrivateUsage]

    store.writing = careless
    index.index_project(store, jail, root, [])


WAYS: Final[dict[str, Callable[[Store, Jail, str], None]]] = {
    "in place": _in_place,
    "anew": _anew,
    "update": _update,
    "large update": _large_update,
    "naive": _naive,
}


def live(line: str) -> None:
    """Index the project that the line names, in the way that it names."""
    home, root, way = line.split("\t")
    store = Store(Path(home) / "graph.db", Here())
    jail = Jail([root])
    forks.say_ready()
    WAYS[way](store, jail, root)
    store.close()
    forks.say(b"done")


# --- the killer's side -------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What so many kills showed."""

    kills: int = 0
    before: int = 0
    """Kills after which the graph was the old one."""
    after: int = 0
    finished: int = 0
    problems: list[str] = field(default_factory=list[str])


class Harness:
    """Kills indexes of one project, and knows what its graph may be."""

    def __init__(self, server: Server, folder: Path, seed: int) -> None:
        self.tally = Tally()
        self._server = server
        self._dice = random.Random(seed)
        self._home = folder / "home"
        self._root = folder / "project"
        self._home.mkdir(parents=True)
        self._trees = [tree(2), tree(3)]
        self._graphs = [self._clean(folder / f"clean{n}", files) for n, files in enumerate(self._trees)]
        self._at = 0
        self._seconds = 0.3
        lay(self._root, self._trees[0])
        with Store(self._home / "graph.db", Here()) as store:
            index.index_project(store, Jail([self._root]), str(self._root), [])

    def _clean(self, home: Path, files: dict[str, str]) -> dict[str, Any]:
        home.mkdir()
        lay(self._root, files)
        with Store(home / "graph.db", Here()) as store:
            index.index_project(store, Jail([self._root]), str(self._root), [])
            return graph(store, str(self._root))

    def round(self, way: str) -> None:
        """One index on its way to the other tree, its death, and the inquest."""
        goal = 1 - self._at
        lay(self._root, self._trees[goal])
        pid = self._server.begin(f"{self._home}\t{self._root}\t{way}")
        if self._server.lines.next(self._dice.uniform(0, self._seconds)) == "done":
            self.tally.finished += 1
            # Fewer rounds should end before they are killed.
            self._seconds *= 0.9
        else:
            self._seconds *= 1.03
            self._kill(pid)
        while self._server.lines.next() != "dead":
            pass
        self._inquest(way, goal)

    def _kill(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
            self.tally.kills += 1
        except ProcessLookupError:  # it ended after the last look
            self.tally.finished += 1

    def _inquest(self, way: str, goal: int) -> None:
        with Store(self._home / "graph.db", Here()) as store:
            found = graph(store, str(self._root))
            if found == self._graphs[goal]:
                self._at = goal
                self.tally.after += 1
            elif found == self._graphs[1 - goal]:
                self.tally.before += 1
            else:
                wrong = [part for part in found if found[part] != self._graphs[goal].get(part)]
                self.tally.problems.append(f"{way}: the graph is of neither tree: {wrong}")
            self.tally.problems += [f"{way}: {fault}" for fault in dangling(store)]
            with store.reading() as connection:
                sound = next(connection.execute("PRAGMA integrity_check"))[0]
            if sound != "ok":
                self.tally.problems.append(f"{way}: {sound}")


def kill_indexes(folder: Path, ways: Sequence[str], kills: int, seed: int = 1) -> Tally:
    """Kill so many indexes of one project; stop at the first problem."""
    with fork_server("tests.codegraph.graph.kills") as server:
        harness = Harness(server, folder, seed)
        while harness.tally.kills < kills and not harness.tally.problems:
            harness.round(ways[(harness.tally.kills + harness.tally.finished) % len(ways)])
        return harness.tally


if __name__ == "__main__":
    forks.serve(live)
