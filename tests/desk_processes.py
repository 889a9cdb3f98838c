"""Real desks of one home in processes of their own, one for each way that a client reaches them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol, cast

from tests.support import BOUND, ROOT, VERSION, modern

COMMAND = [sys.executable, "-P", "-m", "tracedesk.cli"]


class DeskProcess(Protocol):
    """A desk that answers requests of the stateless era."""

    process: subprocess.Popen[bytes]

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]: ...


def result(desk: DeskProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of one tool call."""
    answer = desk.ask(modern("tools/call", {"name": tool, "arguments": arguments}))
    assert "result" in answer, answer
    return answer["result"]


def succeeds(desk: DeskProcess, tool: str, **arguments: Any) -> Any:
    """The structured answer of a call that succeeds."""
    found = result(desk, tool, **arguments)
    assert found["isError"] is False, found
    return found["structuredContent"]


def refusal(desk: DeskProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    """The error of a call that is refused."""
    found = result(desk, tool, **arguments)
    assert found["isError"] is True, found
    return json.loads(found["content"][0]["text"])["error"]


class _Http:
    def __init__(self, process: subprocess.Popen[bytes], url: str, token: str | None) -> None:
        self.process = process
        self._authority = url.removeprefix("http://").rstrip("/")
        self._token = token

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        lines = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": str(message["method"]),
            "Mcp-Name": str(message["params"]["name"]),
        }
        if self._token is not None:
            lines["Authorization"] = f"Bearer {self._token}"
        connection = http.client.HTTPConnection(self._authority, timeout=BOUND)
        try:
            connection.request("POST", "/mcp", json.dumps(message).encode(), lines)
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        assert reply.status == 200, (reply.status, body)
        return json.loads(body)


class _Stdio:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        stdin, stdout = cast("IO[bytes]", self.process.stdin), cast("IO[bytes]", self.process.stdout)
        stdin.write(json.dumps(message).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "the desk has ended"
        return json.loads(line)


@contextmanager
def http_desk(
    home: Path,
    *words: str,
    command: Sequence[str] = COMMAND,
    token: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
) -> Generator[DeskProcess]:
    """A desk over HTTP, asked with the home's own token or another."""
    line = [*command, "--home", str(home), "--json", "serve", "--port", "0", *words]
    with _running(line, environment, folder) as process:
        facts = json.loads(cast("IO[bytes]", process.stdout).readline())
        yield _Http(process, facts["url"], token or facts["token"])


@contextmanager
def stdio_desk(
    home: Path,
    *words: str,
    command: Sequence[str] = COMMAND,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
) -> Generator[DeskProcess]:
    """A desk over pipes."""
    with _running(
        [*command, "--home", str(home), "serve", "--stdio", *words], environment, folder
    ) as process:
        yield _Stdio(process)


@contextmanager
def fixture_desk(kind: str, home: Path, *names: str) -> Generator[DeskProcess]:
    """A desk with test toolsets, over `http` or `stdio`."""
    line = [sys.executable, "-m", "tests.fixtures.serve", kind, str(home), *names]
    with _running(line, {"PORT": "0"}) as process:
        if kind == "stdio":
            yield _Stdio(process)
        else:
            url, token = cast("IO[bytes]", process.stdout).readline().decode().split()
            yield _Http(process, url, token)


@contextmanager
def _running(
    line: Sequence[str], environment: Mapping[str, str] | None, folder: Path = ROOT
) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(BOUND)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                cast("IO[bytes]", pipe).close()
