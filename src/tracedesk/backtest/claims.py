"""Claim of a recorder by one run of an engine, so that a run never mixes two accounts.

An adapter claims its recorder when the engine starts. A second engine in the same recorder is left out, with
an event that names the reason. An adapter whose recording stopped on a fault marks the run as incomplete. It
is then sealed as crashed, so that nobody takes a part for the whole.
"""

from __future__ import annotations

import threading
from typing import Final


class Claimable:
    """The part of a recorder that adapters use."""

    def __init__(self) -> None:
        self._claims: Final = threading.Lock()
        self._engine_run: object = None
        self._incomplete: str | None = None

    @property
    def is_claimed(self) -> bool:
        """Truth of "an engine has claimed this recorder"."""
        return self._engine_run is not None

    @property
    def incomplete(self) -> str | None:
        """The reason why events are missing; None for a run that has all."""
        return self._incomplete

    def claim(self, run: object) -> object:
        """Return the engine's run that is recorded here: the given one, unless another came first."""
        with self._claims:
            if self._engine_run is None:
                self._engine_run = run
            return self._engine_run

    def mark_incomplete(self, reason: str) -> None:
        """Seal the run as crashed when it is closed; the first reason counts."""
        with self._claims:
            self._incomplete = self._incomplete or reason
