"""What holds for every test: the same examples each time, signals that arrive, and a budget of time.

Each area's time on the cores is shown, and held to `budget.toml` in a full run.
"""

from __future__ import annotations

import os
import signal
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

_BUDGET = tomllib.loads((Path(__file__).parent / "budget.toml").read_text(encoding="utf-8"))
_SPENT: Counter[str] = Counter()

# A property test takes its settings when it is imported, so this comes before any of them. No example and no
# making of examples is timed: on a busy machine that tells of the machine.
settings.register_profile(
    "deterministic",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")
# Examples are made of the constants of all that is imported by then too, which depends on the tests before.
providers._get_local_constants = Constants  # pyright: ignore[reportPrivateUsage]


def pytest_configure() -> None:
    # What a shell starts in the background ignores SIGINT, and so would every process that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _area(nodeid: str) -> str:
    parts = Path(nodeid.split("::")[0]).parts
    return parts[1] if len(parts) > 2 and parts[1] in _BUDGET else "foundation"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _SPENT[_area(report.nodeid)] += report.duration  # pyright: ignore[reportArgumentType]


def _seconds(config: pytest.Config) -> dict[str, float]:
    """By area: what its tests took together, shared by the workers that ran them at once."""
    workers = config.getoption("numprocesses", None) or 1
    return {area: spent / workers for area, spent in sorted(_SPENT.items())}


def pytest_sessionfinish(session: pytest.Session) -> None:
    over = [area for area, spent in _seconds(session.config).items() if spent > _BUDGET[area]]
    if over and os.environ.get("TRACEDESK_BUDGET") and session.exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for area, spent in _seconds(terminalreporter.config).items():
        mark = " OVER BUDGET" if spent > _BUDGET[area] else ""
        terminalreporter.write_line(f"{area}: {spent:.0f}s of {_BUDGET[area]}s{mark}")
