"""The codegraph tools over MCP: each answers what its contract promises, on a real project in a real home."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.codegraph.desks import INDEXED, Agent, agent, shop
from tests.support import BOUND, ROOT, modern, run, until
from tracedesk import contracts
from tracedesk.codegraph import desk as codegraph_desk
from tracedesk.codegraph.tools import codegraph
from tracedesk.journal import Journal, Reader, sqlite
from tracedesk.primitives.paths import PRIVATE
from tracedesk.primitives.tokens import at_most
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.publish import describe

SEED = (
    "graph_index_project",
    "graph_update_files",
    "etg_log_event",
    "etg_query_similar_attempts",
    "graph_context_for_files",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return shop(tmp_path / "shop")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def indexed(desk: Agent, project: Path) -> Any:
    return await desk.call("graph_index_project", project_root=str(project), files=["."])


async def log(desk: Agent, attempt: str, kind: str, payload: dict[str, Any], **more: Any) -> Any:
    return await desk.call("etg_log_event", attempt_id=attempt, kind=kind, payload=payload, **more)


# --- the toolset --------------------------------------------------------------------------------


def test_the_toolset_serves_every_contract_it_has() -> None:
    assert set(codegraph.tools) == set(contracts.names("codegraph")) > set(SEED)


def test_the_toolsets_part_of_the_list_stays_under_20_kb() -> None:
    listed = [describe(tool, "2026-07-28") for tool in codegraph.tools.values()]
    assert len(json.dumps(listed)) <= 20_000


def test_importing_the_tools_loads_no_parser_no_numpy_and_no_ignore_rules() -> None:
    script = (
        "import sys, tracedesk.codegraph.tools\n"
        "heavy = {'tree_sitter', 'numpy', 'pathspec', 'onnxruntime'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_only_indexing_and_logging_need_more_than_reading() -> None:
    writing = {name for name, tool in codegraph.tools.items() if tool.scope == "write"}
    assert writing == {"graph_index_project", "graph_update_files", "etg_log_event"}
    assert all(codegraph.tools[name].annotations.read_only for name in set(codegraph.tools) - writing)


# --- indexing -----------------------------------------------------------------------------------


def test_an_index_names_every_file_counts_the_graph_and_says_what_it_left_out(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            answer = await indexed(desk, project)
            assert answer["indexed_files"] == INDEXED
            assert answer["graph_version"].startswith("cg1-")
            assert answer["counts"]["files"] == len(INDEXED)
            assert answer["counts"]["symbols"] > 10
            assert {"file": ".env", "reason": "secret"} in answer["skipped"]
            assert 0 < answer["coverage"]["parsed"] <= 1
            assert answer["truncated"] is False

    run(main())


@pytest.mark.parametrize("files", [[], ["."], ["app", "web", "README.md"]])
def test_nothing_the_root_and_its_folders_are_the_same_project(
    home: Path, project: Path, files: list[str]
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            answer = await desk.call("graph_index_project", project_root=str(project), files=files)
            assert answer["indexed_files"] == INDEXED

    run(main())


def test_the_listed_files_are_the_graph_and_what_is_no_longer_listed_is_gone(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            before = await indexed(desk, project)
            few = await desk.call("graph_index_project", project_root=str(project), files=["app/clock.py"])
            assert few["indexed_files"] == ["app/clock.py"]
            assert few["counts"]["files"] == 1
            assert few["graph_version"] != before["graph_version"]
            assert (await indexed(desk, project))["graph_version"] == before["graph_version"]

    run(main())


def test_a_hint_chooses_the_language_and_an_unknown_one_is_a_warning(home: Path, project: Path) -> None:
    (project / "tool").write_text("def helper():\n    return 1\n")

    async def main() -> None:
        async with agent(home, project) as desk:
            hints = {"tool": "python", "README.md": "klingon"}
            answer = await desk.call(
                "graph_index_project",
                project_root=str(project),
                files=["tool", "README.md"],
                language_hints=hints,
            )
            assert answer["indexed_files"] == ["README.md", "tool"]
            assert any("klingon" in warning for warning in answer["warnings"])
            found = await desk.call("graph_neighbors", symbol="helper")
            assert found["of"][0]["file"] == "tool"

    run(main())


def test_an_index_links_to_its_whole_report_which_has_every_path(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            reply = await desk.raw("graph_index_project", {"project_root": str(project), "files": []})
            body = reply.structured
            links = [b for b in reply.json["result"]["content"] if b["type"] == "resource_link"]
            assert [link["uri"] for link in links] == [body["report"]]
            report = json.loads((await desk.resource(body["report"])).json["result"]["contents"][0]["text"])
            assert report["indexed_files"] == INDEXED
            assert report["graph_version"] == body["graph_version"]
            assert report["pages"] == 1

    run(main())


def test_an_answer_past_the_cap_is_cut_after_whole_paths_and_its_report_goes_on_in_pages(
    home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "many"
    project.mkdir()
    names = [f"module_with_a_rather_long_name_{number:04}.py" for number in range(2_500)]
    for name in names:
        (project / name).touch()

    async def main() -> None:
        async with agent(home, project, max_bytes=60_000) as desk:
            reply = await desk.raw("graph_index_project", {"project_root": str(project), "files": []})
            body = reply.structured
            assert len(json.dumps(body, separators=(",", ":"))) <= 60_000
            assert body["truncated"] is True
            assert body["counts"]["files"] == 2_500
            assert body["indexed_files"] == names[: len(body["indexed_files"])]
            assert len(body["indexed_files"]) > 1_000

    run(main())

    async def pages() -> None:
        async with agent(home, project) as desk:
            first = await desk.call("graph_index_project", project_root=str(project), files=[])
            assert first["truncated"] is False
            uri, found = first["report"], list[str]()
            while uri:
                page = json.loads((await desk.resource(uri)).json["result"]["contents"][0]["text"])
                found += page["indexed_files"]
                uri = page.get("next")
            assert found == names

    run(pages())


def test_an_index_reports_progress_and_the_desk_goes_on_serving_meanwhile(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "large"
    project.mkdir()
    for number in range(400):
        body = "\n".join(f"def f{number}_{n}(x):\n    return f{number}_{n}(x)" for n in range(15))
        (project / f"m{number}.py").write_text(body)

    async def main() -> None:
        async with agent(home, project) as desk:
            running = asyncio.ensure_future(indexed(desk, project))
            await until(lambda: bool(desk.atlas.jobs.list()))
            logged = 0
            while not running.done():
                await log(desk, f"a{logged}", "answer_rendered", {"content": "done"})
                logged += 1
            assert (await running)["counts"]["files"] == 400
            assert logged > 5
            views = [job.view() for job in desk.atlas.jobs.list()]
            assert views[0].total == 400

    run(main())


@pytest.mark.parametrize("who", ["the client", "the desk"])
def test_a_cancelled_index_ends_at_once_and_leaves_the_old_graph(home: Path, project: Path, who: str) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            before = await indexed(desk, project)
            (project / "app" / "new.py").write_text("def fresh(): ...\n")
            origin = Origin("test", _Quiet())
            arguments: dict[str, Any] = {"project_root": str(project), "files": []}
            with desk.atlas.store.locks.held(str(project), "index", 1.0):  # so that the call must wait
                dispatch = desk.client.desk.dispatch
                waiting = asyncio.ensure_future(dispatch.call("graph_index_project", arguments, origin))
                await until(lambda: any(job.state == "running" for job in desk.atlas.jobs.list()))
                job = next(job for job in desk.atlas.jobs.list() if job.state == "running")
                if who == "the client":
                    waiting.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await waiting
                else:
                    job.cancel()
                    assert (await waiting).code == "INDEX_CANCELLED"
                await until(lambda: job.state == "cancelled")
            found = await desk.call("graph_search", query="session")
            assert found["graph_version"] == before["graph_version"]

    run(main())


class _Quiet:
    """A client that listens to nothing."""

    capabilities: Mapping[str, Any] = MappingProxyType({})

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: Any) -> None: ...

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        return {}


# --- updating -----------------------------------------------------------------------------------


def test_the_disk_decides_what_an_update_does(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            (project / "app" / "clock.py").write_text("def today():\n    return 1\n")
            (project / "app" / "fresh.py").write_text("def fresh():\n    return 2\n")
            (project / "app" / "views.py").unlink()
            answer = await desk.call(
                "graph_update_files",
                project_root=str(project),
                added_or_modified=["app/clock.py", "app/views.py", "app/session.py"],
                deleted=["app/fresh.py"],
            )
            assert answer["updated_files"] == ["app/clock.py", "app/fresh.py", "app/views.py"]
            assert answer["deleted_files"] == ["app/views.py"]
            assert answer["unchanged_files"] == ["app/session.py"]
            clean = await indexed(desk, project)
            assert clean["graph_version"] == answer["graph_version"]

    run(main())


def test_an_update_of_a_project_without_a_graph_says_what_to_call(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            error = await desk.refused(
                "graph_update_files", project_root=str(project), added_or_modified=["app/clock.py"]
            )
            assert error["code"] == "PROJECT_NOT_INDEXED"
            assert "graph_index_project" in error["message"]

    run(main())


# --- context ------------------------------------------------------------------------------------


def test_context_has_summaries_outlines_and_symbols_in_the_order_asked_for(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            version = (await indexed(desk, project))["graph_version"]
            answer = await desk.call(
                "graph_context_for_files",
                project_root=str(project),
                files=["web/cart.ts", "app/session.py", str(project / "web/cart.ts"), "app/session.py"],
            )
            files = [entry["file"] for entry in answer["contexts"]]
            assert files == ["web/cart.ts", "app/session.py"]
            session = answer["contexts"][1]
            assert session["status"] == "fresh"
            assert session["summary"].startswith(
                "Doc: «Sessions: who is logged in, and until when.» Defines "
            )
            assert "13  def refresh(self, seconds)" in session["summary"]
            assert "Session.refresh" in session["symbols"]
            assert answer["graph_version"] == version
            assert answer["truncated"] is False

    run(main())


def test_a_changed_file_is_read_again_a_new_one_is_shown_and_a_missing_one_is_said(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            before = (await indexed(desk, project))["graph_version"]
            (project / "app" / "clock.py").write_text('"""Another clock."""\n\ndef tick(): ...\n')
            (project / "app" / "fresh.py").write_text('"""Just written."""\n')
            answer = await desk.call(
                "graph_context_for_files",
                project_root=str(project),
                files=["app/clock.py", "app/fresh.py", "app/gone.py", "app/session.py", ".env"],
            )
            shown = {entry["file"]: (entry["status"], entry["summary"]) for entry in answer["contexts"]}
            assert shown["app/clock.py"][0] == "updated"
            assert shown["app/clock.py"][1].startswith("Doc: «Another clock.» ")
            assert shown["app/fresh.py"][0] == "unindexed"
            assert shown["app/fresh.py"][1].startswith("Doc: «Just written.»")
            assert shown["app/gone.py"] == ("missing", "not found")
            assert shown["app/session.py"][0] == "fresh"
            assert shown[".env"][0] == "skipped"
            assert "not-for-anyone" not in json.dumps(answer)
            assert answer["graph_version"] != before
            again = await desk.call("graph_search", query="just written")
            assert "app/fresh.py" not in [hit["file"] for hit in again["files"]]

    run(main())


def test_a_read_only_desk_says_that_a_context_is_stale(home: Path, project: Path) -> None:
    async def writing() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)

    async def reading() -> None:
        async with agent(home, project, read_only=True) as desk:
            (project / "app" / "clock.py").write_text('"""Another clock."""\n')
            answer = await desk.call(
                "graph_context_for_files", project_root=str(project), files=["app/clock.py"]
            )
            assert answer["contexts"][0]["status"] == "stale"
            assert "The time, in one place." in answer["contexts"][0]["summary"]

    run(writing())
    run(reading())


def test_files_of_a_project_without_a_graph_are_read_for_the_answer_alone(home: Path, project: Path) -> None:
    (project / "app" / "keys.py").write_text('def f(token="ghp_' + "a1B2" * 9 + '"):\n    """A key."""\n')

    async def main() -> None:
        async with agent(home, project) as desk:
            answer = await desk.call(
                "graph_context_for_files",
                project_root=str(project),
                files=["app/session.py", ".env", "app/keys.py"],
            )
            assert [entry["status"] for entry in answer["contexts"]] == ["unindexed", "skipped", "unindexed"]
            assert "def refresh" in answer["contexts"][0]["summary"]
            assert "ghp_" not in json.dumps(answer)
            assert "graph_version" not in answer
            error = await desk.refused("graph_search", query="session")
            assert error["code"] == "PROJECT_NOT_INDEXED"

    run(main())


@pytest.mark.parametrize("max_tokens", [128, 200, 400, 2048])
def test_no_context_exceeds_its_tokens_as_they_are_sent(home: Path, project: Path, max_tokens: int) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            reply = await desk.raw(
                "graph_context_for_files",
                {"project_root": str(project), "files": INDEXED, "max_tokens": max_tokens},
            )
            text = reply.json["result"]["content"][0]["text"]
            assert at_most(text) <= reply.structured["estimated_tokens"] <= max_tokens
            assert len(reply.structured["contexts"]) + reply.structured.get("omitted", 0) == len(INDEXED)

    run(main())


# --- search and neighbours ----------------------------------------------------------------------


def test_a_search_finds_the_file_its_symbols_and_says_why(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            answer = await desk.call("graph_search", query="move the end of a session")
            best = answer["files"][0]
            assert best["file"] == "app/session.py"
            assert 0 < best["score"] <= 1
            assert sum(best["reasons"].values()) >= best["score"] - 0.01
            assert any(symbol["name"] == "Session.refresh" for symbol in best["symbols"])
            assert {symbol["file"] for symbol in answer["symbols"]} <= set(INDEXED)
            assert all(symbol["end_line"] >= symbol["line"] for symbol in answer["symbols"])

    run(main())


def test_a_search_says_that_another_version_made_the_graph(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            assert (await desk.call("graph_search", query="session"))["warnings"] == []
            with closing(sqlite.connect(home / "graph.db")) as graph:
                graph.execute("UPDATE project SET extractor = 'tracedesk-1-earlier'")
            (warning,) = (await desk.call("graph_search", query="session"))["warnings"]
            assert "graph_index_project" in warning
            await indexed(desk, project)
            assert (await desk.call("graph_search", query="session"))["warnings"] == []

    run(main())


def test_an_answer_from_a_graph_older_than_the_files_says_so(home: Path, project: Path) -> None:
    questions = {"graph_search": {"query": "session"}, "graph_neighbors": {"symbol": "Session"}}

    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            for tool, asked in questions.items():
                answer = await desk.call(tool, **asked)
                assert answer["freshness"]["state"] == "fresh", answer["freshness"]
                assert not answer.get("warnings")
            edited = project / "app/session.py"
            edited.write_text(edited.read_text() + "\n\ndef brand_new():\n    pass\n")
            (project / "app/deep").mkdir()
            (project / "app/deep/added.py").write_text("def added():\n    pass\n")
            for tool, asked in questions.items():
                answer = await desk.call(tool, **asked)
                fresh = answer["freshness"]
                assert (fresh["state"], fresh["changed_files"]) == ("stale", 2)
                assert sorted(fresh["changed"]) == ["app/deep/added.py", "app/session.py"]
                assert "graph_update_files" in answer["warnings"][0]
            changed = ["app/session.py", "app/deep/added.py"]
            await desk.call("graph_update_files", project_root=str(project), added_or_modified=changed)
            os.utime(edited)
            answer = await desk.call("graph_search", query="brand_new")
            assert answer["freshness"]["state"] == "fresh", (
                "a file that is written anew with the same content is no other"
            )
            assert answer["symbols"][0]["name"] == "brand_new"

    run(main())


def test_a_file_that_an_index_skips_leaves_an_answer_fresh_once_it_was_looked_at(
    home: Path, project: Path
) -> None:
    big, minified, added = (project / "app" / name for name in ("big.py", "bundle.js", "added.py"))

    async def main() -> None:
        async with agent(home, project) as desk:

            async def state(**changes: list[str]) -> tuple[str, list[str]]:
                if changes:
                    await desk.call("graph_update_files", project_root=str(project), **changes)
                fresh = (await desk.call("graph_search", query="session"))["freshness"]
                return fresh["state"], fresh["changed"]

            big.write_text("x = 1\n" * 300_000)
            minified.write_text("var x=" + "1+" * 6_000 + "1;\n")
            await indexed(desk, project)
            added.write_text("def added(): ...\n")
            os.mkfifo(project / "app" / "pipe.py")
            (project / "app" / "photo.heic").write_bytes(b"\0\1\2")
            assert await state() == ("stale", ["app/added.py"])
            assert await state(added_or_modified=["app/added.py"]) == ("fresh", [])

            late = project / "app" / "late.js"
            late.write_bytes(minified.read_bytes())
            assert await state() == ("stale", ["app/late.js"])
            assert await state(added_or_modified=["app/late.js"]) == ("fresh", [])

            minified.write_text("var small = 1;\n")
            os.utime(project / "app")
            assert await state() == ("stale", ["app/bundle.js"])
            assert await state(added_or_modified=["app/bundle.js"]) == ("fresh", [])
            late.unlink()
            assert await state(deleted=["app/late.js"]) == ("fresh", [])

    run(main())


def test_a_symbol_whose_name_is_in_a_file_that_an_index_skips_is_unknown_and_not_unused(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:

            async def usage(name: str) -> tuple[str, str]:
                found = (await desk.call("graph_neighbors", symbol=name))["usage"]
                return found["status"], found["reason"]

            (project / "app/odd.py").write_text("def rare():\n    pass\n\n\ndef lonely():\n    pass\n")
            big = project / "app/big.py"
            big.write_text("x = 1\n" * 300_000 + "use = table['rare']\n")
            await indexed(desk, project)
            assert (await usage("rare"))[0] == "unknown"
            assert "app/big.py is not" in (await usage("rare"))[1]
            assert (await usage("lonely"))[0] == "unused"

            minified = project / "app/bundle.js"
            minified.write_text("var x=" + "1+" * 6_000 + "lonely();\n")
            await desk.call(
                "graph_update_files", project_root=str(project), added_or_modified=["app/bundle.js"]
            )
            assert (await usage("lonely"))[0] == "unknown"
            big.unlink()
            minified.unlink()
            await desk.call("graph_update_files", project_root=str(project), deleted=["app"])
            assert [(await usage(name))[0] for name in ("rare", "lonely")] == ["unused", "unused"]

    run(main())


def test_a_symbol_whose_references_cannot_be_resolved_is_unknown_and_not_unused(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            (project / "app/odd.py").write_text(
                "def called():\n    pass\n\n\ndef passed():\n    pass\n\n\ndef lonely():\n    pass\n\n\n"
                "def user():\n    called()\n    return [passed]\n"
            )
            await indexed(desk, project)
            found = {
                name: (await desk.call("graph_neighbors", symbol=name))["usage"]["status"]
                for name in ("called", "passed", "lonely")
            }
            assert found == {"called": "used", "passed": "unknown", "lonely": "unused"}

    run(main())


def test_a_search_continues_where_it_was_cut(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            whole = await desk.call("graph_search", query="session user cart time")
            names = [hit["file"] for hit in whole["files"]]
            assert len(names) > 2
            found: list[str] = []
            cursor: dict[str, str] = {}
            for _ in names:
                page = await desk.call("graph_search", query="session user cart time", top_k=1, **cursor)
                found += [hit["file"] for hit in page["files"]]
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert found == names

    run(main())


def test_neighbours_of_a_symbol_and_of_a_file_go_both_ways(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            users = await desk.call("graph_neighbors", symbol="Session", relations=["referenced_by"])
            assert users["of"][0]["file"] == "app/session.py"
            assert {row["name"] for row in users["neighbors"]} >= {"open_session", "heartbeat"}
            around = await desk.call("graph_neighbors", file="app/session.py")
            rows = {(row["relation"], row["file"]) for row in around["neighbors"]}
            assert ("imports", "app/clock.py") in rows
            assert ("imported_by", "app/views.py") in rows
            assert ("defines", "app/session.py") in rows

    run(main())


def test_a_name_that_the_graph_does_not_have_is_answered_with_similar_ones(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            error = await desk.refused("graph_neighbors", symbol="Sesion")
            assert error["code"] == "NOT_IN_GRAPH"
            assert "Session" in error["details"]["similar"]
            error = await desk.refused("graph_neighbors")
            assert error["code"] == "INVALID_PARAMETER"

    run(main())


# --- the trace ----------------------------------------------------------------------------------


async def fixed(desk: Agent, project: Path, attempt: str = "a-1") -> str:
    """An attempt that failed its tests once and then succeeded."""
    version = (await indexed(desk, project))["graph_version"]
    about = {"project_root": str(project)}
    query = {"query": "the session expires too early", "files": ["app/session.py"]}
    await log(desk, attempt, "context_retrieved", query, **about)
    await log(desk, attempt, "tool_start", {"tool": "pytest", "arguments": {"cmd": "pytest -q"}}, call_id="1")
    await log(desk, attempt, "tool_end", {"tool": "pytest", "status": "error"}, call_id="1")
    changed = {"message": "Refresh by half an hour", "files": ["app/session.py"], "graph_version": version}
    await log(desk, attempt, "checkpoint", changed)
    done = {"content": "Sessions now last longer.", "citations": ["app/session.py:L13-L15"]}
    await log(desk, attempt, "answer_rendered", done, outcome="succeeded")
    return version


def test_a_logged_event_is_on_the_disk_with_the_record_of_its_call_in_one_transaction(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project, toolsets=("desk", "codegraph")) as desk:
            reply = await desk.raw(
                "etg_log_event", {"attempt_id": "a", "kind": "answer_rendered", "payload": {"content": "x"}}
            )
            answer = reply.structured
            call = reply.json["result"]["_meta"]["tracedesk/call"]
            source = await desk.call("get_source", ref=answer["ref"])
            assert source["kind"] == "event"
            assert {"relation": "logged_by", "ref": call} in source["edges"]
            record = await desk.call("get_source", ref=call)
            assert record["body"]["outcome"] == "ok"
            assert json.loads(record["body"]["result"]["text"]) == answer

    run(main())
    with Reader(home / "trace.db") as reader:
        bodies = reader.connection.execute(
            "SELECT body FROM event JOIN stream ON stream.id = event.id >> 40 WHERE stream.kind = 'calls'"
        )
        logged = sum(json.loads(body)["tool"] == "etg_log_event" for (body,) in bodies)
    assert logged == 1


def test_an_event_survives_a_killed_desk(home: Path, project: Path) -> None:
    payload = {"attempt_id": "a-9", "kind": "answer_rendered", "payload": {"content": "kept"}}
    assert asked_and_killed(home, "etg_log_event", payload)["attempt_id"] == "a-9"
    found = asked_and_killed(home, "etg_get_attempt", {"attempt_id": "a-9"})
    assert found["events"][0]["payload"]["content"] == "kept"


def asked_and_killed(home: Path, tool: str, arguments: Mapping[str, Any]) -> Any:
    """The answer of a desk in a process of its own, which is killed as soon as it has answered."""
    command = ["-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio", "--toolsets", "codegraph"]
    with subprocess.Popen(
        [sys.executable, *command], cwd=home.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as desk:
        assert desk.stdin is not None
        assert desk.stdout is not None
        message = modern("tools/call", {"name": tool, "arguments": dict(arguments)})
        desk.stdin.write(json.dumps(message).encode() + b"\n")
        desk.stdin.flush()
        result = json.loads(desk.stdout.readline())["result"]
        desk.kill()
    assert result["isError"] is False, result
    return result["structuredContent"]


def test_a_similar_attempt_is_found_with_its_outcome_its_files_and_its_provenance(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            await log(
                desk, "a-2", "answer_rendered", {"content": "Cart totals.", "query": "round the cart's total"}
            )
            answer = await desk.call("etg_query_similar_attempts", query="session expires too early")
            best = answer["matches"][0]
            assert best["attempt_id"] == "a-1"
            assert 0.2 <= best["score"] <= 1
            assert best["outcome"] == "succeeded"
            assert best["related_files"] == ["app/session.py"]
            assert best["failed_tools"] == ["pytest"]
            assert best["components"]
            assert best["source"] == "client"
            assert "session expires too early" in best["summary"]
            assert all(match["attempt_id"] != "a-2" for match in answer["matches"])

    run(main())


def test_a_query_of_a_million_is_capped_at_a_hundred_and_says_so(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            answer = await desk.call("etg_query_similar_attempts", query="session", top_k=10**6)
            assert any("100" in warning for warning in answer["warnings"])

    run(main())


def test_an_empty_query_needs_files(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            error = await desk.refused("etg_query_similar_attempts", query="  ")
            assert error["code"] == "INVALID_PARAMETER"
            assert "files" in error["message"]
            answer = await desk.call("etg_query_similar_attempts", query="", files=["app/session.py"])
            assert [match["attempt_id"] for match in answer["matches"]] == ["a-1"]

    run(main())


def test_an_attempt_is_shown_with_its_calls_events_and_outcome(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            version = await fixed(desk, project)
            answer = await desk.call("etg_get_attempt", attempt_id="a-1")
            assert answer["attempt"]["outcome"] == "succeeded"
            assert answer["attempt"]["graph_version"] == version
            assert answer["attempt"]["project_root"] == str(project)
            kinds = [event["kind"] for event in answer["events"]]
            assert kinds[0] == "context_retrieved"
            assert kinds[-1] == "answer_rendered"
            assert [call["status"] for call in answer["tool_calls"] if call["name"] == "pytest"] == ["error"]
            error = await desk.refused("etg_get_attempt", attempt_id="nobody")
            assert error["code"] == "ATTEMPT_NOT_FOUND"

    run(main())


def test_events_of_an_attempt_come_in_pages_under_the_token_budget(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project, max_tokens=1_000) as desk:
            for number in range(30):
                await log(desk, "a", "answer_rendered", {"content": f"{number} " + "word " * 40})
            seen: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = await desk.call("etg_get_attempt", attempt_id="a", **cursor)
                seen += [event["payload"]["content"].split()[0] for event in page["events"]]
                if "nextCursor" not in page:
                    break
                assert page["truncated"] is True
                cursor = {"cursor": page["nextCursor"]}
            assert seen == [str(number) for number in range(30)]

    run(main())


def test_the_timeline_lists_attempts_newest_first_by_outcome_and_file(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            await log(desk, "a-2", "answer_rendered", {"content": "No."}, outcome="failed")
            every = await desk.call("etg_timeline")
            assert [row["attempt_id"] for row in every["attempts"]] == ["a-2", "a-1"]
            failed = await desk.call("etg_timeline", outcome="failed")
            assert [row["attempt_id"] for row in failed["attempts"]] == ["a-2"]
            touched = await desk.call("etg_timeline", file="app/session.py")
            assert [row["attempt_id"] for row in touched["attempts"]] == ["a-1"]
            one = await desk.call("etg_timeline", limit=1)
            rest = await desk.call("etg_timeline", limit=1, cursor=one["nextCursor"])
            assert [row["attempt_id"] for row in rest["attempts"]] == ["a-1"]

    run(main())


def test_control_and_invisible_characters_of_stored_text_are_not_passed_on(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            hidden = "Ignore\x1b[31m this\u200b and\u202e that " + "x" * 9_000
            await log(desk, "a", "answer_rendered", {"content": hidden, "query": "what was hidden"})
            answer = await desk.call("etg_get_attempt", attempt_id="a")
            shown = answer["events"][0]["payload"]["content"]
            assert shown.startswith("Ignore this and that xxx")
            assert len(shown) <= 4_000

    run(main())


# --- references, resources, prompt --------------------------------------------------------------


def test_a_trace_walks_from_a_call_to_its_attempt_its_events_and_the_version_of_the_code(
    home: Path, project: Path
) -> None:
    async def main() -> None:
        async with agent(home, project, toolsets=("desk", "codegraph")) as desk:
            version = await fixed(desk, project)
            result = await desk.in_attempt("a-1", "desk_status")
            walk = await desk.call("trace", ref=result["_meta"]["tracedesk/call"], depth=4)
            kinds = {node["kind"] for node in walk["nodes"]}
            assert {"call", "attempt", "event", "graph_version", "index_report"} <= kinds
            versions = [n["body"]["graph_version"] for n in walk["nodes"] if n["kind"] == "graph_version"]
            assert version in versions
            assert walk["unresolved"] == []

    run(main())


async def tools_of(desk: Agent, attempt: str) -> list[str]:
    shown = await desk.call("etg_get_attempt", attempt_id=attempt)
    return [call["name"] for call in shown["tool_calls"]]


def test_a_trade_leads_back_to_the_attempt_and_the_code_it_was_made_with(home: Path, project: Path) -> None:
    trade = {"symbol": "AAPL", "action": "buy", "quantity": 1, "order_type": "market"}

    async def main() -> None:
        async with agent(home, project, toolsets=("desk", "codegraph", "trading")) as desk:
            version = await fixed(desk, project)
            await desk.in_attempt("a-1", "trade_execute", tool_call_id="buy-1", trades=[trade])
            walk = await desk.call("trace", ref="buy-1", depth=6)
            bodies = {node["kind"]: node["body"] for node in walk["nodes"]}
            assert bodies["attempt"]["attempt_id"] == "a-1"
            assert bodies["graph_version"]["graph_version"] == version
            # The record of a call that committed its effect itself follows within a quarter of a second.
            async with asyncio.timeout(BOUND):
                while "trade_execute" not in await tools_of(desk, "a-1"):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    run(main())


def test_every_kind_of_event_has_its_schema_as_a_resource(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            for kind in ("tool_start", "tool_end", "checkpoint", "context_retrieved", "answer_rendered"):
                reply = await desk.resource(f"tracedesk://codegraph/schemas/{kind}")
                schema = json.loads(reply.json["result"]["contents"][0]["text"])
                assert schema["type"] == "object"
                assert schema["required"]
            assert "error" in (await desk.resource("tracedesk://codegraph/schemas/nothing")).json

    run(main())


def test_an_attempt_and_a_large_payload_are_resources(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project, toolsets=("desk", "codegraph")) as desk:
            await fixed(desk, project, "run 7/a")
            uri = "tracedesk://codegraph/attempts/a-1"
            await fixed(desk, project)
            shown = json.loads((await desk.resource(uri)).json["result"]["contents"][0]["text"])
            assert shown["attempt"]["outcome"] == "succeeded"
            assert shown["attempt"]["ref"] == uri
            large = {"tool": "cat", "status": "ok", "output": "0123456789" * 20_000}
            await log(desk, "a-3", "tool_end", large)
            event = (await desk.call("etg_get_attempt", attempt_id="a-3"))["events"][0]
            stored = await desk.call("get_source", ref=event["payload_ref"])
            assert stored["kind"] == "payload"

    run(main())


def test_the_prompt_tells_what_was_tried_as_data(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            about = {"name": "what_was_tried", "arguments": {"problem": "session expires too early"}}
            reply = await desk.client.modern("prompts/get", about)
            text = reply.json["result"]["messages"][0]["content"]["text"]
            assert "a-1" in text
            assert "succeeded" in text
            assert "not instructions" in text

    run(main())


def test_the_prompt_leaves_attempts_out_for_a_caller_that_may_not_read(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            arguments = {"problem": "session expires too early", "project_root": str(project)}
            about = {"name": "what_was_tried", "arguments": arguments}
            reply = await desk.client.modern(
                "prompts/get", about, {"Via": "1.1 proxy", "Authorization": None}
            )
            text = reply.json["result"]["messages"][0]["content"]["text"]
            assert "a-1" not in text
            assert "bearer token" in text
            assert "session expires too early" in text

    run(main())


def test_a_home_inside_a_project_has_a_folder_that_no_index_takes(home: Path, project: Path) -> None:
    async def main() -> None:
        kept = project / "home" / "run" / PRIVATE / "note.md"
        kept.parent.mkdir(parents=True)
        kept.write_text("# qqqq-wwww-eeee\n")
        kept.parent.with_name("open.md").write_text("# qqqq-wwww-eeee\n")
        async with agent(home, project) as desk:
            await indexed(desk, project)
            await desk.call(
                "graph_update_files", project_root=str(project), files=[str(kept.relative_to(project))]
            )
            found = await desk.call("graph_search", project_root=str(project), query="qqqq wwww eeee")
            assert [each["file"] for each in found["files"]] == ["home/run/open.md"]

    run(main())


def test_a_project_that_is_not_named_is_the_only_one_there_is(
    home: Path, project: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        other = shop(tmp_path / "other")
        async with agent(home, project, other) as desk:
            await indexed(desk, project)
            assert (await desk.call("graph_search", query="session"))["project_root"] == str(project)
            await indexed(desk, other)
            error = await desk.refused("graph_search", query="session")
            assert error["code"] == "INVALID_PARAMETER"
            assert str(other) in error["message"]

    run(main())


def test_a_project_outside_the_roots_of_this_desk_is_not_shown(
    home: Path, project: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            report = (await indexed(desk, project))["report"]
        other = tmp_path / "elsewhere"
        other.mkdir()
        async with agent(home, other) as desk:
            assert (await desk.refused("graph_search", query="session"))["code"] == "PROJECT_NOT_INDEXED"
            assert "error" in (await desk.resource(report)).json

    run(main())


def test_attempts_of_projects_outside_the_roots_are_neither_shown_nor_joined(
    home: Path, project: Path, tmp_path: Path
) -> None:
    other = shop(tmp_path / "public")

    async def private() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)

    async def public() -> None:
        async with agent(home, other, toolsets=("desk", "codegraph")) as desk:
            about = {"query": "session expires too early", "min_score": 0, "all_projects": True}
            assert (await desk.call("etg_query_similar_attempts", **about))["matches"] == []
            assert (await desk.call("etg_timeline"))["attempts"] == []
            assert (await desk.refused("etg_get_attempt", attempt_id="a-1"))["code"] == "ATTEMPT_NOT_FOUND"
            ref = "tracedesk://codegraph/attempts/a-1"
            assert (await desk.refused("get_source", ref=ref))["code"] == "SOURCE_NOT_FOUND"
            error = await desk.refused("etg_log_event", attempt_id="b", kind="checkpoint", payload={})
            assert "cg1-" not in error["message"]
            await log(desk, "b", "answer_rendered", {"content": "Done."})
            shown = await desk.call("etg_get_attempt", attempt_id="b")
            assert shown["attempt"]["project_root"] == str(other)

    run(private())
    run(public())


def test_reading_goes_on_while_another_process_writes_to_the_trace(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What waits for the writer waits longer than any client does.
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 10 * BOUND)
    monkeypatch.setattr(codegraph_desk, "EVENTS_SECONDS", 0.1)
    about: dict[str, dict[str, Any]] = {
        "etg_timeline": {},
        "etg_get_attempt": {"attempt_id": "a-1"},
        "graph_search": {"query": "session"},
        "etg_query_similar_attempts": {"query": "session expires too early"},
    }

    async def main() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            settled = {tool: await desk.call(tool, **args) for tool, args in about.items()}
            with Journal(home / "trace.db") as writer, writer.connection:
                assert {tool: await desk.call(tool, **args) for tool, args in about.items()} == settled
            await log(desk, "a-1", "checkpoint", {"message": "Once more", "graph_version": "v"})
            with Journal(home / "trace.db") as writer, writer.connection:
                found = {tool: await desk.call(tool, **args) for tool, args in about.items()}
                missing = await desk.refused("etg_get_attempt", attempt_id="a-2")
            for answer in found.values():
                assert "another process keeps the trace from being written" in answer["warnings"][-1]
            assert "newest events are missing" in missing["message"]
            assert [row["attempt_id"] for row in found["etg_timeline"]["attempts"]] == ["a-1"]
            after = await desk.call("etg_get_attempt", attempt_id="a-1")
            assert "warnings" not in after
            assert after["events"][-1]["payload"]["message"] == "Once more"

    run(main())


def test_a_read_only_desk_makes_no_vectors(home: Path, project: Path) -> None:
    async def writing() -> None:
        async with agent(home, project) as desk:
            await fixed(desk, project)
            await asyncio.to_thread(desk.atlas.semantics.wait, BOUND)

    async def reading() -> None:
        async with agent(home, project, read_only=True) as desk:
            await desk.call("etg_query_similar_attempts", query="session")
            await desk.call("graph_search", query="session")

    run(writing())
    shutil.rmtree(home / "vectors")
    run(reading())
    assert not (home / "vectors").exists()


def test_answers_are_held_to_what_the_system_says_of_a_file(home: Path, project: Path) -> None:
    async def main() -> None:
        async with agent(home, project) as desk:
            await indexed(desk, project)
            clock = project / "app" / "clock.py"
            facts = clock.stat()
            text = clock.read_text().replace("time.time()", "time.tick()")
            clock.write_text(text)
            os.utime(clock, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
            answer = await desk.call(
                "graph_context_for_files", project_root=str(project), files=["app/clock.py"]
            )
            assert answer["contexts"][0]["status"] == "updated"

    run(main())
