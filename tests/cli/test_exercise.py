"""Exercises of toolsets: what cannot run is named with its remedy, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Shell, ended, serving
from tests.home.disks import SmallDisk, small_disk
from tests.support import BOUND, run, until
from tracedesk import exercise as exercises
from tracedesk import serve
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.exercise import Exercised, exercise, in_background
from tracedesk.hosts import confined
from tracedesk.primitives.supervision import reasons
from tracedesk.toolsets import TOOLSETS

BROKEN = {"fuzz": "tracedesk_evm", "exchange": "aiohttp", "codegraph": "tree_sitter_python"}
"""Modules that an installation without its extras lacks, by the toolset that needs them."""
REMEDIES = {"fuzz": "Install Rust (rustup)", "exchange": "Install tracedesk[exchange]"}
REMEDIES["codegraph"] = "Install tracedesk[codegraph]"
"""What is to be done about each."""


@pytest.fixture
def crippled(tmp_path: Path) -> dict[str, str]:
    """An environment in which these modules cannot be imported."""
    folder = tmp_path / "crippled"
    folder.mkdir()
    for module in BROKEN.values():
        (folder / f"{module}.py").write_text(f'raise ImportError("No module named {module}")\n')
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, empty again in the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    assert list(folder.iterdir()) == []


def processes_of(folder: Path) -> list[str]:
    """The commands that run with a path in a folder among their words."""
    listed = subprocess.run(["ps", "-axww", "-o", "command="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if f"{folder}/" in line]


@pytest.mark.parametrize("toolset", ["fuzz", "exchange", "codegraph"])
def test_each_toolset_does_a_small_piece_of_its_work_and_leaves_nothing(
    toolset: str, temporary: Path
) -> None:
    done = exercise(toolset)
    assert (done.can_run, done.remedy) == (True, None), done.detail
    assert done.detail
    assert processes_of(temporary) == []


def test_doctor_names_each_toolset_that_cannot_run_with_its_remedy(
    shell: Shell, crippled: dict[str, str]
) -> None:
    done = shell("doctor", "--json", TRACEDESK_PORT="0", **crippled)
    assert (done.code, done.json["healthy"]) == (1, False)
    found = {check["check"]: check for check in done.json["checks"]}
    for toolset in TOOLSETS:
        if toolset in BROKEN:
            assert found[toolset]["status"] == "fail"
            assert found[toolset]["detail"].startswith("cannot run: ")
            assert REMEDIES[toolset] in found[toolset]["remedy"]
        else:
            assert found[toolset]["status"] == "ok"


def test_a_desk_says_after_its_banner_which_toolsets_cannot_run(
    shell: Shell, crippled: dict[str, str]
) -> None:
    with serving(shell, **crippled) as (process, served):
        assert process.stderr is not None
        told = [process.stderr.readline().removeprefix("tracedesk: ") for _ in BROKEN]
        assert sorted(line.split()[0] for line in told) == sorted(BROKEN), told
        for line in told:
            toolset = line.split()[0]
            assert line.startswith(f"{toolset} cannot run: ")
            assert REMEDIES[toolset] in line
        with urlopen(f"{served.url}/health") as answer:
            health = json.load(answer)
        assert health["status"] == "degraded"
        named = sorted(problem["what"] for problem in health["problems"])
        assert named == [f"The toolset {toolset} cannot run." for toolset in sorted(BROKEN)]


def test_a_desk_that_stops_at_once_ends_its_exercises(shell: Shell, temporary: Path) -> None:
    with serving(shell) as (process, _):
        ended(process)
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []


# --- a temporary folder without room -------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 4 MB for the temporary folder."""
    with small_disk(tmp_path / "small", megabytes=4) as disk:
        yield disk


def health_of(url: str) -> Any:
    with urlopen(f"{url}/health") as answer:
        return json.load(answer)


def seen(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """What a look shows once it is as wanted; bounded."""
    limit = time.monotonic() + BOUND
    while not wanted(found := look()):
        assert time.monotonic() < limit, found
        time.sleep(0.05)
    return found


def leave(disk: SmallDisk, bytes_: int) -> None:
    """Fill the disk but for so many bytes."""
    disk.fill()
    filler = disk.path / "filler"
    os.truncate(filler, filler.stat().st_size - bytes_)


def test_doctor_says_one_time_that_the_temporary_folder_has_no_room_and_breaks_no_toolset(
    shell: Shell, small: SmallDisk
) -> None:
    leave(small, 8_192)  # Python itself passes over a folder that takes no byte, if it finds another
    done = shell("doctor", "--json", TRACEDESK_PORT="0", TMPDIR=str(small.path))
    found = {check["check"]: check for check in done.json["checks"]}
    broken = [name for name, check in found.items() if check["status"] == "fail"]
    assert (done.code, broken) == (1, ["temporary"])
    assert found["temporary"]["detail"] == f"The temporary folder has no room left: {small.path}"
    assert "Make room there" in found["temporary"]["remedy"]
    assert "TMPDIR" in found["temporary"]["remedy"]
    for name in (*TOOLSETS, "protocol"):
        assert found[name]["detail"] == "not checked: the temporary folder has no room left"
    assert "Install tracedesk again" not in done.out
    assert "home is full" not in done.out


@pytest.mark.parametrize("toolset", ["backtest", "exchange", "codegraph", "trading", "fuzz"])
def test_a_folder_that_fills_up_during_an_exercise_is_no_fault_of_the_toolset(
    toolset: str, small: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small.path))
    monkeypatch.setattr("tracedesk.storage._WORKING", 0)
    leave(small, 90_112)
    done = exercise(toolset)
    assert done.can_run or done.storage == "DISK_FULL", done
    assert done.can_run == (toolset == "fuzz"), "only this one needs next to no room"


def test_a_read_only_temporary_folder_is_named_as_such(small: SmallDisk) -> None:
    small.remount("ro")
    done = exercise("trading", small.path)
    assert (done.can_run, done.storage) == (False, "READ_ONLY")
    assert done.detail == "The temporary folder is on a read-only disk"
    assert done.remedy is not None
    assert done.remedy.startswith("Set TMPDIR")


def test_a_desk_whose_temporary_folder_is_full_names_it_once_and_calls_no_toolset_broken(
    shell: Shell, small: SmallDisk
) -> None:
    leave(small, 8_192)
    with serving(shell, TMPDIR=str(small.path)) as (_, served):
        health = seen(lambda: health_of(served.url), lambda health: health["problems"])
        assert health["problems"] == [
            {
                "what": "The temporary folder has no room left.",
                "remedy": "Make room there. Or: Set TMPDIR to another folder, which this user can write, "
                "and start again.",
            }
        ]
        log = next(shell.home.glob("logs/*.log")).read_text()
        assert log.count(str(small.path)) == 1
        assert "cannot run" not in log


# --- exercised anew ------------------------------------------------------------------------------


def desk_notes(home: Path, toolsets: tuple[str, ...], steps: Callable[[Any], Any]) -> None:
    """Have a desk note the exercises of toolsets, begun anew without a pause, while the steps go on."""

    async def main() -> None:
        async with (
            open_desk(Settings(home=home, toolsets=toolsets)) as desk,
            in_background(toolsets, partial(serve.note, desk), pauses=(0.05,)) as begin,
        ):
            begin()
            await steps(desk)

    run(main())


def test_a_toolset_that_can_run_again_is_no_problem_of_health_any_more(
    tmp_path: Path, crippled: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", crippled["PYTHONPATH"])
    cripple = Path(crippled["PYTHONPATH"]) / f"{BROKEN['fuzz']}.py"

    async def steps(desk: Any) -> None:
        await until(lambda: desk.health()["status"] == "degraded")
        assert [problem["what"] for problem in desk.health()["problems"]] == ["The toolset fuzz cannot run."]
        cripple.unlink()
        await until(lambda: desk.health() == {"status": "ok", "problems": []})

    desk_notes(tmp_path / "home", ("fuzz",), steps)


def test_room_in_the_temporary_folder_ends_its_problem(
    tmp_path: Path, small: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small.path))
    small.fill()

    async def steps(desk: Any) -> None:
        await until(lambda: desk.health()["status"] == "degraded")
        small.free()
        await until(lambda: desk.health() == {"status": "ok", "problems": []})

    desk_notes(tmp_path / "home", ("trading",), steps)


# --- the child -----------------------------------------------------------------------------------


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have this code run in place of the child's own."""
    command_is(monkeypatch, [sys.executable, "-c", code])


def command_is(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    def command(_module: str, *_arguments: str) -> list[str]:
        return words

    monkeypatch.setattr(confined, "python", command)


def test_exercises_that_cannot_start_or_end_early_are_logged_shown_and_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name, good = "exercise of toolsets", confined.python
    told: list[Exercised] = []

    async def main() -> None:
        async with in_background(("trading",), told.append, pauses=(0.05,)) as begin:
            command_is(monkeypatch, ["no-such-program"])
            begin()
            await until(lambda: reasons().get(name) == "FileNotFoundError: No such file or directory")
            stand_in(monkeypatch, "import sys; print('no luck', file=sys.stderr); sys.exit(3)")
            await until(lambda: reasons().get(name) == "Unfinished")
            assert "it ended with 3 while it exercised trading: no luck" in caplog.text
            monkeypatch.setattr(confined, "python", good)
            await until(lambda: bool(told))
            await until(lambda: name not in reasons())

    run(main())
    assert [done.can_run for done in told] == [True]


def test_the_child_has_a_bare_environment_and_limits(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMETHING_OF_THE_USER", "private")
    stand_in(
        monkeypatch,
        "import json, os, resource; names = ('CPU', 'FSIZE', 'DATA');"
        "limits = {n: resource.getrlimit(getattr(resource, 'RLIMIT_' + n))[1] for n in names};"
        "facts = json.dumps([dict(os.environ), limits]);"
        "print(json.dumps({'toolset': 'trading', 'can_run': True, 'detail': facts}))",
    )
    told: list[Exercised] = []

    async def main() -> None:
        async with in_background(("trading",), told.append) as begin:
            begin()
            await until(lambda: bool(told))

    run(main())
    environ, limits = json.loads(told[0].detail)
    assert not [name for name in environ if name.startswith(("SOMETHING", "TRACEDESK"))]
    assert environ["TMPDIR"].startswith(f"{temporary}/")
    assert limits["FSIZE"] == exercises.LIMITS.file_bytes
    assert 0 < limits["CPU"] < 1_000
    if sys.platform == "linux":
        assert limits["DATA"] == exercises.LIMITS.memory


def test_a_child_that_does_not_end_is_ended_at_its_deadline(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercises, "LIMITS", confined.Limits(1 << 30, seconds=0.2))
    stand_in(monkeypatch, "import signal; signal.pause()")

    async def main() -> None:
        async with in_background(("trading",), print) as begin:
            begin()
            await until(lambda: reasons().get("exercise of toolsets") == "TimeoutError")

    run(main())
    assert processes_of(temporary) == []


def test_the_folder_that_a_killed_desk_left_is_swept_at_the_next_start(shell: Shell, temporary: Path) -> None:
    with serving(shell) as (process, _):
        [left] = seen(lambda: list(temporary.glob("tracedesk-work-*")), bool)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=BOUND)
    seen(lambda: processes_of(temporary), lambda found: not found)
    assert left.exists()
    with serving(shell):
        seen(lambda: list(temporary.glob("tracedesk-work-*")), lambda found: found != [left])
        assert not left.exists()
