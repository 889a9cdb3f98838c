"""MCP over HTTP as the benchmark speaks it: the same bytes to every server, every answer checked."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from benchmarks import messages
from benchmarks.loadgen import Answer, Load, connect, request
from benchmarks.measure import Memory, Sample, memory, settled_reading, spent_us
from benchmarks.messages import VERSION, Era, Misbehaved
from benchmarks.process import Server

_CLOSED: Final = (200, 202, 204)

Check = Callable[[bytes, int], None]


@dataclass(slots=True)
class HttpClient:
    """A client of one running server."""

    server: Server
    port: int
    token: str
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def verify(self) -> None:
        """Show that the server lists and answers `echo` in both eras."""
        for era in messages.ERAS:
            async with self._opened(era, 1) as (load, session):
                await self._exchange(load, era, session, "tools/list", [next(self._ids)])
                await self._call(load, era, session, 1)

    async def warm(self, times: int) -> None:
        """Call `echo` that often in each era."""
        for era in messages.ERAS:
            async with self._opened(era, 1) as (load, session):
                await self._call(load, era, session, times)

    async def round(self, era: Era, connections: int, times: int) -> Sample:
        """What `times` calls over that many connections cost the server, once each has answered."""
        async with self._opened(era, connections) as (load, session):
            await self._call(load, era, session, connections)
            before = settled_reading(self.server.pid)
            started = time.perf_counter_ns()
            answers = await self._call(load, era, session, times)
            elapsed = time.perf_counter_ns() - started
            spent = spent_us(before, settled_reading(self.server.pid))
        p50 = median(answer.wait_ns for answer in answers)
        return Sample(spent / times, p50 / 1000, times / (elapsed / 1e9))

    def memory(self) -> Memory:
        return memory(self.server.pid)

    @contextlib.asynccontextmanager
    async def _opened(self, era: Era, connections: int) -> AsyncGenerator[tuple[Load, str | None]]:
        load = await connect(self.port, connections)
        session = await self._shake_hands(load) if era == "handshake" else None
        try:
            yield load, session
            if session is not None:
                await self._hang_up(load, session)
        finally:
            load.close()

    async def _shake_hands(self, load: Load) -> str:
        number = next(self._ids)
        [hello] = await load.send([self._post("handshake", messages.initialize(number), None, "initialize")])
        messages.check_answered(hello.body, number)
        session = hello.headers.get("mcp-session-id")
        if session is None:
            raise Misbehaved("initialize opened no session")
        ready = self._post("handshake", messages.initialized(), session, "notifications/initialized")
        _expect(await load.send([ready]), (202,))
        return session

    async def _hang_up(self, load: Load, session: str) -> None:
        _expect(await load.send([request("DELETE", self.port, self._headers("handshake", session))]), _CLOSED)

    async def _call(self, load: Load, era: Era, session: str | None, times: int) -> list[Answer]:
        numbers = [next(self._ids) for _ in range(times)]
        return await self._exchange(load, era, session, "tools/call", numbers)

    async def _exchange(
        self, load: Load, era: Era, session: str | None, method: str, numbers: Sequence[int]
    ) -> list[Answer]:
        """Send one request per number and check every answer, after the last has come."""
        build, check = _KINDS[method]
        sent = [self._post(era, build(era, number), session, method) for number in numbers]
        answers = await load.send(sent)
        _expect(answers, (200,))
        for answer, number in zip(answers, numbers, strict=True):
            check(answer.body, number)
        return answers

    def _post(self, era: Era, body: bytes, session: str | None, method: str) -> bytes:
        headers = self._headers(era, session)
        if era == "modern":
            headers["Mcp-Method"] = method
        if era == "modern" and method == "tools/call":
            headers["Mcp-Name"] = "echo"
        return request("POST", self.port, headers, body)

    def _headers(self, era: Era, session: str | None) -> dict[str, str]:
        """Every server is sent the token, though only ours checks one."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION[era],
        }
        return headers if session is None else {**headers, "Mcp-Session-Id": session}


_KINDS: Final[dict[str, tuple[Callable[[Era, int], bytes], Check]]] = {
    "tools/list": (messages.list_tools, messages.check_tools),
    "tools/call": (messages.echo, messages.check_echo),
}


def _expect(answers: Sequence[Answer], statuses: tuple[int, ...]) -> None:
    for answer in answers:
        if answer.status not in statuses:
            raise Misbehaved(f"status {answer.status}: {answer.body[:400]!r}")
