"""`tracedesk exchange`: the local exchange of a home, and a look at any market."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, size_text, table
from tracedesk.cli.frame import DeskGroup

if TYPE_CHECKING:
    from tracedesk.exchange.settings import Exchange

T = TypeVar("T")
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUT: Final = click.Path(dir_okay=False, path_type=Path)
_POSITIVE: Final = click.FloatRange(min=0, min_open=True)
_START: Final = "2026-01-01T00:00:00Z"
_USAGE: Final = ("INVALID_PARAMETER", "INVALID_SYMBOL")

_seed = click.option("--seed", type=click.IntRange(min=0), help="What the flow is drawn from [default: 1].")
_pace = click.option(
    "--pace", type=_POSITIVE, help="How lively the flow is, 1 being a lively day [default: 0.3]."
)


@click.group(cls=DeskGroup)
def exchange() -> None:
    """Run the local exchange, watch a market, and record one."""


@exchange.command()
@click.option("--port", type=click.IntRange(0, 65535), help="The port on this machine [default: a free one].")
@_seed
@_pace
@click.option("--symbol", "symbols", multiple=True, metavar="SYMBOL", help="A market [default: all].")
@click.option("--replay", type=_FILE, multiple=True, metavar="FILE", help="Replay a recording instead.")
@click.option("--speed", type=_POSITIVE, default=1.0, show_default=True, help="How fast it is replayed.")
@click.option("--loop", is_flag=True, help="Begin a replay again at its end, instead of standing still.")
@click.option("--as-recorded", is_flag=True, help="Keep the times of the recording, also on its clock.")
@pass_console
def serve(
    console: Console,
    port: int | None,
    seed: int | None,
    pace: float | None,
    symbols: tuple[str, ...],
    replay: tuple[Path, ...],
    speed: float,
    loop: bool,
    as_recorded: bool,
) -> None:
    """Start the local exchange of this home in a process of its own.

    It speaks Binance's wire on this machine alone and stays until `tracedesk exchange stop`. What is not
    said here is taken from [exchange.sim] of tracedesk.toml.
    """
    from tracedesk.exchange.local.launch import ask, start
    from tracedesk.exchange.local.plan import CALM, Plan

    if not replay and (speed != 1.0 or loop or as_recorded):
        raise Misuse("--speed, --loop and --as-recorded say how to replay; name a recording with --replay.")
    if replay and (seed is not None or pace is not None or symbols):
        raise Misuse("--seed, --pace and --symbol are of the seeded flow; leave them out with --replay.")
    home, sim = _home(console), _settings(console).sim
    files = tuple(str(path.absolute()) for path in replay) or ((sim.replay,) if sim.replay else ())
    plan = Plan(
        port=sim.port if port is None else port,
        seed=sim.seed if seed is None else seed,
        pace=CALM if pace is None else pace,
        symbols=tuple(symbol.upper() for symbol in symbols),
        replay=files,
        speed=speed,
        loop=loop,
        as_recorded=as_recorded,
        queue=sim.queue,
        limits=sim.limits,
    )

    async def begin() -> dict[str, Any]:
        await start(home, plan)
        return await ask(home, "status")

    _show(console, _run(begin()), "Started.")


@exchange.command()
@pass_console
def status(console: Console) -> None:
    """Show whether the exchange runs, where, and what its markets do; exit code 1 when it does not."""
    from tracedesk.exchange.local.launch import ask, running

    home = _home(console)
    if running(home) is None:
        console.answer(
            {"running": False}, "No local exchange is running; tracedesk exchange serve starts it."
        )
        raise click.exceptions.Exit(1)
    _show(console, _run(ask(home, "status")), "Running.")


@exchange.command()
@click.option("--timeout", type=_POSITIVE, default=30.0, show_default=True, help="Seconds to wait.")
@pass_console
def stop(console: Console, timeout: float) -> None:
    """Stop the exchange and wait until it has ended; open orders are kept and rest again when it returns."""
    from tracedesk.exchange.local.launch import running
    from tracedesk.hosts import HostClient

    info = running(_home(console))
    if info is None:
        raise Failed("No local exchange is running.")

    async def end() -> None:
        client = await HostClient.connect(info)
        await client.stop(timeout=timeout)

    _run(end())
    console.answer({"pid": info.pid, "stopped": True}, "Stopped the local exchange.")


@exchange.command()
@pass_console
def unban(console: Console) -> None:
    """End the bans and the used-up limits of the local exchange.

    Bans come from its limits where [exchange.sim] limits is "address", as at Binance.
    """
    from tracedesk.exchange.local.launch import ask

    found = _run(ask(_home(console), "unban"))
    names = ", ".join(found["unbanned"])
    console.answer(found, f"Unbanned {names}." if names else "Nobody was banned. All counts are zero again.")


@exchange.command()
@click.argument("account", required=False)
@pass_console
def keys(console: Console, account: str | None) -> None:
    """List the API keys of the local exchange, or show the key and secret of one ACCOUNT.

    An account that is new is opened and given play money. The secret is of no use anywhere else.
    """
    from tracedesk.exchange.local.launch import ask

    home = _home(console)
    if account is not None:
        made = _run(ask(home, "account", {"name": account}))
        rows = [(name, str(made[name])) for name in ("account", "api_key", "secret")]
        console.answer(made, table(rows))
        return
    found = _run(ask(home, "keys"))
    rows = [(key["account"], key["kind"], key["api_key"]) for key in found["keys"]]
    none = "No keys yet; tracedesk exchange keys NAME opens an account."
    console.answer(found, table(rows, ("ACCOUNT", "KIND", "API KEY")) if rows else none)


@exchange.command()
@click.argument("symbol")
@click.option("--levels", type=click.IntRange(1, 50), default=12, show_default=True, help="Of each side.")
@click.option("--once", is_flag=True, help="Show it once, and end.")
@click.option("--every", type=_POSITIVE, default=0.5, show_default=True, help="Seconds between pictures.")
@pass_console
def watch(console: Console, symbol: str, levels: int, once: bool, every: float) -> None:
    """Watch the book and the flow of a market until Ctrl-C.

    The market is that of the venue in the settings; the local exchange is started when it is not running.
    With --json each picture is one line.
    """
    from tracedesk.cli.exchange_watch import Watch

    home, settings = _home(console), _settings(console)
    show = Watch(home, settings, symbol.upper(), levels, every)
    _run(show.once(console) if once else _until_told(show.run(console)))


@exchange.command()
@click.argument("file", type=_OUT)
@click.option("--symbol", default="BTCUSDT", show_default=True, metavar="SYMBOL", help="The market.")
@click.option(
    "--seconds", type=click.IntRange(1, 86_400), default=360, show_default=True, help="How long it is."
)
@_seed
@_pace
@click.option("--start", metavar="TIME", help=f"When its time begins [default: {_START}].")
@click.option("--running", is_flag=True, help="Record the venue of the settings as it runs instead.")
@pass_console
def record(
    console: Console,
    file: Path,
    symbol: str,
    seconds: int,
    seed: int | None,
    pace: float | None,
    start: str | None,
    running: bool,
) -> None:
    """Record a market into FILE, packed where the name ends in .gz.

    A seeded market is run through as fast as it goes, on a clock of its own: the same seed, pace and start
    make the same recording. It holds the streams depth@100ms, bookTicker and trade, and one snapshot.
    """
    if file.exists():
        raise Misuse(f"{file} exists already; name another file.")
    if running:
        if seed is not None or pace is not None or start is not None:
            raise Misuse("--seed, --pace and --start are of a market that is run through, not of --running.")
        made = _record_running(console, file, symbol.upper(), seconds)
    else:
        made = _record_seeded(console, file, symbol.upper(), seconds, seed, pace, start or _START)
    size = file.stat().st_size
    counts = ", ".join(f"{count} {name}" for name, count in made["messages"].items())
    text = f"Recorded {seconds} s of {symbol.upper()} into {file} ({size_text(size)}): {counts}."
    console.answer({"file": str(file), "bytes": size, **made}, text)


def _record_seeded(
    console: Console, file: Path, symbol: str, seconds: int, seed: int | None, pace: float | None, start: str
) -> dict[str, Any]:
    from tracedesk.exchange.local.plan import CALM, Plan
    from tracedesk.exchange.local.recorder import record
    from tracedesk.primitives import time

    try:
        start_ns = time.parse(start).ns
    except ValueError as fault:
        raise Misuse(sentence(fault)) from None
    plan = Plan(
        seed=_settings(console).sim.seed if seed is None else seed, pace=CALM if pace is None else pace
    )

    async def make() -> dict[str, Any]:
        return record(plan, symbol, file, start_ns=start_ns, seconds=seconds).document()

    return _run(make())


def _record_running(console: Console, file: Path, symbol: str, seconds: int) -> dict[str, Any]:
    from tracedesk.cli.exchange_watch import record_running

    return _run(record_running(_home(console), _settings(console), symbol, file, seconds))


@exchange.command()
@pass_console
def rearm(console: Console) -> None:
    """Take the kill switch back, so that orders can be placed again."""
    from tracedesk.exchange.orders.switch import rearm

    halt = rearm(_home(console))
    if halt is None:
        console.answer({"rearmed": False}, "The kill switch was not thrown.")
        return
    text = f"Orders can be placed again. They were halted by {halt.by}: {halt.reason}"
    console.answer({"rearmed": True, "halt": halt.document()}, text)


# --- what they share ---------------------------------------------------------------------------


def _show(console: Console, figures: dict[str, Any], head: str) -> None:
    where = figures["address"]
    rows = [
        ("Process", str(figures["pid"])),
        ("REST", where["rest"]),
        ("Streams", where["streams"]),
        ("WebSocket API", where["ws_api"]),
        ("Source", _source(figures)),
        ("Time", figures["time"]),
        *(("Book", _book(book)) for book in figures.get("books", ())),
        ("Sockets", str(figures["sockets"])),
    ]
    markets = [(m["symbol"], m["bid"], m["ask"], m["price"]) for m in figures["markets"]]
    heads = ("MARKET", "BID", "ASK", "LAST")
    console.answer({"running": True, **figures}, f"{head}\n{table(rows)}\n\n{table(markets, heads)}")


def _source(figures: dict[str, Any]) -> str:
    if figures["source"] == "flow":
        return f"seeded flow, seed {figures['seed']}, pace {figures['pace']}"
    names = ", ".join(figures["recordings"])
    state = "ended" if figures["ended"] else f"{figures['seconds']} of {figures['ofSeconds']} s"
    return f"replay of {names}, {state}; queue model {figures['queue']}; orders do not move it"


def _book(book: dict[str, str]) -> str:
    return f"{book['symbol']} from the {book['from']}, {book['at']}"


def _home(console: Console) -> Path:
    from tracedesk.home import Home

    return Home.open(console.settings().home).path


def _settings(console: Console) -> Exchange:
    from tracedesk.exchange.settings import BadExchangeSetting, read

    try:
        return read(console.settings().tables.get("exchange", {}))
    except BadExchangeSetting as fault:
        raise Misuse(sentence(fault)) from None


async def _until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run until Ctrl-C or SIGTERM, which end a watch as they should, not as a failure."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; what is refused is a sentence and an exit code."""
    from tracedesk.errors import ToolError
    from tracedesk.hosts import HostError

    try:
        return asyncio.run(work)
    except ToolError as refusal:
        raise (Misuse if refusal.code in _USAGE else Failed)(refusal.message) from None
    except HostError as fault:
        raise Failed(sentence(fault)) from None
