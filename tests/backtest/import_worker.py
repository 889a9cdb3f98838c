"""An import in a process of its own that stops half way and says so: `python -m … HOME FILE LINES`."""

from __future__ import annotations

import sys
from pathlib import Path

from tracedesk.backtest import importing
from tracedesk.home import Home


def main(home: str, file: str, lines: str) -> None:
    importing.REPORT_EVERY = int(lines)

    def progress(done: float, total: float | None, words: str | None) -> None:
        if words and words.startswith("importing") and done:
            print(words, flush=True)
            sys.stdin.readline()

    importing.import_file(Home.open(Path(home)), Path(file), progress=progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
