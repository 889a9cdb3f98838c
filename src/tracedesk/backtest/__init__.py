"""Backtests: record any engine's run, and ask it anything."""

from tracedesk.backtest.model import Category, EventType, Severity
from tracedesk.backtest.recorder import Recorder, RecordingError

__all__ = ["Category", "EventType", "Recorder", "RecordingError", "Severity"]
