"""How `tracedesk fuzz` ends: 1 means that a test was falsified, and nothing else does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import ENDLESS, no_host_left, vault
from tests.fuzz.test_fuzz_cli import Shell
from tests.support import BOUND
from tracedesk.fuzz import corpus_files, result
from tracedesk.fuzz.folder import KIND, Folder, folders
from tracedesk.home import Home
from tracedesk.hosts import find

SENDER = "0x0000000000000000000000000000000000010000"
VAULT = "0x00a329c0648769a73afac7f9381e08fb43dbea72"


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    vault(tmp_path)
    with no_host_left(tmp_path / "home"):
        yield Shell(tmp_path)


def killed(shell: Shell, *words: object) -> tuple[int, str, Folder]:
    """How a run ends whose campaign's process is killed once it has written what it covered."""
    command = shell.command("run", "Vault.vy", "--test-limit", ENDLESS, "--workers", 1, *words)
    process = subprocess.Popen(command, cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (found := folders(Home(shell.home))) or not _calls(found[0]):
        assert process.poll() is None
    [info] = find(shell.home, KIND)
    os.kill(info.pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=BOUND)
    return process.returncode, out.decode(), found[0]


def _calls(folder: Folder) -> int:
    return json.loads(folder.coverage.read_bytes())["calls"]


def test_a_run_whose_process_was_killed_ends_with_2_and_says_so(shell: Shell) -> None:
    code, out, _ = killed(shell, "--test-mode", "overflow")
    assert code == 2
    assert "The campaign did not end properly: the campaign's process was killed; this is how it" in out


def test_a_killed_run_says_in_json_why_it_is_no_success(shell: Shell) -> None:
    code, out, _ = killed(shell, "--test-mode", "overflow", "--json")
    assert code == 2
    told = json.loads(out)
    assert told["success"] is False
    assert "was killed" in told["error"]


def test_a_killed_campaigns_coverage_is_shown_with_the_time_it_is_of(shell: Shell) -> None:
    _, _, folder = killed(shell, "--test-mode", "overflow")
    shown = shell.run("coverage", "--campaign", folder.id)
    assert shown.returncode == 0, shown.stderr
    assert "As of 20" in shown.stdout


def test_a_process_that_breaks_before_it_begins_ends_with_2(shell: Shell) -> None:
    breaker = shell.folder / "broken" / "sitecustomize.py"
    breaker.parent.mkdir()
    breaker.write_text(
        "import sys\nif 'tracedesk.fuzz.host' in ' '.join(sys.orig_argv):\n    raise SystemExit('broken')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tracedesk.cli", "--home", str(shell.home), "fuzz", "run", "Vault.vy"],
        cwd=shell.folder,
        env={**os.environ, "PYTHONPATH": str(breaker.parent)},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 2, done.stdout
    assert "process failed" in done.stderr


def test_a_broken_worker_or_test_is_no_proper_end() -> None:
    worker: dict[str, Any] = {"id": 3, "error": "out of memory"}
    ended: dict[str, Any] = {"status": {"state": "ended", "workers": [worker]}, "tests": []}
    assert result.trouble(ended) == "worker 3: out of memory"
    test = {"name": "echidna_a", "status": "error"}
    failed: dict[str, Any] = {"status": {"state": "ended", "workers": [{"id": 0}]}, "tests": [test]}
    assert result.trouble(failed) == "echidna_a could not be run"
    assert result.trouble({**failed, "tests": []}) is None


@pytest.mark.parametrize("folder", ["/proc/foo", "Vault.vy/corpus"])
def test_a_corpus_folder_that_cannot_be_written_is_refused_by_its_key(shell: Shell, folder: str) -> None:
    error = shell.json("run", "Vault.vy", "--corpus", folder, code=2)["error"]
    assert error["code"] == "USAGE"
    assert error["message"].startswith("corpusDir: ")
    assert "cannot be written" in error["message"]


# --- recorded sequences --------------------------------------------------------------------------


def call(name: str, *args: str, **more: Any) -> dict[str, Any]:
    return {
        "call": {
            "tag": "SolCall",
            "contents": [name, [{"tag": "AbiUInt", "contents": [256, arg]} for arg in args]],
        },
        "src": SENDER,
        "dst": VAULT,
        "gas": 12_500_000,
        "gasprice": "0x0",
        "value": "0x0",
        "delay": ["0x0", "0x0"],
        **more,
    }


GOOD = [call("set_fee", "5")]
BAD: dict[str, tuple[Any, str]] = {
    "number": ([call("set_fee", "9" * 87)], "number.txt"),
    "unknown": ([call("nothing", "9" * 87)], "unknown.txt"),
    "delay": ([call("set_fee", "5", delay=["0xfffffffffffffffffffffffff", "0x0"])], "64 bits"),
    "gas": ([call("set_fee", "5", gas=2**64)], "64 bits"),
    "value": ([call("set_fee", "5", value="0x1" + "00" * 32)], "256 bits"),
    "negative": ([call("set_fee", "5", gas=-5)], "256 bits"),
    "sender": ([call("set_fee", "5", src="0x1" + "00" * 20)], "160 bits"),
}


def recorded(folder: Path, **files: Any) -> Path:
    (folder / "coverage").mkdir(parents=True)
    for name, document in files.items():
        (folder / "coverage" / f"{name}.txt").write_text(json.dumps(document))
    return folder


def test_bad_files_of_a_corpus_are_left_out_by_name_and_the_campaign_runs(shell: Shell) -> None:
    corpus = recorded(shell.folder / "corpus", good=GOOD, **{name: bad for name, (bad, _) in BAD.items()})
    words = ("--corpus", corpus, "--test-limit", 500, "--workers", 1, "--test-mode", "overflow")
    assert shell.json("run", "Vault.vy", *words)["success"] is True
    [folder] = folders(Home(shell.home))
    [warning] = json.loads(folder.state.read_bytes())["status"]["warnings"]
    assert f"{len(BAD)} sequences were left out; first «coverage/" in warning
    assert any(f"coverage/{name}.txt: " in warning for name in BAD)


def test_an_import_checks_every_file_and_names_those_it_leaves_out(shell: Shell) -> None:
    shell.json("run", "Vault.vy", "--test-limit", 500, "--workers", 1, "--test-mode", "overflow")
    source = recorded(shell.folder / "in", good=GOOD, **{name: bad for name, (bad, _) in BAD.items()})
    told = shell.json("corpus", "import", source)
    assert told["sequences"] == 1
    said = [*told["skipped"], *told["problems"]]
    assert len(said) == len(BAD)
    for name, (_, why) in BAD.items():
        [line] = [line for line in said if line.startswith(f"coverage/{name}.txt: ")]
        assert why in line


def test_a_replay_names_the_file_that_it_cannot_execute(shell: Shell) -> None:
    source = recorded(shell.folder / "in", good=GOOD, number=BAD["number"][0], delay=BAD["delay"][0])
    done = shell.run("replay", "Vault.vy", source)
    assert done.returncode == 0, done.stderr
    assert "Skipped coverage/number.txt: " in done.stderr
    assert "Skipped coverage/delay.txt: " in done.stderr
    assert "set_fee(5)  success" in done.stdout
    alone = shell.run("replay", "Vault.vy", source / "coverage" / "number.txt")
    assert alone.returncode == 2
    assert "number.txt" in alone.stderr


def test_a_replay_of_another_contracts_corpus_is_refused_and_of_a_mixed_one_warned_about(
    shell: Shell,
) -> None:
    foreign, mixed = [call("transfer", "5")], [call("transfer", "5"), call("set_fee", "5")]
    source = recorded(shell.folder / "in", foreign=foreign, mixed=mixed)
    done = shell.run("replay", "Vault.vy", source / "coverage" / "foreign.txt")
    assert done.returncode == 2
    assert "another contract: no contract has transfer(uint256)" in done.stderr
    done = shell.run("replay", "Vault.vy", source)
    assert done.returncode == 0
    assert "Warning: no contract has transfer(uint256); such calls are made as bare data." in done.stderr


def test_long_names_and_types_of_a_file_are_not_printed_whole(shell: Shell) -> None:
    shell.json("run", "Vault.vy", "--test-limit", 500, "--workers", 1, "--test-mode", "overflow")
    long = [call("x" * 10_000, "5")]
    numbers = [{"tag": "AbiUInt", "contents": [256, "1"]}] * 70_000
    tuple_ = {"tag": "AbiTuple", "contents": numbers}
    wide = [call("wide", call={"tag": "SolCall", "contents": ["wide", [tuple_]]})]
    told = shell.json("corpus", "import", recorded(shell.folder / "in", good=GOOD, long=long, wide=wide))
    assert told["sequences"] == 2
    [why] = [*told["skipped"], *told["problems"]]
    assert why.startswith("coverage/wide.txt: ")
    assert len(why) + len(told["remark"]) < 700


def test_an_import_at_its_limit_of_memory_says_so(shell: Shell) -> None:
    shell.json("run", "Vault.vy", "--test-limit", 500, "--workers", 1, "--test-mode", "overflow")
    (shell.home / "tracedesk.toml").write_text("[fuzz.limits]\nmemory_mb = 150\n")
    many = recorded(shell.folder / "in", many=[call("set_fee", "5")] * 30_000)
    error = shell.json("corpus", "import", many, code=2)["error"]
    assert "memory_mb in [fuzz.limits]" in error["message"]


def test_importing_a_folder_without_a_sequence_is_refused(shell: Shell) -> None:
    shell.json("run", "Vault.vy", "--test-limit", 500, "--workers", 1, "--test-mode", "overflow")
    (shell.folder / "empty").mkdir()
    error = shell.json("corpus", "import", "empty", code=2)["error"]
    assert "No sequence was found in empty" in error["message"]


def test_a_deeply_nested_file_is_no_sequence() -> None:
    with pytest.raises(corpus_files.BadFile):
        corpus_files.read("[" * 100_000)
