"""The record of what steered a campaign: one line a command, flushed at once, and its way back in."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.ring import stamp
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock, SystemClock

NAME: Final = "mcp-commands.jsonl"
COMMANDS: Final = ("inject_transaction", "prioritize_function", "clear_priorities", "avoid_function")
"""The tools that change what a campaign does next."""
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


Counters = tuple[int | None, ...]
"""By worker, its calls when it obeyed; none for one that had ended."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line: what was asked, what was answered, and after how many calls each worker obeyed."""

    timestamp: str
    tool: str
    args: Mapping[str, Any]
    result: Mapping[str, Any]
    counters: Counters
    seed: int | None = None

    def document(self) -> dict[str, Any]:
        return {
            "timestamp": self.timestamp,
            "tool": self.tool,
            "args": dict(self.args),
            "result": dict(self.result),
            "seed": self.seed,
            "counters": list(self.counters),
        }


class AuditLog:
    """The file in a campaign's corpus folder; lines are only ever added."""

    def __init__(self, folder: Path, seed: int | None = None, clock: Clock | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self._seed = seed
        self._clock = clock or SystemClock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)

    def add(
        self, tool: str, args: Mapping[str, Any], result: Mapping[str, Any], counters: Sequence[int | None]
    ) -> Command:
        """Write one command; when this returns, the line is with the system."""
        command = Command(stamp(self._clock.now_ns()), tool, args, result, tuple(counters), self._seed)
        os.write(self._fd, json.dumps(command.document()) + b"\n")
        return command

    def close(self) -> None:
        os.close(self._fd)


def read(path: Path) -> list[Command]:
    """The commands of a file, in order; a line that is none is refused with its number."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as fault:
        raise invalid("BAD_AUDIT_LOG", f"{path.name} cannot be read: {fault.strerror}.") from None
    return [_command(line, number) for number, line in enumerate(lines, 1) if line.strip()]


def _command(line: bytes, number: int) -> Command:
    try:
        document: Any = json.loads(line, levels=json.DEEPEST)
    except json.TooDeep:
        raise _refused(number, f"nests deeper than {json.DEEPEST} levels") from None
    except ValueError:
        raise _refused(number, "is not JSON") from None
    match document:
        case {"timestamp": str(when), "tool": str(tool), "args": {**args}, **rest}:
            pass
        case _:
            raise _refused(number, "needs timestamp, tool and args")
    if not _STAMP.fullmatch(when):
        raise _refused(number, "has a timestamp that is not UTC with Z")
    if tool not in COMMANDS:
        raise _refused(number, f"names {tool!r}, which steers nothing")
    counters: Any = rest.get("counters", [])
    if not isinstance(counters, list) or not all(map(_is_count, cast("list[Any]", counters))):
        raise _refused(number, "has counters that are no whole numbers")
    result = cast("dict[str, Any]", rest.get("result") or {})
    seed = rest.get("seed")
    return Command(when, tool, args, result, tuple(cast("list[Any]", counters)), seed)


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _refused(number: int, problem: str) -> Exception:
    return invalid("BAD_AUDIT_LOG", f"Line {number} of {NAME} {problem}.", line=number)
