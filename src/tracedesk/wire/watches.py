"""Who follows which resource, in either era; each is told under the URI that they gave."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tracedesk.contract import Arguments, Call, Tool, as_tool
from tracedesk.hooks import Watched
from tracedesk.primitives.redaction import Secrets, redact_text
from tracedesk.registry import Registry, ResourceMatch
from tracedesk.wire.encode import Reply
from tracedesk.wire.sdk import (
    InMemorySubscriptionBus,
    ListenHandler,
    MCPError,
    ResourceUpdated,
    ServerEvent,
    types,
)

log = logging.getLogger(__name__)

Tell = Callable[[str], Awaitable[None]]
"""Sends one client the news that the resource it knows by this URI changed."""

Run = Callable[[Tool, Mapping[str, str]], Awaitable[Reply]]
"""Dispatches what is run like a tool, for the client that subscribes."""

STREAMS: Final = 128
"""Listening streams of the stateless era that may be open at once."""
FOLLOWED: Final = 256
"""Resources that one client or stream may follow."""
_PARTING_SECONDS: Final = 5.0


@dataclass(slots=True, eq=False)
class Watch:
    """One client's subscription to one resource."""

    uri: str
    given: str
    scope: str
    principal: str | None
    tell: Tell
    match: ResourceMatch | None
    may_read: bool = True
    begun: bool = False
    """Whether its toolset was told of its beginning, and must be told of its end."""

    async def notify(self) -> None:
        await self.tell(self.given)


class Watches:
    """The subscriptions of a desk, by canonical URI."""

    def __init__(
        self, registry: Registry, state: Callable[[str], Awaitable[Any]], secrets: Secrets | None = None
    ) -> None:
        self._registry = registry
        self._state = state
        self._secrets = secrets
        self._by_uri: dict[str, dict[Watch, None]] = {}
        self._parting: set[asyncio.Task[None]] = set()

    async def follow(self, watch: Watch, run: Run) -> Reply | None:
        """Begin a subscription; a toolset that wants to hear of it is called like a reading.

        A reply that is an error refuses it.
        """
        match = watch.match
        if match is not None and match.resource.subscribable and self._hook(match) is not None:

            async def begin(arguments: Arguments, call: Call[Any]) -> None:
                watch.begun = True
                await self._tell_toolset(watch, True)

            tool = replace(as_tool(match.resource), name=f"watch {match.resource.uri}", handler=begin)
            try:
                reply = await run(tool, match.arguments)
            except BaseException:
                self.end(watch)
                raise
            if reply.is_error:
                self.end(watch)
                return reply
        self._by_uri.setdefault(watch.uri, {})[watch] = None
        return None

    def end(self, watch: Watch) -> None:
        """Forget a subscription at once; its toolset hears of it right after."""
        followers = self._by_uri.get(watch.uri, {})
        followers.pop(watch, None)
        if not followers:
            self._by_uri.pop(watch.uri, None)
        if watch.begun:
            watch.begun = False
            task = asyncio.get_running_loop().create_task(self._part(watch))
            self._parting.add(task)
            task.add_done_callback(self._parting.discard)

    async def notify(self, uri: str) -> None:
        """Tell everyone who follows the resource of this canonical URI."""
        for watch in tuple(self._by_uri.get(uri, ())):
            await watch.notify()

    async def close(self) -> None:
        """End them all, and wait until their toolsets have heard of it."""
        for watch in [watch for followers in self._by_uri.values() for watch in followers]:
            self.end(watch)
        if self._parting:
            await asyncio.wait(self._parting, timeout=_PARTING_SECONDS)

    async def _part(self, watch: Watch) -> None:
        try:
            await self._tell_toolset(watch, False)
        except Exception:
            # Text, not exc_info: a kept record would keep the frames, and with them their secrets.
            trace = redact_text(traceback.format_exc(), self._secrets)
            log.error("the end of a subscription to %s failed\n%s", watch.uri, trace)

    async def _tell_toolset(self, watch: Watch, begins: bool) -> None:
        match = watch.match
        assert match is not None
        hook = self._hook(match)
        assert hook is not None
        state = await self._state(match.resource.toolset)
        await hook(watch.uri, match.arguments, state, watch, begins)

    def _hook(self, match: ResourceMatch) -> Watched | None:
        return self._registry.hooks(match.resource.toolset).watched


Follow = Callable[[str, Tell], Awaitable[Watch]]
"""`(the URI as given, how to tell its client) -> the subscription, once it has begun`."""


class Listening:
    """The open streams of the stateless era; each has a bus of its own, so that one can be told alone."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._open: dict[ListenHandler, InMemorySubscriptionBus] = {}
        self._anonymous: dict[ListenHandler, None] = {}
        """Those of callers without a token, the oldest first."""

    async def serve(
        self, ctx: Any, params: types.SubscriptionsListenRequestParams, follow: Follow, *, has_token: bool
    ) -> types.SubscriptionsListenResult:
        """One stream, until the client leaves, a token holder takes its place or the desk closes."""
        if len(self._open) >= STREAMS and not (has_token and self._make_room()):
            raise MCPError(types.INTERNAL_ERROR, "Subscription limit reached")
        given = dict.fromkeys(params.notifications.resource_subscriptions or ())
        if len(given) > FOLLOWED:
            raise too_many()
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus, max_subscriptions=1)
        self._open[handler] = bus
        if not has_token:
            self._anonymous[handler] = None
        begun: list[Watch] = []
        try:
            for uri in given:
                begun.append(await follow(uri, _teller(bus)))
            if handler not in self._open:  # a token holder took its place before it had begun
                raise MCPError(types.INTERNAL_ERROR, "Subscription limit reached")
            return await handler(ctx, params)
        finally:
            self._open.pop(handler, None)
            self._anonymous.pop(handler, None)
            for watch in begun:
                self._watches.end(watch)

    def _make_room(self) -> bool:
        """End the oldest stream of a caller without a token."""
        if not self._anonymous:
            return False
        oldest = next(iter(self._anonymous))
        del self._anonymous[oldest], self._open[oldest]
        oldest.close()
        return True

    async def publish(self, event: ServerEvent) -> None:
        """Tell every stream."""
        for bus in tuple(self._open.values()):
            await bus.publish(event)

    def close(self) -> None:
        """End every stream gracefully."""
        for handler in tuple(self._open):
            handler.close()


def too_many() -> MCPError:
    return MCPError(types.INVALID_PARAMS, f"One client follows at most {FOLLOWED} resources; end some first")


def _teller(bus: InMemorySubscriptionBus) -> Tell:
    async def tell(uri: str) -> None:
        await bus.publish(ResourceUpdated(uri=uri))

    return tell
