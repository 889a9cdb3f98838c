"""Continue a command in a child process, and report in words how it ended.

Native code that gets no memory ends its process at once. The process that the user started stays behind to
say so, and the child ends with it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from tempfile import TemporaryFile
from typing import IO, Final

import click

from tracedesk.cli.console import Failed
from tracedesk.fuzz.limits import MIB, Budget
from tracedesk.hosts.confined import is_out_of_memory, limit_own_memory

_LAST_WORDS: Final = 2_000


def go_on_in_a_child(budget: Budget) -> None:
    """Return in a child process with the memory of `budget`; here, wait for its end and leave as it does."""
    command = click.get_current_context().command_path
    sys.stdout.flush()
    reader, writer = os.pipe()
    with TemporaryFile() as words:
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            _become_the_child(reader, words)
            limit_own_memory(budget.limits.memory_mb * MIB)
            return
        os.close(reader)
        code = _code(pid)
        os.close(writer)
        if code >= 0:
            raise click.exceptions.Exit(code)
        words.seek(max(0, words.seek(0, os.SEEK_END) - _LAST_WORDS))
        said = words.read().decode(errors="replace").strip()
    if is_out_of_memory(said):
        raise budget.out_of_memory(f"`{command}`")
    raise Failed(f"The command's process was ended by {signal.Signals(-code).name}. {said}".rstrip())


def _become_the_child(starter: int, words: IO[bytes]) -> None:
    """Leave Ctrl-C to the starter, and keep the last words of native code apart from our own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(starter,), daemon=True).start()
    own = os.dup(sys.stderr.fileno())
    os.dup2(words.fileno(), 2)
    sys.stderr = open(own, "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors)  # noqa: SIM115


def _end_with(starter: int) -> None:
    while os.read(starter, 1):
        pass
    os._exit(1)


def _code(pid: int) -> int:
    """The exit code of the child; it ends with a wait that is interrupted."""
    try:
        _, status = os.waitpid(pid, 0)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return os.waitstatus_to_exitcode(status)
