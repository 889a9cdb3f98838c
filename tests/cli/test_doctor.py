"""`tracedesk doctor`: a well installation passes, and each illness is found."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Served, Shell
from tracedesk import exercise
from tracedesk.cli import health, selftest
from tracedesk.cli.health import Finding, examine
from tracedesk.toolsets import TOOLSETS

CHECKS = (
    "python",
    "packages",
    "settings",
    "home",
    "disk",
    "tokens",
    "port",
    "temporary",
    "toolsets",
    *TOOLSETS,
    "clients",
    "protocol",
)


def test_a_fresh_installation_is_well(shell: Shell) -> None:
    done = shell("doctor", "--json", TRACEDESK_PORT="0")
    assert (done.code, done.json["healthy"]) == (0, True), done.out
    assert [check["check"] for check in done.json["checks"]] == list(CHECKS)
    assert {check["status"] for check in done.json["checks"]} == {"ok"}
    details = {check["check"]: check["detail"] for check in done.json["checks"]}
    assert details["trading"] == "read 5 bars of AAPL"
    assert details["exchange"].startswith("started the local exchange, read ")
    assert details["fuzz"] == "compiled a contract and ran 1 call"
    assert not shell.home.exists()


def test_something_broken_exits_1_and_the_report_says_what_to_do(shell: Shell) -> None:
    shell.home.mkdir(mode=0o700)
    (shell.home / "token").write_text("td_x")
    (shell.home / "token").chmod(0o644)
    done = shell("doctor", TRACEDESK_PORT="0")
    assert done.code == 1
    assert f"fail  tokens     {shell.home / 'token'} is open to other users (0644)" in done.out
    assert f"chmod 600 {shell.home / 'token'}" in done.out
    assert done.out.endswith("1 broken.\n")


# --- each check, in process --------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TRACEDESK_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "me").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("TRACEDESK_PORT", "0")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(selftest, "self_test", _always((3, 0.1)))
    monkeypatch.setattr(exercise, "exercise", _always(exercise.Exercised("any", True, "ran")))
    folder = tmp_path / "desk"
    folder.mkdir(mode=0o700)
    return folder


def _always(value: object) -> Callable[..., object]:
    return lambda *_: value


def _of(home: Path, check: str) -> list[Finding]:
    return [finding for finding in examine(home) if finding.check == check]


def test_a_home_that_others_can_read_is_a_warning(home: Path) -> None:
    home.chmod(0o755)
    (found,) = _of(home, "home")
    assert (found.status, found.remedy) == ("warn", f"chmod 700 {home}")


def test_a_home_that_is_a_file_is_broken_and_the_other_checks_still_run(home: Path) -> None:
    home.rmdir()
    home.write_text("")
    found = {finding.check: finding.status for finding in examine(home)}
    assert found["home"] == "fail"
    assert found["protocol"] == "ok"


def test_a_bad_settings_file_is_broken(home: Path) -> None:
    (home / "tracedesk.toml").write_text("port = 'x'")
    (found,) = _of(home, "settings")
    assert found.status == "fail"
    assert "port must be" in found.detail


def test_a_setting_that_names_an_unknown_toolset_is_broken(home: Path) -> None:
    (home / "tracedesk.toml").write_text("toolsets = ['nonsense']")
    (found,) = _of(home, "toolsets")
    assert (found.status, "nonsense" in found.detail) == ("fail", True)


def test_a_damaged_token_table_is_broken(home: Path) -> None:
    (home / "tokens.json").write_text("[1]")
    (home / "tokens.json").chmod(0o600)
    (found,) = _of(home, "tokens")
    assert (found.status, "damaged" in found.detail) == ("fail", True)


def test_a_port_held_by_a_desk_is_well(home: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEDESK_PORT", served.port)
    (found,) = _of(home, "port")
    assert (found.status, found.detail) == (
        "ok",
        f"127.0.0.1 port {served.port} is held by a desk of version 0.1.0",
    )


def test_a_port_held_by_another_program_is_a_warning(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        monkeypatch.setenv("TRACEDESK_PORT", str(stranger.getsockname()[1]))
        greeting = threading.Thread(target=_greet_and_leave, args=(stranger,))
        greeting.start()
        (found,) = _of(home, "port")
        greeting.join()
    assert (found.status, "another program" in found.detail) == ("warn", True)


def _greet_and_leave(stranger: socket.socket) -> None:
    visitor, _ = stranger.accept()
    with visitor:
        visitor.recv(65536)
        visitor.sendall(b"SSH-2.0-stranger\r\n")


def _configure(tmp_path: Path, text: str) -> None:
    (tmp_path / "me" / ".cursor").mkdir()
    (tmp_path / "me" / ".cursor" / "mcp.json").write_text(text)


def _entry(entry: Mapping[str, object]) -> str:
    return json.dumps({"mcpServers": {"tracedesk": entry}})


@pytest.mark.parametrize(
    ("text", "status", "detail"),
    [
        (_entry({"command": sys.executable}), "ok", "starts"),
        (_entry({"command": "/gone/tracedesk"}), "fail", "'/gone/tracedesk' does not exist"),
        (_entry({"url": "http://127.0.0.1:3000/mcp"}), "ok", "connects to http://127.0.0.1:3000/mcp"),
        ('{"mcpServers": {"tracedesk": }', "fail", "it is not JSON"),
        ('{"mcpServers": {"tracedesk": {}}} // mine', "warn", "comments"),
        ('{"mcpServers": {"other": {}}}', "ok", "no client knows this desk yet"),
        ('{"note": "tracedesk is nice"}', "ok", "no client knows this desk yet"),
    ],
)
def test_a_clients_file_that_speaks_of_the_desk_is_judged(
    home: Path, tmp_path: Path, text: str, status: str, detail: str
) -> None:
    _configure(tmp_path, text)
    (found,) = _of(home, "clients")
    assert found.status == status
    assert detail in found.detail


def test_a_package_that_does_not_fit_its_pin_is_broken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pins = ["click>=999", "not-a-package>=1", 'pytest<1; extra == "dev"', "mcp>=2.3,<2.4"]
    monkeypatch.setattr(health.metadata, "requires", _always(pins))
    click, missing = _of(home, "packages")
    assert (click.status, ">=999 is needed" in click.detail) == ("fail", True)
    assert missing.detail == "not-a-package is missing; >=1 is needed"


def test_a_full_disk_is_broken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(home)._replace(free=1_000_000)
    monkeypatch.setattr(health.shutil, "disk_usage", _always(usage))
    (found,) = _of(home, "disk")
    assert (found.status, found.detail.startswith("1.0 MB free")) == ("fail", True)


def test_desks_that_disagree_fail_the_self_test(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(selftest, "_ask_over_stdio", _always({"version": "other"}))
    with pytest.raises(selftest.SelfTestFailed, match="answers differently"):
        selftest.self_test()
