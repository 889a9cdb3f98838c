"""The record of commands: one flushed line each, and read back only as it was written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tracedesk.errors import ToolError
from tracedesk.fuzz.audit import NAME, AuditLog, read
from tracedesk.primitives.time import ManualClock, parse


def test_a_command_is_one_line_with_time_tool_arguments_result_seed_and_counters(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 7, ManualClock(parse("2026-01-02T03:04:05.6Z").ns))
    log.add("prioritize_function", {"functionSignature": "f()"}, {"success": True}, [10, 20])
    line = (tmp_path / NAME).read_text()  # before it is closed: nothing is held back
    assert line.endswith("\n")
    assert json.loads(line) == {
        "timestamp": "2026-01-02T03:04:05.600000Z",
        "tool": "prioritize_function",
        "args": {"functionSignature": "f()"},
        "result": {"success": True},
        "seed": 7,
        "counters": [10, 20],
    }
    log.close()


def test_commands_are_read_back_and_a_second_campaign_adds_to_them(tmp_path: Path) -> None:
    for number in range(2):
        log = AuditLog(tmp_path, number)
        log.add("clear_priorities", {}, {"success": True}, [number])
        log.close()
    commands = read(tmp_path / NAME)
    assert [(command.tool, command.counters, command.seed) for command in commands] == [
        ("clear_priorities", (0,), 0),
        ("clear_priorities", (1,), 1),
    ]


def test_the_file_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    AuditLog(tmp_path).close()
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=os.strerror(40)):
        AuditLog(tmp_path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON"),
        (
            '{"timestamp": "2026-01-02T03:04:05Z", "tool": "clear_priorities", "args": {"a": %s}}'
            % ("[" * 64 + "]" * 64),
            "64 levels",
        ),
        ('{"tool": "inject_transaction"}', "needs timestamp"),
        ('{"timestamp": "2026-01-02T03:04:05", "tool": "inject_transaction", "args": {}}', "UTC with Z"),
        ('{"timestamp": "2026-01-02T03:04:05+01:00", "tool": "clear_priorities", "args": {}}', "UTC with Z"),
        ('{"timestamp": "2026-01-02T03:04:05Z", "tool": "read_logs", "args": {}}', "steers nothing"),
        (
            '{"timestamp": "2026-01-02T03:04:05Z", "tool": "clear_priorities", "args": {}, "counters": [""]}',
            "no whole numbers",
        ),
    ],
)
def test_a_line_that_is_no_command_is_refused_with_its_number(
    tmp_path: Path, line: str, problem: str
) -> None:
    (tmp_path / NAME).write_text(
        '{"timestamp": "2026-01-02T03:04:05.000001Z", "tool": "clear_priorities", "args": {}}\n' + line
    )
    with pytest.raises(ToolError, match="Line 2") as refusal:
        read(tmp_path / NAME)
    assert problem in refusal.value.message
