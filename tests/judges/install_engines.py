"""Brings the engines of the heavier adapters, exactly as locked: `python -m tests.judges.install_engines`.

NautilusTrader and vectorbt each have an environment of their own, with what the recorder needs beside them.
Packages come from wherever pip is configured to find them, and must have the locked digests.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.judges.support import ROOT

_QUIET: Final = ("--quiet", "--disable-pip-version-check", "--require-hashes")


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's environment."""

    name: str

    @property
    def home(self) -> Path:
        return ROOT / ".judges" / "engines" / self.name

    @property
    def python(self) -> Path:
        return self.home / "venv" / "bin" / "python"

    @property
    def lock(self) -> Path:
        return Path(__file__).parent / f"engines_{self.name}.lock"

    def install(self) -> None:
        """Install what the lock says, unless it is there already."""
        stamp, wanted = self.home / "installed.sha256", hashlib.sha256(self.lock.read_bytes()).hexdigest()
        if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
            print(f"{self.name} is up to date in {self.home.relative_to(ROOT)}")
            return
        stamp.unlink(missing_ok=True)
        venv.create(self.home / "venv", with_pip=True, clear=True)
        subprocess.run([self.python, "-m", "pip", "install", *_QUIET, "-r", self.lock], check=True)
        stamp.write_text(wanted, encoding="ascii")

    def require(self) -> Path:
        """Return the environment's Python, or fail with the command that installs it."""
        where = self.python.relative_to(ROOT)
        assert self.python.exists(), f"{where} is missing; run: python -m tests.judges.install_engines"
        return self.python


NAUTILUS: Final = Engine("nautilus")
VECTORBT: Final = Engine("vectorbt")


def main() -> int:
    for engine in (NAUTILUS, VECTORBT):
        engine.install()
    return 0


if __name__ == "__main__":
    sys.exit(main())
