"""What a writer has appended to a stream so far: what a seal tells, without reading everything again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Events by kind, and the bounds of their times."""

    counts: Counter[str] = field(default_factory=Counter[str])
    first_ns: int | None = None
    last_ns: int | None = None

    @property
    def events(self) -> int:
        return self.counts.total()

    @property
    def by_kind(self) -> Mapping[str, int]:
        return dict(sorted(self.counts.items()))

    def add(self, other: Tally) -> None:
        """Count another tally of at least one event in."""
        self.counts.update(other.counts)
        ends = [
            end for end in (self.first_ns, self.last_ns, other.first_ns, other.last_ns) if end is not None
        ]
        self.first_ns, self.last_ns = min(ends), max(ends)
