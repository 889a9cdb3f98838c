"""The measurements: every round takes each contestant in turn, so all meet the same machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Final

from benchmarks.http_client import HttpClient
from benchmarks.lineup import Contestant
from benchmarks.measure import Memory, Sample
from benchmarks.messages import ERAS, Era
from benchmarks.process import free_port, running, wait_until_serving
from benchmarks.stdio_client import cold_start, connected

CONNECTIONS: Final = (1, 100)

Row = dict[str, list[Sample]]
Holdings = dict[str, Memory]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    rounds: int
    stdio_calls: int = 300
    http_calls: tuple[int, int] = (400, 2000)
    """For the first and the second of `CONNECTIONS`."""
    warm: int = 1000
    """Calls before the first round; just-in-time compilers need about this many."""

    def calls_by_width(self) -> dict[int, int]:
        return dict(zip(CONNECTIONS, self.http_calls, strict=True))


def quick(rounds: int) -> Plan:
    """Enough to see that everything works; the figures mean little."""
    return Plan(rounds, stdio_calls=20, http_calls=(20, 100), warm=5)


def stdio(contestants: Sequence[Contestant], plan: Plan, era: Era) -> tuple[Row, Holdings]:
    """Calls one after the other over pipes."""
    entered = [c for c in contestants if c.stdio]
    row: Row = {c.name: [] for c in entered}
    with ExitStack() as stack:
        clients = {c.name: stack.enter_context(connected(c.label, c.stdio, c.env, era)) for c in entered}
        for client in clients.values():
            with client.server.blamed():
                client.call(plan.warm)
        for name in turns(list(clients), plan.rounds):
            with clients[name].server.blamed():
                row[name].append(clients[name].round(plan.stdio_calls))
        return row, {name: client.memory() for name, client in clients.items()}


def cold(contestants: Sequence[Contestant], plan: Plan) -> Row:
    """Fresh processes up to their first answer; the first one, which may compile, is thrown away."""
    entered = {c.name: c for c in contestants if c.cold}
    row: Row = {name: [] for name in entered}
    for c in entered.values():
        cold_start(c.label, c.cold, c.env)
    for name in turns(list(entered), plan.rounds):
        c = entered[name]
        row[name].append(cold_start(c.label, c.cold, c.env))
    return row


def http(contestants: Sequence[Contestant], plan: Plan, say: Progress) -> tuple[dict[str, Row], Holdings]:
    """Calls over keep-alive connections, in both eras and at each width."""
    return asyncio.run(_http([c for c in contestants if c.http], plan, say))


async def _http(
    contestants: Sequence[Contestant], plan: Plan, say: Progress
) -> tuple[dict[str, Row], Holdings]:
    rows: dict[str, Row] = {}
    async with AsyncExitStack() as stack:
        clients = {c.name: stack.enter_context(_served(c)) for c in contestants}
        for client in clients.values():
            with client.server.blamed():
                await client.verify()
                await client.warm(plan.warm)
        for era in ERAS:
            for width, calls in plan.calls_by_width().items():
                say(f"http {era} c={width}")
                rows[f"http {era} c={width}"] = await _http_row(clients, plan, era, width, calls)
        return rows, {name: client.memory() for name, client in clients.items()}


async def _http_row(clients: dict[str, HttpClient], plan: Plan, era: Era, width: int, calls: int) -> Row:
    row: Row = {name: [] for name in clients}
    for name in turns(list(clients), plan.rounds):
        client = clients[name]
        with client.server.blamed():
            row[name].append(await client.round(era, width, calls))
    return row


@contextlib.contextmanager
def _served(contestant: Contestant) -> Generator[HttpClient]:
    port = free_port()
    env = {**contestant.env, "PORT": str(port)}
    with running(contestant.label, contestant.http, env, pipes=False) as server:
        with server.blamed():
            wait_until_serving(port, server.process)
        yield HttpClient(server, port, contestant.token())


def turns(names: Sequence[str], rounds: int) -> Generator[str]:
    """Each name once a round; every round begins with another, so none always comes first."""
    for number in range(rounds):
        start = number % len(names)
        yield from (*names[start:], *names[:start])
