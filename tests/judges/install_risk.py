"""Brings the judges of the risk figures, exactly as locked: `python -m tests.judges.install_risk`.

They are empyrical-reloaded, skfolio and quantstats in one environment of their own. Packages come from
wherever pip is configured to find them, and must have the locked digests.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from tests.judges.support import ROOT

HOME: Final = ROOT / ".judges" / "risk"
PYTHON: Final = HOME / "venv" / "bin" / "python"
LOCK: Final = Path(__file__).parent / "risk.lock"
_STAMP: Final = HOME / "installed.sha256"
_QUIET: Final = ("--quiet", "--disable-pip-version-check", "--require-hashes")


def main() -> int:
    """Install what the lock says, unless it is there already."""
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if _STAMP.exists() and _STAMP.read_text(encoding="ascii") == wanted:
        print(f"the judges of risk are up to date in {HOME.relative_to(ROOT)}")
        return 0
    _STAMP.unlink(missing_ok=True)
    venv.create(HOME / "venv", with_pip=True, clear=True)
    subprocess.run([PYTHON, "-m", "pip", "install", *_QUIET, "-r", LOCK], check=True)
    _STAMP.write_text(wanted, encoding="ascii")
    return 0


def require(path: Path) -> Path:
    """Return something that was installed, or fail with the command that installs it."""
    assert path.exists(), f"{path.relative_to(ROOT)} is missing; run: python -m tests.judges.install_risk"
    return path


if __name__ == "__main__":
    sys.exit(main())
