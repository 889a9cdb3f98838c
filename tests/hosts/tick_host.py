"""A small host for tests: `python -m tests.hosts.tick_host HOME KIND ID [--option]...`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

from tracedesk.errors import ToolError
from tracedesk.hosts import Host, HostCall, Method, serve_host

Params = dict[str, Any]


async def echo(params: Params, call: HostCall) -> Any:
    return params


async def add(params: Params, call: HostCall) -> Decimal:
    return params["a"] + params["b"]


async def count(params: Params, call: HostCall) -> int:
    """Count to n with progress, from a thread when asked to."""

    def work() -> int:
        for done in range(1, params["n"] + 1):
            call.report(done, params["n"], f"step {done}")
        return params["n"]

    if params.get("thread"):
        return await call.run(work)
    for done in range(1, params["n"] + 1):
        await call.progress(done, params["n"], f"step {done}")
    return params["n"]


async def hang(params: Params, call: HostCall) -> None:
    """Say that it runs, then wait for ever; publishes whether it was cancelled."""
    try:
        await call.progress(0, None, "hanging")
        await asyncio.Event().wait()
    finally:
        call.host.publish("hang", "cancelled")


async def spin(params: Params, call: HostCall) -> int:
    """Compute in a thread, without a pause, until cancelled; publish every turn."""

    def work() -> int:
        turn = 0
        while True:
            call.check()
            turn += 1
            if turn % 1000 == 1:
                call.host.publish("spin", turn)
                call.report(turn)

    try:
        return await call.run(work)
    finally:
        call.host.publish("spin", "over")


async def finish(params: Params, call: HostCall) -> str:
    """Run until the host is told to stop, then finish properly."""
    await call.progress(0, None, "running")
    await call.host.stopping.wait()
    call.host.publish("tick", {"final": True})
    return "finished"


async def stubborn(params: Params, call: HostCall) -> None:
    """A thread of the default executor that never ends."""
    await call.progress(0, None, "running")
    await asyncio.to_thread(threading.Event().wait)


async def refuse(params: Params, call: HostCall) -> None:
    raise ToolError("INVALID_INPUT", "No.", {"price": Decimal("1.10")})


async def bug(params: Params, call: HostCall) -> None:
    raise RuntimeError("a bug")


class Panic(BaseException):
    """Stand-in for a panic of native code, which is no `Exception` either."""


async def panic(params: Params, call: HostCall) -> None:
    def work() -> None:
        raise Panic("a bug")

    await call.run(work)


async def strange(params: Params, call: HostCall) -> Any:
    return object()


async def large(params: Params, call: HostCall) -> str:
    return "x" * params["bytes"]


async def die(params: Params, call: HostCall) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def publish(params: Params, call: HostCall) -> int:
    return call.host.publish(params["name"], params["value"])


async def fork(params: Params, call: HostCall) -> int:
    """A child that lives on without exec, as a careless worker pool would leave one."""
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    return child


async def about(params: Params, call: HostCall) -> dict[str, Any]:
    own = {"nice": os.nice(0), "session": os.getsid(0), "cwd": str(Path.cwd()), "pid": os.getpid()}
    return {**own, "environment": sorted(os.environ)}


METHODS: dict[str, Method] = {
    method.__name__: method
    for method in (
        echo,
        add,
        count,
        hang,
        spin,
        finish,
        stubborn,
        refuse,
        bug,
        panic,
        strange,
        large,
        die,
        publish,
        fork,
        about,
    )
}


async def tick(host: Host) -> None:
    host.publish("tick", {"price": Decimal("1.10"), "final": False})
    await host.stopping.wait()


async def short(host: Host) -> None:
    host.publish("tick", {"short": True})


async def broken(host: Host) -> None:
    raise RuntimeError("the work broke")


def main() -> None:
    home, kind, id, *options = sys.argv[1:]
    if "--gate" in options:
        sys.stdin.read()  # all contenders wait here for the same moment
    if "--fail" in options:
        raise SystemExit("no campaign of that name")
    if "--mute" in options:
        signal.pause()
    work = short if "--short" in options else broken if "--broken" in options else tick
    grace = 0.05 if "--impatient" in options else 100.0
    serve_host(Path(home), kind, id, METHODS, work=work, nice=5, grace=grace)


if __name__ == "__main__":
    main()
