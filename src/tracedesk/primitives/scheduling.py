"""How long a process may have a core at a time, where Linux lets it say so (6.12 and later)."""

from __future__ import annotations

import os
import struct
import sys
from typing import Final

LONG_NS: Final = 100_000_000
"""The longest turn there is; the usual one is about 3 ms."""

_SYSCALL: Final = {"x86_64": 314, "aarch64": 274}
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQII")
"""size, policy, flags, nice, priority, runtime, deadline, period, and two bounds of utilisation."""


def take_long_turns(process: int, nice: int) -> None:
    """Have a process of batch work, and all that it will start, taken off its core by whoever wakes up.

    Its share of the core stays: who asks for longer turns is only put behind those who ask for shorter ones,
    and they need not wait for the turn to end. Systems that know no such thing leave everything as it is.
    """
    import ctypes
    import platform

    number = _SYSCALL.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_BATCH, 0, nice, 0, LONG_NS, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), ctypes.c_int(process), wanted, ctypes.c_uint(0)) != 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
