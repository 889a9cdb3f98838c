"""A full index in a process of its own: what comes back, what is refused, and what a kill leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegraph.barrier import barrier
from tests.codegraph.desks import INDEXED, shop
from tests.codegraph.processes import children, ends
from tests.support import BOUND
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.store import Store
from tracedesk.codegraph.indexer import MODULE, SMALL, Request, index, is_small
from tracedesk.errors import ToolError
from tracedesk.jobs import JobCancelled
from tracedesk.primitives.paths import Jail

ROOT = Path(__file__).parents[2]


def request(home: Path, project: Path, *files: str) -> Request:
    return Request(str(home), str(home / "graph.db"), (str(project),), str(project), files, {}, Limits(), 1)


def nothing() -> None:
    return None


def unheard(done: float, total: float, message: str) -> None:
    return None


def many(folder: Path, count: int = 250) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        lines = "\n".join(f"def f{number}_{n}(x):\n    return f{number}_{n}(x)" for n in range(20))
        (folder / f"m{number:04}.py").write_text(lines)
    return folder


def test_an_index_beside_gives_the_same_graph_and_report_as_one_here(tmp_path: Path) -> None:
    project = shop(tmp_path / "shop")
    seen: list[tuple[float, float]] = []

    def note(done: float, total: float, message: str) -> None:
        seen.append((done, total))

    beside = index(request(tmp_path / "a", project), note, nothing).report
    with Store(tmp_path / "b" / "graph.db") as store:
        here = index_project(store, Jail([project]), str(project), [], workers=1)
    assert beside.document() == here.document()
    assert beside.indexed_files == INDEXED
    assert seen == sorted(seen)


def test_a_refusal_of_the_other_process_is_the_same_refusal(tmp_path: Path) -> None:
    project = shop(tmp_path / "shop")
    asked = request(tmp_path, project)
    outside = Request(asked.home, asked.graph, asked.roots, str(tmp_path), (), {}, Limits(), 1)
    with pytest.raises(ToolError) as refused:
        index(outside, unheard, nothing)
    assert refused.value.code == "ROOT_NOT_ALLOWED"


def test_a_stopped_index_leaves_no_process_and_the_graph_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = many(tmp_path / "many")
    first = index(request(tmp_path, project, "m0001.py"), unheard, nothing).report

    with barrier(tmp_path) as held, monkeypatch.context() as patch:

        def check() -> None:
            if held.is_reached():
                raise JobCancelled("enough")

        patch.setenv("PYTHONPATH", held.variables["PYTHONPATH"])
        with pytest.raises(JobCancelled):
            index(request(tmp_path, project), unheard, check)
    assert not children(os.getpid(), MODULE)
    with Store(tmp_path / "graph.db") as store:
        found = store.project(str(project))
        assert found is not None
        assert found.graph_version == first.graph_version


def test_a_killed_index_is_told_and_the_next_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = many(tmp_path / "many")
    first = index(request(tmp_path, project, "m0001.py"), unheard, nothing).report

    with barrier(tmp_path) as held, monkeypatch.context() as patch:

        def kill() -> None:
            if held.is_reached():
                for child in children(os.getpid(), MODULE):
                    os.kill(child, signal.SIGKILL)

        patch.setenv("PYTHONPATH", held.variables["PYTHONPATH"])
        with pytest.raises(ToolError) as told:
            index(request(tmp_path, project), unheard, kill)
    assert told.value.code == "INDEX_CANCELLED"
    with Store(tmp_path / "graph.db") as store:
        found = store.project(str(project))
        assert found is not None
        assert found.graph_version == first.graph_version
    whole = index(request(tmp_path, project), unheard, nothing).report
    assert len(whole.indexed_files) == 250
    with Store(tmp_path / "clean" / "graph.db") as store:
        clean = index_project(store, Jail([project]), str(project), [], workers=1)
    assert clean.graph_version == whole.graph_version
    assert clean.counts == whole.counts


def test_a_project_whose_modules_are_named_like_ours_does_not_have_them_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = shop(tmp_path / "shop")
    mark = tmp_path / "run"
    for name in ("select", "hashlib", "sitecustomize", "tracedesk"):
        (project / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    monkeypatch.chdir(project)
    report = index(request(tmp_path / "home", project), unheard, nothing).report
    assert "select.py" in report.indexed_files
    assert not mark.exists()


def test_an_indexer_that_cannot_work_is_a_fault_and_not_a_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = shop(tmp_path / "shop")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "orjson.py").write_text("raise ImportError('no such wheel')\n")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    with pytest.raises(RuntimeError, match="exit code 1"):
        index(request(tmp_path, project), unheard, nothing)
    assert "no such wheel" in caplog.text


def test_few_files_are_indexed_here_and_many_beside(tmp_path: Path) -> None:
    project = shop(tmp_path / "shop")
    assert is_small(request(tmp_path, project))
    assert is_small(request(tmp_path, project, "app", "README.md"))
    for number in range(SMALL):
        (project / "app" / f"x{number}.py").touch()
    assert not is_small(request(tmp_path, project))
    assert is_small(request(tmp_path, project, "web"))
    assert is_small(request(tmp_path, project, "/", "..", "\0", "/usr"))
    assert not is_small(request(tmp_path, project, *(f"x{n}" for n in range(SMALL + 1))))


_ASKING = """
import sys
from tests.codegraph.test_indexer import Path, index, nothing, request, unheard

index(request(Path(sys.argv[1]), Path(sys.argv[2])), unheard, nothing)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process that is not its own")
def test_an_index_ends_with_the_desk_that_asked_for_it_and_so_do_its_parsers(tmp_path: Path) -> None:
    project = many(tmp_path / "many")
    first = index(request(tmp_path, project, "m0001.py"), unheard, nothing).report
    asking = [sys.executable, "-c", _ASKING, str(tmp_path), str(project)]
    with barrier(tmp_path) as held:
        with subprocess.Popen(asking, cwd=ROOT, env=os.environ | held.variables) as desk:
            assert held.is_reached(BOUND)
            (indexer,) = children(desk.pid, MODULE)
            parsers = children(indexer, "codegraph.graph.worker")
            handles = [os.pidfd_open(pid) for pid in (indexer, *parsers)]
            desk.kill()
        assert parsers
        assert ends(handles[0], BOUND)
    for handle in handles[1:]:
        assert ends(handle, BOUND)
    with Store(tmp_path / "graph.db") as store:
        found = store.project(str(project))
        assert found is not None
        assert found.graph_version == first.graph_version
    assert len(index(request(tmp_path, project), unheard, nothing).report.indexed_files) == 250
