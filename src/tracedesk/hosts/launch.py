"""Starting a host as a process of its own, and being one: the two ends of the pipe that says it is ready."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from tracedesk import logs
from tracedesk.hosts import confined
from tracedesk.hosts.client import HostClient
from tracedesk.hosts.errors import HostBusy, HostFailed, HostTimeout
from tracedesk.hosts.finding import HostInfo, check_name, find_one
from tracedesk.hosts.host import GRACE, Host, Method, Work
from tracedesk.hosts.starting import STARTER, Beginning
from tracedesk.jobs import in_thread
from tracedesk.primitives import json
from tracedesk.primitives.redaction import redact_text
from tracedesk.storage import probe
from tracedesk.surroundings import for_children

log = logging.getLogger(__name__)

READY: Final = "TRACEDESK_READY_FD"
"""The environment variable that names the pipe on which a host says that it is ready, or why it is not."""
NICE: Final = 10
START_TIMEOUT: Final = 20.0
_LOG_BYTES: Final = 1_000_000
_LAST_WORDS: Final = 2_000
_LEAVING: Final = 2.0
_ASKED: Final = 0.5
_HELD: Final[list[int | None]] = []
_SWITCH: Final = 0.001
"""Seconds after which a computing thread lets the loop's thread answer; Python's own 5 ms can be felt."""


# --- the process that starts one ---------------------------------------------------------------


async def spawn(
    home: Path,
    kind: str,
    id: str,
    module: str,
    args: Sequence[str] = (),
    *,
    timeout: float = START_TIMEOUT,
    environment: Mapping[str, str] | None = None,
    outlives: bool = True,
) -> HostInfo:
    """Start `python -m module HOME KIND ID args...` as a host, which `outlives` this process or ends with it.

    Returns once it is registered and answers. Raises `HostBusy` when that host is running already,
    `HostFailed` with its last words when it ends instead, `HostTimeout` when it does neither; a host that
    came too late is killed.
    """
    check_name(kind, id)
    if (there := find_one(home, kind, id)) is not None:
        raise HostBusy(kind, id, there.pid)
    with _output(home, kind, id) as output:
        began = os.fstat(output.fileno()).st_size
        command = _command(home, kind, id, module, args)
        process, reader = _start(command, output.fileno(), home, environment, outlives)
    word = await _first_word(process, reader, timeout)
    if not word:
        raise await _untimely_end(process, home, log_path(home, kind, id), began)
    info = _ready(word, kind, id)
    async with await HostClient.connect(info) as client:
        await client.call("ping", timeout=timeout)
    return info


def log_path(home: Path, kind: str, id: str) -> Path:
    """Where the bare output of a spawned host goes; what it logs is in the home's log."""
    return logs.path(home).with_name(f"{kind}-{id}.log")


def _command(home: Path, kind: str, id: str, module: str, args: Sequence[str]) -> list[str]:
    # Without -P, a file in the home could stand in for a module.
    return [sys.executable, "-P", "-m", module, str(home.absolute()), kind, id, *args]


def _start(
    command: Sequence[str], output: int, home: Path, environment: Mapping[str, str] | None, outlives: bool
) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and the end of the pipe on which it will speak."""
    reader, writer = os.pipe()
    passed, variables = [writer], {READY: str(writer)}
    held: int | None = None
    if not outlives:
        ending, held = os.pipe()
        passed.append(ending)
        variables[STARTER] = str(ending)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=passed,
            cwd=home,
            env={**for_children(), **(environment or {}), **variables},
            start_new_session=True,
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        for fd in passed:
            os.close(fd)
    # The system closes it when this process ends, however it does.
    _HELD.append(held)
    # Someone must wait for it, or it stays a zombie for as long as this process lives.
    threading.Thread(target=process.wait, daemon=True).start()
    return process, reader


async def _first_word(process: subprocess.Popen[bytes], reader: int, timeout: float) -> bytes:
    """What the host says on its pipe, to the end of it."""
    with os.fdopen(reader, "rb") as pipe:
        reading = asyncio.ensure_future(in_thread(pipe.read))
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(reading)
        except BaseException as fault:
            await in_thread(lambda: _end(process))
            await reading
            if isinstance(fault, TimeoutError):
                raise HostTimeout(f"The host was not ready within {timeout} s and was killed.") from None
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a host that is not ready; when it is asked first, it ends the programs that it started."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        process.terminate()
        process.wait(_ASKED)
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ready(word: bytes, kind: str, id: str) -> HostInfo:
    message = json.loads(word)
    if "busy" in message:
        raise HostBusy(kind, id, message["busy"])
    if "failed" in message:
        raise HostFailed(message["failed"])
    info = HostInfo.of(message["ready"])
    if info is None:
        raise HostFailed("The host is of another version and cannot be understood.")
    return info


async def _untimely_end(process: subprocess.Popen[bytes], home: Path, output: Path, began: int) -> HostFailed:
    try:
        async with asyncio.timeout(_LEAVING):
            code = await in_thread(process.wait)
    except TimeoutError:
        _kill(process)
        return HostFailed("The host closed its pipe without a word and was killed.")
    words = last_words(output, began)
    if confined.is_out_of_memory(words):
        return HostFailed(redact_text(f"The host reached its limit of memory: {words}"), out_of_memory=True)
    if not words and (fault := probe(home)) is not None:
        words = fault.text  # the host's last words had no room either
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
    return HostFailed(redact_text(f"The host ended {how}: {words or 'it said nothing'}"))


def last_words(output: Path, began: int = 0) -> str:
    """The end of a host's bare output."""
    with output.open("rb") as file:
        file.seek(max(began, file.seek(0, os.SEEK_END) - _LAST_WORDS))
        return file.read().decode(errors="replace").strip()


def _output(home: Path, kind: str, id: str) -> BinaryIO:
    path = log_path(home, kind, id)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(fd).st_size > _LOG_BYTES:
        os.ftruncate(fd, 0)
    return os.fdopen(fd, "ab")


# --- the process that is one -------------------------------------------------------------------


def serve_host(
    home: Path,
    kind: str,
    id: str,
    methods: Mapping[str, Method],
    *,
    work: Work | None = None,
    nice: int = NICE,
    grace: float = GRACE,
    level: str = "INFO",
    beginning: Beginning | None = None,
) -> None:
    """Be a host until `stop`, SIGTERM or the end of `work`: the whole life of a host's process.

    A second signal cuts the grace short. Returns in good order, which makes the exit code 0. A host that had
    much to do before it serves brings its `beginning`.
    """
    beginning = beginning or Beginning()
    pipe = _ReadyPipe.of_environment()
    try:
        with logs.writing(home, level, echo=False):
            os.nice(nice)
            sys.setswitchinterval(_SWITCH)
            log.info("%s %s is process %d", kind, id, os.getpid())
            _run(Host(home, kind, id, methods, work=work, grace=grace), pipe, beginning)
            log.info("%s %s has ended", kind, id)
    except BaseException as fault:
        pipe.refuse(fault)
        raise


def _run(host: Host, pipe: _ReadyPipe, beginning: Beginning) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: host.stop(now=host.stopping.is_set()))
        beginning.ends()
        code = 1
        try:
            await host.serve(pipe.announce)
            code = 0
        finally:
            _leave_in_time(code)

    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())


def _leave_in_time(code: int) -> None:
    """End even when a thread of someone else's making does not: everything of ours is closed by now."""
    timer = threading.Timer(_LEAVING, os._exit, (code,))
    timer.daemon = True
    timer.start()


class _ReadyPipe:
    """The host's end of the pipe; without one, there is nobody to tell."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    @classmethod
    def of_environment(cls) -> _ReadyPipe:
        # Taken out, so that no child of the host holds the pipe open.
        given = os.environ.pop(READY, None)
        if given is None:
            return cls(None)
        os.set_inheritable(int(given), False)
        return cls(int(given))

    def announce(self, info: HostInfo) -> None:
        self._say({"ready": info.document()})

    def refuse(self, fault: BaseException) -> None:
        text = redact_text(f"{type(fault).__name__}: {fault}")
        self._say({"busy": fault.pid} if isinstance(fault, HostBusy) else {"failed": text})

    def _say(self, word: Mapping[str, Any]) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # whoever started this host has gone; it stays
                os.write(fd, json.dumps(word))
            os.close(fd)
