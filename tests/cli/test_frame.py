"""What every command shares: laziness, global options, exit codes, and how failures end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.conftest import COMMAND, Shell
from tracedesk import logs
from tracedesk.cli import tracedesk
from tracedesk.cli.console import sentence
from tracedesk.cli.frame import DeskGroup, run

HEAVY = ("mcp", "uvicorn", "apsw", "numpy", "rich", "pydantic", "jsonschema_rs", "asyncio", "ssl")


def _loaded(code: str) -> list[str]:
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stderr)


@pytest.mark.parametrize(
    "code",
    [
        "import tracedesk.cli",
        "from tracedesk.cli import main; assert main(['--help']) == 0",
        "from tracedesk.cli import main; assert main(['serve', '--help']) == 0",
        "import tracedesk.cli.serve, tracedesk.cli.doctor, tracedesk.cli.install, tracedesk.cli.token",
    ],
    ids=["import", "--help", "serve --help", "every module"],
)
def test_the_command_line_loads_nothing_heavy(code: str) -> None:
    assert not set(_loaded(code)) & set(HEAVY)


def test_help_loads_no_command() -> None:
    loaded = _loaded("from tracedesk.cli import main; main(['--help'])")
    assert not [name for name in loaded if name in ("tracedesk.cli.serve", "tracedesk.cli.doctor")]


def test_the_tokens_command_needs_no_desk(shell: Shell) -> None:
    assert "tracedesk.desk" not in _loaded(
        f"from tracedesk.cli import main; main(['--home', {str(shell.home)!r}, 'token', 'list'])"
    )


@pytest.mark.parametrize("name", list(tracedesk.table))
def test_a_summary_shown_without_loading_is_the_commands_own(name: str) -> None:
    command = tracedesk.get_command(click.Context(tracedesk), name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(200) == tracedesk.table[name][1]


def test_no_command_shows_the_help_and_exits_2(shell: Shell) -> None:
    done = shell()
    assert (done.code, done.out) == (2, "")
    assert "Commands:" in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["serv"], "No such command 'serv'. Did you mean 'serve'?"),
        (["zzz"], "No such command 'zzz'. There are serve, doctor,"),
        (["token", "ad"], "No such command 'ad'. Did you mean 'add'?"),
        (["serve", "--prot", "1"], "No such option"),
        (["install"], "Missing option '--client'"),
        (["token", "add"], "Missing argument 'NAME'"),
    ],
)
def test_a_wrong_command_line_exits_2_and_says_what_is_right(
    shell: Shell, words: list[str], sentence: str
) -> None:
    done = shell(*words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert "--help'." in done.err


def test_a_refusal_that_begins_with_a_file_name_keeps_its_letters(shell: Shell) -> None:
    for name in ("bad.json", "events"):
        (shell.project / name).write_text("no event\n")
        done = shell("backtest", "import", name)
        assert done.code == 1
        assert f"tracedesk: {name} holds no event" in done.err


@pytest.mark.parametrize(
    ("words", "sentence_"),
    [
        ("no market is open", "No market is open."),
        ("unknown setting 'prot'; there are …", "Unknown setting 'prot'; there are …."),
        ("bad.json holds no event.", "bad.json holds no event."),
        ("runs/a cannot be read", "runs/a cannot be read."),
        ("run_id is unknown", "run_id is unknown."),
        ("exchange.mode must be sim", "exchange.mode must be sim."),
        ("port: must be 0 to 65535", "port: must be 0 to 65535."),
        ("max_sessions must be a number", "max_sessions must be a number."),
        ("port must be a number", "port must be a number."),
        ("tracedesk serve is running", "tracedesk serve is running."),
        ("--by takes a span", "--by takes a span."),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_a_name_begins_it(words: str, sentence_: str) -> None:
    assert sentence(ValueError(words)) == sentence_


@pytest.mark.parametrize("words", [["--json", "serv"], ["serve", "--port", "x", "--json"], ["--json"]])
def test_with_json_an_error_is_an_object_on_stdout(shell: Shell, words: list[str]) -> None:
    done = shell(*words)
    assert (done.code, done.err) == (2, "")
    assert done.json["error"]["code"] == "USAGE"
    assert done.json["error"]["message"]


def test_global_options_work_before_and_after_the_command(shell: Shell, tmp_path: Path) -> None:
    before = shell("--json", "--home", tmp_path / "other", "config", "show")
    after = shell("config", "show", "--home", tmp_path / "other", "--json")
    assert before == after
    assert before.json["settings"]["home"] == {"value": str(tmp_path / "other"), "source": "flag"}


def test_the_version_is_told_for_people_and_for_programs(shell: Shell) -> None:
    assert shell("--version").out == "tracedesk 0.1.0\n"
    assert shell("--json", "--version").json == {"version": "0.1.0"}


def test_a_bug_in_a_command_is_one_sentence_and_its_traceback_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACEDESK_HOME", str(tmp_path))
    group = DeskGroup("tracedesk")

    @group.command()
    def broken() -> None:  # pyright: ignore[reportUnusedFunction]
        raise KeyError("the cause")

    assert run(group, ["broken"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"tracedesk: The command failed inside (KeyError). The traceback is in {logs.path(tmp_path)}.\n"
    )
    assert "KeyError: 'the cause'" in logs.path(tmp_path).read_text()


def test_a_reader_that_leaves_early_gets_no_complaint(shell: Shell) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [COMMAND, "config", "show"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=shell.environment(),
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_control_characters_of_an_argument_do_not_reach_the_terminal(shell: Shell) -> None:
    done = shell("token", "revoke", "\x1b[31mred\x07")
    assert done.code == 1
    assert "\x1b" not in done.err
    assert "\x07" not in done.err
