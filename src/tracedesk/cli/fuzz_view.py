"""What `fuzz run` shows while it runs: a live table on a terminal, a line a change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Protocol, TextIO

from tracedesk.primitives.text import sanitize_terminal

State = Mapping[str, Any]
EVERY: Final = 10.0
"""Seconds between lines that only say how far it is."""
_TESTS: Final = 30
_STYLES: Final = {"solved": "bold red", "shrinking": "red", "passed": "green", "unsupported": "yellow"}


class View(AbstractContextManager["View"], Protocol):
    """Shows a campaign's state, again and again."""

    def show(self, state: State) -> None: ...


class SilentView:
    """Shows nothing: the answer alone is wanted."""

    def __enter__(self) -> SilentView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, state: State) -> None:
        return None


class PlainView(SilentView):
    """Writes a line when a test changes, and now and then how far the campaign is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seen: dict[str, str] = {}
        self._said_at = 0.0

    def show(self, state: State) -> None:
        from tracedesk.fuzz.result import summary, verdict

        for test in state["tests"]:
            said = verdict(test)
            if test["status"] not in ("fuzzing", "passed") and self._seen.get(test["id"]) != said:
                self._seen[test["id"]] = said
                self._line(f"{test['name']}: {said}")
        elapsed = float(state["status"]["elapsedSeconds"])
        if elapsed - self._said_at >= EVERY:
            self._said_at = elapsed
            self._line(summary(state))

    def _line(self, text: str) -> None:
        self._stream.write(sanitize_terminal(text) + "\n")
        self._stream.flush()


class LiveView:
    """A table of tests under a headline, painted anew a few times a second."""

    def __init__(self) -> None:
        from rich.console import Console as Terminal
        from rich.live import Live

        self._live = Live(console=Terminal(stderr=True), refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, fault, trace)

    def show(self, state: State) -> None:
        self._live.update(picture(state))


def picture(state: State) -> Any:
    """The state as rich draws it; names come from contracts and are text, never markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from tracedesk.fuzz.result import summary, verdict

    status = state["status"]
    table = Table(box=None, pad_edge=False, show_header=False)
    for test in state["tests"][:_TESTS]:
        said = Text(sanitize_terminal(verdict(test)), style=_STYLES.get(test["status"], ""))
        table.add_row(Text(sanitize_terminal(test["name"])), said)
    hidden = len(state["tests"]) - _TESTS
    since = status.get("secondsSinceNewCoverage")
    foot = f"nothing new for {since} s" if since is not None else ""
    head = sanitize_terminal(f"{status['contract']}  {status['mode']}  {status['campaign_id']}")
    return Group(
        Text(head, style="bold"),
        Text(summary(state)),
        Text(foot, style="dim"),
        table,
        *([Text(f"and {hidden} more tests")] if hidden > 0 else []),
        Text("Ctrl-C ends the campaign", style="dim"),
    )


def view(*, quiet: bool) -> View:
    """The view that fits where the command runs."""
    if quiet:
        return SilentView()
    return LiveView() if sys.stderr.isatty() else PlainView(sys.stderr)
