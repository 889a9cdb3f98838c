"""A ledger that cannot be used: nothing is sent without it, and the caller is told so."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tracedesk.errors import ToolError
from tracedesk.journal import JournalError
from tracedesk.journal.sqlite import SQLiteError

FAULTS: Final = (JournalError, SQLiteError, OSError)


@contextmanager
def before_sending() -> Generator[None]:
    """Around what is read or written before anything is sent; where that fails, nothing is."""
    try:
        yield
    except FAULTS as problem:
        message = (
            f"Nothing was sent: the order ledger could not be used ({problem}). Try again; "
            "`tracedesk doctor` looks for the cause."
        )
        raise ToolError("DATABASE_ERROR", message) from None
