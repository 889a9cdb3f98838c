"""Which folder a desk may read when nobody names one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.desk_processes import http_desk, refusal, stdio_desk, succeeds
from tests.support import ROOT
from tracedesk.roots import MARKS, assumed, is_possible, project_of


@pytest.mark.parametrize("mark", MARKS)
def test_a_folder_in_a_project_is_assumed_and_one_outside_is_not(tmp_path: Path, mark: str) -> None:
    inner = tmp_path / "project" / "src" / "deep"
    inner.mkdir(parents=True)
    assert assumed((), inner) == ()
    (tmp_path / "project" / mark).mkdir()
    assert assumed((), inner) == (inner,)
    assert project_of(inner) == (tmp_path / "project").resolve()
    assert assumed((), tmp_path) == ()


@pytest.mark.parametrize("folder", ["/", "/etc", "/etc/ssl", "/usr", "/proc/self", "/dev", "/home", "/tmp"])
def test_a_folder_of_the_system_is_never_assumed(folder: str) -> None:
    assert not is_possible(Path(folder))
    assert assumed((), Path(folder)) == ()


def test_a_users_home_is_never_assumed_and_marks_nothing_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "documents").mkdir()
    assert assumed((), tmp_path) == ()
    assert assumed((), tmp_path / "documents") == ()
    (tmp_path / "documents" / "go.mod").touch()
    assert assumed((), tmp_path / "documents") == (tmp_path / "documents",)


def test_a_named_folder_is_taken_wherever_it_is() -> None:
    assert assumed([Path("/etc")], ROOT) == (Path("/etc"),)


@pytest.mark.parametrize("folder", ["/home/somebody", "/Users/somebody"])
def test_nobodys_home_is_assumed_whoever_runs_the_desk(folder: str) -> None:
    assert not is_possible(Path(folder))
    assert is_possible(Path(folder) / "shop")


def test_a_home_inside_a_root_shows_no_token_and_no_key_to_a_tool(tmp_path: Path) -> None:
    home = tmp_path / "project" / ".desk"
    home.mkdir(parents=True)
    (home.parent / "one.py").write_text("def one(): ...\n", encoding="utf-8")
    (home / "main.keys").write_text("api_key = ABCDEFGHIJKLMNOP\n", encoding="utf-8")
    project = {"project_root": str(home.parent)}
    with http_desk(home, "--toolsets", "codegraph,fuzz", "--root", str(home.parent)) as desk:
        index = succeeds(desk, "graph_index_project", **project, files=["."])
        assert index["indexed_files"] == ["one.py"]
        for name in ("main.keys", "tokens.json", "format.json", "run/.lock"):
            named = f".desk/{name}"
            shown = succeeds(desk, "graph_context_for_files", **project, files=[named])["contexts"]
            assert [each["status"] for each in shown] == ["skipped"], shown
            assert "ABCDEFGHIJKLMNOP" not in json.dumps(shown)
            refused = refusal(desk, "graph_index_project", **project, files=[named])
            assert refused["code"] == "INVALID_PARAMETER", refused
            assert "never opened" in json.dumps(refusal(desk, "start_campaign", path=str(home / name)))


@pytest.mark.parametrize("over", [stdio_desk, http_desk])
@pytest.mark.parametrize("folder", ["/", "nowhere"])
def test_a_desk_that_starts_outside_a_project_indexes_and_fuzzes_nothing_until_a_root_is_named(
    tmp_path: Path, over: type, folder: str
) -> None:
    place = Path("/") if folder == "/" else tmp_path / folder
    place.mkdir(exist_ok=True)
    home, words = tmp_path / "home", ("--toolsets", "codegraph,fuzz")
    with over(home, *words, folder=place) as desk:
        for root in ("/etc", "/", str(place)):
            error = refusal(desk, "graph_index_project", project_root=root, files=["."])
            assert error["code"] == "ROOT_NOT_ALLOWED"
            assert "--root DIR" in error["message"]
        assert "--root DIR" in json.dumps(refusal(desk, "start_campaign", path="/etc"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "one.py").write_text("def one(): ...\n", encoding="utf-8")
    with over(home, *words, "--root", str(project), folder=place) as desk:
        succeeds(desk, "graph_index_project", project_root=str(project), files=["."])
        error = refusal(desk, "graph_index_project", project_root="/etc", files=["."])
        assert error["code"] == "ROOT_NOT_ALLOWED"
