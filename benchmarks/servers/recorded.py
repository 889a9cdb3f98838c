"""Our desk over stdio, with its recorder or with one that keeps nothing: what a record costs a call.

`python -m benchmarks.servers.recorded HOME recorded|forgotten [TOOLSET…]`: the same desk but for that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.fixtures.echo import echo
from tracedesk import serve
from tracedesk.calls import CallLog, CallRecord
from tracedesk.config import load


class Forgetful(CallLog):
    """Opens records, since dispatch needs one, and drops them when they close."""

    def open(self, call: Any, tool: Any, arguments: Any) -> CallRecord:
        return _RECORD

    def close(self, record: CallRecord, outcome: Any, code: str | None, result: bytes, us: int) -> None: ...


_RECORD = CallRecord("", "", "", None, "", None, None, 0, durable=False)


def main() -> None:
    import tracedesk.desk

    home, kind, *toolsets = sys.argv[1:]
    if kind == "forgotten":
        tracedesk.desk.CallLog = Forgetful  # pyright: ignore[reportPrivateImportUsage]
    serve.stdio(load({"home": Path(home), "toolsets": ("desk", *toolsets)}), extra=[echo])


if __name__ == "__main__":
    main()
