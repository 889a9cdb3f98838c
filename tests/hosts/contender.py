"""A process that fights others for one name: `python -m tests.hosts.contender HOME SEED ROUNDS`."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from tracedesk.hosts.errors import HostBusy
from tracedesk.hosts.finding import claim, find, find_one


def crash(home: Path) -> None:
    """Claim the name in a child that dies at once, and leave its registration behind."""
    child = os.fork()
    if child == 0:
        try:
            claim(home, "prize", "one")
        finally:
            os._exit(9)
    os.waitpid(child, 0)


def win(home: Path) -> bool:
    """Hold the name for a moment, if it can be had, and see that it really is held alone."""
    try:
        held = claim(home, "prize", "one")
    except HostBusy:
        return False
    (home / "inside").mkdir()  # fails if another holder is inside
    find(home)
    assert find_one(home, "prize", "one") == held.info
    assert held.info.socket.exists()
    (home / "inside").rmdir()
    held.release()
    return True


def main() -> None:
    home, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    sys.stdin.read()
    wins = 0
    for _ in range(rounds):
        match chance.randrange(4):
            case 0:
                crash(home)
            case 1:
                find(home)
            case _:
                wins += win(home)
    print(wins)


if __name__ == "__main__":
    main()
