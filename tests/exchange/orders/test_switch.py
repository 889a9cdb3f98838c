"""The switch's file: whoever makes it halts, and its words are shown without what could deceive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracedesk.errors import ToolError
from tracedesk.exchange.orders.switch import FILE, Halt, Switch, rearm
from tracedesk.primitives.time import ManualClock


def test_the_first_reason_stays(tmp_path: Path) -> None:
    switch = Switch(tmp_path, ManualClock(0))
    assert switch.halt is None
    assert switch.throw("first", "signal").reason == "first"
    assert switch.throw("second", "kill_switch").reason == "first"
    assert switch.halt is not None
    assert switch.halt.document() == {"reason": "first", "by": "signal", "at": "1970-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"", f"{FILE} is in the home"),
        (b"maintenance\n", "maintenance"),
        (b"\x1b[2Jclear\xff", "clear"),
        (b'{"reason": 7}', '{"reason": 7}'),
    ],
)
def test_a_file_made_by_hand_halts_whatever_is_in_it(tmp_path: Path, written: bytes, reason: str) -> None:
    (tmp_path / FILE).write_bytes(written)
    halt = Switch(tmp_path, ManualClock(0)).halt
    assert halt is not None
    assert halt.reason.rstrip("\ufffd") == reason
    assert halt.by == "file"


def test_a_file_that_cannot_be_read_halts_too(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(ToolError) as halted:
        Switch(tmp_path, ManualClock(0)).check()
    assert halted.value.code == "HALTED"


def test_a_pipe_in_place_of_the_file_halts_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    assert Switch(tmp_path, ManualClock(0)).halt is not None
    assert rearm(tmp_path) is not None


def test_a_halt_made_by_hand_may_have_no_time(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"reason": "tea", "by": "me", "at": null}')
    assert Switch(tmp_path, ManualClock(0)).halt == Halt("tea", "me", None)


def test_a_halt_that_cannot_be_written_down_holds_until_a_restart(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    switch = Switch(gone, ManualClock(0))
    switch.throw("no room", "kill_switch")
    with pytest.raises(ToolError):
        switch.check()
    assert Switch(gone, ManualClock(0)).halt is None


def test_rearming_tells_what_was_in_force(tmp_path: Path) -> None:
    Switch(tmp_path, ManualClock(0)).throw("enough", "signal")
    halt = rearm(tmp_path)
    assert halt is not None
    assert halt.reason == "enough"
    assert rearm(tmp_path) is None
