"""Backtests: record any engine's run, and ask it anything."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracedesk.backtest.model import Category, EventType, Severity
    from tracedesk.backtest.recorder import Recorder, RecordingError

__all__ = ["Category", "EventType", "Recorder", "RecordingError", "Severity"]


def __getattr__(name: str) -> Any:
    """Import what is exported when it is first used: a desk that serves needs no recorder."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "recorder" if name.startswith("Record") else "model"
    return getattr(import_module(f"{__name__}.{module}"), name)
