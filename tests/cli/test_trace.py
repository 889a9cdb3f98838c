"""`tracedesk trace`: what was recorded, for people and programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.support import desk_client, run
from tracedesk.journal.sqlite import connect


@pytest.fixture
def recorded(shell: Shell) -> Shell:
    """A home in which a desk has answered five calls."""

    async def main() -> None:
        async with desk_client(shell.home) as client:
            for number in range(4):
                await client.call("say", {"n": number})
            await client.call("refuse", {"code": "RUN_NOT_FOUND"})

    run(main())
    return shell


def test_tail_shows_the_newest_calls(recorded: Shell) -> None:
    done = recorded("trace", "tail", "-n", "2")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0].split() == ["STARTED", "TOOL", "OUTCOME", "TIME", "CALL"]
    assert "say" in lines[1]
    assert "RUN_NOT_FOUND" in lines[2]
    assert len(lines) == 3


def test_with_json_tail_prints_one_call_a_line(recorded: Shell) -> None:
    calls = [json.loads(line) for line in recorded("--json", "trace", "tail").out.splitlines()]
    assert [call["tool"] for call in calls] == ["say"] * 4 + ["refuse"]
    assert [call["arguments"] for call in calls[:4]] == [{"n": n} for n in range(4)]


def test_show_prints_one_call_and_where_it_leads(recorded: Shell) -> None:
    call = json.loads(recorded("--json", "trace", "tail", "-n", "1").out)
    shown = recorded("trace", "show", call["id"])
    assert shown.out.startswith(f"tracedesk://calls/{call['id']}\n")
    assert "RUN_NOT_FOUND" in shown.out
    document = json.loads(recorded("--json", "trace", "show", f"tracedesk://calls/{call['id']}").out)
    assert document["body"]["tool"] == "refuse"


def test_showing_what_was_never_recorded_fails_with_a_remedy(recorded: Shell) -> None:
    done = recorded("trace", "show", "nonsense")
    assert done.code == 1
    assert "trace tail" in done.err


def test_an_untouched_record_verifies(recorded: Shell) -> None:
    done = recorded("--json", "trace", "verify", "--all")
    assert done.code == 0
    report = json.loads(done.out)["files"][0]
    assert report["sound"] is True
    assert report["events"] == 5


def test_verify_exits_1_and_names_what_was_changed(recorded: Shell) -> None:
    _edit(recorded.home / "trace.db")
    done = recorded("trace", "verify")
    assert done.code == 1
    assert "not what was written" in done.out + done.err


def _edit(path: Path) -> None:
    """Change one record as an intruder would, guards and all."""
    connection = connect(path)
    ((sql,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'event_is_never_changed'")
    connection.execute("DROP TRIGGER event_is_never_changed")
    connection.execute("UPDATE event SET body = CAST(replace(body, '\"n\":2', '\"n\":9') AS BLOB)")
    connection.execute(str(sql))
    connection.close()


def test_an_empty_home_has_nothing_to_show(shell: Shell) -> None:
    for command in (("tail",), ("show", "x"), ("verify",)):
        done = shell("trace", *command)
        assert done.code == 1
        assert "yet" in done.err
