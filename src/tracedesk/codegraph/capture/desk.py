"""Capture as a part of an open desk: it drains the inbox, and answers hooks that ask.

Hooks reach any desk of their home, also one that serves over stdio, at a Unix socket in `run/` that only
its user can open; programs that speak HTTP post to the desk's own address with its token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any, Final, cast

from tracedesk.codegraph.capture import bounds, inbox, reminder, traces
from tracedesk.codegraph.capture.drain import Drain, Drained, ProjectOf
from tracedesk.codegraph.capture.hooks import session_of
from tracedesk.codegraph.capture.inbox import Drop, Inbox
from tracedesk.codegraph.capture.plugin import EVENTS
from tracedesk.codegraph.capture.reminder import Similar
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.read import newest_attempt
from tracedesk.home import Home
from tracedesk.hosts import Host, HostCall, survey
from tracedesk.jobs import in_thread
from tracedesk.journal import Reader
from tracedesk.primitives.ids import uuid4
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.supervision import Supervised, persist
from tracedesk.primitives.time import Clock

log = logging.getLogger(__name__)

KIND: Final = "hooks"
"""The kind under which a desk that answers hooks is registered."""
SECONDS: Final = 2.0
"""How often the inbox is looked at when nobody asks."""
ASKING_SECONDS: Final = 0.6
"""How long a prompt waits for what was tried before."""

FindSimilar = Callable[[str, str | None], Awaitable[Sequence[Similar]]]
"""`(a prompt, its project) -> earlier attempts like it, the best first`."""
Touched = Callable[[str, Sequence[str]], Awaitable[None]]
"""Told of the files of a project that a client has changed."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What capture asks of its toolset."""

    similar: FindSimilar
    touched: Touched
    project_of: ProjectOf


class Capture:
    """Everything that arrives without being asked for."""

    def __init__(self, home: Home, etg: Etg, secrets: Secrets, clock: Clock, needs: Needs) -> None:
        self._home = home
        self._etg = etg
        self._clock = clock
        self._needs = needs
        self._drain = Drain(
            Inbox(home.inbox, secrets),
            etg,
            self._newest,
            needs.project_of,
            lambda root: etg.world.version(root),
        )
        self._draining = asyncio.Lock()
        self._asked = asyncio.Event()

    async def drain(self) -> Drained:
        """Take in everything that waits, and have changed files indexed anew."""
        async with self._draining:
            done = await in_thread(self._drain.run)
        for root, files in done.edited.items():
            await self._tell(root, sorted(files))
        return done

    async def _tell(self, root: str, files: Sequence[str]) -> None:
        """A graph that cannot follow is stale until its next update; the events are safe."""
        try:
            await self._needs.touched(root, files)
        except Exception:
            log.exception("%d changed files of a project were not indexed anew", len(files))

    async def hook(self, client: str, body: dict[str, Any]) -> str | None:
        """Take what a client's hook posts; what a prompt should be told, if anything."""
        event = body.get("hook_event_name")
        if not isinstance(event, str):
            raise inbox.Malformed("it names no event (hook_event_name)")
        drop = Drop(client, event, self._clock.now_ns(), body)
        session_of(drop)
        if event not in EVENTS:
            return None
        await in_thread(lambda: inbox.write(self._home.inbox, drop))
        self._asked.set()
        return await self.remind(drop) if event == "UserPromptSubmit" else None

    async def remind(self, drop: Drop) -> str | None:
        """What was tried before, within the time that a prompt may wait."""
        prompt, cwd = drop.hook.get("prompt"), bounds.folder(drop.hook.get("cwd"))
        if not isinstance(prompt, str) or not prompt.strip():
            return None
        try:
            async with asyncio.timeout(ASKING_SECONDS):
                root = None if cwd is None else await in_thread(lambda: self._needs.project_of(cwd))
                found = await self._needs.similar(prompt, root)
        except TimeoutError:
            log.info("a prompt was not told of earlier attempts: they took longer than %s s", ASKING_SECONDS)
            return None
        # What this very session did is in its context already.
        own = f"{drop.client}:{session_of(drop)}:"
        others = [each for each in found if not each.attempt_id.startswith(own)]
        return reminder.text(others, self._clock.now_ns())

    async def traces(self, document: bytes) -> dict[str, Any]:
        """Take a trace export; OTLP's answer to it. Raises `NotOtlp`."""
        answer, _ = await in_thread(lambda: traces.take(document, self._etg))
        return answer

    def _newest(self, prefix: str) -> tuple[str, bool] | None:
        self._etg.catch_up()
        with closing(Reader(self._etg.path)) as reader:
            return newest_attempt(reader, prefix)

    # --- what runs beside

    async def keep_draining(self) -> None:
        """Drain now, when asked, and every few seconds; a failure is told once and tried again."""
        draining = Supervised("inbox drain")
        while True:
            with draining.round():
                await self.drain()
            # Not wait_for: in Python 3.11 it can swallow the cancellation that ends this.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await self._asked.wait()
            self._asked.clear()

    async def prompt(self, params: dict[str, Any], _: HostCall) -> dict[str, Any]:
        """The method that the hook's script calls; its drop is in the inbox already."""
        self._asked.set()
        client, body = params.get("client"), params.get("hook")
        if not isinstance(client, str) or not isinstance(body, dict):
            return {"text": None}
        drop = Drop(client, "UserPromptSubmit", self._clock.now_ns(), cast("dict[str, Any]", body))
        try:
            return {"text": await self.remind(drop)}
        except inbox.Malformed:
            return {"text": None}


@asynccontextmanager
async def capturing(
    home: Home, etg: Etg, secrets: Secrets, clock: Clock, needs: Needs
) -> AsyncGenerator[Capture]:
    """Capture for as long as the body runs."""
    capture = Capture(home, etg, secrets, clock, needs)
    host = Host(home.path, KIND, f"{os.getpid()}-{uuid4()[:8]}", {"prompt": capture.prompt}, clock=clock)
    draining = asyncio.ensure_future(capture.keep_draining())
    answering = asyncio.ensure_future(persist("hook answers", lambda: _serve(host, home)))
    try:
        yield capture
    finally:
        draining.cancel()
        answering.cancel()
        await asyncio.gather(draining, answering, return_exceptions=True)


async def _serve(host: Host, home: Home) -> None:
    """Answer hooks; a home where no socket can be made still has its inbox drained."""
    try:
        # A desk that was killed left its socket, and in the temporary folder the folder of it.
        await in_thread(lambda: survey(home.path, KIND))
        await host.serve()
    except OSError as fault:
        log.warning("prompts are not told of earlier attempts: %s", fault)
