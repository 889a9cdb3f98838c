"""A payload of a stream, built and encoded once however many connections it goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from tracedesk.primitives import json

Unit = Literal["ms", "us"]
"""What the times of a payload count."""
PER: Final[dict[Unit, int]] = {"ms": 1_000_000, "us": 1_000}
"""Nanoseconds in each."""


class Message:
    """One payload of one stream."""

    __slots__ = ("_bodies", "_build", "stream")

    def __init__(self, stream: str, build: Callable[[Unit], Any]) -> None:
        self.stream = stream
        self._build = build
        self._bodies: dict[Unit, bytes] = {}

    def data(self, unit: Unit = "ms") -> Any:
        """The payload as a JSON value."""
        return self._build(unit)

    def body(self, unit: Unit = "ms") -> bytes:
        """The payload as JSON text."""
        body = self._bodies.get(unit)
        if body is None:
            body = self._bodies[unit] = json.dumps(self._build(unit))
        return body


Sink = Callable[[Message], object]
"""Takes a message at once; it must neither block nor raise."""
