"""`tracedesk fuzz`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import ENDLESS, no_host_left, vault
from tests.support import BOUND
from tracedesk.cli.fuzz_view import LiveView, PlainView, SilentView, picture, view
from tracedesk.fuzz import corpus_files
from tracedesk.fuzz.folder import KIND
from tracedesk.hosts import find


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs `tracedesk fuzz` in a folder, with a home of its own."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "tracedesk.cli", "--home", str(self.home), "fuzz", *map(str, words)]

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )

    def json(self, *words: object, code: int = 0) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Generator[Shell]:
    """A folder with a vault, and one campaign that was run in it."""
    folder = tmp_path_factory.mktemp("cli")
    vault(folder)
    with no_host_left(folder / "home"):
        yield Shell(folder)


@pytest.fixture(scope="module")
def outcome(shell: Shell) -> Any:
    return shell.json(
        "run", "Vault.vy", "--seed", 7, "--workers", 1, "--test-limit", 5_000, "--corpus", "corpus", code=1
    )


def test_json_is_echidnas_result_with_real_names(outcome: Any) -> None:
    assert {"success", "error", "seed", "coverage", "tests", "calls"} <= outcome.keys()
    assert (outcome["success"], outcome["error"], outcome["seed"], outcome["calls"]) == (True, None, 7, 5_000)
    tests = {test["name"]: test for test in outcome["tests"]}
    broken = tests["echidna_fee_is_not_13"]
    assert (broken["contract"], broken["type"], broken["status"]) == ("Vault", "property", "solved")
    [call] = broken["transactions"]
    assert (call["contract"], call["function"], call["arguments"]) == ("Vault", "set_fee", ["13"])
    assert {"gas", "gasprice", "value"} <= call.keys()
    assert tests["echidna_total_is_held"]["status"] == "passed"
    assert tests["echidna_total_is_held"]["transactions"] is None
    assert all(places for places in outcome["coverage"].values())


def test_people_see_each_test_the_calls_that_broke_it_and_a_summary(shell: Shell) -> None:
    done = shell.run("run", "Vault.vy", "--seed", 7, "--workers", 1, "--test-limit", 3_000)
    assert done.returncode == 1
    assert "echidna_fee_is_not_13: failed (false)\n  Call sequence:\n    set_fee(13)" in done.stdout
    assert "echidna_total_is_held: passed" in done.stdout
    assert "3,000 calls in" in done.stdout
    assert "seed 7" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr, "no terminal, no colours"


def test_a_campaign_without_a_failure_ends_with_0(shell: Shell) -> None:
    found = shell.json("run", "Vault.vy", "--test-mode", "overflow", "--test-limit", 500, "--workers", 1)
    assert (found["falsified"], found["tests"][0]["name"]) == (0, "Integer (over/under)flow")


def test_a_configuration_file_is_heeded_and_its_strange_keys_are_told(shell: Shell) -> None:
    (shell.folder / "echidna.yaml").write_text(
        "testLimit: 700\nworkers: 1\ntestlimit: 5\nprefix: echidna_total\n"
    )
    done = shell.run("run", "Vault.vy", "--config", "echidna.yaml")
    assert done.returncode == 0, done.stderr
    assert "Warning: testlimit: unknown key, ignored. Did you mean testLimit?" in done.stderr
    assert "700 calls in" in done.stdout
    assert "echidna_fee" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "Vault.vy", "--contract", "Nothing"), "contract: there is no 'Nothing'"),
        (("run", "Vault.vy", "--test-mode", "optimization"), "no tests for the mode optimization"),
        (("run", "Vault.vy", "--workers", "0"), "workers: must be from 1 to 64"),
        (("run", "missing.vy"), "does not exist"),
        (("replay", "Vault.vy"), "Missing argument"),
        (("coverage", "--campaign", "nothing"), "no campaign 'nothing'"),
    ],
)
@pytest.mark.usefixtures("outcome")
def test_what_cannot_be_used_as_given_ends_with_2_and_says_why(
    shell: Shell, words: tuple[str, ...], message: str
) -> None:
    error = shell.json(*words, code=2)["error"]
    assert error["code"] == "USAGE"
    assert message in error["message"]


def test_an_interrupted_run_ends_its_campaign_and_still_tells_the_outcome(shell: Shell) -> None:
    words = ("run", "Vault.vy", "--test-limit", ENDLESS, "--workers", 1, "--seed", 7)
    process = subprocess.Popen(
        shell.command(*words), cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("echidna_fee_is_not_13: failed")
    assert len(find(shell.home, KIND)) == 1
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "echidna_total_is_held: passed" in out
    assert find(shell.home, KIND) == []


@pytest.mark.usefixtures("outcome")
def test_recorded_sequences_are_replayed_with_status_gas_and_what_they_break(shell: Shell) -> None:
    found = shell.json("replay", "Vault.vy", "corpus/reproducers", "--trace", code=1)
    [sequence] = found["sequences"]
    assert sequence["transactions"][0]["status"] == "success"
    assert sequence["failures"][0]["test"] == "Vault.echidna_fee_is_not_13"
    assert sequence["trace"][0].startswith("call Vault.set_fee(13)")
    whole = shell.run("replay", "Vault.vy", "corpus")
    assert whole.returncode == 1
    assert "breaks Vault.echidna_fee_is_not_13 (false)" in whole.stdout


@pytest.mark.usefixtures("outcome")
def test_a_long_sequence_is_shortened_and_written(shell: Shell) -> None:
    [call] = corpus_files.read(next((shell.folder / "corpus" / "reproducers").glob("*.txt")).read_bytes())
    padding: dict[str, Any] = {**call, "call": {"name": "deposit", "types": [], "args": []}, "value": "5"}
    (shell.folder / "long.txt").write_bytes(corpus_files.write([padding, padding, call, padding]))
    told = shell.json("shrink", "Vault.vy", "long.txt", "--out", "short.txt")
    assert (told["test"], told["from"], told["to"]) == ("Vault.echidna_fee_is_not_13", 4, 1)
    assert told["calls"][0]["call"] == "set_fee(13)"
    assert corpus_files.read((shell.folder / "short.txt").read_bytes())[0]["call"]["args"] == ["13"]
    done = shell.run("shrink", "Vault.vy", "long.txt", "--test", "echidna_total_is_held")
    assert done.returncode == 2
    assert "does not fail" in done.stderr


@pytest.mark.usefixtures("outcome")
def test_coverage_is_shown_and_written_as_page_and_lcov(shell: Shell) -> None:
    found = shell.json("coverage", "--html", "page.html", "--lcov", "out.lcov")
    assert found["contracts"][0]["name"] == "Vault"
    assert (shell.folder / "page.html").read_text().lower().startswith("<!doctype html>")
    assert (shell.folder / "out.lcov").read_text().startswith("TN:")
    shown = shell.run("coverage").stdout
    assert shown.startswith("CONTRACT")
    assert "%" in shown


def test_the_corpus_is_listed_exported_and_imported(shell: Shell, outcome: Any) -> None:
    listed = shell.json("corpus", "ls", "--limit", 3, "--campaign", outcome["campaign"])
    assert [row["index"] for row in listed["transactions"]] == [0, 1, 2]
    told = shell.json("corpus", "export", "exported", "--campaign", outcome["campaign"])
    assert told["sequences"] == len(list((shell.folder / "exported").rglob("*.txt")))
    again = shell.json("corpus", "import", "exported", "--campaign", outcome["campaign"])
    assert again["sequences"] >= 1, "reproducers become part of the corpus"
    assert shell.json("corpus", "import", "exported", "--campaign", outcome["campaign"])["sequences"] == 0


def test_serve_lets_an_agent_watch_the_run(shell: Shell) -> None:
    words = ("run", "Vault.vy", "--test-limit", ENDLESS, "--workers", 1, "--serve", "--port", 0)
    process = subprocess.Popen(
        shell.command(*words), cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("Serving http://127.0.0.1:")
    url = line.split()[1].removesuffix(",").removesuffix("/mcp")
    code = (
        "import json, sys, urllib.request as u\n"
        f"q = u.Request({url!r} + '/health')\n"
        "print(json.load(u.urlopen(q, timeout=10))['status'])\n"
    )
    health = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=BOUND, check=True
    )
    assert health.stdout.strip() == "ok"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 1


def test_a_terminal_sees_a_live_table_that_gives_way_to_the_outcome(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    words = ("run", "Vault.vy", "--test-limit", 2_000_000, "--workers", 1)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            shell.command(*words), cwd=shell.folder, stdout=subprocess.PIPE, stderr=theirs, text=True
        )
        os.close(theirs)
        painted = b""
        with contextlib.suppress(OSError):  # the far end is closed
            while piece := screen.read(65_536):
                painted += piece
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Ctrl-C ends the campaign" in painted
    assert "echidna_total_is_held: passed" in out


# --- views ---------------------------------------------------------------------------------------

STATE: dict[str, Any] = {
    "status": {
        "contract": "Vault\x1b[31m",
        "mode": "property",
        "campaign_id": "vault-1",
        "calls": 1_000,
        "elapsedSeconds": 12,
        "callsPerSecond": 83.3,
        "coveragePoints": 5,
        "corpusSequences": 2,
        "seed": 7,
        "secondsSinceNewCoverage": 3,
    },
    "tests": [
        {"id": "a", "name": "[bold]a", "type": "property", "status": "solved", "reason": "false"},
        {"id": "b", "name": "b", "type": "optimization", "status": "fuzzing", "value": "42"},
    ],
}


def test_a_plain_view_says_each_change_once_and_now_and_then_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("w") as stream, PlainView(stream) as shown:
        shown.show(STATE)
        shown.show(STATE)
    assert path.read_text().splitlines() == [
        "[bold]a: failed (false)",
        "1,000 calls in 12 s, 83 a second, 5 points covered, 2 sequences kept, seed 7",
    ]


def test_the_live_view_shows_names_as_text_and_no_escapes() -> None:
    from rich.console import Console

    terminal = Console(width=100, record=True, file=io.StringIO())
    terminal.print(picture(STATE))
    text = terminal.export_text()
    assert "[bold]a" in text
    assert "best value 42" in text
    assert "\x1b" not in text


def test_the_view_fits_where_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(view(quiet=True)) is SilentView
    assert type(view(quiet=False)) is PlainView
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert type(view(quiet=False)) is LiveView
