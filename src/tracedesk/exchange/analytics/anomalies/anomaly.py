"""One thing that was found, with what speaks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from uuid import UUID, uuid5

from tracedesk.exchange.analytics.span import Window
from tracedesk.exchange.instruments import Instrument
from tracedesk.primitives import time

Kind = Literal["QuoteStuffing", "SpoofLike", "IcebergOrder", "FlashCrashRisk"]
Severity = Literal["Low", "Medium", "High", "Critical"]

_NAMES: Final = UUID("8f6d7a0e-5a0c-4c55-9a53-0f4f4f6c2b11")
_ADVICE: Final[Mapping[Kind, str]] = {
    "QuoteStuffing": "Do not trust the depth shown in these seconds; prefer limit orders and wait it out.",
    "SpoofLike": "Do not lean on the size that was shown there; judge pressure by prints.",
    "IcebergOrder": "Expect more size at this price than the book shows.",
    "FlashCrashRisk": "Avoid market orders and stops that become such until depth and spread are back.",
}


def runs(seconds: Iterable[int]) -> list[list[int]]:
    """Numbers in order, those that follow one another together."""
    found: list[list[int]] = []
    for at in sorted(seconds):
        if found and at == found[-1][-1] + 1:
            found[-1].append(at)
        else:
            found.append([at])
    return found


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A pattern, when and where it was seen, and how sure it is."""

    kind: Kind
    severity: Severity
    confidence: float
    window: Window
    description: str
    prices: tuple[int, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def document(self, instrument: Instrument) -> dict[str, Any]:
        prices = [instrument.price_text(price) for price in self.prices]
        name = f"{instrument.symbol}/{self.kind}/{self.window.from_ns}/{','.join(prices)}"
        return {
            "anomaly_id": str(uuid5(_NAMES, name)),
            "anomaly_type": self.kind,
            "severity": self.severity,
            "confidence": round(self.confidence, 6),
            "timestamp": time.format(self.window.from_ns),
            "until": time.format(self.window.to_ns),
            "affected_price_levels": prices,
            "description": self.description,
            "recommended_action": _ADVICE[self.kind],
            "detection_details": dict(self.details),
        }
