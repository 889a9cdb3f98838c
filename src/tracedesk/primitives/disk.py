"""What must outlast a power loss."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Put what a file holds, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
