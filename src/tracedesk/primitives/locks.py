"""Locks on files, which end with the process that holds them."""

from __future__ import annotations

import fcntl


def try_lock(descriptor: int) -> bool:
    """Take the file for this descriptor alone; False when another has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
