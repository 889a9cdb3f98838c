"""A full or read-only disk: every family names it with the remedy, and all is well once it is over."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, Shell
from tests.home.disks import SmallDisk, small_disk
from tests.support import BOUND, Client, run
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.exchange.local import launch
from tracedesk.home import Home
from tracedesk.journal.sqlite import CantOpenError, DiskIOError, FullError, ReadOnlyError
from tracedesk.serve import build_app, listen
from tracedesk.storage import fault_of
from tracedesk.wire.http import Bind, serving

TOOLSETS = ("backtest", "codegraph", "exchange", "fuzz", "trading")
CHANGING = ("trade_execute", "etg_log_event", "start_campaign")
FULL = "The disk of the desk's home is full. Make room there"
READ_ONLY = "The desk's home is on a read-only disk. Mount it writable"


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    with small_disk(tmp_path / "disk") as found:
        yield found


@asynccontextmanager
async def client_of(home: Path, project: Path) -> AsyncGenerator[Client]:
    settings = Settings(
        home=home,
        toolsets=TOOLSETS,
        tables={
            "exchange": {"mode": "sim"},
            "fuzz": {"roots": [str(project)]},
            "codegraph": {"roots": [str(project)]},
        },
    )
    listener = listen("127.0.0.1", 0)
    bind = Bind(listener)
    async with open_desk(settings) as desk:
        app, token = build_app(desk, bind)
        async with serving(app, bind):
            yield Client(desk, app, listener.getsockname()[1], token).authorised()


def changing(number: int, project: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """A call of each family that has to write, with the code of its refusal."""
    trade = {"symbol": "IBM", "action": "buy", "quantity": 1, "order_type": "market"}
    event = {"attempt_id": f"a{number}", "kind": "answer_rendered", "payload": {"content": "x" * 30_000}}
    return {
        "trade_execute": ("DATABASE_ERROR", {"tool_call_id": f"call_{number}", "trades": [trade]}),
        "etg_log_event": ("DATABASE_ERROR", event),
        "start_campaign": ("INTERNAL_ERROR", {"path": str(project / "C.json")}),
    }


async def refusals(
    client: Client, project: Path, number: int, tools: tuple[str, ...] = CHANGING
) -> dict[str, dict[str, Any]]:
    """The errors of the calls that are refused, each with the code that it should have."""
    found: dict[str, dict[str, Any]] = {}
    for tool, (code, arguments) in changing(number, project).items():
        if tool in tools and (reply := await client.call(tool, arguments)).json["result"]["isError"]:
            found[tool] = {**reply.envelope["error"], "expected": code}
    return found


async def health(client: Client) -> Any:
    return (await client.request("GET", "/health")).json


def check_refusals(found: dict[str, dict[str, Any]], words: str, kind: str) -> None:
    for tool, error in found.items():
        assert words in error["message"], (tool, error)
        assert (error["code"], error["details"]["kind"]) == (error["expected"], kind), tool


def test_each_family_names_a_full_disk_health_is_degraded_and_both_end_without_a_restart(
    disk: SmallDisk, tmp_path: Path
) -> None:
    project = project_in(tmp_path)

    async def main() -> None:
        async with client_of(disk.home, project) as client:
            assert await refusals(client, project, 0, ("trade_execute", "etg_log_event")) == {}
            assert (await health(client))["status"] == "ok"
            disk.fill()
            seen: dict[str, dict[str, Any]] = {}
            for number in range(1, 40):  # a call that its log has room for still succeeds
                seen = await refusals(client, project, number)
                if len(seen) == len(CHANGING):
                    break
            check_refusals(seen, FULL, "DISK_FULL")
            await check_degraded(client, FULL)
            disk.free()
            assert await refusals(client, project, 99, ("trade_execute", "etg_log_event")) == {}
            async with asyncio.timeout(BOUND):
                while (await health(client))["status"] != "ok":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    run(main())


@pytest.mark.parametrize("door", ["--stdio", "--sse", "--grpc"])
def test_a_desk_whose_home_is_read_only_says_so_instead_of_serving(
    disk: SmallDisk, tmp_path: Path, door: str
) -> None:
    shell = shell_on(disk, tmp_path)
    Home.open(disk.home)
    disk.remount("ro")
    done = shell("serve", door, *(() if door == "--stdio" else ("--port", "0")))
    assert done.code == 1
    assert READ_ONLY.partition(".")[0] in done.err


def shell_on(disk: SmallDisk, folder: Path) -> Shell:
    shell = Shell(folder / "user", disk.home, folder / "work")
    shell.user.mkdir()
    shell.project.mkdir()
    return shell


async def check_degraded(client: Client, words: str) -> None:
    now = await health(client)
    assert now["status"] == "degraded"
    # A writer may have failed before it, and is named too.
    told = [problem for problem in now["problems"] if words.partition(".")[0] in problem["what"]]
    assert told, now["problems"]
    assert all(problem["remedy"] for problem in told)


def project_in(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    (project / "C.json").write_text(json.dumps({"abi": [], "bytecode": "0x00", "contractName": "C"}))
    return project


@pytest.mark.parametrize("case", ["full", "read-only"])
def test_a_local_exchange_that_cannot_start_names_the_disk(disk: SmallDisk, case: str) -> None:
    Home.open(disk.home)
    (disk.fill if case == "full" else lambda: disk.remount("ro"))()

    async def main() -> None:
        async with asyncio.timeout(BOUND):
            with pytest.raises(launch.ToolError) as refused:
                await launch.start(disk.home, launch.Plan())
        assert (FULL if case == "full" else READ_ONLY) in refused.value.message
        assert "said nothing" not in refused.value.message

    run(main())


@pytest.mark.parametrize("case", ["full", "read-only"])
def test_commands_and_the_doctor_name_the_disk(disk: SmallDisk, tmp_path: Path, case: str) -> None:
    shell = shell_on(disk, tmp_path)
    Home.open(disk.home)
    assert shell("market", "advance", "--by", "1d").code == 0
    (disk.fill if case == "full" else lambda: disk.remount("ro"))()
    problem = (FULL if case == "full" else READ_ONLY).partition(".")[0]
    said: list[Done] = []
    for _ in range(40):
        said.append(shell("market", "advance", "--by", "1d"))
        if said[-1].code:
            break
    assert said[-1].code == 1
    assert problem in said[-1].err
    done = shell("--json", "doctor", TRACEDESK_PORT="0")
    broken = [check for check in done.json["checks"] if check["status"] == "fail"]
    assert done.code == 1
    assert {check["check"] for check in broken} <= {"home", "disk"}
    assert problem in next(check["detail"] for check in broken if check["check"] == "home")


@pytest.mark.parametrize("case", ["full", "read-only"])
def test_an_index_that_cannot_be_written_names_the_disk_as_a_tool_and_as_a_command(
    disk: SmallDisk, tmp_path: Path, case: str
) -> None:
    shell, project = shell_on(disk, tmp_path), tmp_path / "code"
    project.mkdir()
    (project / "a.py").write_text("def first():\n    return 1\n")
    assert shell("graph", "index", project).code == 0
    (project / "b.py").write_text("def second():\n    return 2\n")
    problem = (FULL if case == "full" else READ_ONLY).partition(".")[0]

    async def main() -> None:
        async with client_of(disk.home, project) as client:
            disk.fill()
            asked: dict[str, Any] = {"project_root": str(project), "files": []}
            reply = await client.call("graph_index_project", asked)
            error = reply.envelope["error"]
            assert (error["code"], error["details"]["kind"]) == ("DATABASE_ERROR", "DISK_FULL"), error

    if case == "full":
        run(main())
    else:
        disk.remount("ro")
    done = shell("graph", "index", project)
    assert done.code == 1
    assert problem in done.err


# --- without a disk of its own -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (FullError("database or disk is full"), "DISK_FULL"),
        (OSError(errno.ENOSPC, "No space left on device"), "DISK_FULL"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "DISK_FULL"),
        (OSError(errno.EROFS, "Read-only file system"), "READ_ONLY"),
        (ReadOnlyError("attempt to write a readonly database"), "READ_ONLY"),
        (DiskIOError("disk I/O error"), "DISK_FAULT"),
        (CantOpenError("unable to open database file"), None),
        (OSError(errno.EACCES, "Permission denied"), None),
        (ValueError("no space left"), None),
    ],
)
def test_errors_of_the_disk_are_told_from_others(
    tmp_path: Path, problem: Exception, kind: str | None
) -> None:
    found = fault_of(problem, tmp_path)
    assert (None if found is None else found.kind) == kind


def test_the_cause_is_found_behind_the_error_that_was_raised_from_it(tmp_path: Path) -> None:
    try:
        try:
            raise FullError("database or disk is full")
        except FullError:
            raise LookupError("no transaction is active") from None
    except LookupError as problem:
        found = fault_of(problem, tmp_path)
    assert found is not None
    assert found.kind == "DISK_FULL"
