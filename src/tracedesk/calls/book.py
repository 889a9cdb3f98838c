"""Calls and bodies of a home, looked up by reference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tracedesk.calls.log import CallLog, find, named
from tracedesk.calls.record import PAYLOADS, PREFIX
from tracedesk.contract import Source
from tracedesk.journal import Reader, forgetting
from tracedesk.journal.pool import ReadPool
from tracedesk.payloads import Payloads
from tracedesk.primitives import json
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.time import format

_GONE: Final = "This was forgotten on request. Its hash is left, and this record."


class CallBook:
    """Finds a call whether it is running, waiting to be written, or written by any desk of this home."""

    def __init__(self, log: CallLog, payloads: Payloads) -> None:
        self._log = log
        self._payloads = payloads
        self._pool = ReadPool(log.path)

    async def resolve(self, ref: str) -> Source | None:
        """The call or body behind a reference, or behind a bare call id."""
        if ref.startswith(PAYLOADS):
            return await asyncio.to_thread(self._payload, ref)
        if not is_uuid(ref.removeprefix(PREFIX)):
            return None
        waiting = self._log.pending(ref)
        if waiting is not None:
            return waiting
        if not self._log.path.exists():
            return None
        return await self._pool.run(lambda reader: find(reader, ref))

    async def named(self, names: Sequence[tuple[str, str, str]]) -> Source | None:
        """The newest call that any desk of this home has written under one of these names; see `alias`."""
        if not self._log.path.exists():
            return None
        return await self._pool.run(lambda reader: named(reader, names))

    async def forgotten(self, ref: str) -> Source | None:
        """Record of a forgotten reference: time, caller and hashes."""
        if not self._log.path.exists():
            return None
        return await self._pool.run(lambda reader: forgotten(reader, ref))

    def _payload(self, ref: str) -> Source | None:
        body = self._payloads.get(ref.removeprefix(PAYLOADS))
        return None if body is None else Source(ref, "payload", _value(body))

    def close(self) -> None:
        self._pool.close()


def forgotten(reader: Reader, ref: str) -> Source | None:
    """Entry for one reference in the record of a forgetting."""
    for time_ns, record in reversed(forgetting.records(reader.connection)):
        name = next((known for known in record["refs"] if known in (ref, PREFIX + ref)), None)
        if name is not None:
            facts = {"forgottenAt": format(time_ns), "by": record["by"]}
            hashes = [digest for _, _, digest in record["events"]]
            facts |= {"sha256": hashes} if not name.startswith(PAYLOADS) else {}
            return Source(name, "forgotten", {"message": _GONE, **facts})
    return None


def _value(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
