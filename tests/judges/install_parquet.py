"""Brings the reader of exported Parquet files, exactly as locked: `python -m tests.judges.install_parquet`.

It is pyarrow in a folder of its own, which tests put on the path: most installations do without it.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.judges.support import ROOT

HOME: Final = ROOT / ".judges" / "parquet"
LOCK: Final = Path(__file__).parent / "parquet.lock"
_PACKAGES: Final = HOME / "packages"
_STAMP: Final = HOME / "installed.sha256"


def main() -> int:
    """Install what the lock says, unless it is there already."""
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if _STAMP.exists() and _STAMP.read_text(encoding="ascii") == wanted:
        print(f"pyarrow is up to date in {HOME.relative_to(ROOT)}")
        return 0
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")
    command = [sys.executable, "-m", "pip", "install", *quiet, "--target", str(_PACKAGES), "-r", str(LOCK)]
    subprocess.run(command, check=True)
    _STAMP.write_text(wanted, encoding="ascii")
    return 0


def require() -> Path:
    """Return the folder to put on the path, or fail with the command that fills it."""
    assert _PACKAGES.exists(), (
        f"{_PACKAGES.relative_to(ROOT)} is missing; run: python -m tests.judges.install_parquet"
    )
    return _PACKAGES


if __name__ == "__main__":
    sys.exit(main())
