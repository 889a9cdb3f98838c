"""A host before it serves: it ends at once when it is asked to, and with the process that started it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
from typing import Final

from tracedesk.hosts import confined

STARTER: Final = "TRACEDESK_STARTER_FD"
"""The environment variable that names the pipe that ends with the process that started this one."""
MEMORY: Final = 1 << 30
"""Bytes of memory of a host that is given no other limit."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Beginning:
    """The time before a host serves.

    Python runs handlers of signals between two of its own instructions only; native code may run for long. So
    signals are written to a pipe, and a thread that waits for nothing else ends the process.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        confined.limit_own_memory(memory)
        # A library that does not look whether it got memory ends the process without a word.
        faulthandler.enable(all_threads=False)
        self._is_over = threading.Event()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, _noted)
        threading.Thread(target=self._heed_signals, args=(reader,), daemon=True).start()
        given = os.environ.pop(STARTER, None)
        if given is not None:
            os.set_inheritable(int(given), False)
            threading.Thread(target=self._end_with, args=(int(given),), daemon=True).start()

    def ends(self) -> None:
        """The host serves: from now on signals are its own."""
        self._is_over.set()

    def _heed_signals(self, reader: int) -> None:
        number = os.read(reader, 1)
        if number and not self._is_over.is_set():
            _end(number[0])

    def _end_with(self, starter: int) -> None:
        while os.read(starter, 64):
            pass
        if self._is_over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            _end(signal.SIGTERM)


def _noted(number: int, _: object) -> None:
    """A handler of Python's, without which the signal would not be written to the pipe."""


def _end(number: int) -> None:
    with contextlib.suppress(Exception):
        confined.end_all()
    os._exit(128 + number)
