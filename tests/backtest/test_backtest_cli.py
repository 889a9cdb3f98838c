"""`tracedesk backtest`: for people and programs, with exit codes that scripts can trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backtest.desks import agent
from tests.backtest.files import OTHER, RUN, event, write
from tests.cli.conftest import Done, Shell, shell
from tests.support import run as in_loop
from tracedesk.backtest.importing import import_file
from tracedesk.backtest.recorder import Recorder
from tracedesk.cli.backtest import backtest
from tracedesk.cli.frame import run
from tracedesk.home import Home

__all__ = ["shell"]

REJECTED = '{"OrderId":"o-1","SecuritySymbol":"MSFT","RejectionReason":"Insufficient\\u001b[31m margin"}'


@pytest.fixture
def file(shell: Shell) -> Path:
    lines = [
        event(1),
        event(2, "OrderRejection", REJECTED, severity="Warning", category="Execution"),
        b"junk\n",
    ]
    return write(shell.project / "week.jsonl", lines)


@pytest.fixture
def imported(shell: Shell, file: Path) -> Shell:
    """A home with one run, asked by the real command."""
    import_file(Home.open(shell.home), file)
    return shell


class Inside:
    """The same commands in this process, for what needs no process of its own."""

    def __init__(self, shell: Shell, capture: pytest.CaptureFixture[str]) -> None:
        self.home = shell.home
        self.project = shell.project
        self._capture = capture

    def __call__(self, *words: str | Path) -> Done:
        self._capture.readouterr()
        given = [str(word) for word in words if word != "backtest"]
        code = run(backtest, [*given, "--home", str(self.home)])
        told = self._capture.readouterr()
        return Done(code, told.out, told.err)


@pytest.fixture
def inside(shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Inside:
    monkeypatch.chdir(shell.project)
    return Inside(shell, capsys)


@pytest.fixture
def asked(inside: Inside, file: Path) -> Inside:
    """A home with one run, asked in this process."""
    import_file(Home.open(inside.home), file)
    return inside


def test_import_says_what_came_in_and_that_a_second_time_changes_nothing(shell: Shell, file: Path) -> None:
    first = shell("backtest", "import", file)
    assert (
        first.out.strip()
        == f"Run {RUN} (week): 3 events, 1 of them with validation errors (malformed lines: 1)."
    )
    again = shell("backtest", "import", file)
    assert again.out.strip() == f"Run {RUN} (week) is here already: 3 events; nothing was changed."
    document = shell("--json", "backtest", "import", file).json
    assert document == {
        "runs": [
            {"runId": RUN, "name": "week", "events": 3, "invalid": 1, "malformedLines": 1, "isNew": False}
        ]
    }


def test_import_takes_a_name_and_an_id(inside: Inside, file: Path) -> None:
    done = inside("--json", "backtest", "import", file, "--name", "mine", "--run-id", OTHER)
    assert (done.json["runs"][0]["runId"], done.json["runs"][0]["name"]) == (OTHER, "mine")


def test_an_id_that_is_no_guid_and_a_file_that_is_not_there_are_misuse(inside: Inside, file: Path) -> None:
    done = inside("backtest", "import", file, "--run-id", "seven")
    assert (done.code, "takes a GUID" in done.err) == (2, True)
    assert inside("backtest", "import", "nothing.jsonl").code == 2


def test_a_clash_of_ids_is_refused_with_the_way_out(asked: Inside, file: Path) -> None:
    write(file, [event(9)])
    done = asked("backtest", "import", file)
    assert done.code == 1
    assert "--run-id" in done.err


def test_a_file_of_which_no_line_is_an_event_is_refused_unless_forced(inside: Inside) -> None:
    page = inside.project / "README.md"
    page.write_text("# A project\n\nIt has words.\n" + '{"orders": [1, 2]}\n' * 3)
    done = inside("backtest", "import", page)
    assert done.code == 1
    assert "README.md holds no event: none of its 5 lines" in done.err
    assert "--force" in done.err
    assert inside("--json", "backtest", "runs").json["total"] == 0
    assert list(Home.open(inside.home).runs.glob("*")) == [Home.open(inside.home).runs / ".import.lock"]
    (kept,) = inside("--json", "backtest", "import", page, "--force").json["runs"]
    assert (kept["events"], kept["malformedLines"], kept["isNew"]) == (5, 5, True)
    assert inside("backtest", "import", page).code == 0, "it is here already"


def test_one_event_among_other_lines_is_enough_for_an_import(inside: Inside) -> None:
    lines = [b"junk\n"] * 50 + [event(1)]
    done = inside("--json", "backtest", "import", write(inside.project / "mixed.jsonl", lines))
    (found,) = done.json["runs"]
    assert (done.code, found["events"], found["malformedLines"]) == (0, 51, 50)


def test_a_removed_run_is_gone_and_can_be_imported_again(asked: Inside, file: Path) -> None:
    home = Home.open(asked.home)
    before = asked("backtest", "export", "week").out
    done = asked("--json", "backtest", "rm", "week")
    assert {**done.json, "bytes": 0} == {"runId": RUN, "name": "week", "events": 3, "bytes": 0}
    assert done.json["bytes"] > 10_000
    assert list(home.runs.glob(f"{RUN}*")) == []
    assert asked("--json", "backtest", "runs").json["total"] == 0
    assert asked("backtest", "rm", "week").code == 1
    assert asked("--json", "backtest", "import", file).json["runs"][0]["isNew"] is True
    assert asked("backtest", "export", "week").out == before


def test_a_run_that_is_being_recorded_is_not_removed(inside: Inside) -> None:
    with Recorder(Home.open(inside.home), "live") as recorder:
        recorder.risk(0, "Margin", current=1)
        recorder.flush()
        done = inside("backtest", "rm", "live")
        recorder.risk(1, "Margin", current=2)
    assert done.code == 1
    assert "being recorded" in done.err
    assert inside("--json", "backtest", "show", "live").json["events"] == 2


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_run_whose_file_is_damaged_or_gone_can_be_removed(asked: Inside, is_gone: bool) -> None:
    home = Home.open(asked.home)
    for path in home.runs.glob(f"{RUN}.db*"):
        path.unlink()
    if not is_gone:
        home.run_file(RUN).write_bytes(b"nothing of the kind" * 500)
    assert asked("backtest", "rm", RUN).code == 0
    assert asked("--json", "backtest", "runs").json["total"] == 0
    assert list(home.runs.glob(f"{RUN}*")) == []


def test_a_desk_that_serves_a_run_says_that_it_was_removed(asked: Inside) -> None:
    async def main() -> None:
        async with agent(asked.home) as desk:
            assert (await desk.call("describe_run", runId=RUN))["run"]["events"] == 3
            assert asked("backtest", "rm", RUN).code == 0
            assert (await desk.refused("describe_run", runId=RUN))["code"] == "RUN_NOT_FOUND"
            assert (await desk.call("list_backtest_runs"))["runs"] == []

    in_loop(main())


def test_runs_are_listed_newest_first(imported: Shell) -> None:
    write(imported.project / "b.jsonl", [event(1, run=OTHER)])
    imported("backtest", "import", "b.jsonl")
    listed = imported("--json", "backtest", "runs").json
    assert [(run["runId"], run["name"], run["status"]) for run in listed["runs"]] == [
        (OTHER, "b", "ended"),
        (RUN, "week", "ended"),
    ]
    assert (listed["total"], len(imported("--json", "backtest", "runs", "--limit", "1").json["runs"])) == (
        2,
        1,
    )
    text = imported("backtest", "runs").out
    assert text.index(OTHER) < text.index(RUN)


def test_a_home_without_runs_says_how_to_get_one(inside: Inside) -> None:
    assert "tracedesk backtest sample" in inside("backtest", "runs").out
    assert inside("--json", "backtest", "runs").json == {"runs": [], "total": 0}


def test_show_counts_events_and_rejections_in_tables(asked: Inside) -> None:
    text = asked("backtest", "show", "week").out
    assert "\x1b" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["Type", "Events", "Error", "Warning", "Info"] in rows
    assert ["StateChange", "2", "1", "0", "1"] in rows
    assert ["Insufficient", "margin", "1", "MSFT", "2"] in rows
    assert ["With", "validation", "errors", "1"] in rows


def test_show_as_json_has_everything(asked: Inside) -> None:
    facts = asked("--json", "backtest", "show", RUN).json
    assert facts["types"] == {"StateChange": {"Error": 1, "Info": 1}, "OrderRejection": {"Warning": 1}}
    assert facts["rejections"] == [
        {"reason": "Insufficient\x1b[31m margin", "orders": 1, "symbols": ["MSFT"], "firstEvent": 2}
    ]
    assert (facts["from"], facts["to"]) == ("2025-06-15T00:00:01Z", "2025-06-15T00:00:02Z")


@pytest.mark.parametrize("name", [RUN, RUN.upper(), RUN[:4], "week"])
def test_a_run_is_named_by_its_id_the_beginning_of_it_or_its_name(asked: Inside, name: str) -> None:
    assert asked("--json", "backtest", "show", name).json["runId"] == RUN


@pytest.mark.parametrize("name", ["nothing", RUN[:3], "../week", "' OR 1=1 --"])
def test_a_name_that_fits_no_run_fails(asked: Inside, name: str) -> None:
    done = asked("backtest", "show", name)
    assert done.code == 1
    assert "backtest runs" in done.err


def test_a_name_that_fits_two_runs_lists_their_ids(asked: Inside) -> None:
    write(asked.project / "b.jsonl", [event(1, run=OTHER)])
    asked("backtest", "import", "b.jsonl", "--name", "week")
    done = asked("backtest", "show", "week")
    assert done.code == 1
    assert RUN in done.err
    assert OTHER in done.err


def test_export_goes_to_the_output_or_to_a_file(imported: Shell) -> None:
    text = imported("backtest", "export", "week").out
    assert len(text.splitlines()) == 3
    told = imported("--json", "backtest", "export", "week", "--out", "out.jsonl").json
    assert (imported.project / "out.jsonl").read_text() == text
    assert (told["events"], told["bytes"]) == (3, len(text.encode()))


def test_parquet_and_json_need_a_file(asked: Inside) -> None:
    assert asked("backtest", "export", "week", "--format", "parquet").code == 2
    assert asked("--json", "backtest", "export", "week").code == 2


def test_parquet_without_its_library_says_what_to_install(imported: Shell) -> None:
    hidden = imported.project / "hidden"
    (hidden / "pyarrow").mkdir(parents=True)
    (hidden / "pyarrow" / "__init__.py").write_text("raise ModuleNotFoundError('pyarrow')\n")
    words = ("backtest", "export", "week", "--format", "parquet", "--out", "run.parquet")
    done = imported(*words, PYTHONPATH=str(hidden))
    assert done.code == 1
    assert "pip install 'tracedesk[parquet]'" in done.err
    assert not (imported.project / "run.parquet").exists()


def test_report_writes_one_page(asked: Inside) -> None:
    done = asked("--json", "backtest", "report", "week", "--html", "page.html")
    page = (asked.project / "page.html").read_bytes()
    assert done.json["bytes"] == len(page)
    assert page.startswith(b"<!doctype html>")
    assert page.rstrip().endswith(b"</html>")


def test_a_pruned_run_says_so(asked: Inside) -> None:
    from tracedesk.backtest.runs import register
    from tracedesk.journal import Journal

    home = Home.open(asked.home)
    with Journal(home.run_file(RUN)) as journal:
        journal.prune(RUN)
    register(home, RUN)
    done = asked("backtest", "show", "week")
    assert (done.code, "were pruned" in done.err) == (1, True)
    assert asked("--json", "backtest", "runs").json["runs"][0]["pruned"] is True


def test_a_damaged_file_is_named_and_nothing_breaks(asked: Inside) -> None:
    home = Home.open(asked.home)
    for path in home.runs.glob(f"{RUN}.db*"):
        path.unlink()
    home.run_file(RUN).write_bytes(b"nothing of the kind" * 500)
    done = asked("backtest", "export", RUN)
    assert done.code == 1
    assert RUN in done.err


def test_a_run_being_recorded_is_shown_as_far_as_it_is(inside: Inside) -> None:
    with Recorder(Home.open(inside.home), "live") as recorder:
        recorder.risk(0, "Margin", current=1)
        recorder.flush()
        facts = inside("--json", "backtest", "show", "live").json
    assert (facts["status"], facts["events"]) == ("running", 1)


def test_a_run_whose_file_is_gone_is_listed_and_cannot_be_shown(inside: Inside) -> None:
    home = Home.open(inside.home)
    with Recorder(home, "lost") as recorder:
        recorder.risk(0, "Margin")
        recorder.flush()
        recorder.path.rename(inside.project / "elsewhere.db")
        assert inside("--json", "backtest", "runs").json["runs"][0]["status"] == "running"
        done = inside("backtest", "show", "lost")
        (inside.project / "elsewhere.db").rename(recorder.path)
    assert done.code == 1
    assert recorder.run_id in done.err


def test_the_sample_is_a_real_run_with_rejections_and_a_question_to_ask(shell: Shell) -> None:
    first = shell("--json", "backtest", "sample").json
    assert first["isNew"]
    assert first["invalid"] == 0
    assert first["runId"] in first["question"]
    facts = shell("--json", "backtest", "show", first["runId"]).json
    assert sum(each["orders"] for each in facts["rejections"]) >= 3
    assert "nothing was changed" in shell("backtest", "sample").out
    assert facts["meta"]["config"]["strategy"]


def test_the_page_about_backtests_names_every_tool_command_and_event_type() -> None:
    from tests.support import ROOT
    from tracedesk import contracts
    from tracedesk.backtest.model import EventType

    page = (ROOT / "docs" / "backtest.md").read_text(encoding="utf-8")
    for tool in contracts.names("backtest"):
        assert f"| `{tool}` |" in page
        assert f'"tool": "{tool}"' in page, "with an example"
    for command in backtest.commands:
        assert f"tracedesk backtest {command}" in page
    for kind in EventType:
        assert f"`{kind.name}`" in page
