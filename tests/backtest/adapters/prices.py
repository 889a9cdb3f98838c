"""Real bars in the shapes that engines take."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from tracedesk.market.dataset import EMBEDDED

COLUMNS = ("open", "high", "low", "close", "volume")


@cache
def frame(symbol: str, count: int) -> Any:
    """The first bars of a symbol as a pandas frame; it is shared, so it must not be written to."""
    pandas: Any = importlib.import_module("pandas")
    bars = [EMBEDDED[symbol][index] for index in range(count)]
    columns = {name.title(): [float(getattr(bar, name)) for bar in bars] for name in COLUMNS}
    return pandas.DataFrame(columns, index=pandas.to_datetime([bar.session for bar in bars]))
