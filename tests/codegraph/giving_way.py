"""A process beside the desk that tells how it is scheduled, and how a process that it starts is."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from typing import Any, Final

from tracedesk.codegraph.beside import Said, Say, serve
from tracedesk.primitives import json

MODULE: Final = "tests.codegraph.giving_way"
_GET_ATTRIBUTES: Final = {"x86_64": 315, "aarch64": 275}
_SHAPE: Final = "=IIQiIQQQ"


def turn_ns() -> int | None:
    """How long this process would like to stay on a core; None where that cannot be asked."""
    number = _GET_ATTRIBUTES.get(os.uname().machine)
    if number is None:
        return None
    told = ctypes.create_string_buffer(struct.calcsize(_SHAPE))
    if ctypes.CDLL(None).syscall(number, 0, told, len(told), 0):
        return None
    return struct.unpack(_SHAPE, told.raw)[5] or None


def scheduling() -> dict[str, Any]:
    return {
        "policy": os.sched_getscheduler(0),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "turn_ns": turn_ns(),
    }


def _tell(request: dict[str, Any], say: Say) -> Said:
    started = subprocess.run([sys.executable, "-m", MODULE, "started"], capture_output=True, check=True)
    return {"beside": scheduling(), "started": json.loads(started.stdout)}


if __name__ == "__main__":
    if sys.argv[1:] == ["started"]:
        sys.stdout.buffer.write(json.dumps(scheduling()))
    else:
        serve(_tell)
