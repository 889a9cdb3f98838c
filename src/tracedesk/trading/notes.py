"""`log_event`: what an agent wants remembered, in the ledger's chain and never counted as a trade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.trading.execution import absent, resolved, row
from tracedesk.trading.ledger import Ledger, New
from tracedesk.trading.model import EdgeTo

if TYPE_CHECKING:
    from tracedesk.trading.trader import Request, Trader

LARGEST: Final = 65_536
DEEPEST: Final = 8
_CITING: Final = ("signal", "suggestion")


async def log(trader: Trader, request: Request) -> bytes:
    """Write the event; when this returns it is on the disk."""
    data = request.args["data"]
    _check(data)
    refs = await _refs(request, data)
    return await trader.commit(lambda ledger: _commit(trader, ledger, request, refs))


def _check(data: dict[str, Any]) -> None:
    size = len(json.dumps(data))
    if size > LARGEST:
        message = f"data has {size} bytes; give at most {LARGEST}, and cite what is larger by reference."
        raise ToolError("INVALID_INPUT", message, {"path": ["data"], "bytes": size, "retryable": False})
    if _depth(data) > DEEPEST:
        message = f"data nests deeper than {DEEPEST} levels; flatten it."
        raise ToolError("INVALID_INPUT", message, {"path": ["data"], "retryable": False})


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, cast("dict[str, Any]", value).values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, cast("list[Any]", value)), default=0)
    return 0


async def _refs(request: Request, data: dict[str, Any]) -> tuple[str, ...]:
    cited = data.get("source_refs", ())
    if request.args["event_type"] not in _CITING or not cited:
        return ()
    if not isinstance(cited, list) or not all(isinstance(ref, str) for ref in cast("list[Any]", cited)):
        message = "data.source_refs must be a list of references."
        raise ToolError("INVALID_INPUT", message, {"path": ["data", "source_refs"], "retryable": False})
    return await resolved(request, cast("list[str]", cited), "data.source_refs")


def _commit(trader: Trader, ledger: Ledger, request: Request, refs: tuple[str, ...]) -> bytes:
    args = request.args
    event = {
        "event_type": args["event_type"],
        "severity": args.get("severity", "low"),
        "data": trader.redacted(args["data"]),
    }
    with ledger.writing() as writer:
        absent(writer, request)
        seq = writer.head()[0] + 1
        answer = {
            "logged": True,
            "event_id": f"tracedesk://trading/ledger/{seq}",
            "source_refs": request.source_refs,
        }
        body = json.dumps(answer)
        edges = [*(EdgeTo("cites", ref) for ref in refs), EdgeTo("recorded_as", request.by)]
        writer.append(
            New("event", request.account, request.now_ns, event, call=row(request, body), edges=edges)
        )
    return body
