"""A process that records until it is killed, and says after each flush how far it is durable."""

from __future__ import annotations

import itertools
import sys
from typing import Final

from tests.backtest.streams import causal
from tracedesk.backtest import Recorder

STEP: Final = 97
SAMPLES: Final = 20_000


def work(home: str, run: str, fast: bool) -> None:
    recorder = Recorder(home, "victim", run_id=run, fast=fast, batch=50, seconds=0.001)
    print("ready", flush=True)
    for seq, sample in enumerate(itertools.cycle(causal(SAMPLES)), 1):
        parent = sample.parent if seq <= SAMPLES else None
        recorder.emit(sample.type, sample.time_ns, sample.properties, parent=parent)
        if seq % STEP == 0:
            print(recorder.flush(), flush=True)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], sys.argv[3] == "fast")
