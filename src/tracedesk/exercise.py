"""A small piece of each toolset's real work, done in a temporary home: proof that the toolset can run.

`tracedesk doctor` does it in its own process; a desk that serves leaves it to a nice child, `python -m
tracedesk.exercise FOLDER TOOLSET...` with limits, which prints one line of JSON for each toolset.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio import StreamReader, StreamReaderProtocol
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import asdict, dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.hosts import confined
from tracedesk.jobs import in_thread
from tracedesk.primitives import json
from tracedesk.primitives.supervision import Supervised
from tracedesk.primitives.temporary import held, work_folder
from tracedesk.storage import Kind, StorageFault, temporary, temporary_fault_of

NICE: Final = 19
"""How nice the child is: it must not slow what the desk does meanwhile."""
LIMITS: Final = confined.Limits(4096 * confined.MIB, seconds=300, file_bytes=64 * confined.MIB)
"""Limits of the child; a compiler that it starts gets no more memory."""
PAUSES: Final = (60, 300, 1800, 3600)
"""Seconds until what could not be exercised, or cannot run, is exercised anew; the last one repeats."""
_OWN_VARIABLES: Final = ("HOME", "PYTHONPATH", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Variables by which our modules, and the packages beside them, are found."""
_SYMBOL: Final = "BTCUSDT"
_LEAVING: Final = 10.0
"""Seconds that the local exchange gets to end."""
_LAST_WORDS: Final = 2_000
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
    storage: Kind | None = None
    """The fault of the temporary folder that kept it from being exercised; the toolset itself may run."""


class CannotRun(RuntimeError):
    """A toolset that did not do what was asked of it."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.remedy = remedy


class Unfinished(RuntimeError):
    """The child ended before it had exercised every toolset."""


def exercise(toolset: str, folder: Path | None = None) -> Exercised:
    """Exercise one toolset in a folder, by default a temporary one; no fault of the toolset is raised."""
    if (found := temporary(folder)) is not None:
        return _not_exercised(toolset, found)
    try:
        with work_folder(folder) as own:
            return _exercised_in(own, toolset)
    except OSError as fault:
        found = temporary_fault_of(fault, Path("/") if folder is None else folder)
        if found is None:
            raise
        return _not_exercised(toolset, found)


def _exercised_in(own: Path, toolset: str) -> Exercised:
    try:
        return Exercised(toolset, True, asyncio.run(_EXERCISES[toolset](own)))
    except Exception as fault:
        found = temporary_fault_of(fault, own)
        return _cannot_run(toolset, fault) if found is None else _not_exercised(toolset, found)


def _not_exercised(toolset: str, fault: StorageFault) -> Exercised:
    return Exercised(toolset, False, fault.problem, fault.remedy, fault.kind)


def _cannot_run(toolset: str, fault: Exception) -> Exercised:
    if isinstance(fault, CannotRun):
        return Exercised(toolset, False, str(fault), fault.remedy)
    if isinstance(fault, ImportError):
        return Exercised(toolset, False, f"{fault}", _install(toolset))
    detail = fault.message if isinstance(fault, ToolError) else f"{type(fault).__name__}: {fault}"
    return Exercised(toolset, False, detail, _install(toolset))


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
    toolsets: Iterable[str], tell: Callable[[Exercised], None], pauses: Sequence[float] = PAUSES
) -> AsyncGenerator[Callable[[], None]]:
    """Yield a function that begins to exercise toolsets in a nice child; `tell` gets each outcome.

    Toolsets that cannot run, or could not be exercised, are exercised anew after each of the pauses. The
    child and its folder are gone when the body has ended.
    """
    loop, work = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    waits = chain(pauses, repeat(pauses[-1]))
    try:
        yield lambda: work.add(loop.create_task(_supervised(list(toolsets), tell, waits)))
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _supervised(left: list[str], tell: Callable[[Exercised], None], waits: Iterator[float]) -> None:
    """Exercise toolsets until each of them can run; `health` shows a failure of the exercises themselves."""
    supervised = Supervised("exercise of toolsets")

    def heard(done: Exercised) -> None:
        tell(done)
        if done.can_run:
            left.remove(done.toolset)

    try:
        while left:
            with supervised.round():
                await _round(tuple(left), heard)
            if left:
                # One whose exercise ends the child must not keep the others from theirs.
                left.append(left.pop(0))
                await asyncio.sleep(next(waits))
    finally:
        supervised.forget()


async def _round(toolsets: tuple[str, ...], tell: Callable[[Exercised], None]) -> None:
    """Exercise each toolset once; raises what keeps the child from it, unless it is the temporary folder."""
    try:
        if (found := await in_thread(temporary)) is None:
            with work_folder() as folder:
                await _by_child(folder, toolsets, tell)
            return
    except OSError as problem:
        found = temporary_fault_of(problem, Path("/"))
        if found is None:
            raise
    for toolset in toolsets:
        tell(_not_exercised(toolset, found))


async def _by_child(folder: Path, toolsets: tuple[str, ...], tell: Callable[[Exercised], None]) -> None:
    own = {name: os.environ[name] for name in _OWN_VARIABLES if name in os.environ}
    command = confined.python("tracedesk.exercise", str(folder), *toolsets)
    with (folder / "errors").open("w+b") as errors:
        child = confined.start(
            command,
            LIMITS,
            cwd=folder,
            more={**own, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stderr=errors,
        )
        answered = 0
        try:
            async with asyncio.timeout(LIMITS.seconds):
                async for line in _lines(child):
                    tell(Exercised(**json.loads(line)))
                    answered += 1
        finally:
            status = await asyncio.shield(_ended(child))
        if answered < len(toolsets):
            errors.seek(0)
            words = errors.read()[-_LAST_WORDS:].decode(errors="replace")
            raise Unfinished(f"it ended with {status} while it exercised {toolsets[answered]}: {words}")


async def _lines(child: subprocess.Popen[bytes]) -> AsyncGenerator[bytes]:
    """The lines that the child prints, to its end."""
    reader = StreamReader()
    assert child.stdout is not None
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: StreamReaderProtocol(reader), child.stdout
    )
    with closing(transport):
        async for line in reader:
            yield line


async def _ended(child: subprocess.Popen[bytes]) -> int:
    """End the child: it is asked first, for it has to end what it has started."""
    with suppress(ProcessLookupError):
        child.terminate()
    with suppress(subprocess.TimeoutExpired):
        await in_thread(lambda: child.wait(_LEAVING))
    return confined.end(child)


def _leave(number: int, frame: object) -> None:
    sys.exit(1)


def main(words: Iterable[str]) -> None:
    """Exercise toolsets as a nice child of a desk, and print each outcome."""
    # As an exception, so that what an exercise has started is ended.
    signal.signal(signal.SIGTERM, _leave)
    os.nice(NICE)
    folder, *toolsets = words
    with held(Path(folder)):
        for toolset in toolsets:
            print(json.dumps(asdict(exercise(toolset, Path(folder)))).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
