"""The one door to the providers: who is asked, how often, and for how long an answer holds.

Each provider's answer is kept under its kind, provider, symbol and parameters, and under the time that was
asked about unless that is the desk's own now. An answer, a request under way and an old answer serve only
questions about the same time or a little later, so none of them tells what came after it.

What a request brings is stored as a payload before anything of it is handed over, so that every value has
bytes behind it. The next provider of a list is asked when one has nothing, does not know the symbol, cannot
be reached, or takes no more requests. One that does not serve a symbol (`served`) is passed over for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final, Generic, Literal, TypeVar, cast

from tracedesk.errors import ToolError
from tracedesk.market import calendar
from tracedesk.payloads import LARGEST, Payloads
from tracedesk.primitives.time import SECOND, Clock
from tracedesk.trading.settings import BadTradingSetting, Providers
from tracedesk.trading.sources import periods
from tracedesk.trading.sources.allowance import Allowance
from tracedesk.trading.sources.seam import (
    BAD_FILE,
    DROPPED_FILE,
    Adjust,
    Fetch,
    History,
    Quote,
    Ratios,
    Series,
    Story,
    network_error,
    rate_limited,
)
from tracedesk.trading.sources.stats import Stats

T = TypeVar("T")

Kind = Literal["quotes", "daily", "history", "news", "fundamentals"]
Key = tuple[str, ...]

ENTRIES: Final = 4_096
"""Answers kept; the ones unused for longest go first."""
LONGEST_S: Final = 23 * 3_600.0
"""The most that any answer is kept: a payload that nothing refers to may be swept after a day."""
FIRST_PAUSE_S: Final = 0.25
"""The wait before the first repetition; each later one is twice as long."""
MOST_STORIES: Final = 50
"""Stories about one symbol in an answer, the newest."""
MOST_STORIES_IN_ALL: Final = 200

_NOW_NS: Final = 60 * SECOND
"""A time up to this long ago is still the desk's now: a call takes its time before it asks."""
_TRADED_ON: Final = frozenset({"quotes", "daily"})
"""Kinds that trades rest on; their bodies are kept even when the store of payloads is full."""
_MOVES_ON: Final = frozenset({"DATA_UNAVAILABLE", "INVALID_SYMBOL", "NETWORK_ERROR", "RATE_LIMITED"})
_PASSING: Final = frozenset({"NETWORK_ERROR", "RATE_LIMITED"})


@dataclass(frozen=True, slots=True)
class Got(Generic[T]):
    """A value with where it came from: the payload, who was asked, when, and the call that asked."""

    value: T
    ref: str
    provider: str
    fetched_ns: int
    cache: Literal["hit", "miss"]
    by: str
    stale: bool = False
    left_out: int = 0
    """Stories beyond the most that an answer has."""


Answer = Got[T] | ToolError


@dataclass(slots=True)
class _Entry:
    """A kept answer: what times it may be told of, and until when on the desk's own clock."""

    answer: Got[Any] | ToolError
    asked_ns: int
    until_ns: int
    until: float
    old_until: float


@dataclass(frozen=True, slots=True)
class _Flight:
    """A request under way, and the times that its answer may be told of."""

    task: asyncio.Task[dict[str, Any]]
    asked_ns: int
    until_ns: int


@dataclass(slots=True)
class _Ask(Generic[T]):
    """A question as any provider can be asked it."""

    kind: Kind
    names: tuple[str, ...]
    parameters: Key
    now_ns: int
    by: str
    ttl: float
    """Seconds that an answer holds; none for one that holds until the session's close."""
    put: Callable[[Any, Sequence[str]], Awaitable[Fetch[T]]]
    close_ns: int | None = None
    """When what is told of `now_ns` ends, if it is a session's close."""

    def until_ns(self, seconds: float) -> int:
        """The first time that an answer does not hold for any more."""
        if self.close_ns is not None:
            return self.close_ns
        return self.now_ns + max(1, round(min(seconds, LONGEST_S) * SECOND))


class Gate:
    """Asks providers for quotes, bars, news and fundamentals; one per desk, used from one event loop."""

    def __init__(
        self,
        providers: Mapping[str, Any],
        settings: Providers,
        payloads: Payloads,
        clock: Clock,
        *,
        system_clock: bool = False,
        entries: int = ENTRIES,
    ) -> None:
        """Take the providers by name and the wall's clock; `system_clock`: the market runs by it too."""
        self._providers = providers
        self._settings = settings
        self._payloads = payloads
        self._clock = clock
        self._system_clock = system_clock
        self._most = entries
        self._kept: OrderedDict[Key, _Entry] = OrderedDict()
        self._flights: dict[Key, _Flight] = {}
        self._allowances = {name: Allowance(settings.requests_per_minute, clock) for name in providers}
        self._stats = Stats(clock)
        self._writing = Lock()
        for name in (*settings.quotes, *settings.history, *settings.news, *settings.fundamentals):
            if name not in providers:
                raise BadTradingSetting(f"provider {name!r} is not there; there are {', '.join(providers)}")

    # --- questions ---------------------------------------------------------------------------------

    async def quotes(self, symbols: Sequence[str], now_ns: int, by: str) -> dict[str, Answer[Quote]]:
        """The last price of each symbol, or why there is none."""
        names, ttl = self._settings.quotes, self._settings.quotes_ttl
        ask: _Ask[Quote] = _Ask(
            "quotes", names, self._instant(now_ns), now_ns, by, ttl, lambda p, some: p.quotes(some, now_ns)
        )
        return await self._answers(ask, symbols)

    async def daily(
        self, symbols: Sequence[str], count: int, now_ns: int, by: str
    ) -> dict[str, Answer[Series]]:
        """Up to `count` of the last full sessions of each symbol."""
        ask: _Ask[Series] = _Ask(
            "daily",
            self._settings.history,
            (str(count), *self._instant(now_ns)),
            now_ns,
            by,
            float("inf"),
            lambda p, some: p.daily(some, count, now_ns),
            self._next_close(now_ns),
        )
        return await self._answers(ask, symbols)

    async def history(
        self,
        symbol: str,
        period: str,
        interval: str | None,
        now_ns: int,
        by: str,
        adjust: Adjust | None = None,
    ) -> Got[History]:
        """The bars of a period; raises the reason when there are none."""
        step = periods.check(period, interval)
        within_a_day = step in periods.INTRADAY
        ask: _Ask[History] = _Ask(
            "history",
            self._settings.history,
            (period, step, adjust or "", *self._instant(now_ns)),
            now_ns,
            by,
            self._settings.quotes_ttl if within_a_day else float("inf"),
            lambda p, some: p.history(some[0], period, step, now_ns, adjust),
            None if within_a_day else self._next_close(now_ns),
        )
        answer = (await self._answers(ask, [symbol]))[symbol]
        if isinstance(answer, ToolError):
            # A new one, because a kept error would gather the traces of all who raise it.
            raise ToolError(answer.code, answer.message, answer.details)
        if adjust not in (None, answer.value.basis):
            raise _other_basis(answer, symbol, adjust)
        return answer

    async def news(
        self, symbols: Sequence[str], since_ns: int, now_ns: int, by: str
    ) -> dict[str, Answer[tuple[Story, ...]]]:
        """The newest stories about each symbol that were published in (since_ns, now_ns], newest first."""
        ask: _Ask[tuple[Story, ...]] = _Ask(
            "news",
            self._settings.news,
            (str(now_ns - since_ns), *self._instant(now_ns)),
            now_ns,
            by,
            self._settings.news_ttl,
            lambda p, some: p.news(some, since_ns, now_ns),
        )
        found = await self._answers(ask, symbols)
        return _newest({symbol: _published_after(answer, since_ns) for symbol, answer in found.items()})

    async def fundamentals(self, symbols: Sequence[str], now_ns: int, by: str) -> dict[str, Answer[Ratios]]:
        """The ratios of each symbol."""
        names, ttl = self._settings.fundamentals, self._settings.fundamentals_ttl
        ask: _Ask[Ratios] = _Ask(
            "fundamentals",
            names,
            self._instant(now_ns),
            now_ns,
            by,
            ttl,
            lambda p, some: p.fundamentals(some, now_ns),
        )
        return await self._answers(ask, symbols)

    def stats(self) -> list[dict[str, Any]]:
        """How each provider has done with each kind of question since the desk opened."""
        return self._stats.rows()

    async def close(self) -> None:
        """Give up the requests under way."""
        flights = {flight.task for flight in self._flights.values()}
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _instant(self, now_ns: int) -> Key:
        is_now = self._system_clock and 0 <= self._clock.now_ns() - now_ns < _NOW_NS
        return () if is_now else (str(now_ns),)

    @staticmethod
    def _next_close(now_ns: int) -> int:
        try:
            return calendar.next_close(now_ns)
        except calendar.OutsideCalendar:
            return now_ns  # No session is known to end what is kept, so nothing is kept.

    # --- who answers -------------------------------------------------------------------------------

    async def _answers(self, ask: _Ask[T], symbols: Sequence[str]) -> dict[str, Answer[T]]:
        wanted = list(dict.fromkeys(symbols))
        found: dict[str, Answer[T]] = {}
        refused: dict[str, list[tuple[str, ToolError]]] = {}
        for name in ask.names:
            left = [symbol for symbol in wanted if symbol not in found]
            answers = await self._from_one(ask, name, self._served(name, left))
            for symbol, answer in answers.items():
                if isinstance(answer, Got):
                    found[symbol] = answer
                    continue
                refused.setdefault(symbol, []).append((name, answer))
                if answer.code not in _MOVES_ON:
                    found[symbol] = _verdict(refused[symbol])
            if len(found) == len(wanted):
                break
        return {symbol: found.get(symbol) or self._last_resort(ask, symbol, refused) for symbol in wanted}

    def _served(self, name: str, symbols: list[str]) -> list[str]:
        """Return the symbols that the provider may be asked for, or answer from what it said before."""
        served = getattr(self._providers[name], "served", None)
        return symbols if served is None else served(symbols)

    def _last_resort(
        self, ask: _Ask[T], symbol: str, refused: Mapping[str, list[tuple[str, ToolError]]]
    ) -> Answer[T]:
        """An old answer, if the settings allow one and a provider is only out of reach; else the reason."""
        errors = refused.get(symbol)
        if not errors:
            return _nobody(ask.kind, symbol)
        for name, error in errors:
            old = self._old(_key(ask, name, symbol), ask.now_ns) if error.code in _PASSING else None
            if self._settings.allow_stale and old is not None:
                return replace(cast("Got[T]", old), stale=True)
        return _verdict(errors)

    async def _from_one(self, ask: _Ask[T], name: str, symbols: Sequence[str]) -> dict[str, Answer[T]]:
        """What one provider says: from what is kept, from a request under way, or from a new one."""
        answers: dict[str, Answer[T]] = {}
        joined: dict[str, asyncio.Task[dict[str, Any]]] = {}
        missing: list[str] = []
        for symbol in symbols:
            key = _key(ask, name, symbol)
            answer = self._fresh(key, ask.now_ns)
            if answer is not None:
                answers[symbol] = answer
            elif (flight := self._under_way(key, ask.now_ns)) is not None:
                joined[symbol] = flight
            else:
                missing.append(symbol)
        if answers:
            self._stats.of(name, ask.kind).hits += len(answers)
        if missing:
            # A caller that gives up must not take the answer from those who wait for it too.
            answers |= await asyncio.shield(self._take_off(ask, name, missing))
        for symbol, flight in joined.items():
            answers[symbol] = _shared((await asyncio.shield(flight))[symbol])
        return answers

    def _fresh(self, key: Key, now_ns: int) -> Any:
        entry = self._kept.get(key)
        if entry is None or self._clock.monotonic() >= entry.until:
            return None
        if not entry.asked_ns <= now_ns < entry.until_ns:
            return None
        self._kept.move_to_end(key)
        return entry.answer

    def _under_way(self, key: Key, now_ns: int) -> asyncio.Task[dict[str, Any]] | None:
        flight = self._flights.get(key)
        return flight.task if flight and flight.asked_ns <= now_ns < flight.until_ns else None

    def _old(self, key: Key, now_ns: int) -> Got[Any] | None:
        entry = self._kept.get(key)
        if entry is None or self._clock.monotonic() >= entry.old_until:
            return None
        if not 0 <= now_ns - entry.asked_ns < LONGEST_S * SECOND:
            return None
        return entry.answer if isinstance(entry.answer, Got) else None

    def _take_off(self, ask: _Ask[T], name: str, symbols: list[str]) -> asyncio.Task[dict[str, Any]]:
        task = asyncio.create_task(self._request(ask, name, symbols))
        flight = _Flight(task, ask.now_ns, ask.until_ns(ask.ttl))
        keys = [_key(ask, name, symbol) for symbol in symbols]
        self._flights |= dict.fromkeys(keys, flight)

        def landed(done: asyncio.Task[dict[str, Any]]) -> None:
            for key in keys:
                if self._flights.get(key) is flight:
                    del self._flights[key]
            if not done.cancelled():
                done.exception()  # Seen here, because everyone who waited may be gone.

        task.add_done_callback(landed)
        return task

    # --- one provider ------------------------------------------------------------------------------

    async def _request(self, ask: _Ask[T], name: str, symbols: list[str]) -> dict[str, Any]:
        """Ask until there is an answer for each symbol; only what could not be reached is asked for again."""
        answers: dict[str, Any] = {}
        self._stats.of(name, ask.kind).misses += len(symbols)
        pause, left = FIRST_PAUSE_S, symbols
        for attempt in range(max(1, self._settings.attempts)):
            if attempt:
                await self._clock.sleep_until(self._clock.monotonic() + pause)
                pause *= 2
            answers |= await self._attempt(ask, name, left)
            left = [symbol for symbol in left if _code(answers[symbol]) == "NETWORK_ERROR"]
            if not left:
                break
        return answers

    async def _attempt(self, ask: _Ask[T], name: str, symbols: list[str]) -> dict[str, Any]:
        try:
            fetch = await self._fetch(ask, name, symbols)
        except ToolError as error:
            return dict.fromkeys(symbols, error)
        if len(fetch.body) > LARGEST and len(symbols) > 1:
            return await self._in_parts(ask, name, symbols, len(fetch.body))
        return await self._keep(ask, name, symbols, fetch)

    async def _in_parts(self, ask: _Ask[T], name: str, symbols: list[str], size: int) -> dict[str, Any]:
        """Ask again for so few symbols at a time that each body can be stored."""
        step = max(1, len(symbols) * LARGEST // (2 * size))
        answers: dict[str, Any] = {}
        for at in range(0, len(symbols), step):
            answers |= await self._attempt(ask, name, symbols[at : at + step])
        return answers

    async def _fetch(self, ask: _Ask[T], name: str, symbols: list[str]) -> Fetch[T]:
        """One request, within the provider's allowance and the time limit, counted whatever comes of it."""
        provider = self._providers[name]
        tally = self._stats.of(name, ask.kind)
        wait = self._wait(provider, name, len(symbols))
        if wait:
            error = rate_limited(name, wait)
            tally.failed(error.code)
            raise error
        begun = self._clock.monotonic()
        try:
            fetch = await self._within_limit(name, ask.put(provider, symbols))
        except Exception as error:
            tally.asked(self._clock.monotonic() - begun)
            tally.failed(error.code if isinstance(error, ToolError) else "INTERNAL_ERROR")
            raise
        tally.asked(self._clock.monotonic() - begun)
        for error in fetch.failures.values():
            tally.failed(error.code)
        if fetch.values:
            tally.succeeded()
        return fetch

    def _wait(self, provider: Any, name: str, symbols: int) -> float:
        """Seconds until the provider may be asked; a local one always may."""
        if getattr(provider, "local", False):
            return 0.0
        return self._allowances[name].take(symbols if getattr(provider, "per_symbol", False) else 1)

    async def _within_limit(self, name: str, asked: Awaitable[Fetch[T]]) -> Fetch[T]:
        limit = self._settings.timeout_ms
        work = asyncio.ensure_future(asked)
        alarm = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic() + limit / 1000))
        try:
            await asyncio.wait({work, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise network_error(name, f"no answer within {limit} ms")
            return work.result()
        finally:
            alarm.cancel()
            work.cancel()

    # --- what is kept ------------------------------------------------------------------------------

    async def _keep(self, ask: _Ask[T], name: str, symbols: list[str], fetch: Fetch[T]) -> dict[str, Any]:
        """Store the body, then the answers; without its bytes no value is handed over."""
        answers: dict[str, Any] = dict(fetch.failures)
        try:
            ref = await self._stored(ask.kind, name, fetch.body) if fetch.values else ""
        except ToolError as error:
            ref, answers = "", answers | dict.fromkeys(fetch.values, error)
        if ref:
            at = self._clock.now_ns()
            answers |= {
                symbol: Got(value, ref, name, at, "miss", ask.by) for symbol, value in fetch.values.items()
            }
        for symbol in symbols:
            answers.setdefault(symbol, _silent(ask.kind, symbol, name))
            self._remember(ask, name, symbol, answers[symbol])
        return answers

    async def _stored(self, kind: Kind, name: str, body: bytes) -> str:
        try:
            digest = await asyncio.to_thread(self._put, body, kind in _TRADED_ON)
        except OSError as error:
            raise _untraceable(name, f"it could not be written ({error.strerror})") from error
        if digest is None:
            raise _untraceable(
                name, f"it has {len(body)} bytes, and the store of payloads is full or bars it"
            )
        return f"tracedesk://payloads/{digest}"

    def _put(self, body: bytes, must: bool) -> str | None:
        with self._writing:
            return self._payloads.put(body, must=must)

    def _remember(self, ask: _Ask[T], name: str, symbol: str, answer: Answer[T]) -> None:
        if isinstance(answer, Got):
            answer, ttl = replace(answer, cache="hit"), ask.ttl
        elif answer.code == "INVALID_SYMBOL":
            ttl = float(self._settings.unknown_symbol_ttl)
        else:
            return
        key, now = _key(ask, name, symbol), self._clock.monotonic()
        until, old_until = now + min(ttl, LONGEST_S), now + LONGEST_S
        self._kept[key] = _Entry(answer, ask.now_ns, ask.until_ns(ttl), until, old_until)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)


def _key(ask: _Ask[Any], name: str, symbol: str) -> Key:
    return (ask.kind, name, symbol, *ask.parameters)


def _code(answer: Got[Any] | ToolError) -> str | None:
    return answer.code if isinstance(answer, ToolError) else None


def _shared(answer: Answer[T]) -> Answer[T]:
    """The answer to someone else's request, which this question did not cost anything."""
    return replace(answer, cache="hit") if isinstance(answer, Got) else answer


def _published_after(answer: Answer[tuple[Story, ...]], since_ns: int) -> Answer[tuple[Story, ...]]:
    """A kept answer may reach further back than this question does."""
    if isinstance(answer, ToolError) or all(story.published_ns > since_ns for story in answer.value):
        return answer
    return replace(answer, value=tuple(story for story in answer.value if story.published_ns > since_ns))


def _newest(answers: dict[str, Answer[tuple[Story, ...]]]) -> dict[str, Answer[tuple[Story, ...]]]:
    """The answers with the newest stories of each symbol and of all; each tells how many it lost."""
    stories = [
        (-story.published_ns, symbol)
        for symbol, answer in answers.items()
        if isinstance(answer, Got)
        for story in answer.value[:MOST_STORIES]
    ]
    room = Counter(symbol for _, symbol in sorted(stories)[:MOST_STORIES_IN_ALL])
    return {symbol: _cut(answer, room[symbol]) for symbol, answer in answers.items()}


def _cut(answer: Answer[tuple[Story, ...]], most: int) -> Answer[tuple[Story, ...]]:
    if isinstance(answer, ToolError) or len(answer.value) <= most:
        return answer
    return replace(answer, value=answer.value[:most], left_out=len(answer.value) - most)


# --- how a question fails -------------------------------------------------------------------------


def _verdict(errors: list[tuple[str, ToolError]]) -> ToolError:
    """The reason given: what ends the matter, a file to mend, what may pass, a file, a denial, the first.

    No provider can deny what another may know once it can be reached again, once its file is mended, or once
    the clock has come to the file's rows.
    """
    final = [error for _, error in errors if error.code not in _MOVES_ON]
    unread = [error for _, error in errors if BAD_FILE in (error.details or {})]
    passing = [error for _, error in errors if error.code in _PASSING]
    dropped = [error for _, error in errors if DROPPED_FILE in (error.details or {})]
    denial = [error for _, error in errors if error.code == "INVALID_SYMBOL"]
    error = (final or unread or passing or dropped or denial or [errors[0][1]])[0]
    if len(errors) == 1:
        return error
    asked = [{"provider": name, "code": each.code} for name, each in errors]
    return ToolError(error.code, error.message, {**(error.details or {}), "asked": asked})


def _nobody(kind: str, symbol: str) -> ToolError:
    name = "history" if kind == "daily" else kind
    message = f"No provider is set for {kind} of {symbol!r}. Name one in [trading.providers] {name}."
    return ToolError("DATA_UNAVAILABLE", message, {"symbol": symbol, "retryable": False})


def _silent(kind: str, symbol: str, name: str) -> ToolError:
    message = f"{name} says nothing about {kind} of {symbol!r}. Check the symbol, or use another provider."
    details = {"symbol": symbol, "provider": name, "retryable": False}
    return ToolError("DATA_UNAVAILABLE", message, details)


def _other_basis(got: Got[History], symbol: str, adjust: str) -> ToolError:
    message = (
        f"adjust {adjust!r}: {got.provider} has the prices of {symbol!r} as {got.value.basis!r} alone. Leave "
        "adjust out, or ask another provider."
    )
    details = {"path": ["adjust"], "symbol": symbol, "provider": got.provider, "retryable": False}
    return ToolError("DATA_UNAVAILABLE", message, details)


def _untraceable(name: str, problem: str) -> ToolError:
    message = (
        f"{name} answered, but {problem}, and a value without its source is not given. "
        "Make room with `tracedesk prune`, or ask for less."
    )
    return ToolError("DATA_UNAVAILABLE", message, {"provider": name, "retryable": False})
