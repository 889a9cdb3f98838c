"""One `fuzz run`: the campaign's host is started, watched, perhaps served, and its outcome told."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from tracedesk.cli.console import Console, short_path
from tracedesk.cli.fuzz_exit import FALSIFIED, UNDECIDED
from tracedesk.cli.fuzz_view import View, view
from tracedesk.errors import ToolError
from tracedesk.fuzz import native, result
from tracedesk.fuzz.answers import falsified
from tracedesk.fuzz.archive import Archive
from tracedesk.fuzz.folder import KIND, Folder
from tracedesk.fuzz.host import GRACE
from tracedesk.fuzz.launch import Request, start
from tracedesk.home import Home
from tracedesk.hosts import HostClient, HostError, HostInfo, find_one
from tracedesk.primitives import json

LOOK: Final = 0.2
"""Seconds between two looks at the campaign."""


class Run:
    """A campaign in the foreground."""

    def __init__(
        self, console: Console, home: Home, request: Request, *, port: int | None, serve: bool
    ) -> None:
        self._console = console
        self._home = home
        self._request = request
        self._port = port
        self._serve = serve
        self._interrupted = asyncio.Event()

    async def main(self) -> int:
        """Run the campaign to its end; 1 when a test was falsified, 2 when it did not end properly."""
        folder, info = await start(self._home, self._request)
        async with AsyncExitStack() as stack:
            if self._serve:
                await stack.enter_async_context(self._serving())
            with view(quiet=self._console.json) as shown:
                await self._watch(info, shown)
        await self._gone(info)
        return self._tell(folder)

    async def _watch(self, info: HostInfo, shown: View) -> None:
        """Show the campaign until its host takes no more questions."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupted.set)
        with suppress(HostError):
            async with await HostClient.connect(info) as client:
                stopping = asyncio.ensure_future(self._stop_when_told(client))
                try:
                    await _follow(client, shown)
                finally:
                    stopping.cancel()

    async def _stop_when_told(self, client: HostClient) -> None:
        await self._interrupted.wait()
        self._console.note("Ending the campaign ...")
        with suppress(HostError, ToolError):
            await client.call("stop_campaign", {"patience": GRACE}, timeout=GRACE + 5)

    async def _gone(self, info: HostInfo) -> None:
        """Wait until the host has left; from then on its files say everything."""
        try:
            async with asyncio.timeout(GRACE + 10):
                while find_one(self._home.path, KIND, info.id) is not None:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK / 4)
        except TimeoutError:
            message = f"The campaign's process {info.pid} does not end; its outcome is not known yet."
            raise ToolError("EXECUTION_TIMEOUT", message, {"kind": "HOST_STUCK", "pid": info.pid}) from None

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[None]:
        """The desk of this home over HTTP, for as long as the campaign runs."""
        from tracedesk.desk import open_desk
        from tracedesk.serve import build_app, listen
        from tracedesk.wire.http import Bind, serving

        settings = self._console.settings(port=self._port)
        listener = listen(settings.host, settings.port)
        bind = Bind(listener, settings.host)
        async with open_desk(replace(settings, toolsets=("fuzz",))) as desk:
            app, token = build_app(desk, bind)
            async with serving(app, bind):
                self._console.note(f"Serving {bind.base}/mcp, token {token}")
                yield

    def _tell(self, folder: Folder) -> int:
        state: Mapping[str, Any] = Archive(folder).state({})
        engine = native.engine()
        target = result.Target.of(native.read(folder.spec.read_bytes()))
        points: dict[str, Any] = json.loads(folder.points.read_bytes()) if folder.points.exists() else {}
        document = result.document(state, points, target, engine)
        for warning in document["warnings"]:
            if warning not in self._request.warnings:
                self._console.note(f"Warning: {warning}")
        self._console.answer(document, "\n".join(self._words(folder, state, target)))
        if falsified(state):
            return FALSIFIED
        return UNDECIDED if result.trouble(state) or document["unsupported"] else 0

    def _words(self, folder: Folder, state: Mapping[str, Any], target: result.Target) -> list[str]:
        found = list(result.lines(state, target, native.engine()))
        corpus = folder.corpus(folder.read_plan().config)
        trouble = result.trouble(state)
        told = [f"The campaign did not end properly: {trouble}."] if trouble else []
        return [
            *found,
            "",
            *told,
            result.summary(state),
            f"Campaign {folder.id}; corpus in {short_path(corpus)}",
        ]


async def _follow(client: HostClient, shown: View) -> None:
    while True:
        try:
            state = await client.call("state", timeout=60.0)
        except ToolError:
            return  # it takes no more questions: the end is near
        shown.show(state)
        if state["status"]["state"] == "ended":
            return
        await asyncio.sleep(LOOK)
