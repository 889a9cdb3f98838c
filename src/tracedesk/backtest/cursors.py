"""Cursors: where a page of one query ended, in a view of the run that later events do not change."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tracedesk.errors import ToolError
from tracedesk.primitives import json

_DIGEST: Final = 8
_LONGEST: Final = 200
_FREE: Final = frozenset(("cursor", "pageSize", "pageIndex", "limit"))
"""Parameters that may change from page to page; every other one makes another query."""


class Key(NamedTuple):
    """An event's place in the order of all answers: by time, then by seq."""

    ts: int
    seq: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """The events with `floor` < seq <= `mark`, in order, after `last`; `total` is as of the mark.

    One without a mark waits for what the run has when it is used: all that came after its floor.
    """

    floor: int
    mark: int | None = None
    last: Key | None = None
    total: int = 0

    def text(self, query: str) -> str:
        """The cursor as clients carry it: opaque, and good for its own query only."""
        raw = json.dumps([self.floor, self.mark, self.last and list(self.last), self.total])
        return base64.urlsafe_b64encode(_mark(query, raw) + raw).decode().rstrip("=")


def query_of(tool: str, args: Mapping[str, Any]) -> str:
    """What a cursor is bound to: the tool and every argument that selects or shapes rows."""
    bound = {name: args[name] for name in sorted(args) if name not in _FREE}
    bound["runId"] = str(args.get("runId", "")).lower()
    return hashlib.sha256(tool.encode() + json.dumps(bound)).hexdigest()


def read(text: str, query: str) -> Cursor:
    """The cursor that `text` is, or INVALID_PARAMETER when it is another query's or none at all."""
    try:
        if len(text) > _LONGEST:
            raise ValueError
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        floor, mark, last, total = json.loads(data[_DIGEST:])
        cursor = Cursor(int(floor), mark, last and Key(*last), int(total))
    except (binascii.Error, ValueError, TypeError):
        raise _refused("this is not a cursor; send metadata.nextCursor of the last page, or none") from None
    if data[:_DIGEST] != _mark(query, data[_DIGEST:]):
        raise _refused(
            "it belongs to another query; repeat the arguments of the page it came from, or drop it"
        )
    return cursor


def _mark(query: str, raw: bytes) -> bytes:
    return hashlib.sha256(query.encode() + b"\n" + raw).digest()[:_DIGEST]


def _refused(problem: str) -> ToolError:
    return ToolError("INVALID_PARAMETER", f"cursor: {problem}.", {"path": ["cursor"]})
