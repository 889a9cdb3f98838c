"""The gate's memory against a small model: any order of questions, moves of the clocks, and failures."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trading.sources.parts import NOW
from tracedesk.errors import ToolError
from tracedesk.payloads import Payloads
from tracedesk.primitives import json
from tracedesk.primitives.time import ManualClock
from tracedesk.trading.settings import Providers
from tracedesk.trading.sources.gate import Gate, Got
from tracedesk.trading.sources.seam import Fetch, Quote, invalid_symbol, network_error, unavailable

SYMBOLS = ("A", "B", "C")
TTL, UNKNOWN_TTL = 15, 60
CODES = {"good": None, "denied": "INVALID_SYMBOL", "nothing": "DATA_UNAVAILABLE", "down": "NETWORK_ERROR"}

questions = st.tuples(st.just("ask"), st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4))
pauses = st.tuples(st.just("wait"), st.sampled_from([1, 7, 15, 30, 60]))
moves = st.tuples(st.just("move"), st.integers(0, 2))
changes = st.tuples(st.just("set"), st.tuples(st.sampled_from(SYMBOLS), st.sampled_from(sorted(CODES))))
steps = st.lists(st.one_of(questions, questions, pauses, moves, changes), max_size=30)


def _failure(state: str, symbol: str) -> ToolError:
    if state == "denied":
        return invalid_symbol(symbol)
    return network_error("world", "gone") if state == "down" else unavailable(symbol, "a quote", "Wait.")


@dataclass
class World:
    """A provider whose prices count its requests, and what the gate should remember of it."""

    local: bool = True
    name: str = "world"
    kinds: tuple[str, ...] = ("quotes",)
    state: dict[str, str] = field(default_factory=lambda: dict.fromkeys(SYMBOLS, "good"))
    requests: int = 0
    kept: dict[tuple[str, int], tuple[str | None, int, float]] = field(
        default_factory=dict[tuple[str, int], tuple[str | None, int, float]]
    )

    async def quotes(self, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        self.requests += 1
        good = [symbol for symbol in symbols if self.state[symbol] == "good"]
        values = {symbol: Quote(symbol, Decimal(self.requests), now_ns) for symbol in good}
        bad = {symbol: _failure(self.state[symbol], symbol) for symbol in symbols if symbol not in good}
        return Fetch(values, bad, json.dumps({"request": self.requests, "symbols": good}))

    def expect(self, symbols: Sequence[str], clock: int, now: float) -> dict[str, tuple[str | None, int]]:
        """The code of each answer, none for a quote, and the request it comes from."""
        wanted = list(dict.fromkeys(symbols))
        fresh = [s for s in wanted if (s, clock) in self.kept and now < self.kept[s, clock][2]]
        request = self.requests + (len(fresh) < len(wanted))
        for symbol in wanted:
            code = CODES[self.state[symbol]]
            ttl = {None: TTL, "INVALID_SYMBOL": UNKNOWN_TTL}.get(code)
            if symbol not in fresh and ttl is not None:
                self.kept[symbol, clock] = (code, request, now + ttl)
        told = {s: self.kept[s, clock][:2] for s in wanted if s in fresh}
        return {s: told.get(s, (CODES[self.state[s]], request)) for s in wanted}


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(steps)
def test_the_gate_remembers_what_the_model_does(script: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_play(script, Path(folder)))


async def _play(script: list[tuple[str, object]], folder: Path) -> None:
    world, clock, store = World(), ManualClock(), Payloads(folder)
    chosen = Providers(
        quotes=("world",), history=(), news=(), fundamentals=(), quotes_ttl=TTL, attempts=1,
        unknown_symbol_ttl=UNKNOWN_TTL,
    )  # fmt: skip
    desk, market = Gate({"world": world}, chosen, store, clock), 0
    for number, (act, value) in enumerate(script):
        if act == "wait" and isinstance(value, int):
            clock.advance(value)
        elif act == "move" and isinstance(value, int):
            market += value
        elif act == "set" and isinstance(value, tuple):
            symbol, state = value  # pyright: ignore[reportUnknownVariableType]
            world.state[str(symbol)] = str(state)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, list):
            symbols = [str(symbol) for symbol in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            expected = world.expect(symbols, market, clock.monotonic())
            answers = await desk.quotes(symbols, NOW + market, str(number))
            assert {symbol: _seen(answer, store) for symbol, answer in answers.items()} == {
                symbol: (code, None if code else request) for symbol, (code, request) in expected.items()
            }


def _seen(answer: Got[Quote] | ToolError, store: Payloads) -> tuple[str | None, int | None]:
    """The code, or the request that both the price and the payload tell."""
    if isinstance(answer, ToolError):
        return answer.code, None
    body = store.get(answer.ref.rpartition("/")[2])
    assert body is not None
    assert json.loads(body)["request"] == answer.value.price
    return None, int(answer.value.price)
