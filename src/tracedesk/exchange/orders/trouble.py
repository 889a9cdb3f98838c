"""A ledger that cannot be used: nothing is sent without it, and the caller is told so."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tracedesk.errors import STANDARD, ToolError
from tracedesk.journal import JournalError
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.storage import fault_of

FAULTS: Final = (JournalError, SQLiteError, OSError)


@contextmanager
def before_sending(home: Path) -> Generator[None]:
    """Around what is read or written before anything is sent; where that fails, nothing is."""
    try:
        yield
    except FAULTS as problem:
        fault = fault_of(problem, home)
        if fault is not None:
            raise fault.error(STANDARD, "Nothing was sent: the order ledger could not be used") from None
        message = (
            f"Nothing was sent: the order ledger could not be used ({problem}). Try again; "
            "`tracedesk doctor` looks for the cause."
        )
        raise ToolError("DATABASE_ERROR", message) from None
