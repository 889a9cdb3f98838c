"""The kill switch: a file in the home that stops every order of every desk until the operator removes it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.primitives.disk import sync
from tracedesk.primitives.text import sanitize_terminal, strip_invisible
from tracedesk.primitives.time import Clock, format

FILE: Final = "exchange.halt"
"""Anyone who can write to the home can halt it: `touch exchange.halt` is enough."""
_LONGEST: Final = 200
_MOST_READ: Final = 65_536


@dataclass(frozen=True, slots=True)
class Halt:
    """Why and since when nothing is sent."""

    reason: str
    by: str
    at: str | None

    def document(self) -> dict[str, Any]:
        return {"reason": self.reason, "by": self.by, "at": self.at}


class Switch:
    """The switch as one desk sees it. What it read of the file is read again each time."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self.path = home / FILE
        self._clock = clock
        self._own: Halt | None = None
        """A halt that could not be written down, which only a restart ends."""

    @property
    def halt(self) -> Halt | None:
        """The halt that is in force."""
        try:
            return _read(_content(self.path))
        except FileNotFoundError:
            return self._own
        except OSError as problem:
            return Halt(f"{FILE} cannot be read: {problem.strerror}", "file", None)

    def throw(self, reason: str, by: str) -> Halt:
        """Halt, now and after every restart; the first reason stays."""
        known = self.halt
        if known is not None:
            return known
        halt = Halt(_plain(reason) or "no reason given", by, format(self._clock.now_ns()))
        try:
            self._write(halt)
        except OSError:
            self._own = halt
        return halt

    def _write(self, halt: Halt) -> None:
        """The file is whole when it appears, and one that is there stays."""
        handle, blank = tempfile.mkstemp(prefix=".", dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(halt.document()) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                self.path.hardlink_to(blank)
        finally:
            Path(blank).unlink()
        sync(self.path.parent)

    def check(self) -> None:
        """Refuse while halted."""
        halt = self.halt
        if halt is not None:
            raise halted(halt)


def halted(halt: Halt) -> ToolError:
    message = (
        f"Orders are halted ({halt.reason}). Nothing was sent. Only the operator can resume: "
        f"tracedesk exchange rearm, or removing {FILE} from the home."
    )
    return ToolError("HALTED", message, {"reason": "halted", "halt": halt.document()})


def rearm(home: Path) -> Halt | None:
    """Let orders be sent again; returns the halt that was in force. For the operator alone."""
    path = home / FILE
    try:
        known = _read(_content(path))
        path.unlink()
    except FileNotFoundError:
        return None
    sync(home)
    return known


def _content(path: Path) -> bytes:
    """What is in the file; one that nobody writes to, such as a pipe, is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_READ)
    finally:
        os.close(descriptor)


def _read(raw: bytes) -> Halt:
    """What the file says; one that was made by hand says what it likes, or nothing."""
    try:
        told = json.loads(raw)
        at = None if told["at"] is None else _plain(str(told["at"]))
        return Halt(_plain(str(told["reason"])), _plain(str(told["by"])), at)
    except (ValueError, KeyError, TypeError):
        return Halt(_plain(raw.decode("utf-8", "replace")) or f"{FILE} is in the home", "file", None)


def _plain(text: str) -> str:
    return " ".join(strip_invisible(sanitize_terminal(text)).split())[:_LONGEST]
