"""Faults that can be switched on, so that clients meet what a real venue does to them on bad days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, get_args

from tracedesk.primitives.time import MILLISECOND

Kind = Literal[
    "drop_before",
    "drop_after",
    "error_before",
    "error_after",
    "timeout_before",
    "timeout_after",
    "delay_before",
    "delay_after",
    "limit",
    "ban",
    "malformed",
    "drop_event",
    "duplicate_event",
    "reorder_event",
    "stale_snapshot",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""Those with `_before` come before a request is acted upon, those with `_after` when its effect stands."""
FOREVER: Final = 0


@dataclass(slots=True)
class Fault:
    """What happens to the requests or streams whose name fits a pattern."""

    kind: Kind
    on: str = "*"
    """A method by its name in the WebSocket API (REST requests too), or a stream; `*` is anything."""
    times: int = 1
    """How often it happens; 0 for as long as it is set."""
    every: int = 1
    """Only each so-many-th that fits is hit."""
    seconds: float = 0.0
    """How long a delay takes; on the exchange's clock."""
    status: int = 503
    """Of an error."""
    fitted: int = field(default=0, init=False)
    hit: int = field(default=0, init=False)

    def strikes(self, kind: Kind, name: str) -> bool:
        """Whether it hits this one; counts what fits."""
        if kind != self.kind or self.is_spent or not fnmatchcase(name, self.on):
            return False
        self.fitted += 1
        if self.fitted % self.every:
            return False
        self.hit += 1
        return True

    @property
    def is_spent(self) -> bool:
        return self.times != FOREVER and self.hit >= self.times

    def document(self) -> dict[str, Any]:
        terms = {"kind": self.kind, "on": self.on, "times": self.times, "every": self.every}
        return {**terms, "seconds": self.seconds, "status": self.status, "hit": self.hit}


class Faults:
    """The faults of one exchange, and how far its clock is off."""

    def __init__(self) -> None:
        self.skew_ns = 0
        """What the exchange believes to be later than the true time."""
        self._faults: list[Fault] = []

    def set(self, fault: Fault | Mapping[str, Any]) -> Fault:
        """Switch a fault on; a mapping has the fields of `Fault`. `ValueError` says what is wrong in it."""
        made = fault if isinstance(fault, Fault) else _fault(fault)
        self._faults.append(made)
        return made

    def skew(self, milliseconds: int) -> None:
        self.skew_ns = milliseconds * MILLISECOND

    def clear(self) -> None:
        """Switch every fault off and set the clock right."""
        self._faults.clear()
        self.skew_ns = 0

    def strike(self, kind: Kind, name: str) -> Fault | None:
        """The first fault that hits this request or event, if any does."""
        if not self._faults:
            return None
        return next((fault for fault in self._faults if fault.strikes(kind, name)), None)

    def document(self) -> dict[str, Any]:
        return {
            "skew_ms": self.skew_ns // MILLISECOND,
            "faults": [fault.document() for fault in self._faults],
        }


def _fault(document: Mapping[str, Any]) -> Fault:
    allowed = ("kind", "on", "times", "every", "seconds", "status")
    strange = [name for name in document if name not in allowed]
    if strange:
        raise ValueError(f"unknown field {strange[0]!r} of a fault; it takes {', '.join(allowed)}")
    if document.get("kind") not in KINDS:
        raise ValueError(f"unknown kind {document.get('kind')!r} of fault; it is one of {', '.join(KINDS)}")
    made = Fault(**document)
    if made.every < 1 or made.times < 0 or made.seconds < 0 or not 400 <= made.status <= 599:
        raise ValueError("a fault needs every >= 1, times >= 0, seconds >= 0 and a status from 400 to 599")
    return made
