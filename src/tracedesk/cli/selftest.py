"""The protocol self-test: one desk asked in this process, one over a real pipe, and both must agree."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from tracedesk.clients import starting
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.primitives.temporary import work_folder
from tracedesk.toolsets import built
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.door import Silence

_SECONDS: Final = 30
_TOOL: Final = "desk_status"
_VERSION: Final = "2025-11-25"
_PASSING: Final = ("startedAt", "now", "calls", "scope")
"""What two desks may answer differently."""


class SelfTestFailed(RuntimeError):
    """The two desks disagree, or one of them did not answer."""


def self_test() -> tuple[int, float]:
    """Ask both desks; return how many tools they serve and how long the piped one took."""
    with work_folder() as folder:
        home = folder / "home"
        here = asyncio.run(_ask_here(home))
        started = perf_counter()
        there = _ask_over_stdio(home)
        seconds = perf_counter() - started
    if _lasting(here) != _lasting(there):
        raise SelfTestFailed(f"{_TOOL} answers differently over stdio than in process")
    return sum(len(toolset["tools"]) for toolset in there["toolsets"]), seconds


def _lasting(status: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in status.items() if key not in _PASSING}


async def _ask_here(home: Path) -> dict[str, Any]:
    settings = Settings(home=home, toolsets=built(), check_output=True)
    async with open_desk(settings) as desk:
        reply = await desk.dispatch.call(_TOOL, {}, Origin("doctor", Silence()))
    if reply.is_error:
        raise SelfTestFailed(f"{_TOOL} failed in process: {reply.body.decode()}")
    return json.loads(reply.body)


def _ask_over_stdio(home: Path) -> dict[str, Any]:
    target = starting(built() or ("desk",), None)
    words = [target.command, *target.arguments, "--home", str(home)]
    try:
        done = subprocess.run(
            words, input=_conversation(), capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise SelfTestFailed(f"a desk over stdio did not answer within {_SECONDS} s") from None
    answer = next((line for line in map(_message, done.stdout.splitlines()) if line.get("id") == 2), None)
    if answer is None or "structuredContent" not in answer.get("result", {}):
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise SelfTestFailed(f"a desk over stdio did not answer {_TOOL} (exit code {done.returncode}) {last}")
    return answer["result"]["structuredContent"]


def _message(line: bytes) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError:
        raise SelfTestFailed(f"a desk over stdio wrote what is not JSON: {line[:80]!r}") from None


def _conversation() -> bytes:
    hello = {
        "protocolVersion": _VERSION,
        "capabilities": {},
        "clientInfo": {"name": "doctor", "version": "1"},
    }
    messages: tuple[dict[str, Any], ...] = (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": _TOOL, "arguments": {}}},
    )
    return b"".join(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n" for m in messages)
