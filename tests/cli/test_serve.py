"""`tracedesk serve`: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import stat
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.conftest import COMMAND, GRACE, Served, Shell
from tracedesk.cli.serve import LOOPBACK
from tracedesk.config import Settings
from tracedesk.toolsets import TOOLSETS, built
from tracedesk.wire import origins

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_serve_prints_a_url_that_answers_health(served: Served) -> None:
    with urllib.request.urlopen(f"{served.url}/health", timeout=GRACE) as answer:
        assert json.load(answer)["status"] == "ok"


def test_serve_prints_a_token_that_is_accepted(served: Served) -> None:
    request = urllib.request.Request(
        f"{served.url}/tools/desk_status", b"{}", {"Content-Type": "application/json"}, method="POST"
    )
    request.add_header("Authorization", f"Bearer {served.token}")
    with urllib.request.urlopen(request, timeout=GRACE) as answer:
        assert json.load(answer)["scope"] == "principal:owner"


def test_serve_prints_where_its_home_is_and_a_snippet_for_each_client(served: Served) -> None:
    assert str(served.shell.home) in served.greeting
    for title in ("Claude Code", "Claude Desktop", "Cursor", "VS Code", "Qwen Code"):
        assert title in served.greeting
    assert f"claude mcp add --transport http tracedesk {served.url}/mcp" in served.greeting


def test_every_printed_snippet_is_json_that_names_this_desk(served: Served) -> None:
    lines = [line.strip() for line in served.greeting.splitlines() if line.strip().startswith("{")]
    assert len(lines) == 4
    for document in map(json.loads, lines):
        (servers,) = document.values()
        entry = servers["tracedesk"]
        assert entry.get("command", str(COMMAND)) == str(COMMAND)
        assert entry.get("url", entry.get("httpUrl", f"{served.url}/mcp")) == f"{served.url}/mcp"


def test_a_second_serve_on_the_same_port_exits_1_and_says_so(served: Served) -> None:
    done = served.shell("serve", "--port", served.port)
    assert (done.code, done.out) == (1, "")
    sentence = f"127.0.0.1 port {served.port} is in use. Stop what holds it, or choose another with --port."
    assert done.err == f"tracedesk: {sentence}\n"


def test_the_home_its_tokens_and_its_log_are_private(served: Served) -> None:
    home = served.shell.home
    paths = [home, *home.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o600}
    assert {"token", "tokens.json", "tokens.lock", "logs/tracedesk.log"} <= {
        path.relative_to(home).as_posix() for path in paths
    }


def test_the_log_does_not_hold_the_token(served: Served) -> None:
    text = (served.shell.home / "logs" / "tracedesk.log").read_text()
    assert f"serving {', '.join(('desk', *built()))} on {served.url}" in text
    assert served.token not in text


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_with_json_serve_prints_one_line_and_a_signal_ends_it_with_0(
    shell: Shell, end: signal.Signals
) -> None:
    process = shell.start("serve", "--sse", "--port", "0", "--json", "--toolsets", "desk")
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert facts.keys() == {"url", "token", "home", "toolsets"}
    assert (facts["home"], facts["toolsets"]) == (str(shell.home), ["desk"])
    process.send_signal(end)
    assert process.communicate(timeout=GRACE) == ("", "")
    assert process.returncode == 0


def test_pages_of_an_origin_that_is_named_are_answered(shell: Shell) -> None:
    named = "http://localhost:6274"
    process = shell.start("serve", "--port", "0", "--json", "--toolsets", "desk", "--origin", f"{named}/")
    assert process.stdout is not None
    url: str = json.loads(process.stdout.readline())["url"]
    for origin, status in ((named, 200), (url, 200), ("http://localhost:6275", 403)):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=GRACE)
        connection.request("GET", "/health", headers={"Origin": origin})
        answer = connection.getresponse()
        assert (origin, answer.status) == (origin, status)
        assert answer.getheader("Access-Control-Allow-Origin") == (origin if origin == named else None)
        connection.close()
    process.terminate()
    process.communicate(timeout=GRACE)


def test_a_desk_open_to_other_machines_is_printed_by_the_name_they_use(shell: Shell) -> None:
    process = shell.start(
        "serve", "--host", "0.0.0.0", "--behind-proxy", "--allow-host", "desk.test", "--port", "0", "--json"
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["url"].startswith("http://desk.test:")
    process.terminate()
    process.communicate(timeout=GRACE)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--stdio", "--http"], "--stdio and --http exclude each other; choose one."),
        (["--sse", "--stdio"], "--sse and --stdio exclude each other; choose one."),
        (["--allow-host", "http://desk.test"], "is not a host name. Give NAME or NAME:PORT"),
        (["--origin", "desk.test"], "is not an origin. Give scheme, name and port alone."),
        (["--origin", "https://desk.test/page"], "is not an origin. Give scheme, name and port alone."),
        (["--host", "0.0.0.0"], "Add --tls-cert and --tls-key, or --behind-proxy"),
        (["--host", "192.0.2.1"], "--host 192.0.2.1 is open to other machines"),
        (["--port", "70000"], "port must be a port from 0 to 65535, not 70000"),
        (["--max-bytes", "0"], "max_bytes must be a whole number above 0, not 0"),
        (["--tls-cert", "missing.pem"], "'missing.pem' does not exist"),
    ],
)
def test_a_serve_that_cannot_be_meant_exits_2_and_names_the_remedy(
    shell: Shell, words: list[str], sentence: str
) -> None:
    done = shell("serve", *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_a_certificate_without_its_key_is_refused(shell: Shell) -> None:
    (shell.project / "cert.pem").write_text("")
    done = shell("serve", "--tls-cert", "cert.pem")
    assert done.code == 2
    assert "--tls-cert and --tls-key belong together; give both." in done.err


def test_files_that_are_no_certificate_are_refused_before_anything_listens(shell: Shell) -> None:
    (shell.project / "cert.pem").write_text("not a certificate")
    done = shell("serve", "--tls-cert", "cert.pem", "--tls-key", "cert.pem")
    assert done.code == 2
    assert "are not a certificate and its key" in done.err


@pytest.mark.parametrize("transport", [["--http", "--port", "0"], ["--stdio"], ["--grpc", "--port", "0"]])
def test_an_unknown_or_unbuilt_toolset_exits_2_and_lists_what_there_is(
    shell: Shell, transport: list[str]
) -> None:
    unknown = shell("serve", *transport, "--toolsets", "desk,nonsense")
    assert (unknown.code, unknown.out) == (2, "")
    assert "'nonsense'; there are backtest, fuzz, exchange, codegraph, trading" in unknown.err
    for name in [name for name in TOOLSETS if name not in built()][:1]:
        unbuilt = shell("serve", *transport, "--toolsets", name)
        assert (unbuilt.code, unbuilt.out) == (2, "")
        assert f"Toolset {name!r} is not part of this version; it serves" in unbuilt.err


def test_an_address_of_another_machine_is_refused_with_a_sentence(shell: Shell) -> None:
    done = shell("serve", "--host", "192.0.2.1", "--port", "0", "--behind-proxy")
    assert done.code == 1
    assert "192.0.2.1 is not an address of this machine. Choose another with --host." in done.err


def test_a_home_that_is_a_file_is_refused_with_a_sentence(shell: Shell) -> None:
    shell.home.write_text("")
    done = shell("serve", "--stdio")
    assert (done.code, done.out) == (1, "")
    assert str(shell.home) in done.err


def test_on_stdio_only_the_protocol_is_on_stdout(shell: Shell) -> None:
    done = shell("serve", "--stdio", "--json", input=_conversation())
    assert (done.code, done.err) == (0, "")
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["scope"]
    served = ", ".join(("desk", *built()))
    assert f"serving {served} on stdio" in (shell.home / "logs" / "tracedesk.log").read_text()


def test_on_stdio_an_error_goes_to_stderr_even_with_json(shell: Shell) -> None:
    done = shell("serve", "--stdio", "--json", "--port", "x")
    assert (done.code, done.out) == (2, "")
    assert json.loads(done.err)["error"]["code"] == "USAGE"


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_stdio_without_one_of_its_ends_is_refused_with_a_sentence(shell: Shell, closed: str) -> None:
    command = f'"$0" "$@" serve --stdio --home "{shell.home}" {closed}'
    done = subprocess.run(["sh", "-c", command, COMMAND], capture_output=True, text=True, timeout=GRACE)
    assert done.returncode == 2
    assert "one of them is closed" in done.stderr


BAD_TABLES: Final = (
    ("fuzz", "max_workers = 0", "fuzz.max_workers must be a whole number above 0"),
    ("codegraph", "max_files = 0", "codegraph.max_files must be a number above 0"),
    ("exchange", "sim = { port = 70000 }", "exchange.sim.port must be 0 to 65535"),
    ("trading", 'clock = "yesterday"', "trading.clock must be replay, system, or a time inside the replay"),
)


@pytest.mark.parametrize(("toolset", "line", "sentence"), BAD_TABLES)
def test_on_stdio_a_bad_setting_of_any_toolset_is_refused_though_the_input_is_closed_at_once(
    shell: Shell, toolset: str, line: str, sentence: str
) -> None:
    shell.home.mkdir(mode=0o700)
    (shell.home / "tracedesk.toml").write_text(f"[{toolset}]\n{line}\n")
    done = shell("serve", "--stdio")
    assert (done.code, done.out) == (2, "")
    assert f"In tracedesk.toml, {sentence}" in done.err
    assert not (shell.home / "logs" / "tracedesk.log").exists()  # it was never served


def test_a_toolset_that_cannot_be_opened_ends_every_transport_alike(shell: Shell) -> None:
    shell.home.mkdir(mode=0o700)
    (shell.home / "ledger.db").write_text("not a ledger at all, but long enough to be looked at\n" * 40)
    ends: list[tuple[int, str]] = []
    for transport in ("--stdio", "--http"):
        process = shell.start("serve", transport, "--toolsets", "trading")
        code = process.wait(60)  # over stdio its input is open, so that it ends by itself
        ends.append((code, process.communicate()[1]))
    assert ends[0] == ends[1]
    assert ends[0][0] == 1
    assert ends[0][1].startswith("tracedesk: The command failed inside (LedgerError). The traceback is in ")


def test_the_defaults_told_in_the_help_are_the_settings_own(shell: Shell) -> None:
    text = " ".join(shell("serve", "--help").out.split())
    for name in ("host", "port", "max_bytes", "max_tokens"):
        assert f"[default: {getattr(Settings(), name)}]" in text


def test_the_command_line_and_the_guard_agree_on_what_is_this_machine() -> None:
    assert set(LOOPBACK) == origins.LOOPBACK


def test_binance_provider_serves_the_exchange_toolset(shell: Shell) -> None:
    command = Path(COMMAND).with_name("binance-provider")
    done = subprocess.run(
        [command, "--stdio"],
        input="",
        capture_output=True,
        text=True,
        env=shell.environment(),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 or "toolset 'exchange' is not part of this version" in done.stderr.lower()


def _conversation() -> str:
    messages: tuple[dict[str, Any], ...] = (
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "desk_status", "arguments": {}}},
    )
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
