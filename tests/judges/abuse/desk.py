"""The desk under attack: `tracedesk`, with a writer of records that fails at a marked one.

`python -m tests.judges.abuse.desk ARGUMENTS…` takes the arguments of `tracedesk`.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from tracedesk.calls import log
from tracedesk.cli import main

MARK: Final = "tracedesk://calls/0192f0c0-0000-7000-8000-00000000dead"
"""A reference that no call has; the record of a call that asks for it cannot be written."""


def failing(bodies: Any) -> Any:
    """The maker of records' bodies, which runs out of memory at a marked record."""

    def make(records: Any, secrets: Any) -> list[bytes]:
        made: list[bytes] = bodies(records, secrets)
        if any(MARK.encode() in body for body in made):
            raise MemoryError
        return made

    return make


if __name__ == "__main__":
    setattr(log, "bodies", failing(log.bodies))  # noqa: B010
    sys.exit(main())
