"""What can go wrong between a host and those who need it."""

from __future__ import annotations


class HostError(Exception):
    """Something about a host, not about what was asked of it."""


class HostGone(HostError):
    """No such host is running, or it ended before it answered."""


class HostTimeout(HostError):
    """The host is there and did not answer in time."""


class HostFailed(HostError):
    """A host could not be started; the message is its own last words."""

    def __init__(self, words: str, *, out_of_memory: bool = False) -> None:
        super().__init__(words)
        self.out_of_memory = out_of_memory
        """It ended at its limit of memory."""


class HostBusy(HostError):
    """Another process already is this host."""

    def __init__(self, kind: str, id: str, pid: int | None) -> None:
        who = f"is running as process {pid}" if pid else "is held by another program"
        super().__init__(f"{kind} {id!r} {who}; stop it first, or use it.")
        self.pid = pid
