"""The log: private, rotating, shared by desks, free of secrets and control characters."""

from __future__ import annotations

import json
import logging
import re
import stat
from pathlib import Path

import pytest

from tests.support import HELLO, StdioDesk, rpc
from tracedesk import logs
from tracedesk.primitives.redaction import Secrets

log = logging.getLogger("tests.cli.logs")
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ +\[\d+\] [\w.]+: ")


def _text(home: Path) -> str:
    return logs.path(home).read_text(encoding="utf-8")


def test_a_record_is_one_line_with_time_level_process_and_place(tmp_path: Path) -> None:
    with logs.writing(tmp_path, "INFO"):
        log.info("hello %s", "you")
        log.debug("too quiet")
    (line,) = _text(tmp_path).splitlines()
    assert LINE.match(line)
    assert line.endswith("tests.cli.logs: hello you")


def test_secrets_are_redacted_in_messages_and_tracebacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = Secrets()
    secrets.add("correct horse battery", "bearer")
    with logs.writing(tmp_path, "INFO", secrets):
        try:
            raise RuntimeError("correct horse battery")
        except RuntimeError:
            log.exception("failed with %s", "correct horse battery")
    told = _text(tmp_path)
    assert "correct horse" not in told + capsys.readouterr().err
    assert "RuntimeError: [redacted:bearer:" in told


def test_stderr_gets_warnings_as_sentences_without_tracebacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logs.writing(tmp_path, "INFO"):
        log.info("quiet")
        try:
            raise RuntimeError("cause")
        except RuntimeError:
            log.exception("call 7 failed\nand more")
    assert capsys.readouterr().err == "tracedesk: call 7 failed\n"
    assert "RuntimeError: cause" in _text(tmp_path)


def test_no_text_can_pose_as_a_record_or_steer_a_terminal(tmp_path: Path) -> None:
    with logs.writing(tmp_path, "INFO"):
        log.info("a\x1b[2Jb\x07\r\n2030-01-01T00:00:00.000Z ERROR   [1] x: forged")
    first, second = _text(tmp_path).splitlines()
    assert first.endswith("ab")
    assert second == "    2030-01-01T00:00:00.000Z ERROR   [1] x: forged"


def test_the_file_rotates_and_only_so_many_are_kept_all_private(tmp_path: Path) -> None:
    with logs.writing(tmp_path, "INFO", files=3, size=2_000):
        for n in range(200):
            log.info("record %d", n)
    folder = logs.path(tmp_path).parent
    files = sorted(p.name for p in folder.iterdir())
    assert files == ["tracedesk.log", "tracedesk.log.1", "tracedesk.log.2", "tracedesk.log.lock"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()} == {0o600}
    assert all(p.stat().st_size <= 2_000 for p in folder.iterdir())
    assert _text(tmp_path).splitlines()[-1].endswith("record 199")


def test_two_desks_share_the_file_and_lose_nothing_when_one_rotates(tmp_path: Path) -> None:
    file = logs.path(tmp_path)
    file.parent.mkdir()
    one, two = (logs.SharedFile(file, maxBytes=500, backupCount=50, encoding="utf-8") for _ in range(2))
    for n in range(100):
        for handler in (one, two):
            handler.emit(logging.LogRecord("x", logging.INFO, "", 0, f"record {n} {id(handler)}", None, None))
    one.close()
    two.close()
    written = [line for part in file.parent.glob("tracedesk.log*") for line in part.read_text().splitlines()]
    assert sorted(written) == sorted(f"record {n} {id(h)}" for n in range(100) for h in (one, two))


def test_logging_is_as_it_was_afterwards(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    with logs.writing(tmp_path, "DEBUG"):
        assert root.level == logging.DEBUG
    assert (root.level, root.handlers) == before


def test_a_handlers_bug_is_in_the_log_with_its_call_id_and_not_at_the_client(tmp_path: Path) -> None:
    desk = StdioDesk(tmp_path)
    desk.send(rpc("initialize", HELLO, 1))
    desk.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    desk.send(rpc("tools/call", {"name": "break_down", "arguments": {}}, 2))
    out, err = desk.process.communicate(timeout=30)
    answer = next(m for m in map(json.loads, out.splitlines()) if m.get("id") == 2)
    call_id = json.loads(answer["result"]["content"][0]["text"])["error"]["details"]["correlationId"]
    assert b"Traceback" not in out + err
    assert f"tracedesk: call {call_id}: tool break_down failed" in err.decode()
    told = _text(tmp_path)
    assert f"call {call_id}: tool break_down failed\n    Traceback" in told
    assert "RuntimeError: secret inside" in told
