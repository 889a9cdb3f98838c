"""A second client of a served desk while long and hostile bodies are read: its worst wait, and the memory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import pytest

from benchmarks.process import free_port
from scripts.proof.record import Recorder
from tests.judges.size import Size
from tests.support import ROOT

pytestmark = [pytest.mark.judge, pytest.mark.alone]

WORST_MS: Final = 50
ROUNDS: Final = 5
MEBIBYTE: Final = 1 << 20

BODIES: Final = {
    "900,000 fractions": b'{"a":[' + b",".join([b"1.5"] * 900_000) + b"]}",
    "500,000 fractions": b'{"a":[' + b",".join([b"1.5"] * 500_000) + b"]}",
    "450,000 objects": b'{"a":[' + b",".join([b'{"a":1}'] * 450_000) + b"]}",
    "500,000 arrays": b'{"a":[' + b",".join([b"[]"] * 500_000) + b"]}",
    "escapes": b'{"a":"' + b"\\u00e9" * 650_000 + b'"}',
    "2,000,000 levels": b'{"a":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}",
}


BARS: Final = {"900,000 fractions": "wire-wait-fractions", "450,000 objects": "wire-wait-objects"}


@contextmanager
def _desk(home: Path) -> Generator[tuple[int, int]]:
    """A served desk: its port and its process id."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fixtures.serve", "http", str(home), "echo"],
        cwd=ROOT,
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def _post(connection: socket.socket, port: int, body: bytes) -> bytes:
    head = (
        f"POST /tools/echo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    found = b""
    while b"\r\n\r\n" not in found or len(found.partition(b"\r\n\r\n")[2]) < _length(found):
        part = connection.recv(65_536)
        assert part, "the desk closed the connection"
        found += part
    return found


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])


def _worst_wait(port: int, body: bytes) -> float:
    """The longest that a second client waits for a small call while the body is read and refused."""
    done, worst, ready = threading.Event(), 0.0, threading.Event()

    def beat() -> None:
        nonlocal worst
        with socket.create_connection(("127.0.0.1", port)) as connection:
            _post(connection, port, b'{"n":1}')
            ready.set()
            while not done.is_set():
                began = perf_counter()
                _post(connection, port, b'{"n":1}')
                worst = max(worst, perf_counter() - began)

    beating = threading.Thread(target=beat)
    beating.start()
    assert ready.wait(20)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        assert b"INVALID_PARAMETER" in _post(connection, port, body)
    done.set()
    beating.join()
    return worst


def _resident(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1_024


@pytest.mark.parametrize("name", list(BODIES))
def test_a_second_client_is_answered_while_long_bodies_are_read(
    tmp_path: Path, name: str, size: Size, prove: Recorder
) -> None:
    """The least of several rounds, since other work of the machine only ever adds to a wait."""
    with _desk(tmp_path) as (port, _):
        waits = [_worst_wait(port, BODIES[name]) for _ in range(ROUNDS)]
    print(f"{name}: worst waits {', '.join(f'{wait * 1_000:.1f}' for wait in waits)} ms")
    spent = round(min(waits) * 1_000, 1)
    if name in BARS:
        prove.record(BARS[name], spent, seeds=(), details={"rounds_ms": [round(w * 1_000, 1) for w in waits]})
    size.at_most(WORST_MS, spent, f"wait beside {name}, ms")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nested_arguments_leave_the_memory_as_it_was(tmp_path: Path) -> None:
    body = b'{"y":"' + b"z" * 3_900_000 + b'","x":' + b"[" * 300 + b"]" * 300 + b"}"
    with _desk(tmp_path) as (port, process):
        for count in (5, 60):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                before = _resident(process)
                for _ in range(count):
                    assert b"64 levels" in _post(connection, port, body)
        after = _resident(process)
    print(f"resident: {before / MEBIBYTE:.0f} MB before, {after / MEBIBYTE:.0f} MB after 60 posts")
    assert after - before <= 50 * MEBIBYTE
