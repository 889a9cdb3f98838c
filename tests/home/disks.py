"""A small disk of its own under a home, which a test can fill and make read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A mounted tmpfs."""

    path: Path

    @property
    def home(self) -> Path:
        return self.path / "home"

    def fill(self) -> None:
        """Take every byte that is left."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            for size in (MEGABYTE, 4096, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        (self.path / "filler").unlink()

    def remount(self, mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path, megabytes: int = 48) -> Generator[SmallDisk]:
    """Mount a disk of so many megabytes, or skip the test where this user may not."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a disk of its own needs root and the command mount")
    path.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    if subprocess.run(options, check=False, capture_output=True).returncode != 0:
        pytest.skip("this system mounts no tmpfs, such as in a container without the right to")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
