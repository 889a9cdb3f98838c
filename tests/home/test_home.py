"""The home: made, migrated, refused."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.home import older
from tests.support import BOUND, ROOT, run
from tracedesk import home as homes
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.home import FOLDERS, FORMAT, Home, HomeError, HomeInUse, HomeTooNew, alone, read_format
from tracedesk.primitives.time import ManualClock
from tracedesk.wire.auth import Tokens


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _tree(path: Path) -> dict[str, str]:
    """Every folder, and every file with its text, without what differs from one opening to the next."""
    passing = ("home.lock", "format.json")
    found = (p for p in path.rglob("*") if p.name not in passing)
    return {p.relative_to(path).as_posix(): p.read_text() if p.is_file() else "" for p in found}


# --- making and finding things -----------------------------------------------------------------


def test_a_new_home_has_every_folder_and_a_format_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "home"
    Home.open(path, clock=ManualClock(0))
    assert _mode(path) == 0o700
    assert {_mode(path / name) for name in FOLDERS} == {0o700}
    assert {_mode(file) for file in path.iterdir() if file.is_file()} == {0o600}
    document = json.loads((path / "format.json").read_text())
    assert document == {"format": FORMAT, "createdAt": "1970-01-01T00:00:00Z", "writtenBy": "0.1.0"}


def test_things_have_one_place_each(home: Home) -> None:
    digest = "ab" + "0" * 62
    assert home.run_file("r-1") == home.path / "runs" / "r-1.db"
    assert home.campaign("c.1") == home.path / "campaigns" / "c.1"
    assert home.payload(digest) == home.path / "payloads" / "ab" / digest
    named = [home.trace, home.ledger, home.graph, home.catalog]
    assert [path.name for path in named] == ["trace.db", "ledger.db", "graph.db", "catalog.db"]
    folders = [home.runs, home.campaigns, home.payloads, home.run, home.inbox, home.logs]
    assert tuple(path.name for path in folders) == FOLDERS


@pytest.mark.parametrize("id", ["", ".", "..", "../x", "a/b", ".hidden", "a\0b", "x" * 129, "é"])
def test_an_id_that_could_leave_its_folder_names_no_file(home: Home, id: str) -> None:
    with pytest.raises(ValueError, match="cannot name a file"):
        home.run_file(id)
    with pytest.raises(ValueError, match="cannot name a file"):
        home.campaign(id)
    with pytest.raises(ValueError, match="not a SHA-256"):
        home.payload(id)


def test_a_home_in_place_of_a_file_is_the_systems_own_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(FileExistsError):
        Home.open(tmp_path / "home")


# --- the cost of opening -----------------------------------------------------------------------


def _opener(path: Path, migrations: str, last: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.home.opener", str(path), migrations, str(last)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_opening_an_up_to_date_home_reads_one_small_file_and_changes_nothing(home: Home) -> None:
    done, _ = _opener(home.path, "real").communicate("\n", timeout=BOUND)
    assert done.splitlines() == ["open format.json"]


# --- older homes -------------------------------------------------------------------------------


def test_a_home_of_the_first_desk_is_brought_up_and_loses_nothing(tmp_path: Path) -> None:
    path = older.first_desk(tmp_path / "home")
    before = _tree(path)
    (path / "tokens.json").chmod(0o644)
    Home.open(path)
    assert _tree(path) == {**before, **dict.fromkeys(FOLDERS, "")}
    assert read_format(path) is not None
    assert _mode(path / "tokens.json") == 0o600
    assert Tokens(path).owner() == older.SECRET


def test_a_desk_opens_a_home_of_the_first_desk(tmp_path: Path) -> None:
    path = older.first_desk(tmp_path / "home")

    async def scenario() -> None:
        async with open_desk(Settings(home=path, toolsets=("desk",))) as desk:
            assert desk.status()["version"] == "0.1.0"

    run(scenario())
    found = read_format(path)
    assert found is not None
    assert found.number == FORMAT


def test_each_migration_runs_once_in_order_and_the_birthday_stays(tmp_path: Path) -> None:
    path = older.first_desk(tmp_path / "home")
    Home.open(path, clock=ManualClock(0))
    Home.open(path, older.THREE, clock=ManualClock(10**18))
    found = read_format(path)
    assert found is not None
    assert (found.number, found.created_at) == (3, "1970-01-01T00:00:00Z")
    assert (path / "settings.toml").read_text() == "port = 3100\n"


@pytest.mark.parametrize("migrations", ["real", "three"])
def test_a_migration_killed_at_any_step_is_finished_by_the_next_opening(
    tmp_path: Path, migrations: str
) -> None:
    """The process dies before the Nth change to a file, for every N until it gets through."""
    steps = {"real": homes.MIGRATIONS, "three": older.THREE}[migrations]
    whole = older.first_desk(tmp_path / "whole")
    Home.open(whole, steps)
    for last in range(1, 60):
        path = older.first_desk(tmp_path / str(last))
        process = _opener(path, migrations, last)
        process.communicate("\n", timeout=BOUND)
        survived = process.returncode == 0
        assert survived or process.returncode == -signal.SIGKILL
        Home.open(path, steps)
        found = read_format(path)
        assert found is not None
        assert found.number == len(steps)
        assert _tree(path) == _tree(whole)
        if survived:
            break
    else:
        raise AssertionError("it never got through")
    assert last > 10, "the kills must have met real steps"


def test_desks_that_start_at_once_migrate_once(tmp_path: Path) -> None:
    path = older.first_desk(tmp_path / "home")
    starting = [_opener(path, "counted") for _ in range(6)]
    for process in starting:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(BOUND) for process in starting] == [0] * 6
    for process in starting:
        process.communicate()
    assert (path / "ran").read_text() == "ran\n"


def test_a_home_that_another_process_holds_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    path = older.first_desk(tmp_path / "home")
    with alone(path), pytest.raises(HomeInUse, match="by another process"), alone(path, seconds=0.05):
        pass
    Home.open(path)


# --- newer and damaged homes -------------------------------------------------------------------


def test_a_newer_home_is_refused_with_both_versions_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "home"
    path.mkdir()
    text = '{"format": 7, "createdAt": "2027-01-01T00:00:00Z", "writtenBy": "4.2.0"}'
    (path / "format.json").write_text(text)
    with pytest.raises(HomeTooNew) as refused:
        Home.open(path)
    assert "has format 7, written by tracedesk 4.2.0" in str(refused.value)
    assert f"knows formats up to {FORMAT}" in str(refused.value)
    assert [file.name for file in path.iterdir()] == ["format.json"]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


def test_serve_on_a_newer_home_is_one_sentence_and_exit_code_1(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "format.json").write_text('{"format": 7, "createdAt": "", "writtenBy": "4.2.0"}')
    for words in (("--stdio",), ("--port", "0")):
        done = shell("serve", *words)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"tracedesk: {shell.home} has format 7, written by tracedesk 4.2.0;")
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "1"}', "null"])
def test_a_damaged_format_file_is_refused_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / "format.json").write_text(text)
    with pytest.raises(HomeError, match=r"format\.json is damaged"):
        Home.open(tmp_path)


@pytest.mark.parametrize("number", ["0", "-1", "true", "1.0", '"1"'])
def test_a_format_that_is_no_positive_integer_is_damage(tmp_path: Path, number: str) -> None:
    text = f'{{"format": {number}, "createdAt": "", "writtenBy": "0.1.0"}}'
    (tmp_path / "format.json").write_text(text)
    with pytest.raises(HomeError, match=r"format\.json is damaged"):
        Home.open(tmp_path)
