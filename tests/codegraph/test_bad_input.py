"""Bad input: refused or bounded with a clear message, and the graph stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.codegraph.desks import INDEXED, agent, shop
from tests.support import ROOT, run
from tracedesk.codegraph.graph import update


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return shop(tmp_path / "shop")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


# --- roots --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "root",
    [
        "{outside}",
        "{project}/../outside",
        "/",
        "/etc",
        "relative/path",
        "",
        "{project}/app/clock.py",
        "{project}/none",
    ],
)
def test_a_root_that_is_not_allowed_is_refused_with_the_roots_that_are(
    home: Path, project: Path, tmp_path: Path, root: str
) -> None:
    (tmp_path / "outside").mkdir()
    given = root.format(outside=tmp_path / "outside", project=project)

    async def main() -> None:
        async with agent(home, project) as desk:
            for tool, more in (
                ("graph_index_project", {"files": ["."]}),
                ("graph_update_files", {"added_or_modified": ["a.py"]}),
                ("graph_context_for_files", {"files": ["a.py"]}),
                ("graph_search", {"query": "x"}),
                ("etg_timeline", {}),
            ):
                error = await desk.refused(tool, project_root=given, **more)
                assert error["code"] == "ROOT_NOT_ALLOWED", (tool, error)
                assert error["message"].startswith("project_root: ")
                assert error["details"]["roots"] == [str(project)]

    run(main())


def test_a_link_out_of_the_roots_is_no_way_to_a_project(home: Path, project: Path, tmp_path: Path) -> None:
    outside = shop(tmp_path / "outside")
    (project / "link").symlink_to(outside)

    async def main() -> None:
        async with agent(home, project) as desk:
            error = await desk.refused("graph_index_project", project_root=str(project / "link"), files=[])
            assert error["code"] == "ROOT_NOT_ALLOWED"

    run(main())


def test_without_configuration_the_project_where_the_desk_was_started_is_the_only_root(
    home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracedesk.codegraph.settings import Codegraph

    monkeypatch.chdir(project)
    assert Codegraph().folders() == ()
    (project / "pyproject.toml").touch()
    assert Codegraph().folders() == (project,)


# --- files --------------------------------------------------------------------------------------


def test_what_cannot_be_a_file_of_the_project_is_skipped_with_its_reason(
    home: Path, project: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("def stolen(): ...\n")
    (project / "escape.py").symlink_to(secret)
    (project / "loop").symlink_to(project / "loop")
    (project / "around").symlink_to(project)
    os.mkfifo(project / "pipe.py")
    (project / "binary.py").write_bytes(b"x = 1\0\0\0")
    (project / "long.js").write_text("var x = '" + "a" * 100_000 + "';")
    (project / "latin.py").write_bytes(b"name = '\xff\xfe'\n")
    (project / "huge.py").write_text("x = 1\n" * 200_000)
    named = ["escape.py", "loop", "pipe.py", "binary.py", "long.js", "latin.py", "huge.py", "../secret.py"]

    async def main() -> None:
        async with agent(home, project) as desk:
            answer = await desk.call(
                "graph_index_project",
                project_root=str(project),
                files=[".", *named, "/etc/passwd", "a\0b", ""],
            )
            reasons = {row["file"]: row["reason"] for row in answer["skipped"]}
            assert answer["indexed_files"] == INDEXED
            assert reasons["escape.py"] == "outside"
            assert reasons["pipe.py"] == "not_regular"
            assert reasons["binary.py"] == "binary"
            assert reasons["long.js"] == "minified"
            assert reasons["huge.py"] == "too_large"
            assert reasons["../secret.py"] == "parent"
            assert reasons["/etc/passwd"] == "outside"
            assert "nul" in reasons.values()
            assert not any("\0" in file for file in reasons)
            assert "latin.py" in reasons
            assert "loop" in reasons
            context = await desk.call("graph_context_for_files", project_root=str(project), files=named)
            assert {entry["status"] for entry in context["contexts"]} <= {"skipped", "missing"}
            assert "stolen" not in str(context)

    run(main())


def test_more_files_than_the_limit_are_cut_with_a_warning(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "many"
    project.mkdir()
    for number in range(60):
        (project / f"m{number:02}.py").write_text("def f(): ...\n")

    async def main() -> None:
        async with agent(home, project) as desk:
            desk.atlas.settings = type(desk.atlas.settings)(roots=(str(project),), max_files=50, workers=1)
            answer = await desk.call("graph_index_project", project_root=str(project), files=[])
            assert len(answer["indexed_files"]) == 50
            assert any("more than 50 files" in warning for warning in answer["warnings"])

    run(main())


def test_a_hundred_thousand_files_of_a_context_are_bounded(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await desk.call("graph_index_project", project_root=str(project), files=[])
            files = [f"app/none_{number}.py" for number in range(100_000)]
            answer = await desk.call("graph_context_for_files", project_root=str(project), files=files)
            assert answer["estimated_tokens"] <= 2048
            assert answer["omitted"] == 100_000 - len(answer["contexts"])

    run(main())


def test_sixty_thousand_names_do_not_keep_others_waiting(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await desk.call("graph_index_project", project_root=str(project), files=[])
            names = [f"app/none_{number}.py" for number in range(60_000)]
            await desk.call("graph_search", query="session", files=names)
            answer = await desk.call("etg_query_similar_attempts", query="session", files=names)
            assert any("first 50" in warning for warning in answer["warnings"])

    run(main())


def test_one_bad_name_does_not_cost_the_others(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await desk.call("graph_index_project", project_root=str(project), files=[])
            answer = await desk.call(
                "graph_context_for_files", project_root=str(project), files=["\0", "/", "..", "app/clock.py"]
            )
            statuses = [entry["status"] for entry in answer["contexts"]]
            assert statuses == ["skipped", "skipped", "skipped", "fresh"]

    run(main())


def test_files_are_parsed_in_no_process_of_the_desk(home: Path, project: Path) -> None:
    """Nonsense in some languages takes memory without end, or ends the process that parses it."""
    (project / "bad.c").write_text("a=>" * 5_000 + "\n")
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.codegraph.desks import agent\n"
        "async def main(home, project):\n"
        "    async with agent(Path(home), Path(project)) as desk:\n"
        "        asked = {'project_root': project, 'files': ['bad.c', 'app/clock.py']}\n"
        "        before = await desk.call('graph_context_for_files', **asked)\n"
        "        await desk.call('graph_index_project', project_root=project, files=[])\n"
        "        after = await desk.call('graph_context_for_files', **asked)\n"
        "        print(before['contexts'][1]['status'], after['contexts'][1]['status'])\n"
        "    assert 'tree_sitter' not in sys.modules\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", script, str(home), str(project)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["unindexed", "fresh"]


# --- events -------------------------------------------------------------------------------------


def test_an_event_that_lacks_everything_is_told_everything_at_once(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            error = await desk.refused("etg_log_event")
            assert error["code"] == "INVALID_PARAMETER"
            for field in ("attempt_id", "kind", "payload"):
                assert field in error["message"]

    run(main())


def test_a_payload_that_lacks_fields_is_told_all_of_them_and_the_version_to_use(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            version = (await desk.call("graph_index_project", project_root=str(project), files=[]))[
                "graph_version"
            ]
            error = await desk.refused("etg_log_event", attempt_id="a", kind="checkpoint", payload={})
            assert error["code"] == "INVALID_PARAMETER"
            assert "payload.message" in error["message"]
            assert "payload.graph_version" in error["message"]
            assert version in error["message"]
            assert (await desk.refused("etg_get_attempt", attempt_id="a"))["code"] == "ATTEMPT_NOT_FOUND"

    run(main())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"timestamp": "2026-11-16T10:00:00"}, "timestamp"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timestamp": 5}, "timestamp"),
        ({"kind": "thought"}, "kind"),
        ({"attempt_id": ""}, "attempt_id"),
        ({"attempt_id": "x" * 5_000}, "attempt_id"),
        ({"payload": []}, "payload"),
        ({"payload": {"content": 7}}, "payload.content"),
        ({"payload": {"content": "x", "citations": "y"}}, "payload.citations"),
        ({"outcome": "splendid"}, "outcome"),
        ({"event_id": ""}, "event_id"),
    ],
)
def test_a_flawed_event_is_refused_by_its_field(
    home: Path, project: Path, change: dict[str, Any], field: str
) -> None:
    sound = {"attempt_id": "a", "kind": "answer_rendered", "payload": {"content": "x"}}

    async def main() -> None:
        async with agent(home, project) as desk:
            error = await desk.refused("etg_log_event", **{**sound, **change})
            assert error["code"] == "INVALID_PARAMETER"
            assert field in error["message"]
            assert (await desk.call("etg_timeline"))["attempts"] == []

    run(main())


# --- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("etg_query_similar_attempts", {"query": "x", "top_k": 0}, "top_k"),
        ("etg_query_similar_attempts", {"query": "x", "min_score": 2}, "min_score"),
        ("etg_query_similar_attempts", {"query": 5}, "query"),
        (
            "graph_context_for_files",
            {"project_root": "{project}", "files": ["a"], "max_tokens": 1},
            "max_tokens",
        ),
        ("graph_search", {"query": ""}, "query"),
        ("graph_search", {"query": "x", "top_k": 10**6}, "top_k"),
        ("graph_search", {"query": "x", "cursor": "-1"}, "cursor"),
        ("graph_neighbors", {"symbol": "x", "cursor": "elsewhere"}, "cursor"),
        ("graph_neighbors", {"symbol": "x", "relations": ["loves"]}, "relations"),
        ("graph_neighbors", {"file": "../../etc/passwd"}, "file"),
        ("etg_timeline", {"since": "2026-11-16T10:00:00"}, "since"),
        ("etg_timeline", {"cursor": "x.y"}, "cursor"),
        ("etg_get_attempt", {"attempt_id": "a", "cursor": "٣"}, "cursor"),
        ("etg_timeline", {"surprise": 1}, "surprise"),
    ],
)
def test_a_parameter_out_of_bounds_is_refused_by_its_name(
    home: Path, project: Path, tool: str, arguments: dict[str, Any], field: str
) -> None:
    given = {name: str(project) if value == "{project}" else value for name, value in arguments.items()}

    async def main() -> None:
        async with agent(home, project) as desk:
            await desk.call("graph_index_project", project_root=str(project), files=[])
            logged = {"attempt_id": "a", "kind": "answer_rendered", "payload": {"content": "x"}}
            await desk.call("etg_log_event", **logged)
            error = await desk.refused(tool, **given)
            assert error["code"] == "INVALID_PARAMETER"
            assert field in error["message"]

    run(main())


def test_a_question_of_any_characters_is_a_question(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await desk.call("graph_index_project", project_root=str(project), files=[])
            for query in (
                '"',
                "*",
                "NEAR(",
                "a AND",
                "col:x",
                "'; DROP TABLE file; --",
                "\u202e",
                "x" * 9_999,
                "漢字",
            ):
                await desk.call("graph_search", query=query)
                await desk.call("etg_query_similar_attempts", query=query)

    run(main())


def test_a_project_that_another_process_is_indexing_is_said_to_be_busy(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "_LOCK_SECONDS", 0.1)

    async def main() -> None:
        async with agent(home, project) as desk:
            await desk.call("graph_index_project", project_root=str(project), files=[])
            with desk.atlas.store.locks.held(str(project), "index", 1.0):
                error = await desk.refused(
                    "graph_update_files", project_root=str(project), added_or_modified=["app/clock.py"]
                )
                (project / "app" / "clock.py").write_text("def other(): ...\n")
                context = await desk.call(
                    "graph_context_for_files", project_root=str(project), files=["app/clock.py"]
                )
            assert error["code"] == "INDEX_BUSY"
            assert str(os.getpid()) in error["message"]
            assert context["contexts"][0]["status"] == "stale"

    run(main())


def test_a_graph_file_that_is_none_is_said_to_be_damaged(home: Path, project: Path) -> None:
    home.mkdir()
    (home / "graph.db").write_bytes(b"not a database at all, but long enough to be one" * 100)

    async def main() -> None:
        async with agent(home, project) as desk:
            error = await desk.refused("graph_index_project", project_root=str(project), files=[])
            assert error["code"] == "DATABASE_ERROR"
            assert "doctor" in error["message"]

    run(main())
