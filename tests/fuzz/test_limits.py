"""Campaigns of projects that would take the machine, as people and agents start them: whole processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import ENDLESS, agent, no_host_left, vault
from tests.fuzz.evil import code
from tests.fuzz.evil.code import COUNT, call, forever
from tests.support import BOUND
from tracedesk.fuzz import corpus_files
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.folder import KIND
from tracedesk.hosts import find

RUN = (str(Path(sys.executable).with_name("tracedesk")), "--home")
_GIB = 1 << 20
"""KiB, as the system counts the most memory that a process has had."""


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    place = tmp_path / "home"
    with no_host_left(place):
        yield place


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "roots"
    folder.mkdir()
    return folder


def _put(folder: Path, document: str) -> Path:
    path = folder / "E.json"
    path.write_text(document)
    return path


def _run(home: Path, *words: object, **environment: str) -> tuple[int, str, int]:
    """Exit code, what was said, and the most memory of any process of the command."""
    process = subprocess.Popen(
        [*RUN, str(home), "fuzz", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    with process.stdout:
        out = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, out, used.ru_maxrss


def _until(condition: Callable[[], Any]) -> bool:
    until = time.monotonic() + 2 * BOUND
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return bool(condition())


def test_an_endless_constructor_is_refused_with_what_it_reached(home: Path, project: Path) -> None:
    path = _put(project, code.constructing(forever(COUNT)))
    status, said, memory = _run(home, "run", path, "--timeout", 60)
    assert status == 2
    assert "the constructor of E was ended: it reached its limit of 128 MiB of state changes and logs" in said
    assert "journal_mb in [fuzz.limits]" in said
    assert memory < _GIB
    assert not find(home, KIND)


def test_the_timeout_holds_from_the_start_of_the_deployment(home: Path, project: Path) -> None:
    path = _put(project, code.constructing(forever()))
    home.mkdir()
    (home / "tracedesk.toml").write_text(f"[fuzz.limits]\ndeploy_gas = {1 << 62}\n")
    status, said, _ = _run(home, "run", path, "--timeout", 4, "--test-limit", ENDLESS)
    assert status == 2
    assert "timeout: the 4 s of the campaign were over during" in said
    assert not find(home, KIND)


def test_the_timeout_holds_for_a_compiler_that_sleeps(home: Path, project: Path) -> None:
    words = ("run", *_with_a_compiler(project, "exec sleep 1000"), "--timeout", 4)
    status, said, _ = _run(home, *words, "--trust-project")
    assert (status, "timeout: the 4 s of the campaign were over during the compilation" in said) == (2, True)
    status, said, _ = _run(home, *words)
    assert status == 2
    assert "--trust-project" in said


def _with_a_compiler(project: Path, work: str) -> tuple[object, ...]:
    """Arguments that name a source and its own compiler, which does this work."""
    (project / "E.sol").write_text("contract E {}")
    program = project / "solc"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo "Version: 0.8.30"\n{work}\n')
    program.chmod(0o755)
    (project / "echidna.yaml").write_text(f'cryticArgs: ["--solc", "{program}"]\n')
    return (project / "E.sol", "--config", project / "echidna.yaml")


def test_a_campaign_ends_with_the_command_that_runs_it(home: Path, project: Path) -> None:
    words = [*RUN, str(home), "fuzz", "run", str(vault(project)), "--test-limit", str(ENDLESS)]
    process = subprocess.Popen([*words, "--workers", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert _until(lambda: find(home, KIND))
        [info] = find(home, KIND)
    finally:
        process.kill()
        process.communicate()
    assert _until(lambda: not find(home, KIND)), info


def test_a_command_that_is_killed_while_it_deploys_leaves_no_process(home: Path, project: Path) -> None:
    home.mkdir()
    (home / "tracedesk.toml").write_text(f"[fuzz.limits]\ndeploy_gas = {1 << 62}\ndeploy_seconds = 600\n")
    path = _put(project, code.constructing(forever()))
    process = subprocess.Popen(
        [*RUN, str(home), "fuzz", "run", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    owners: list[int] = []

    def is_deploying() -> bool:
        folders = list((home / "campaigns").glob("*/phase")) if (home / "campaigns").is_dir() else []
        if not any(file.read_text() == "the deployment" for file in folders):
            return False
        owners[:] = [json.loads(file.with_name("owner.json").read_bytes())["pid"] for file in folders]
        return True

    try:
        assert _until(is_deploying)
    finally:
        process.kill()
        process.communicate()
    assert _until(lambda: not _runs(owners[0]))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_an_agent_is_refused_the_same(home: Path, project: Path) -> None:
    path = _put(project, code.constructing(forever(COUNT)))

    async def ask() -> dict[str, Any]:
        async with agent(home, project) as desk:
            return await desk.refused("start_campaign", path=str(path), workers=1)

    error = asyncio.run(ask())
    assert error["code"] == "INVALID_INPUT"
    assert error["details"]["kind"] == "LIMIT_REACHED"
    assert error["details"]["phase"] == "the constructor of E"
    assert error["details"]["limit"] == "journal"


def test_an_agents_sequence_has_its_own_end(home: Path, project: Path) -> None:
    bomb = forever(call(0xEE, size=100_000, kind=code.CALL))
    path = _put(project, code.running(bomb))

    async def ask() -> Any:
        async with agent(home, project) as desk:
            await desk.call("start_campaign", path=str(path), workers=1, testLimit=20)
            return await desk.call("execute_sequence", sequence=["poke()"], trace=True)

    told = asyncio.run(ask())
    assert told["transactions"][0]["status"] == "halt"
    assert told["trace"][0].startswith("call E.poke()")
    assert len(json.dumps(told)) < 200_000


def test_a_host_at_its_limit_of_memory_says_so(home: Path, project: Path) -> None:
    home.mkdir()
    (home / "tracedesk.toml").write_text("[fuzz.limits]\nmemory_mb = 260\n")
    wide = {
        "type": "function",
        "name": "wide",
        "inputs": [{"name": "a", "type": "uint256[16000]"}],
        "outputs": [],
        "stateMutability": "nonpayable",
    }
    path = _put(project, code.document(code.deploying(code.TRUE), code.TRUE, [*code.TEST, wide]))
    status, said, _ = _run(home, "run", path, "--workers", 2, "--test-limit", ENDLESS, "--timeout", 100)
    assert status == 2
    # A library may crash where it gets no memory; then the limit is named, and not said to be the reason.
    assert re.search(r"reached its limit of 260 MiB|crashed \([\w ]+\), .* here 260 MiB", said), said


@pytest.mark.parametrize("command", ["replay", "shrink"])
def test_a_command_at_its_limit_of_memory_says_so(home: Path, project: Path, command: str) -> None:
    home.mkdir()
    # The core, which ends its process, asks for more at once than is left of the memory.
    (home / "tracedesk.toml").write_text("[fuzz.limits]\nmemory_mb = 200\njournal_mb = 600\n")
    path = _put(project, code.running(forever(COUNT)))
    poke: dict[str, Any] = {"name": "poke", "types": [], "args": []}
    whole = {"value": "0", "gas": 1 << 62, "gas_price": "0", "delay": [0, 0], "call": poke}
    addresses = {"to": Config().contract_address, "from": Config().senders[0]}
    sequence = project / "sequence.txt"
    sequence.write_bytes(corpus_files.write([{**addresses, **whole}]))
    status, said, _ = _run(home, command, path, sequence)
    assert status == 2
    assert f"reached its limit of 200 MiB of memory during `tracedesk fuzz {command}`" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGINT, 2)]
)
def test_a_replay_that_is_ended_leaves_no_process(
    home: Path, project: Path, number: signal.Signals, code: int
) -> None:
    note = project / "pid"
    told = _with_a_compiler(
        project, f'echo $PPID $$ >"{note}.new"; mv "{note}.new" "{note}"; exec sleep 1000'
    )
    words = ("fuzz", "replay", *told, project / "E.sol", "--trust-project")
    process = subprocess.Popen(
        [*RUN, str(home), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert _until(note.exists)
        process.send_signal(number)
        said, _ = process.communicate(timeout=BOUND)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert (b"Interrupted." in said) == (number == signal.SIGINT)
    left = [int(pid) for pid in note.read_text().split()]
    assert _until(lambda: not any(map(_runs, left)))


def test_as_many_workers_as_there_may_be_have_room_in_a_host(home: Path, project: Path) -> None:
    words = ("--workers", 64, "--test-limit", 2_000, "--seq-len", 10, "--timeout", 100)
    status, said, memory = _run(home, "run", vault(project), *words)
    assert status in (0, 1), said
    assert "did not end properly" not in said
    assert memory < _GIB


def test_a_command_of_ffi_ends_with_the_campaign(home: Path, project: Path) -> None:
    path = _put(project, code.running(code.ffi("sleep", "1000")))
    (project / "echidna.yaml").write_text("allowFFI: true\n")
    words = ("run", path, "--config", project / "echidna.yaml", "--timeout", 5)
    began = time.monotonic()
    status, said, _ = _run(home, *words, "--trust-project")
    assert time.monotonic() - began < BOUND
    assert "did not end properly" not in said
    assert (status, "0 sequences kept" in said) == (0, True), said


def test_a_sequence_that_returns_without_end_is_refused_by_the_desk_that_is_asked(
    home: Path, project: Path
) -> None:
    path = _put(project, code.running(code.ops(code.push(8 << 20), code.PUSH0, code.RETURN)))
    options = {"testMaxGas": 1 << 50}

    async def ask() -> dict[str, Any]:
        async with agent(home, project) as desk:
            await desk.call("start_campaign", path=str(path), workers=1, testLimit=20, options=options)
            assert _until(lambda: not find(home, KIND))
            return await desk.refused("execute_sequence", sequence=["poke()"] * 100, trace=True)

    error = asyncio.run(ask())
    assert error["details"] == {"kind": "LIMIT_REACHED", "phase": "the sequence", "limit": "answer"}
    assert "more than 32 MiB" in error["message"]
