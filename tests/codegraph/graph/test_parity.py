"""A graph that was updated edit by edit is the graph that is built at once, exactly."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.proof.record import Recorder
from tests.codegraph.graph.projects import Desk, Here, dangling, graph
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.pool import Parsers, Parsing
from tracedesk.codegraph.graph.store import Store
from tracedesk.codegraph.graph.update import update_files
from tracedesk.primitives.paths import Jail

NAMES = ("load", "save", "Store", "parse", "Model", "run", "helper")
PATHS = (
    "app/__init__.py",
    "app/models.py",
    "app/views.py",
    "app/sub/__init__.py",
    "app/sub/models.py",
    "lib/models.py",
    "tests/test_views.py",
    "web/index.ts",
    "web/store.ts",
    "web/views.ts",
    "notes.md",
)
_MODULES = ("app", "app.models", "app.sub", "app.sub.models", ".models", ".", "..models", "models")
_SCRIPTS = ("./store", "./views", "./index", "../web/store")


@st.composite
def sources(draw: st.DrawFn, path: str) -> str:
    """A small file of the path's language that defines, imports and uses names of a few."""
    dice = random.Random(draw(st.integers(0, 1 << 30)))
    return (
        script(dice)
        if path.endswith(".ts")
        else module(dice)
        if path.endswith(".py")
        else f"# {dice.random()}\n"
    )


def module(dice: random.Random) -> str:
    lines = ['"""A module."""' if dice.random() < 0.5 else ""]
    for _ in range(dice.randint(0, 3)):
        taken = dice.choice(("models", "sub", *NAMES))
        lines.append(f"from {dice.choice(_MODULES)} import {taken}")
    for _ in range(dice.randint(0, 4)):
        name = dice.choice(("", "_")) + dice.choice(NAMES)
        if dice.random() < 0.4:
            base = dice.choice(("", f"({dice.choice(NAMES)})"))
            lines.append(f"class {name}{base}:")
            for method in dice.sample(NAMES, dice.randint(1, 3)):
                lines.append(
                    f"    def {method}(self):\n        return {dice.choice(NAMES)}(self.{dice.choice(NAMES)})"
                )
        else:
            lines.append(
                f"def {name}(value):\n    return {dice.choice(NAMES)}(value) or {dice.choice(NAMES)}()"
            )
    return "\n".join(lines) + "\n"


def script(dice: random.Random) -> str:
    lines: list[str] = []
    for _ in range(dice.randint(0, 2)):
        lines.append(f"import {{ {dice.choice(NAMES)} }} from '{dice.choice(_SCRIPTS)}';")
    for _ in range(dice.randint(0, 3)):
        export = dice.choice(("", "export "))
        lines.append(
            f"{export}function {dice.choice(NAMES)}(x: number) {{ return {dice.choice(NAMES)}(x); }}"
        )
    return "\n".join(lines) + "\n"


EDITS = st.lists(
    st.sampled_from(PATHS).flatmap(
        lambda path: st.tuples(
            st.just(path),
            st.one_of(st.none(), sources(path), st.sampled_from([p for p in PATHS if p != path])),
        )
    ),
    min_size=1,
    max_size=4,
)
"""A path with new text, nothing (it is removed), or the path that it is renamed to."""


def perform(root: Path, edits: list[tuple[str, Any]]) -> set[str]:
    """Make the edits on the disk; the paths that they touch."""
    touched: set[str] = set()
    for path, change in edits:
        file = root / path
        touched.add(path)
        if change is None:
            file.unlink(missing_ok=True)
        elif change in PATHS:
            touched.add(change)
            if file.exists():
                (root / change).parent.mkdir(parents=True, exist_ok=True)
                file.replace(root / change)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(change)
    return touched


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(EDITS, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_edits_of_any_kind_leave_the_graph_of_a_clean_rebuild(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str, Any]]], order: random.Random
) -> None:
    with Desk(tmp_path_factory.mktemp("parity")) as desk:
        perform(desk.root, steps[0])
        desk.index()
        for step in steps[1:]:
            touched = sorted(perform(desk.root, step))
            order.shuffle(touched)
            cut = order.randint(0, len(touched))
            desk.update(touched[:cut], touched[cut:])
            assert desk.graph() == desk.rebuilt()
        assert dangling(desk.store) == []


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(EDITS, min_size=2, max_size=5))
def test_an_index_of_a_changed_project_is_the_clean_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str, Any]]]
) -> None:
    with Desk(tmp_path_factory.mktemp("parity")) as desk:
        desk.write({"keep.py": module(random.Random(3))})
        for step in steps:
            perform(desk.root, step)
            desk.index()
            assert desk.graph() == desk.rebuilt()
        assert dangling(desk.store) == []


def test_the_order_in_which_files_come_is_no_matter(tmp_path: Path) -> None:
    dice = random.Random(7)
    texts = {path: script(dice) if path.endswith(".ts") else module(dice) for path in PATHS[:-1]}
    graphs: list[dict[str, Any]] = []
    for round in range(6):
        order = list(texts)
        random.Random(round).shuffle(order)
        with Desk(tmp_path / str(round)) as desk:
            desk.index()
            for path in order:
                desk.write({path: texts[path]})
                desk.update([path])
            graphs.append(desk.graph())
    assert all(found == graphs[0] for found in graphs[1:])
    assert graphs[0]["references to symbols"]
    assert graphs[0]["imports of files"]


# --- real histories


def git_directory(checkout: Path) -> str:
    """The git directory of a checkout, bare or with a work tree."""
    words = ["git", "rev-parse", "--absolute-git-dir"]
    return subprocess.run(words, cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()


class History:
    """The last commits of a git repository, checked out one after the other."""

    def __init__(self, repository: str, folder: Path, commits: int) -> None:
        self._git = ["git", f"--git-dir={repository}", f"--work-tree={folder}"]
        self._environment = {**os.environ, "GIT_INDEX_FILE": str(folder.parent / "index")}
        self.folder = folder
        folder.mkdir()
        found = self.git("rev-list", "--first-parent", f"--max-count={commits + 1}", "HEAD").split()
        self.commits = found[::-1]

    def git(self, *words: str) -> str:
        done = subprocess.run(
            [*self._git, *words],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def start(self) -> None:
        self.git("read-tree", "--reset", "-u", self.commits[0])

    def step(self, number: int) -> list[str]:
        """Go on to the next commit; the paths that differ."""
        before, after = self.commits[number - 1 : number + 1]
        self.git("read-tree", "--reset", "-u", after)
        return [
            path
            for path in self.git("diff", "--name-only", "--no-renames", "-z", before, after).split("\0")
            if path
        ]


def replay(history: History, home: Path, every: int, parsers: Parsing) -> int:
    """Follow a history by updates, and compare with a clean rebuild now and then; how many commits it had."""
    jail = Jail([history.folder])
    root = str(history.folder)
    history.start()
    with Store(home / "graph.db", parsers) as store:
        index_project(store, jail, root, [])
        last = len(history.commits) - 1
        for number in range(1, last + 1):
            update_files(store, jail, root, history.step(number))
            if number % every == 0 or number == last:
                _compare(store, jail, root, home / f"clean-{number}.db", parsers)
        assert dangling(store) == []
    return last


def _compare(store: Store, jail: Jail, root: str, beside: Path, parsers: Parsing) -> None:
    with Store(beside, parsers) as clean:
        index_project(clean, jail, root, [])
        ours, theirs = (graph(each, root, words=False) for each in (store, clean))
    assert ours.keys() == theirs.keys()
    for part, value in ours.items():
        assert value == theirs[part], part
    beside.unlink()


def _repository(folder: Path, commits: int) -> str:
    """A git repository with a history of random edits."""
    tree = folder / "work"
    tree.mkdir()
    names = [
        "-c",
        "user.name=Somebody",
        "-c",
        "user.email=somebody@example.org",
        "-c",
        "commit.gpgsign=false",
    ]

    def git(*words: str) -> None:
        subprocess.run(["git", *names, *words], cwd=tree, capture_output=True, check=True)

    git("init", "--quiet")
    dice = random.Random(11)
    for number in range(commits):
        edits: list[tuple[str, Any]] = []
        for path in dice.sample(PATHS, dice.randint(1, 4)):
            text = script(dice) if path.endswith(".ts") else module(dice)
            edits.append(
                (path, dice.choice((text, text, text, None, dice.choice([p for p in PATHS if p != path]))))
            )
        perform(tree, edits)
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", f"Commit {number}")
    return str(tree / ".git")


def test_a_git_history_replays_to_a_clean_rebuild(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    history = History(_repository(tmp_path, 25), tmp_path / "tree", 24)
    assert replay(history, tmp_path / "home", 4, Here()) == 24


def test_a_git_history_replays_alike_by_parsers_in_processes(tmp_path: Path) -> None:
    """The small sibling of the proof below, on a repository that is made here."""
    (tmp_path / "home").mkdir()
    history = History(git_directory(Path(_repository(tmp_path, 9)).parent), tmp_path / "tree", 8)
    with closing(Parsers()) as parsers:
        assert replay(history, tmp_path / "home", 4, parsers) == 8


@pytest.mark.prove
@pytest.mark.timeout(3_600)
def test_200_commits_of_a_repository_replay_to_a_clean_rebuild(
    tmp_path: Path, checkout: Callable[[str], Path], prove: Recorder
) -> None:
    place = checkout("django")
    (tmp_path / "home").mkdir()
    history = History(git_directory(place), tmp_path / "tree", 200)
    with closing(Parsers()) as parsers:
        replayed = replay(history, tmp_path / "home", 20, parsers)
    assert replayed == 200
    prove.record("codegraph-replay", replayed, seeds=(), checkouts={"django": place})
