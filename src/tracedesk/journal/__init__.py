"""Durable streams of events: append, read, cursor, chain, seal, verify; nothing else."""

from tracedesk.journal.append import Beside, Journal
from tracedesk.journal.cursor import Cursor
from tracedesk.journal.model import (
    BadEntry,
    Entry,
    Event,
    Head,
    JournalBusy,
    JournalError,
    OldFraming,
    Seal,
    SeqConflict,
    Status,
    Stream,
    StreamPruned,
    StreamSealed,
    UnknownStream,
)
from tracedesk.journal.read import Reader
from tracedesk.journal.verify import Fault, Report, verify

__all__ = [
    "BadEntry",
    "Beside",
    "Cursor",
    "Entry",
    "Event",
    "Fault",
    "Head",
    "Journal",
    "JournalBusy",
    "JournalError",
    "OldFraming",
    "Reader",
    "Report",
    "Seal",
    "SeqConflict",
    "Status",
    "Stream",
    "StreamPruned",
    "StreamSealed",
    "UnknownStream",
    "verify",
]
