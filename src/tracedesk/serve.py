"""Runs a desk on one transport until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tracedesk import logs
from tracedesk.config import Settings
from tracedesk.contract import Toolset
from tracedesk.primitives.memory import hold_little, trim_heap
from tracedesk.toolsets import TOOLSETS

if TYPE_CHECKING:
    from tracedesk.desk import Desk
    from tracedesk.exercise import Exercised

log = logging.getLogger(__name__)

_TEMPORARY: Final = "temporary folder"
_DATABASES: Final = 16 << 20
"""Bytes that all databases of a desk keep in memory, as far as they can do with less."""


def run(main: Any) -> None:
    """Run a coroutine on the fastest loop the platform has."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def stdio(settings: Settings, extra: Iterable[Toolset[Any]] = ()) -> None:
    """Serve one client over stdin and stdout; it is answered before the toolsets are open."""
    _calm()
    _halt_by_signal(settings)
    from tracedesk.wire.stdio import private_pipes
    from tracedesk.wire.stdio import run as run_stdio

    async def main(reader: int, writer: int) -> None:
        async with _open(settings, extra, lazily=True) as desk:

            async def open_rest(messages: Callable[[], int]) -> None:
                await desk.openings.rest(messages)
                _settle()

            with _logged(desk, "stdio"):
                _settle()
                await run_stdio(desk.kernel, reader, writer, open_rest)

    with private_pipes() as (reader, writer):
        run(main(reader, writer))


def http(
    settings: Settings,
    ready: Callable[[str, str], None],
    *,
    tls: tuple[str, str] | None = None,
    behind_proxy: bool = False,
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
    extra: Iterable[Toolset[Any]] = (),
    exercised: bool = False,
) -> None:
    """Serve over HTTP; `ready(url, token)` is called once the port answers.

    If `exercised`, each toolset then does a piece of its work in the background, and the log has those that
    cannot run.
    """
    _calm()
    _halt_by_signal(settings)
    from tracedesk.wire.http import Bind
    from tracedesk.wire.http import run as run_http
    from tracedesk.wire.quota import Room

    listener = listen(settings.host, settings.port)
    bind = Bind(listener, settings.host, tls, behind_proxy, hosts, origins)

    async def main() -> None:
        async with _open(settings, extra) as desk:
            with _logged(desk, bind.base):
                app, token = build_app(desk, bind, Room.of_process())
                _settle()
                async with _trimming(), _exercising(desk, exercised) as begin:

                    def answers() -> None:
                        ready(bind.base, token)
                        begin()

                    await run_http(app, bind, answers)

    run(main())


def grpc(
    settings: Settings,
    ready: Callable[[str, str], None],
    *,
    extra: Iterable[Toolset[Any]] = (),
    exercised: bool = False,
) -> None:
    """Serve over gRPC on this machine; `ready` and `exercised` are those of `http`."""
    _calm()
    _halt_by_signal(settings)
    from tracedesk.wire.grpc import run as run_grpc
    from tracedesk.wire.quota import raised_descriptors

    raised_descriptors()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    listen(settings.host, settings.port).close()  # for the system's own error: gRPC's has no number

    async def main() -> None:
        async with _open(settings, extra) as desk:
            with _logged(desk, f"gRPC, {host}"):
                guard, token = build_guard(desk, f"grpc://{host}")
                _settle()
                async with _trimming(), _exercising(desk, exercised) as begin:

                    def answers(port: int) -> None:
                        ready(f"{host}:{port}", token)
                        begin()

                    await run_grpc(desk.kernel, guard, desk.clock, f"{host}:{settings.port}", answers)

    run(main())


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `host`, or the system's own error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=1024)
    # Without it a loop that does not set it itself pays 40 ms for each answer of two writes.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def build_app(desk: Desk, bind: Any, room: Any = None) -> tuple[Any, str]:
    """The HTTP app of an open desk, and the owner's token."""
    from tracedesk.wire.carried import Carried
    from tracedesk.wire.http import App
    from tracedesk.wire.origins import LOOPBACK, Names
    from tracedesk.wire.quota import Quota
    from tracedesk.wire.sessions import SessionTable

    settings = desk.settings
    local = frozenset((settings.host.lower(),)) if settings.host not in LOOPBACK else LOOPBACK
    names = Names.of(bind.base, local, bind.hosts, bind.origins)
    guard, token = build_guard(desk, bind.base, names, bind.behind_proxy)
    sessions = SessionTable(
        desk.kernel,
        desk.clock,
        limit=settings.max_sessions,
        idle=settings.idle_seconds,
        on_end=desk.end_scope,
    )
    # What a proxy hands on may have come to it in the clear, from anywhere.
    private = (settings.host in LOOPBACK and not bind.behind_proxy) or bind.tls is not None
    carried = Carried.of(desk.vault, desk.registry.toolsets, settings.tables, private)
    return App(desk.kernel, sessions, guard, bind.base, desk.figures, carried, Quota(room)), token


def build_guard(desk: Desk, base: str, names: Any = None, behind_proxy: bool = False) -> tuple[Any, str]:
    """The rules for who calls an open desk, and the owner's token; gRPC has no host names to check."""
    from tracedesk.wire.auth import Tokens
    from tracedesk.wire.guard import Guard
    from tracedesk.wire.origins import LOOPBACK, Names

    tokens = Tokens(desk.home)
    token = tokens.owner()
    desk.secrets.add(token, "bearer")
    local = desk.settings.host in LOOPBACK
    return Guard(tokens, base, names or Names("http", 0), anonymous_reads=local and not behind_proxy), token


@asynccontextmanager
async def _trimming() -> AsyncGenerator[None]:
    """Return memory that requests no longer use while the body runs."""
    from tracedesk.primitives.supervision import persist

    task = asyncio.create_task(persist("return of free memory", trim_heap))
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def _exercising(desk: Desk, wanted: bool) -> AsyncGenerator[Callable[[], None]]:
    """Yield a function that begins to exercise the desk's toolsets; log and `health` name the unable ones."""
    if not wanted:
        yield lambda: None
        return
    from tracedesk.exercise import in_background

    names = [toolset.name for toolset in desk.registry.toolsets if toolset.name in TOOLSETS]
    async with in_background(names, partial(note, desk)) as begin:
        yield begin


def note(desk: Desk, done: Exercised) -> None:
    """Log the outcome of an exercise where it is news, and have `health` show what is wrong now."""
    if done.storage is not None:
        problem = {"what": f"{done.detail}.", "remedy": done.remedy}
        if desk.unable.get(_TEMPORARY) != problem:
            log.error("%s (%s). %s No toolset was tried out.", done.detail, _temporary(), done.remedy)
        desk.unable[_TEMPORARY] = problem
        return
    desk.unable.pop(_TEMPORARY, None)
    before = desk.unable.pop(done.toolset, None)
    if done.can_run:
        if before is not None:
            log.info("%s can run again", done.toolset)
        return
    if before is None:
        log.error("%s cannot run: %s. %s", done.toolset, done.detail.rstrip("."), done.remedy)
    desk.unable[done.toolset] = {"what": f"The toolset {done.toolset} cannot run.", "remedy": done.remedy}


def _temporary() -> str:
    with suppress(FileNotFoundError):
        return tempfile.gettempdir()
    return "none is found"


@contextmanager
def _logged(desk: Desk, where: str) -> Generator[None]:
    """The desk's log, from its first word to its last."""
    names = ", ".join(toolset.name for toolset in desk.registry.toolsets)
    with logs.writing(desk.home, desk.settings.log_level, desk.secrets):
        log.info("serving %s on %s", names, where)
        yield
        log.info("stopped")


def _open(
    settings: Settings, extra: Iterable[Toolset[Any]], *, lazily: bool = False
) -> AbstractAsyncContextManager[Desk]:
    from tracedesk.desk import open_desk

    return open_desk(settings, extra=extra, lazily=lazily)


def _halt_by_signal(settings: Settings) -> None:
    """Throw the kill switch of the home on SIGUSR1, which would end a process that takes no notice of it.

    The order desk takes the signal over once the exchange toolset is open, and cancels what rests.
    """

    def halt(*_: Any) -> None:
        from tracedesk.exchange.orders.halting import BY_SIGNAL
        from tracedesk.exchange.orders.switch import Switch
        from tracedesk.primitives.time import SystemClock

        Switch(settings.home, SystemClock()).throw(*BY_SIGNAL)

    signal.signal(signal.SIGUSR1, halt)


def _calm() -> None:
    """Stop the collector until `_settle`: nearly all that imports make stays, and it would walk in vain."""
    gc.disable()
    hold_little()


def _settle() -> None:
    """What start-up made lives as long as the process: keep the collector from walking it."""
    from tracedesk.journal.sqlite import bound_memory

    gc.freeze()
    # The first two keep a collection short: it walks up to 30,000 young objects with the lock held, and a
    # client's document may have half a million. The last one lets old objects be walked as seldom as before.
    gc.set_threshold(10_000, 2, 250)
    gc.enable()
    bound_memory(_DATABASES)
