"""Files of event objects, and runs read back, for tests of what goes in and comes out."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tracedesk.backtest import export, shadow
from tracedesk.backtest.query import Recording
from tracedesk.home import Home
from tracedesk.journal import Reader
from tracedesk.primitives import json

RUN: Final = "a1b2c3d4-e5f6-7890-abcd-ef1234567890"
OTHER: Final = "b2c3d4e5-f6a7-4890-bcde-f12345678901"


def guid(number: int) -> str:
    return str(uuid.UUID(int=number + (1 << 100), version=4))


def event(
    number: int,
    kind: str = "StateChange",
    properties: str = '{"StateType":"Mode"}',
    *,
    run: str | None = RUN,
    parent: str | None = None,
    severity: str = "Info",
    category: str = "Performance",
    second: int | None = None,
) -> bytes:
    """The line of one event, as an export writes it."""
    at = number if second is None else second
    return (
        f'{{"eventId":"{guid(number)}","runId":{json.dumps(run).decode()},'
        f'"timestamp":"2025-06-15T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z",'
        f'"eventType":"{kind}","severity":"{severity}","category":"{category}","properties":{properties},'
        f'"parentEventId":{json.dumps(parent).decode()},"validationErrors":null}}\n'
    ).encode()


def write(path: Path, lines: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(lines))
    return path


@contextmanager
def opened(home: Home, run: str = RUN) -> Generator[Recording]:
    """A run as it is now."""
    with Reader(home.run_file(run)) as reader:
        shadow.prepare(reader, run)
        with reader.connection:
            recording = Recording.of(reader, run)
            assert recording is not None
            yield recording


def exported(home: Home, run: str = RUN) -> list[bytes]:
    """The run's lines."""
    with opened(home, run) as recording:
        return list(export.jsonl(recording))


def objects(home: Home, run: str = RUN) -> list[dict[str, Any]]:
    """The run's event objects."""
    return [json.loads(line) for line in exported(home, run)]


def faults(event: dict[str, Any]) -> dict[str, str]:
    """An event's validation errors by field."""
    return {one["Field"]: f"{one['Severity']}: {one['Error']}" for one in event["validationErrors"] or ()}
