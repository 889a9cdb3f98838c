"""JSON documents that clients send: short ones are read at once, long ones beside the event loop."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from tracedesk.primitives import json

AT_ONCE: Final = 16_384
"""Bytes of a document that is read on the event loop: a few milliseconds, whatever is in it."""
ARGUMENTS: Final = json.Limits(json.DEEPEST, json.MOST_VALUES)
"""A document that is a call's arguments."""
MESSAGE: Final = json.Limits(json.DEEPEST + 2, json.MOST_VALUES, envelope=2)
"""A JSON-RPC message: `params.arguments` may nest as deep as arguments do elsewhere."""

_let_others_run = partial(time.sleep, 0)
"""Gives up the interpreter's lock, which a thread otherwise keeps for five milliseconds."""


class Documents:
    """Reads long documents, one at a time of callers without a token and one at a time of all others."""

    def __init__(self) -> None:
        self._threads: dict[bool, ThreadPoolExecutor] = {}

    async def read(self, data: bytes, limits: json.Limits, *, stranger: bool) -> Any:
        """The document, cut where it passed a limit (`json.cut_of`); a `ValueError` says what is wrong."""
        if len(data) <= AT_ONCE:
            return json.read(data, limits)
        threads = self._threads.get(stranger)
        if threads is None:
            threads = self._threads[stranger] = ThreadPoolExecutor(1, f"read-json-{int(stranger)}")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, json.read, data, limits, _let_others_run)

    def close(self) -> None:
        """Begin no further document."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        self._threads.clear()
