"""Market streams over one connection: subscriptions are counted, gaps are told, and a new line makes none."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Final, Protocol, cast

import orjson

from tracedesk.exchange.client.http import Http
from tracedesk.exchange.client.keeper import LIFE, Keeper
from tracedesk.exchange.client.line import SILENCE, CannotOpen, Line
from tracedesk.exchange.client.waiting import ended
from tracedesk.foreign import block, closed, quoted
from tracedesk.primitives.supervision import persist
from tracedesk.primitives.time import Clock

log = logging.getLogger(__name__)

OVERLAP: Final = 5.0
"""Seconds that two lines are heard at once at most, where streams are too quiet to show that they meet."""
_BATCH: Final = 200
"""Stream names in one message."""
_KEPT: Final = 200_000
"""Frames that a line may bring before it is used."""
_QUEUE: Final = 20_000
_SHUTDOWN: Final = "serverShutdown"
_ARRAYS: Final = "@arr"
_FIRST: Final = 1.0
_LONGEST: Final = 60.0
"""Seconds before a refused stream is asked for again, the first time and at most."""
_AT_ONCE: Final = -inf
_NUMBERED: Final[dict[str | None, str]] = {"trade": "t", "aggTrade": "a", None: "u"}
"""By kind of event, the member that counts; a book ticker has no kind."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream."""

    stream: str
    data: dict[str, Any]
    raw: bytes
    """The frame as it was received."""
    received_ns: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Events may be missing here."""

    reason: str


class Sink(Protocol):
    """Who hears a stream. A `ValueError` from `frame` says that the event cannot be read."""

    def frame(self, frame: Frame, /) -> None: ...

    def live(self) -> None:
        """Subscribed: from now on every event arrives."""
        ...

    def lost(self, reason: str, /) -> None:
        """Events may be missed from now on."""
        ...


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How the connection is doing."""

    connected: bool
    since_ns: int | None
    streams: int
    reconnects: int
    rollovers: int
    malformed: int
    last_error: str | None
    last_frame_ns: int | None


class Subscription:
    """One sink's hold on a stream."""

    def __init__(self, streams: Streams, name: str, sink: Sink) -> None:
        self._streams = streams
        self.name = name
        self.sink = sink

    def close(self) -> None:
        """Hear no more; the last to close ends the venue's subscription."""
        self._streams.unsubscribe(self)


@dataclass(slots=True, eq=False)
class _Heard:
    """What one line is subscribed to and has brought."""

    names: set[str] = field(default_factory=set[str])
    frames: deque[Frame] = field(default_factory=deque[Frame])
    """Events that came before the line was used."""
    first: dict[str, int] = field(default_factory=dict[str, int])
    """By stream: the first update that the line brought."""
    order: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _Refusal:
    """A stream that the venue refused, asked for by itself."""

    times: int = 0
    due: float = _AT_ONCE
    """When it is asked for again."""


class Streams:
    """The streams of one venue. It connects while something is subscribed."""

    def __init__(
        self,
        base: str,
        http: Http,
        *,
        clock: Clock,
        random: Random,
        life: float = LIFE,
        silence: float = SILENCE,
        overlap: float = OVERLAP,
    ) -> None:
        self._url = base.rstrip("/") + "/stream"
        self._http = http
        self._clock = clock
        self._random = random
        self._life = life
        self._silence = silence
        self._overlap = overlap
        self._sinks: dict[str, list[Subscription]] = {}
        self._refused: dict[str, _Refusal] = {}
        self._again: asyncio.Task[None] | None = None
        self._lines: dict[Line, _Heard] = {}
        self._primary: Line | None = None
        self._reached: dict[str, int] = {}
        """By stream: the last update that was passed on."""
        self._brought: dict[str, int] = {}
        """By stream: the last update that the line before brought, until the present one is beyond it."""
        self._moved = asyncio.Event()
        self._asked: dict[int, asyncio.Future[None]] = {}
        self._ids = 0
        self._keeper: Keeper | None = None
        self._dirty = False
        self._tending: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._since_ns: int | None = None
        self._reconnects = self._rollovers = 0
        self._last_error: str | None = None
        self._last_frame_ns: int | None = None
        self.malformed = 0

    # --- subscribing

    def subscribe(self, name: str, sink: Sink) -> Subscription:
        """Hear a stream; `sink.live` follows when the venue has confirmed, at once where it has already."""
        if name.endswith(_ARRAYS):
            raise ValueError(f"{name}: streams of many symbols are not read; subscribe to each symbol's own")
        subscription = Subscription(self, name, sink)
        self._sinks.setdefault(name, []).append(subscription)
        self._refused.pop(name, None)
        if self._primary is not None and name in self._lines[self._primary].names:
            sink.live()
        self._tend()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        held = self._sinks.get(subscription.name, [])
        if subscription in held:
            held.remove(subscription)
        if not held:
            self._sinks.pop(subscription.name, None)
            self._refused.pop(subscription.name, None)
            self._tend()

    async def frames(self, *names: str) -> AsyncGenerator[Frame | Gap, None]:
        """The events of some streams as they come; a slow reader misses some, and is told."""
        queue = _Queue()
        held = [self.subscribe(name, queue) for name in names]
        try:
            while True:
                yield await queue.next()
        finally:
            for subscription in held:
                subscription.close()

    # --- telling

    @property
    def status(self) -> StreamStatus:
        keeper = self._keeper
        return StreamStatus(
            connected=self._primary is not None,
            since_ns=self._since_ns,
            streams=len(self._sinks),
            reconnects=self._reconnects + (keeper.reconnects if keeper else 0),
            rollovers=self._rollovers + (keeper.rollovers if keeper else 0),
            malformed=self.malformed,
            last_error=self._last_error,
            last_frame_ns=self._last_frame_ns,
        )

    def listen(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Be called when the connection comes, goes or brings what cannot be read; returns how to stop."""
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    def _told(self, error: str | None = None) -> None:
        self._last_error = error if error is not None else self._last_error
        for listener in tuple(self._listeners):
            listener()

    async def close(self) -> None:
        self._sinks.clear()
        self._refused.clear()
        await ended(*(task for task in (self._tending, self._again) if task is not None))
        await self._stop()

    # --- tending the subscriptions

    def _tend(self) -> None:
        self._dirty = True
        if self._tending is None:
            self._tending = asyncio.create_task(self._tended())

    async def _tended(self) -> None:
        """Bring connection and subscriptions to what is wanted, until they are."""
        try:
            await persist("stream subscriptions", self._adjusted)
        finally:
            self._tending = None
        self._set_alarm()

    async def _adjusted(self) -> None:
        while self._dirty:
            self._dirty = False
            try:
                await self._adjust()
            except Exception:
                self._dirty = True
                raise

    def _set_alarm(self) -> None:
        """Tend again when the next stream that the line in use was refused is due."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        heard: set[str] = self._lines[self._primary].names if self._primary is not None else set()
        due = [refusal.due for name, refusal in self._refused.items() if name not in heard]
        if due and self._primary is not None:
            self._again = asyncio.create_task(self._tend_at(min(due)))

    async def _tend_at(self, due: float) -> None:
        await self._clock.sleep_until(due)
        self._let_ask_again(due)

    def _let_ask_again(self, until: float) -> None:
        """Take refused streams that are due until then for due."""
        for refusal in self._refused.values():
            refusal.due = _AT_ONCE if refusal.due <= until else refusal.due
        self._tend()

    async def _adjust(self) -> None:
        if not self._sinks:
            await self._stop()
            return
        if self._keeper is None:
            self._keeper = Keeper(self, self._connect, self._clock, self._random, life=self._life)
            self._keeper.start()
        for line in tuple(self._lines):
            try:
                await self._bring(line)
            except CannotOpen as fault:
                line.cut(str(fault))

    async def _stop(self) -> None:
        keeper = self._keeper
        if keeper is not None:
            await keeper.stop()
            self._keeper = self._primary = self._since_ns = None
            self._reconnects += keeper.reconnects
            self._rollovers += keeper.rollovers

    async def _connect(self) -> Line:
        line = await Line.open(self._http, self._url, self._clock, self._hear, self._silence)
        self._lines[line] = _Heard()
        return line

    async def _bring(self, line: Line) -> None:
        """Subscribe the line to what is wanted and to nothing else."""
        heard = self._lines.get(line)
        if heard is None:
            return
        async with heard.order:
            while line in self._lines:
                missing = self._missing(line, heard)[:_BATCH]
                needless = [name for name in heard.names if name not in self._sinks][:_BATCH]
                if missing:
                    await self._add(line, heard, missing)
                elif needless:
                    heard.names.difference_update(needless)
                    await self._leave(line, needless)
                else:
                    return

    def _missing(self, line: Line, heard: _Heard) -> list[str]:
        """What the line must be subscribed to next; what was refused is kept apart from the others,
        and is asked for on the line in use only."""
        missing = [name for name in self._sinks if name not in heard.names]
        if (new := [name for name in missing if name not in self._refused]) or line is not self._primary:
            return new
        now = self._clock.monotonic()
        return [name for name in missing if self._refused[name].due <= now]

    async def _add(self, line: Line, heard: _Heard, names: list[str]) -> None:
        """Subscribe to some streams; where they are refused together, find out which are."""
        try:
            await self._ask(line, "SUBSCRIBE", names)
        except ValueError as refusal:
            if (half := len(names) // 2) == 0:
                self._was_refused(line, names[0], str(refusal))
            for part in (names[:half], names[half:]) if half else ():
                await self._add(line, heard, part)
            return
        heard.names.update(names)
        for name in names:
            self._refused.pop(name, None)
        if line is self._primary:
            self._tell_live(names)

    def _was_refused(self, line: Line, name: str, reason: str) -> None:
        if name not in self._sinks:
            return
        refusal = self._refused.setdefault(name, _Refusal())
        refusal.times += 1
        seconds = min(_LONGEST, _FIRST * 2 ** min(refusal.times - 1, 10)) * self._random.uniform(0.5, 1.0)
        refusal.due = self._clock.monotonic() + seconds
        told = f"{name}: the venue refused the subscription: {block(reason)}"
        # While another line is in use, that one may still bring the stream.
        if refusal.times == 1 and self._primary in (None, line):
            self._tell_lost([name], told)
        self._told(told)

    async def _leave(self, line: Line, names: list[str]) -> None:
        try:
            await self._ask(line, "UNSUBSCRIBE", names)
        except ValueError as refusal:
            # Nobody hears these streams, so that they are only a needless load.
            self._told(f"the venue refused to end a subscription: {block(str(refusal))}")

    async def _ask(self, line: Line, method: str, names: list[str]) -> None:
        """Send a change and wait for the answer; raises `ValueError` where it was refused."""
        self._ids += 1
        id = self._ids
        self._asked[id] = asyncio.get_running_loop().create_future()
        try:
            await line.say({"method": method, "params": names, "id": id})
            await line.reply(self._asked[id])
        finally:
            self._asked.pop(id).cancel()

    # --- what the keeper asks

    async def prepare(self, line: Line) -> None:
        await self._bring(line)

    def begin(self, line: Line) -> None:
        self._reached.clear()
        self._brought.clear()
        self._use(line)
        self._tell_live(self._lines[line].names)
        self._flush(line)

    async def joined(self, old: Line, new: Line) -> None:
        deadline = self._clock.monotonic() + self._overlap
        alarm = asyncio.ensure_future(self._clock.sleep_until(deadline))
        try:
            while not alarm.done() and self._apart(old, new):
                self._moved.clear()
                moved = asyncio.ensure_future(self._moved.wait())
                await asyncio.wait({moved, alarm}, return_when=asyncio.FIRST_COMPLETED)
                await ended(moved)
        finally:
            await ended(alarm)

    def switch(self, old: Line, new: Line) -> None:
        torn = self._torn(new)
        before, after = self._lines[old].names, self._lines[new].names
        self._brought = dict(self._reached)
        self._use(new)
        self._tell_lost(before - after, "the next connection does not bring it yet")
        self._tell_lost(torn, "the next connection began after the last one ended")
        self._tell_live(torn | (after - before))
        self._flush(new)

    def drop(self, line: Line) -> None:
        """Called when the line is closed, used or not."""
        self._lines.pop(line, None)
        if line is self._primary:
            self._primary = self._since_ns = None

    def lost(self, reason: str) -> None:
        self._primary = self._since_ns = None
        self._tell_lost(self._sinks, reason)
        self._told(reason)

    def _use(self, line: Line) -> None:
        self._primary = line
        self._since_ns = self._clock.now_ns()
        if self._refused:
            self._let_ask_again(inf)
        self._told()

    def _apart(self, old: Line, new: Line) -> set[str]:
        """The streams of which the new line has not yet shown that it continues the old one."""
        first = self._lines[new].first
        return {
            name
            for name in self._lines[old].names & self._lines[new].names
            if name not in first or first[name] > self._reached.get(name, 0) + 1
        }

    def _torn(self, new: Line) -> set[str]:
        """The streams that certainly do not continue."""
        first = self._lines[new].first
        return {n for n, start in first.items() if n in self._reached and start > self._reached[n] + 1}

    def _flush(self, line: Line) -> None:
        frames = self._lines[line].frames
        while frames:
            self._pass(frames.popleft())

    # --- what is heard

    def _hear(self, line: Line, raw: bytes) -> None:
        heard = self._lines.get(line)
        if heard is None:
            return
        self._last_frame_ns = received = self._clock.now_ns()
        try:
            document: Any = orjson.loads(raw)
        except orjson.JSONDecodeError:
            self._unreadable("a frame is not JSON")
            return
        body = cast(dict[str, Any], document if isinstance(document, dict) else {})
        if isinstance(data := body.get("data", body if "e" in body else None), dict):
            event = cast(dict[str, Any], data)
            self._event(line, heard, Frame(str(body.get("stream", "")), event, raw, received))
        elif "id" in body:
            self._answer(body)
        else:
            self._unreadable("a frame is neither an event nor an answer")

    def _event(self, line: Line, heard: _Heard, frame: Frame) -> None:
        if frame.data.get("e") == _SHUTDOWN:
            self._shutdown(line)
        elif line is self._primary:
            self._pass(frame)
        elif len(heard.frames) < _KEPT:
            heard.frames.append(frame)
            heard.first.setdefault(frame.stream, _span(frame.data)[0])
            self._moved.set()
        else:
            line.cut("it brought more than can be kept")

    def _shutdown(self, line: Line) -> None:
        if line is self._primary and self._keeper is not None:
            self._told("the venue is shutting this connection down")
            self._keeper.renew()
        else:
            line.cut("the venue is shutting it down")

    def _answer(self, body: dict[str, Any]) -> None:
        asked = self._asked.get(cast(int, body["id"]))
        if asked is None or asked.done():
            return
        error = body.get("error", body if "code" in body else None)
        if error is None:
            asked.set_result(None)
        else:
            asked.set_exception(ValueError(_message(error)))

    def _pass(self, frame: Frame) -> None:
        """Give an event to who hears it, unless the line before brought it."""
        end = _span(frame.data)[1]
        if frame.stream in self._brought:
            if 0 < end <= self._brought[frame.stream]:
                return
            del self._brought[frame.stream]
        self._reached[frame.stream] = max(end, self._reached.get(frame.stream, 0))
        self._moved.set()
        for subscription in tuple(self._sinks.get(frame.stream, ())):
            try:
                subscription.sink.frame(frame)
            except ValueError as fault:
                self._unreadable(f"{quoted(frame.stream)}: {fault}")
            except Exception as fault:
                # A reader that fails inside has missed the event, and must not end the others' line.
                log.exception("a reader of %s failed", frame.stream)
                reason = f"{quoted(frame.stream)}: its reader failed ({type(fault).__name__})"
                self._unreadable(reason)
                subscription.sink.lost(reason)
                subscription.sink.live()

    def _unreadable(self, reason: str) -> None:
        self.malformed += 1
        self._told(closed(reason[:200]))

    def _tell_live(self, names: Iterable[str]) -> None:
        for subscription in self._held(names):
            subscription.sink.live()

    def _tell_lost(self, names: Iterable[str], reason: str) -> None:
        for subscription in self._held(names):
            subscription.sink.lost(reason)

    def _held(self, names: Iterable[str]) -> list[Subscription]:
        return [each for name in tuple(names) for each in self._sinks.get(name, ())]


class _Queue:
    """A sink that keeps what it hears for one reader."""

    def __init__(self) -> None:
        self._kept: deque[Frame | Gap] = deque()
        self._more = asyncio.Event()

    def frame(self, frame: Frame) -> None:
        if len(self._kept) < _QUEUE:
            self._put(frame)
        elif not isinstance(self._kept[-1], Gap):
            self._put(Gap("the reader is too slow"))

    def live(self) -> None:
        """Nothing to keep: the first event says so."""

    def lost(self, reason: str) -> None:
        self._put(Gap(reason))

    def _put(self, item: Frame | Gap) -> None:
        self._kept.append(item)
        self._more.set()

    async def next(self) -> Frame | Gap:
        while not self._kept:
            self._more.clear()
            await self._more.wait()
        return self._kept.popleft()


def _span(data: dict[str, Any]) -> tuple[int, int]:
    """The first and last update that an event brings; what has no number has the time of the event."""
    kind = data.get("e")
    if kind is None and "lastUpdateId" in data:  # a partial book, which stands by itself
        return 0, _whole(data, "lastUpdateId")
    if kind == "depthUpdate":
        return _whole(data, "U"), _whole(data, "u")
    if kind in _NUMBERED:
        return (number := _whole(data, _NUMBERED[kind])), number
    return 0, _whole(data, "E")


def _whole(data: dict[str, Any], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0


def _message(error: object) -> str:
    told = cast(dict[str, Any], error if isinstance(error, dict) else {})
    return f"{told.get('msg', 'no reason given')} ({told.get('code')})"[:200]
