"""What a forked child must not keep.

A child that lives on with a copy of its host's lock, listener or connections would make a dead host look
alive: clients would wait for an answer instead of seeing the end.
"""

from __future__ import annotations

import contextlib
import os

_own: set[int] = set()


def keep(fd: int) -> int:
    """Close this descriptor in every child that is forked from now on."""
    _own.add(fd)
    return fd


def let_go(fd: int) -> None:
    """This descriptor is about to be closed here too."""
    _own.discard(fd)


def _close_all() -> None:
    for fd in _own:
        with contextlib.suppress(OSError):
            os.close(fd)
    _own.clear()


os.register_at_fork(after_in_child=_close_all)
