"""Opens a home in a process of its own, which kills itself before the Nth thing it does to a file.

`python -m tests.home.opener HOME MIGRATIONS [N]`; it waits for a line on stdin, and prints what it did.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.home import older
from tracedesk.home import MIGRATIONS, Home

_WATCHED = ("open", "os.mkdir", "os.chmod", "os.rename")
_SETS = {"real": MIGRATIONS, "three": older.THREE, "counted": older.COUNTED}


def main(path: Path, migrations: str, last: int) -> None:
    seen: list[str] = []

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event in _WATCHED and str(args[0]).startswith(str(path)):
            seen.append(f"{event} {Path(str(args[0])).name}")
            if len(seen) == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.stdin.readline()
    sys.addaudithook(watch)
    Home.open(path, _SETS[migrations])
    done = list(seen)
    print("\n".join(done))


main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
