"""The questions: ours as the tools answer them, whole and encoded; the rival's SQL and its rows."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from benchmarks import backtest_rival as rival
from benchmarks.backtest_rival import Table
from benchmarks.messages import Misbehaved
from tracedesk.backtest import aggregate, page, sequence, snapshot
from tracedesk.backtest.desk import Shelf
from tracedesk.backtest.page import Ask
from tracedesk.backtest.query import Recording
from tracedesk.primitives import json
from tracedesk.primitives.time import format as iso

BUDGET: Final = 100_000
"""Tokens: a page of 100 in the seed's shape must not be cut, for then the two sides would not be alike."""
PAGE: Final = 100
PLACES: Final = 40
_JUMP: Final = 17
"""Coprime to the places, so that every few turns are spread over all of them."""
_WORK: Final[dict[str, Callable[[Recording, Ask], dict[str, Any]]]] = {
    "get_events_by_type": lambda recording, ask: page.answer(recording, ask, page.by_type(ask)),
    "get_events_by_entity": lambda recording, ask: page.answer(
        recording, ask, page.by_entity(ask, recording)
    ),
    "aggregate_metrics": aggregate.answer,
    "get_state_snapshot": snapshot.answer,
    "query_event_sequence": sequence.answer,
}


@dataclass(slots=True)
class Times:
    """What a question took, each time it was asked."""

    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    def figures(self) -> dict[str, float]:
        """Medians, and the slowest tenth's beginning by CPU: what a question costs depends on its place."""
        ordered = sorted(self.cpu)
        found = (median(self.wall), median(self.cpu), ordered[len(ordered) * 9 // 10])
        return dict(zip(("wall_ms", "cpu_ms", "cpu_ms_p90"), (round(s * 1e3, 4) for s in found), strict=True))


@dataclass(slots=True)
class Found:
    """Both sides of one question."""

    ours: Times = field(default_factory=Times)
    theirs: Times = field(default_factory=Times)


Ours = Callable[[int], Awaitable[bytes]]
Theirs = Callable[[int], Sequence[Any]]
"""Both take a turn: the how manyeth place of the run is asked about."""
Agree = Callable[[Any, Sequence[Any]], bool]


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to ask of both, and whether two answers say the same."""

    name: str
    ours: Ours
    theirs: Theirs
    agree: Agree


@dataclass(frozen=True, slots=True)
class Asker:
    """Questions about one run of a shelf, answered to the last byte."""

    shelf: Shelf
    run: str

    async def ask(self, tool: str, **args: Any) -> bytes:
        question = Ask(tool, {"runId": self.run, **args}, BUDGET, self.shelf.max_bytes)
        work = _WORK[tool]
        return json.dumps(await self.shelf.read(self.run, lambda recording: work(recording, question)))

    async def page(self, index: int = 0, cursor: str | None = None) -> bytes:
        """A page of trades of all of the run."""
        where: dict[str, Any] = {"pageIndex": index} if cursor is None else {"cursor": cursor, "pageIndex": 0}
        return await self.ask("get_events_by_type", eventType="TradeExecution", pageSize=PAGE, **where)

    async def order(self, name: str) -> bytes:
        about = {"entityType": "OrderId", "entityValue": name}
        return await self.ask("get_events_by_entity", **about, pageSize=PAGE, pageIndex=0)

    async def prices(self) -> bytes:
        six = ["count", "sum", "avg", "min", "max", "stddev"]
        about = {"eventType": "TradeExecution", "propertyPath": "$.Price", "aggregations": six}
        return await self.ask("aggregate_metrics", **about, stddevKind="population")

    async def state(self, time_text: str, *, whole: bool = True) -> bytes:
        parts = {"includeIndicators": whole, "includeActiveOrders": whole}
        return await self.ask("get_state_snapshot", timestamp=time_text, **parts)

    async def chain(self, root: str) -> bytes:
        about = {"rootEventId": root, "findIncomplete": False, "maxDepth": 10}
        return await self.ask("query_event_sequence", **about, pageSize=50, pageIndex=0)

    async def cursor_before(self, index: int) -> str:
        """The cursor that the page before this one ends with."""
        return json.loads(await self.page(index - 1))["metadata"]["nextCursor"]

    async def trade(self, index: int) -> dict[str, Any]:
        """The first trade of a page."""
        return json.loads(await self.page(index))["events"][0]


# --- the lists ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere in the run: a page of trades, and of its first trade the order and the time."""

    page: int
    order: str
    time: str


async def places(asker: Asker) -> list[Place]:
    """Places spread over the middle half of the run, in an order that jumps about."""
    pages = json.loads(await asker.page())["metadata"]["totalCount"] // PAGE
    found: list[Place] = []
    for number in range(PLACES):
        index = max(1, pages // 4 + pages * (number * _JUMP % PLACES) // PLACES // 2)
        trade = await asker.trade(index)
        found.append(Place(index, trade["properties"]["OrderId"], trade["timestamp"]))
    return found


async def questions(asker: Asker, table: Table) -> list[Question]:
    """Everything that both are asked about the run."""
    run, at = asker.run, await places(asker)
    cursors = [await asker.cursor_before(place.page) for place in at]
    span = await _span(asker)

    def positions(turn: int) -> Sequence[Any]:
        return table.ask(rival.POSITIONS, run, at[turn].time)

    def states(turn: int) -> Sequence[Any]:
        return [positions(turn), table.ask(rival.INDICATORS, run, at[turn].time)]

    def order(turn: int) -> Sequence[Any]:
        return table.ask(rival.BY_ORDER, run, at[turn].order)

    def prices(_: int) -> Sequence[Any]:
        return table.ask(rival.AGGREGATE, "$.Price", run, "TradeExecution", *span)

    def deep(turn: int) -> Sequence[Any]:
        return table.ask(rival.PAGE, run, "TradeExecution", *span, at[turn].page * PAGE)

    async def told(turn: int) -> bytes:
        return await asker.state(at[turn].time, whole=False)

    async def continued(turn: int) -> bytes:
        return await asker.page(cursor=cursors[turn])

    mine = await alone(asker, at)
    return [
        Question("by order", mine["by order"], order, _same_events),
        Question("snapshot", mine["snapshot"], states, _same_state),
        Question("snapshot, positions alone", told, positions, _same_positions),
        Question("aggregate", mine["aggregate"], prices, _same_figures),
        Question("deep page by cursor", continued, deep, _same_events),
        Question("deep page by pageIndex", mine["deep page"], deep, _same_events),
    ]


async def alone(asker: Asker, at: Sequence[Place]) -> dict[str, Ours]:
    """What has a limit of its own, whoever else might answer it."""
    roots = [await _root(asker, place.order) for place in at]
    return {
        "page": lambda _: asker.page(),
        "deep page": lambda turn: asker.page(at[turn].page),
        "by order": lambda turn: asker.order(at[turn].order),
        "chain": lambda turn: asker.chain(roots[turn]),
        "snapshot": lambda turn: asker.state(at[turn].time),
        "aggregate": lambda _: asker.prices(),
    }


async def _root(asker: Asker, order: str) -> str:
    """The event that the order's chain begins with, two steps before it was placed."""
    placed = json.loads(await asker.order(order))["events"][0]
    above = json.loads(await asker.chain(placed["parentEventId"]))["sequences"][0]["events"][0]
    return above["parentEventId"]


async def _span(asker: Asker) -> tuple[str, str]:
    """Times around all of the run."""
    found = await asker.shelf.read(asker.run, lambda recording: recording.times)
    if found is None:
        raise Misbehaved("the run holds no events")
    return iso(found[0]), iso(found[1])


# --- agreement ----------------------------------------------------------------------------------------


def _same_events(ours: Any, theirs: Sequence[Any]) -> bool:
    mine = [(event["timestamp"], event["eventType"], event["properties"]) for event in ours["events"]]
    others = [(row[3], row[4], json.loads(row[7])) for row in theirs]
    return bool(mine) and mine == others


def _same_positions(ours: Any, theirs: Sequence[Any]) -> bool:
    mine = {position["securitySymbol"]: position["quantity"] for position in ours["state"]["positions"]}
    return bool(mine) and mine == {symbol: json.loads(text)["Quantity"] for symbol, text, _ in theirs}


def _same_state(ours: Any, theirs: Sequence[Any]) -> bool:
    positions, means = theirs
    mine = {(item["name"], item["securitySymbol"]): item["value"] for item in ours["state"]["indicators"]}
    others = {(name, symbol): json.loads(text)["Value"] for name, symbol, text, _ in means}
    return bool(mine) and mine == others and _same_positions(ours, positions)


def _same_figures(ours: Any, theirs: Sequence[Any]) -> bool:
    """Theirs is binary, so equal to nine digits."""
    count, total, mean, least, greatest, squares = theirs[0]
    deviation = math.sqrt(max(0.0, squares - mean * mean))
    found = ours["aggregations"]
    pairs = zip(
        (total, mean, least, greatest, deviation),
        (found[name] for name in ("sum", "avg", "min", "max", "stddev")),
        strict=True,
    )
    return found["count"] == count and all(math.isclose(a, float(b), rel_tol=1e-9) for a, b in pairs)


# --- asking -------------------------------------------------------------------------------------------


async def compare(asked: Sequence[Question], ours_times: int, theirs_times: int) -> dict[str, Found]:
    """Both sides of every question in turns, after one answer each that must agree."""
    found = {question.name: Found() for question in asked}
    for question in asked:
        if not question.agree(json.loads(await question.ours(0)), question.theirs(0)):
            raise Misbehaved(f"{question.name}: the two stores answer differently")
    each = max(1, ours_times // theirs_times)
    for round_number in range(theirs_times):
        for question in asked:
            sides = found[question.name]
            _timed(sides.theirs, question.theirs, round_number % PLACES)
            await repeat(sides.ours, question.ours, each, round_number * each)
    return found


def _timed(times: Times, work: Theirs, turn: int) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    work(turn)
    times.wall.append(time.perf_counter() - wall)
    times.cpu.append(time.process_time() - cpu)


async def repeat(times: Times, ask: Ours, count: int, first: int = 0) -> None:
    """Ask so often, one after the other, about one place after the other."""
    for number in range(first, first + count):
        wall, cpu = time.perf_counter(), time.process_time()
        await ask(number % PLACES)
        times.wall.append(time.perf_counter() - wall)
        times.cpu.append(time.process_time() - cpu)


async def throughput(ask: Ours, readers: int, calls: int) -> float:
    """Answers a second while so many ask at once, each as soon as it has its last answer."""

    async def reader(number: int) -> None:
        for call in range(calls // readers):
            await ask((number + call) % PLACES)

    began = time.perf_counter()
    await asyncio.gather(*(reader(number) for number in range(readers)))
    return calls // readers * readers / (time.perf_counter() - began)
