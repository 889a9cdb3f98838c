"""Brings the judge of exported ledgers, exactly as locked: `python -m tests.judges.install_beancount`.

It is beancount in an environment of its own: a program that users have, and no part of this one. Packages
come from wherever pip is configured to find them, and must have the locked digests.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from tests.judges.support import ROOT

HOME: Final = ROOT / ".judges" / "beancount"
CHECK: Final = HOME / "venv" / "bin" / "bean-check"
LOCK: Final = Path(__file__).parent / "beancount.lock"
_PYTHON: Final = HOME / "venv" / "bin" / "python"
_STAMP: Final = HOME / "installed.sha256"


def main() -> int:
    """Install what the lock says, unless it is there already."""
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if _STAMP.exists() and _STAMP.read_text(encoding="ascii") == wanted:
        print(f"beancount is up to date in {HOME.relative_to(ROOT)}")
        return 0
    _STAMP.unlink(missing_ok=True)
    venv.create(HOME / "venv", with_pip=True, clear=True)
    quiet = ("--quiet", "--disable-pip-version-check", "--require-hashes")
    subprocess.run([_PYTHON, "-m", "pip", "install", *quiet, "-r", LOCK], check=True)
    _STAMP.write_text(wanted, encoding="ascii")
    return 0


def require() -> Path:
    """Return `bean-check`, or fail with the command that installs it."""
    assert CHECK.exists(), (
        f"{CHECK.relative_to(ROOT)} is missing; run: python -m tests.judges.install_beancount"
    )
    return CHECK


if __name__ == "__main__":
    sys.exit(main())
