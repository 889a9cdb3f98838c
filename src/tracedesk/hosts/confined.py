"""Start the programs that read foreign code: compilers, parsers and git, with limits and a bare environment.

Every such child process begins here. It gets the variables of `KEPT` and no others; limits of memory, of
processor time, file size and the number of processes; a process group of its own; and, where `run` waits for
it, a deadline and a limit of its output. The shell that becomes the program sets the limits, so that not one
instruction of the program runs without them.

The group ends with the process that started it, even where a signal ends that one at once: a shell in the
group reads a pipe of which only the starting process holds the other end.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any, Final, Literal, cast
from weakref import WeakKeyDictionary, finalize

from tracedesk.hosts import forks
from tracedesk.primitives.temporary import work_folder

MIB: Final = 1 << 20
KEPT: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SYSTEMROOT")
"""Variables that a child process inherits."""
_LOADING: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables that this Python itself may need to start."""
_SPARE_PROCESSES: Final = 256
"""Processes and threads that a child may add to those of the machine."""
_BLOCK: Final = 512
_LOOK: Final = 0.05
_CHUNK: Final = 1 << 16
_LAST_WORDS: Final = 4_000

_RUNNING: Final[WeakKeyDictionary[subprocess.Popen[bytes], Callable[[], object]]] = WeakKeyDictionary()
"""The programs, each with the function that closes our end of its pipe."""

# $1: the pipe that ends with this process. The shell that reads it is no child of the program, which may wait
# for all of its children; it holds none of the program's pipes; and while it is there, no other group gets
# this number. Where the pipe cannot be opened by its name, that shell ends alone.
# Then KiB of memory, seconds, blocks and processes; "-" sets none. Memory is what a program may write to:
# of addresses node, Go and programs with many threads reserve far more than they use.
# The limits of this process are not the child's: both kinds of memory are lifted before one is set. Processor
# time has a second more as its hard limit: at that one the signal is SIGKILL, which does not tell the reason.
_SHELL: Final = """
( ( exec </dev/fd/"$1" || exit; while read -r _; do :; done; kill -9 0 ) >/dev/null 2>&1 & )
shift
lift() { ulimit -S "$1" "$(ulimit -H "$1")" 2>/dev/null; }
limit() { [ "$2" = - ] || ulimit "$1" "$2" 2>/dev/null; }
lift -v; lift -d; limit -d "$1"; limit -f "$3"; limit -c 0
[ "$2" = - ] || { limit -St "$2"; limit -Ht $(($2 + 1)); }
limit -u "$4" || limit -p "$4"
shift 4
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one child process."""

    memory: int
    """Bytes."""
    seconds: float | None = None
    """From start to end; none for a process that serves for as long as it is asked."""
    output: int = 128 * MIB
    """Bytes of standard output that `run` takes."""
    file_bytes: int | None = MIB
    """The largest file it may write; none leaves that open."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child process that `run` waited for."""

    status: int
    output: bytes
    errors: str
    """The end of its standard error."""


class LimitReached(RuntimeError):
    """A child process was ended, or ended itself, at one of its limits."""

    def __init__(self, limit: Literal["time", "memory", "output"], words: str) -> None:
        super().__init__(words)
        self.limit = limit


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child process: what it needs, and nothing that is only the user's."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | dict(more or {})


def python(module: str, *arguments: str) -> list[str]:
    """The command of a module of ours; `-P` keeps modules of the folder it starts in out."""
    loading = [f"{name}={os.environ[name]}" for name in _LOADING if name in os.environ]
    prefix = ["/usr/bin/env", *loading] if loading else []
    return [*prefix, sys.executable, "-P", "-m", module, *arguments]


def start(
    command: Sequence[str | Path],
    limits: Limits,
    *,
    cwd: str | Path,
    more: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] = subprocess.PIPE,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program; `end` ends it with all that it started. `FileNotFoundError` when there is none."""
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(command[0]))
    shell = ["/bin/sh", "-c", _SHELL, "confined"]
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [*shell, str(reader), *_numbers(limits), os.path.abspath(program), *command[1:]],
            cwd=cwd,
            env=environment(more),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=(reader,),
        )
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    # The group of a process that nobody ends here ends when that process is forgotten.
    _RUNNING[process] = let_go = finalize(process, _let_go, forks.keep(writer))
    let_go.atexit = False
    return process


def _let_go(writer: int) -> None:
    forks.let_go(writer)
    os.close(writer)


def end(process: subprocess.Popen[bytes]) -> int:
    """Kill a program with its process group, and wait for it."""
    if process.returncode is None:
        kill(process)
    if close := _RUNNING.pop(process, None):
        close()
    return process.wait()


def end_all() -> None:
    """Kill every program that was started here: this process ends."""
    for process in list(_RUNNING):
        if process.returncode is None:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with its process group; someone else waits for it."""
    # A process that nobody has waited for keeps its pid, so the group cannot be another's by now.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if sys.platform != "linux":
        return process.poll() is not None
    # Without waiting for it: see `_kill`.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def run(
    command: Sequence[str | Path],
    limits: Limits,
    *,
    given: bytes = b"",
    more: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program in an empty folder to its end; raises `LimitReached` with the limit in words."""
    with work_folder() as empty:
        variables = {"HOME": str(empty), "TMPDIR": str(empty), **(more or {})}
        process = start(command, limits, cwd=empty, more=variables, stderr=subprocess.PIPE)
        try:
            output, errors = _Talk(process, limits, given).to_the_end()
        finally:
            status = end(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(BrokenPipeError):
                    cast("IO[bytes]", pipe).close()
    words = errors.decode("utf-8", "replace").strip()
    if status and (found := limit_reached(status, words, limits)):
        raise found
    return Ended(status, output, words)


def limit_reached(status: int, words: str, limits: Limits) -> LimitReached | None:
    """The limit that a program hit, as far as its end shows it."""
    if status == -signal.SIGXCPU:
        return LimitReached("time", f"used its {_processor_seconds(limits)} s of processor time")
    if any(mark in words for mark in _OUT_OF_MEMORY):
        return LimitReached("memory", f"reached its limit of {limits.memory // MIB:,} MiB of memory")
    return None


_OUT_OF_MEMORY: Final = (
    "MemoryError",
    "can't start new thread",
    "memory allocation of",
    "Cannot allocate memory",
    "bad_alloc",
    "out of memory",
    "Out of memory",
    "memory access out of bounds",
    "Array buffer allocation failed",
    "could not allocate memory",
    "Not enough memory",
    "Unable to allocate",
)
"""Last words of programs that got no memory: Python, Rust, C, C++, node, WebAssembly, orjson, numpy."""


def limit_own_memory(most: int) -> None:
    """Limit the memory of this process; its children may have limits of their own, larger ones too.

    What it may write to counts. Addresses do not: the heaps of many threads reserve far more than they use.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    # Where the system does not enforce it (macOS), there is no such limit.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def is_out_of_memory(words: str) -> bool:
    """True when the last words of a process are those of one that got no memory."""
    return any(mark in words for mark in _OUT_OF_MEMORY)


def _numbers(limits: Limits) -> list[str]:
    seconds = "-" if limits.seconds is None else str(_processor_seconds(limits))
    blocks = "-" if limits.file_bytes is None else str(limits.file_bytes // _BLOCK)
    return [str(limits.memory // 1024), seconds, blocks, _processes()]


def _processor_seconds(limits: Limits) -> int:
    """Several threads use more than one second of it a second."""
    return 2 * math.ceil(limits.seconds or 0) + 1


def _processes() -> str:
    """Those of the whole machine and some more: the system counts all of the user's together."""
    try:
        running = Path("/proc/loadavg").read_text(encoding="ascii").split()[3]
    except (OSError, IndexError):
        return "-"
    return str(int(running.partition("/")[2]) + _SPARE_PROCESSES)


class _Talk:
    """Input and output of a process, until it ends or passes a limit."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits, given: bytes) -> None:
        self._process = process
        self._limits = limits
        self._left = memoryview(given)
        self._until = math.inf if limits.seconds is None else monotonic() + limits.seconds
        self._output = bytearray()
        self._errors = bytearray()

    def to_the_end(self) -> tuple[bytes, bytes]:
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            while selector.get_map() and self._goes_on():
                for key, _ in selector.select(_LOOK):
                    if not key.data(key.fd):
                        selector.unregister(key.fd)
                if _has_ended(self._process):
                    # What it started may hold its pipes open; the pipes end with all of them.
                    kill(self._process)
        while not _has_ended(self._process) and self._goes_on():
            sleep(_LOOK / 10)
        return bytes(self._output), bytes(self._errors)

    def _register(self, selector: selectors.BaseSelector) -> None:
        pipes: list[tuple[Any, int, Any]] = [
            (self._process.stdin, selectors.EVENT_WRITE, self._give),
            (self._process.stdout, selectors.EVENT_READ, self._take),
            (self._process.stderr, selectors.EVENT_READ, self._hear),
        ]
        for pipe, event, work in pipes:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe.fileno(), event, work)

    def _goes_on(self) -> bool:
        if monotonic() >= self._until:
            raise LimitReached("time", f"did not end within {self._limits.seconds:g} s")
        return True

    def _give(self, fd: int) -> bool:
        try:
            self._left = self._left[os.write(fd, self._left[:_CHUNK]) :]
        except BrokenPipeError:
            self._left = self._left[:0]
        if not self._left:
            cast("IO[bytes]", self._process.stdin).close()
        return bool(self._left)

    def _take(self, fd: int) -> bool:
        data = os.read(fd, _CHUNK)
        self._output += data
        if len(self._output) > self._limits.output:
            raise LimitReached("output", f"printed more than {self._limits.output // MIB:,} MiB")
        return bool(data)

    def _hear(self, fd: int) -> bool:
        data = os.read(fd, _CHUNK)
        self._errors = (self._errors + data)[-_LAST_WORDS:]
        return bool(data)
