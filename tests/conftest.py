"""Rules for every test: the same examples each time, signals that arrive, and a budget of time.

Each area's time on the cores is shown, and held to `budget.toml` in a full run. Judges and proofs have sizes,
areas and minutes of their own, in `judges/budget.toml`.
"""

from __future__ import annotations

import signal
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from scripts.proof.bars import checkouts, every
from scripts.proof.record import Recorder, withdraw
from tests.judges import areas
from tests.judges.size import JUDGE, PATIENCE, PROOF, Size

_BUDGET = tomllib.loads((Path(__file__).parent / "budget.toml").read_text(encoding="utf-8"))
_SPENT: Counter[str] = Counter()
_JUDGED: Counter[str] = Counter()
_KINDS: Final = ("judge", "prove")
_BEGAN: Final = pytest.StashKey[float]()
_OLD_PROOFS: list[str] = []

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


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers = parser.getgroup("tiers")
    tiers.addoption("--budget", action="store_true", help="fail when an area passes its seconds")
    tiers.addoption("--prove", action="store_true", help="judges in full size and with exact bars")
    tiers.addoption("--area", help="judges and proofs of one area of tests/judges/budget.toml")
    tiers.addoption("--checkouts", type=Path, help="folder with checkouts of public repositories")
    tiers.addoption("--times", type=Path, help="file to which the seconds of judges are added")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BEGAN] = time.time()
    # What a shell starts in the background ignores SIGINT, and so would every process that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# --- judges and proofs --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def size(pytestconfig: pytest.Config) -> Size:
    """The amount of work of a judge in this run."""
    return _size(pytestconfig)


@pytest.fixture
def prove(pytestconfig: pytest.Config) -> Recorder:
    """Records figures for docs/proof; in any run but a proof it checks the bar's name and writes nothing."""
    return Recorder.begun() if pytestconfig.getoption("prove") else Recorder()


@pytest.fixture(scope="session")
def checkout(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """Finds a checkout of a public repository by its name, or skips the test."""
    folder: Path | None = pytestconfig.getoption("checkouts")

    def find(name: str) -> Path:
        kind = checkouts()[name]
        if folder is None:
            pytest.skip(f"needs {kind}: name a folder with {name}, `make prove CHECKOUTS=FOLDER`")
        if not (folder / name).is_dir():
            pytest.skip(f"needs {kind}: the folder of checkouts has no {name}")
        return folder / name

    return find


def _size(config: pytest.Config) -> Size:
    return PROOF if config.getoption("prove") else JUDGE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark in metafunc.definition.iter_markers("sizes"):
        metafunc.parametrize(mark.args[0], _size(metafunc.config).of(**mark.kwargs))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    area: str | None = config.getoption("area")
    for item in items:
        if _is_judge(item) and areas.area_of(item.nodeid) is None:
            raise pytest.UsageError(f"{item.nodeid} has no area. Add its file to tests/judges/budget.toml.")
        if config.getoption("prove"):
            _be_patient(item)
    if area is not None:
        kept = [item for item in items if _is_judge(item) and areas.area_of(item.nodeid) == area]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def _is_judge(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(kind) for kind in _KINDS)


def _be_patient(item: pytest.Item) -> None:
    mark = item.get_closest_marker("timeout")
    seconds = mark.args[0] if mark else float(item.config.getini("timeout"))
    item.add_marker(pytest.mark.timeout(seconds * PATIENCE), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and item.config.getoption("prove"):
        test = item.nodeid.partition("[")[0]
        withdraw([bar for bar in every().values() if bar.command == test], item.config.stash[_BEGAN])
    return report


# --- time ---------------------------------------------------------------------------------------


def _area(nodeid: str) -> str:
    parts = Path(nodeid.split("::")[0]).parts
    return parts[1] if len(parts) > 2 and parts[1] in _BUDGET else "foundation"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        found = dict(report.user_properties).get(areas.OLD_PROOFS)
        _OLD_PROOFS.extend(found.split() if isinstance(found, str) else ())
    if any(kind in report.keywords for kind in _KINDS):
        _JUDGED[areas.area_of(report.nodeid) or ""] += report.duration  # pyright: ignore[reportArgumentType]
    else:
        _SPENT[_area(report.nodeid)] += report.duration  # pyright: ignore[reportArgumentType]


def _seconds(config: pytest.Config, spent: Counter[str]) -> dict[str, float]:
    """By area: the time of its tests together, shared by the workers that ran them at once."""
    workers = config.getoption("numprocesses", None) or 1
    return {area: seconds / workers for area, seconds in sorted(spent.items())}


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    times: Path | None = config.getoption("times")
    if times is not None and not hasattr(config, "workerinput"):
        areas.add(times, _seconds(config, _JUDGED))
    over = [area for area, spent in _seconds(config, _SPENT).items() if spent > _BUDGET[area]]
    if over and config.getoption("budget") and session.exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for area, spent in _seconds(terminalreporter.config, _SPENT).items():
        mark = " OVER BUDGET" if spent > _BUDGET[area] else ""
        terminalreporter.write_line(f"{area}: {spent:.0f}s of {_BUDGET[area]}s{mark}")
    if _OLD_PROOFS:
        terminalreporter.write_line(f"{areas.OLD_PROOFS}: {', '.join(_OLD_PROOFS)}")
