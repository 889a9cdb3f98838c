"""A process beside the desk that tells how it is scheduled, and how a process that it starts is."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Final

from tracedesk.codegraph.beside import Said, Say, serve
from tracedesk.primitives import json

MODULE: Final = "tests.codegraph.giving_way"


def scheduling() -> dict[str, Any]:
    return {
        "policy": os.sched_getscheduler(0),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "cores": sorted(os.sched_getaffinity(0)),
    }


def _tell(request: dict[str, Any], say: Say) -> Said:
    started = subprocess.run([sys.executable, "-m", MODULE, "started"], capture_output=True, check=True)
    return {"beside": scheduling(), "started": json.loads(started.stdout)}


if __name__ == "__main__":
    if sys.argv[1:] == ["started"]:
        sys.stdout.buffer.write(json.dumps(scheduling()))
    else:
        serve(_tell)
