"""A small piece of each toolset's real work, done in a temporary home: proof that the toolset can run.

`tracedesk doctor` does it in its own process; a desk that serves leaves it to a nice child, `python -m
tracedesk.exercise FOLDER TOOLSET...`, which prints one line of JSON for each toolset.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.surroundings import for_children

NICE: Final = 19
"""How nice the child is: it must not slow what the desk does meanwhile."""
_SYMBOL: Final = "BTCUSDT"
_LEAVING: Final = 10.0
"""Seconds that the local exchange gets to end."""
_EXTRAS: Final = ("fuzz", "exchange", "codegraph")
"""Toolsets whose packages are an extra of the distribution."""
_FUNCTION: Final = "def draw_water(bucket):\n    return bucket.fill()\n"
_CONTRACT: Final = """\
# pragma version ~=0.4.3
drawn: public(uint256)

@external
def draw(litres: uint256):
    self.drawn += litres
"""


@dataclass(frozen=True, slots=True)
class Exercised:
    """The outcome of one toolset's exercise."""

    toolset: str
    can_run: bool
    detail: str
    remedy: str | None = None


class CannotRun(RuntimeError):
    """A toolset that did not do what was asked of it."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.remedy = remedy


def exercise(toolset: str, folder: Path | None = None) -> Exercised:
    """Exercise one toolset in a folder, by default a temporary one; no fault of the toolset is raised."""
    with TemporaryDirectory(prefix="tracedesk-", dir=folder, ignore_cleanup_errors=True) as own:
        try:
            return Exercised(toolset, True, asyncio.run(_EXERCISES[toolset](Path(own))))
        except CannotRun as fault:
            return Exercised(toolset, False, str(fault), fault.remedy)
        except ImportError as fault:
            return Exercised(toolset, False, f"{fault}", _install(toolset))
        except ToolError as fault:
            return Exercised(toolset, False, fault.message, _install(toolset))
        except Exception as fault:
            return Exercised(toolset, False, f"{type(fault).__name__}: {fault}", _install(toolset))


def _install(toolset: str) -> str:
    if toolset not in _EXTRAS:
        return "Install tracedesk again."
    return f"Install tracedesk[{toolset}], or run `make setup` in a checkout. Other toolsets work without it."


# --- one toolset each ----------------------------------------------------------------------------


async def _backtest(folder: Path) -> str:
    from tracedesk.backtest import Recorder

    with Recorder(folder / "home", "exercise") as recorder:
        recorder.market_data("2013-03-01T14:30:00Z", "AAPL", {"Close": "593.95"})
    asked = {"runId": recorder.run_id, "eventType": "MarketDataEvent"}
    found = await _asked(folder, "backtest", "get_events_by_type", asked)
    return f"recorded a run and read {_some(found['events'], 'event')} of it"


async def _fuzz(folder: Path) -> str:
    from tracedesk.fuzz import native
    from tracedesk.fuzz.bench import Bench
    from tracedesk.fuzz.config import Config
    from tracedesk.fuzz.limits import Budget
    from tracedesk.fuzz.project import CompileError
    from tracedesk.fuzz.steering import DEFAULT_SENDER

    try:
        native.engine()
    except native.EngineMissing:
        raise CannotRun("its native core is not installed", native.REMEDY) from None
    contract = folder / "Well.vy"
    contract.write_text(_CONTRACT, encoding="utf-8")
    try:
        bench = Bench.compiled(contract, None, Config(mode="exploration"), Budget())
    except CompileError as fault:
        raise CannotRun(f"it compiles no Vyper contract: {fault}", _install("fuzz")) from None
    asked = {"sequence": ["draw(7)"], "sender": DEFAULT_SENDER, "value": "0"}
    done = bench.execute({**asked, "trace": False, "budget": 10_000})
    return f"compiled a contract and ran {_some(done['transactions'], 'call')}"


async def _exchange(folder: Path) -> str:
    from tracedesk.exchange.local import launch
    from tracedesk.exchange.local.plan import Plan
    from tracedesk.hosts import HostClient

    home = _home(folder)
    info = await launch.start(home, Plan(symbols=(_SYMBOL,)), outlives=False)
    try:
        touch = await _asked(folder, "exchange", "orderbook_l1", {"symbol": _SYMBOL})
    finally:
        async with await HostClient.connect(info) as host:
            await host.stop()
    async with asyncio.timeout(_LEAVING):
        while _lives(info.pid):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return f"started the local exchange, read {touch['best_bid']} / {touch['best_ask']}, and stopped it"


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def _codegraph(folder: Path) -> str:
    from tracedesk.codegraph.graph import native
    from tracedesk.codegraph.graph.languages import WHEELS
    from tracedesk.codegraph.graph.syntax.grammars import grammar

    project = folder / "project"
    project.mkdir()
    (project / "well.py").write_text(_FUNCTION, encoding="utf-8")
    root = {"project_root": str(project)}
    await _asked(folder, "codegraph", "graph_index_project", {**root, "files": ["well.py"]}, project)
    found = await _asked(folder, "codegraph", "graph_search", {**root, "query": "draw water"}, project)
    missing = [language for language in WHEELS if not (native.reader(language) or grammar(language))]
    if missing or b"draw_water" not in json.dumps(found):
        named = ", ".join(missing) or "Python"
        raise CannotRun(f"it cannot parse {named}", _install("codegraph"))
    return f"parsed a file and found its function; {len(WHEELS)} languages can be parsed"


async def _trading(folder: Path) -> str:
    asked = {"tool_call_id": "exercise", "symbol": "AAPL", "period": "5d", "interval": "1d"}
    history = await _asked(folder, "trading", "get_history", asked)
    return f"read {_some(history['history'], 'bar')} of AAPL"


_EXERCISES: Final[Mapping[str, Callable[[Path], Coroutine[Any, Any, str]]]] = {
    "backtest": _backtest,
    "fuzz": _fuzz,
    "exchange": _exchange,
    "codegraph": _codegraph,
    "trading": _trading,
}


def _home(folder: Path) -> Path:
    from tracedesk.home import Home

    return Home.open(folder / "home").path


def _some(rows: Any, noun: str) -> str:
    if not rows:
        raise CannotRun(f"it answers without any {noun}", "Install tracedesk again; then report this.")
    return f"{len(rows)} {noun}{'' if len(rows) == 1 else 's'}"


async def _asked(
    folder: Path, toolset: str, tool: str, arguments: Mapping[str, Any], root: Path | None = None
) -> dict[str, Any]:
    """The answer of a tool of a desk in the folder's home that serves one toolset."""
    from tracedesk.config import Settings
    from tracedesk.desk import open_desk
    from tracedesk.wire.dispatch import Origin
    from tracedesk.wire.door import Silence

    tables = {toolset: {"roots": [str(root)]}} if root is not None else {}
    settings = Settings(home=_home(folder), toolsets=(toolset,), check_output=True, tables=tables)
    async with open_desk(settings) as desk:
        reply = await desk.dispatch.call(tool, dict(arguments), Origin("exercise", Silence()))
    answer = json.loads(reply.body)
    if reply.is_error:
        error = answer["error"]
        raise ToolError(error["code"], error["message"], error.get("details"))
    return answer


# --- beside a desk that serves -------------------------------------------------------------------


@asynccontextmanager
async def in_background(
    toolsets: Iterable[str], tell: Callable[[Exercised], None]
) -> AsyncGenerator[Callable[[], None]]:
    """Yield a function that begins to exercise toolsets in a nice child; `tell` gets each that cannot run.

    The child and its folder are gone when the body has ended.
    """
    loop, work = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    try:
        yield lambda: work.add(loop.create_task(_watched(tuple(toolsets), tell)))
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _watched(toolsets: tuple[str, ...], tell: Callable[[Exercised], None]) -> None:
    with TemporaryDirectory(prefix="tracedesk-", ignore_cleanup_errors=True) as folder:
        command = (sys.executable, "-P", "-m", "tracedesk.exercise", folder, *toolsets)
        child = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=for_children()
        )
        assert child.stdout is not None
        try:
            async for line in child.stdout:
                done = Exercised(**json.loads(line))
                if not done.can_run:
                    tell(done)
        finally:
            await asyncio.shield(_ended(child))


async def _ended(child: Process) -> None:
    """End the child: it is asked first, for it has to end what it has started."""
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(_LEAVING):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()


def _leave(number: int, frame: object) -> None:
    sys.exit(1)


def main(words: Iterable[str]) -> None:
    """Exercise toolsets as a nice child of a desk, and print each outcome."""
    # As an exception, so that what an exercise has started is ended.
    signal.signal(signal.SIGTERM, _leave)
    os.nice(NICE)
    folder, *toolsets = words
    for toolset in toolsets:
        print(json.dumps(asdict(exercise(toolset, Path(folder)))).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
