"""Trades and logs in turn, as a desk does, until it is killed; a line on stdout when it has begun.

`python -m tests.home.pair_writer HOME NUMBER`
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from tests.trading.ledgers import WALL_NS, opening
from tracedesk.journal import Entry, Journal
from tracedesk.primitives.time import ManualClock
from tracedesk.rollback import LEDGER, TRACE, Witnesses
from tracedesk.trading.ledger import Ledger


def main(home: Path, number: str) -> None:
    witnesses, clock = Witnesses.of(home), ManualClock(WALL_NS)
    with (
        Journal(home / TRACE, clock, witness=witnesses.trace) as journal,
        Ledger(home / LEDGER, clock=clock, witness=witnesses.ledger) as ledger,
    ):
        journal.open("calls", "calls")
        for step in count():
            with ledger.writing() as writer:
                writer.append(opening(f"{number} {step}"))
            journal.append("calls", [Entry("call", step, b"{}")])
            if step == 1:
                print("begun", flush=True)


main(Path(sys.argv[1]), sys.argv[2])
