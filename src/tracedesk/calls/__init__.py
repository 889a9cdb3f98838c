"""Call records: what was asked, by whom, how it ended, and where that is kept."""

from tracedesk.calls.book import CallBook
from tracedesk.calls.log import CallLog, RecordError
from tracedesk.calls.record import PREFIX, CallRecord, Outcome, Recorder

__all__ = ["PREFIX", "CallBook", "CallLog", "CallRecord", "Outcome", "RecordError", "Recorder"]
