"""Appends to a journal until its stdin closes; a line on stdout for each batch that is acknowledged.

`python -m tests.home.writer FILE STREAM`
"""

from __future__ import annotations

import select
import sys
from pathlib import Path

from tracedesk.journal import Entry, Journal


def main(path: Path, name: str) -> None:
    with Journal(path) as journal:
        journal.open(name, "calls")
        while not select.select([sys.stdin], [], [], 0)[0]:
            seqs = journal.append(name, [Entry("call", n, b'{"n":%d}' % n) for n in range(10)])
            print(seqs[-1], flush=True)


main(Path(sys.argv[1]), sys.argv[2])
