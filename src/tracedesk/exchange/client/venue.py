"""Where a venue is reached; the client is the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The three doors of one venue, without a path after `rest` and `streams`."""

    name: str
    """The mode that uses it: sim, testnet or live."""
    rest: str
    streams: str
    ws_api: str

    @classmethod
    def sim(cls, address: Mapping[str, str]) -> Endpoints:
        """The local exchange at the address its host gave."""
        return cls("sim", address["rest"], address["streams"], address["ws_api"])


TESTNET: Final = Endpoints(
    "testnet",
    rest="https://testnet.binance.vision",
    streams="wss://stream.testnet.binance.vision",
    ws_api="wss://ws-api.testnet.binance.vision/ws-api/v3",
)
LIVE: Final = Endpoints(
    "live",
    rest="https://api.binance.com",
    streams="wss://stream.binance.com:9443",
    ws_api="wss://ws-api.binance.com:443/ws-api/v3",
)
