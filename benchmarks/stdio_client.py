"""One client over pipes: a line out, a line back, each answer checked."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from statistics import median
from typing import Final

from benchmarks import messages
from benchmarks.measure import Memory, Sample, memory, reading, settled_reading, spent_us
from benchmarks.messages import Era, Misbehaved
from benchmarks.process import PATIENCE, Server, running

_CHUNK: Final = 1 << 16


class StdioClient:
    """Talks to one server, in one era."""

    def __init__(self, server: Server, era: Era) -> None:
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        self.server = server
        self._era: Era = era
        self._stdin = server.process.stdin
        self._stdout = server.process.stdout
        self._number = 0
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(self._stdout, select.POLLIN | select.POLLHUP)

    def open(self) -> None:
        """Shake hands where the era wants it."""
        if self._era == "handshake":
            number = self._next()
            messages.check_answered(self._ask(messages.initialize(number)), number)
            self._write(messages.initialized())

    def list_tools(self, check: Callable[[bytes, int], None] = messages.check_tools) -> None:
        number = self._next()
        check(self._ask(messages.list_tools(self._era, number)), number)

    def call(self, times: int) -> list[int]:
        """Call `echo` that often, one after the other; how long each took, in nanoseconds."""
        numbers = [self._next() for _ in range(times)]
        requests = [messages.echo(self._era, number) for number in numbers]
        waits: list[int] = []
        answers: list[bytes] = []
        for request in requests:
            started = time.perf_counter_ns()
            answers.append(self._ask(request))
            waits.append(time.perf_counter_ns() - started)
        for answer, number in zip(answers, numbers, strict=True):
            messages.check_echo(answer, number)
        return waits

    def round(self, times: int) -> Sample:
        """What `times` calls cost the server."""
        before = settled_reading(self.server.pid)
        waits = self.call(times)
        spent = spent_us(before, settled_reading(self.server.pid))
        return Sample(spent / times, median(waits) / 1000, times / (sum(waits) / 1e9))

    def memory(self) -> Memory:
        return memory(self.server.pid)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, message: bytes) -> bytes:
        self._write(message)
        while b"\n" not in self._rest:
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _write(self, message: bytes) -> None:
        try:
            self._stdin.write(message + b"\n")
        except BrokenPipeError:
            raise Misbehaved("the server closed its input") from None

    def _read(self) -> bytes:
        if not self._poll.poll(PATIENCE * 1000):
            raise Misbehaved(f"no answer within {PATIENCE:.0f} seconds")
        data: bytes | None = self._stdout.read(_CHUNK)
        if not data:
            raise Misbehaved("the server closed its output")
        return data


@contextlib.contextmanager
def connected(label: str, argv: Sequence[str], env: Mapping[str, str], era: Era) -> Generator[StdioClient]:
    """A client of a server that has shown it lists and answers `echo`."""
    with running(label, argv, env, pipes=True) as server:
        client = StdioClient(server, era)
        with server.blamed():
            client.open()
            client.list_tools()
            client.call(1)
        yield client


def cold_start(label: str, argv: Sequence[str], env: Mapping[str, str]) -> Sample:
    """CPU and wall clock from spawning a server to its answered `tools/list`."""
    started = time.perf_counter_ns()
    with running(label, argv, env, pipes=True) as server, server.blamed():
        StdioClient(server, "modern").list_tools(messages.check_answered)
        waited = time.perf_counter_ns() - started
        return Sample(spent_us({}, reading(server.pid)), waited / 1000, 1e9 / waited)
