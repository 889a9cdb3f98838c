"""What the capture tests share: the hook's script as clients run it, a real trace, drops from fixtures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support import BOUND
from tracedesk.codegraph.capture import inbox, plugin
from tracedesk.codegraph.capture.drain import Drain, Drained
from tracedesk.codegraph.capture.inbox import Drop, Inbox
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.read import AttemptView, attempt, newest_attempt
from tracedesk.home import Home
from tracedesk.journal import Reader
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SystemClock

FIXTURES: Final = Path(__file__).parent / "fixtures"
SCRIPT: Final = plugin.SCRIPT
PATIENCE: Final = 10
RECORDED: Final = "qwen_code"
EVERY: Final = ("qwen_code", "claude_code", "claude_code_older")


@dataclass(frozen=True, slots=True)
class Said:
    """What the script left."""

    code: int
    out: bytes
    err: bytes


def run_hook(home: Path | None, event: str, body: bytes, *, client: str = "qwen-code", **env: str) -> Said:
    """The script as a client starts it; without a home it finds the default one.

    One that a busy machine left no time to drop anything is started again.
    """
    words = [sys.executable, "-I", "-S", str(SCRIPT), client, event, *([str(home)] if home else [])]
    for _ in range(PATIENCE):
        done = subprocess.run(words, input=body, capture_output=True, timeout=BOUND, check=False, env=env)
        if home is None or not _was_late(home / "inbox" / inbox.LOSSES):
            break
    return Said(done.returncode, done.stdout, done.stderr)  # pyright: ignore[reportPossiblyUnboundVariable]


def _was_late(losses: Path) -> bool:
    """Whether a drop was lost for want of time; it is forgotten."""
    lines = losses.read_text().splitlines(keepends=True) if losses.is_file() else []
    kept = [line for line in lines if line != "late\n"]
    if kept != lines:
        losses.write_text("".join(kept))
        if not kept:
            losses.unlink()
    return kept != lines


def fixture(name: str) -> tuple[str, list[dict[str, Any]]]:
    """The client and the hooks of a fixture."""
    document = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return document["client"], document["hooks"]


def drops(name: str, start_ns: int = 1_800_000_000_000_000_000) -> Iterator[Drop]:
    """The hooks of a fixture as drops, a millisecond apart."""
    client, hooks = fixture(name)
    for number, hook in enumerate(hooks):
        yield Drop(client, hook["hook_event_name"], start_ns + number * 1_000_000, hook)


@dataclass(frozen=True, slots=True)
class Traced:
    """A home with its trace, and a drain into it."""

    home: Home
    etg: Etg
    root: str | None = None

    def drain(self) -> Drained:
        return Drain(
            Inbox(self.home.inbox), self.etg, self.newest, lambda _: self.root, lambda _: "cg1-test"
        ).run()

    def newest(self, prefix: str) -> tuple[str, bool] | None:
        self.etg.catch_up()
        with closing(Reader(self.etg.path)) as reader:
            return newest_attempt(reader, prefix)

    def drop(self, *each: Drop) -> None:
        for one in each:
            inbox.write(self.home.inbox, one)

    def attempts(self) -> list[str]:
        self.etg.catch_up()
        with closing(Reader(self.etg.path)) as reader:
            return [
                name for (name,) in reader.connection.execute("SELECT name FROM attempt ORDER BY started_ns")
            ]

    def attempt(self, name: str) -> AttemptView:
        self.etg.catch_up()
        with closing(Reader(self.etg.path)) as reader:
            found = attempt(reader, name, SystemClock().now_ns())
        assert found is not None, f"there is no attempt {name}"
        return found


@contextmanager
def traced(folder: Path, root: str | None = None) -> Generator[Traced]:
    home = Home.open(folder)
    with closing(Etg(home.trace, SystemClock(), Secrets(), Payloads(home.payloads))) as etg:
        yield Traced(home, etg, root)
