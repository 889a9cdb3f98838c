"""Secrets of the environment: read once, then taken out of it, so that no child process inherits them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tracedesk import surroundings
from tracedesk.surroundings import API_KEY, SECRETS

__all__ = ["API_KEY", "PROCESS", "SECRETS", "Environment"]


class Environment:
    """Variables that were taken; what was taken once is known to this process for as long as it lives."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def take(self, names: Iterable[str]) -> None:
        """Move these variables out of the process's environment."""
        self._taken |= {name: value.strip() for name, value in surroundings.take(names).items()}

    def get(self, name: str) -> str:
        """A variable that was taken, or nothing."""
        return self._taken.get(name, "")

    def __repr__(self) -> str:
        return f"<Environment of {len(self._taken)} variables>"


PROCESS: Final = Environment()
"""The variables of this process."""
