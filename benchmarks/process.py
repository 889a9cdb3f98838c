"""Starting servers, and stopping exactly those."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from benchmarks.messages import Misbehaved

ROOT: Final = Path(__file__).resolve().parent.parent
PATIENCE: Final = 30.0

# Left to the scheduler, a server whose threads hand work to each other costs once or twice as much,
# depending on the cores they happen to land on; one CPU for every server leaves no luck in the ratio.
_CPUS: Final = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
CLIENT_CPUS: Final = set(_CPUS[:1])
SERVER_CPUS: Final = set(_CPUS[-1:])


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and what it says beside the wire."""

    label: str
    process: subprocess.Popen[bytes]
    log: IO[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    @contextlib.contextmanager
    def blamed(self) -> Generator[None]:
        """What goes wrong in the body is this server's: say so, and show the end of its log."""
        try:
            yield
        except Misbehaved as fault:
            tail = self._tail()
            raise Misbehaved(f"{self.label}: {fault}" + (f"\n{tail}" if tail else "")) from fault

    def _tail(self) -> str:
        self.log.seek(0)
        return self.log.read()[-2000:].decode(errors="replace").strip()


@contextlib.contextmanager
def running(label: str, argv: Sequence[str], env: Mapping[str, str], *, pipes: bool) -> Generator[Server]:
    """A server for as long as the body runs."""
    with tempfile.TemporaryFile() as log:
        with _placed(SERVER_CPUS):
            process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env={**os.environ, **env},
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else log,
                stderr=log,
                bufsize=0,
            )
        try:
            yield Server(label, process, log)
        finally:
            _stop(process)


@contextlib.contextmanager
def _placed(cpus: set[int]) -> Generator[None]:
    """Run the body on these CPUs; a process started there stays there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def client_placed() -> contextlib.AbstractContextManager[None]:
    """Keep the client off the servers' CPU."""
    return _placed(CLIENT_CPUS)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    else:
        process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def free_port() -> int:
    """A port that the system gives to nobody by itself: it is still free when a server starts."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", random.randrange(20_000, 30_000)))
            return probe.getsockname()[1]


def wait_until_serving(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return once the port answers HTTP; a port may listen before anyone serves it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if _answers(port):
            return
        time.sleep(0.02)
    raise Misbehaved(f"it does not answer on its port (exit code {process.poll()})")


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as probe:
            probe.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            return probe.recv(8) == b"HTTP/1.1"
    except OSError:
        return False
