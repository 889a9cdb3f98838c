"""Results become bytes here, once; every transport carries exactly these bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from tracedesk import foreign
from tracedesk.contract import Blocks, Linked, Page, Tool
from tracedesk.errors import ClientCannot, ToolError
from tracedesk.primitives import json
from tracedesk.primitives.tokens import estimate

Kind = Literal["json", "text", "binary", "blocks", "error", "input"]

LARGEST_ERROR: Final = 32_768
STRUCTURED_SINCE: Final = "2025-06-18"
ANY_STRUCTURE_SINCE: Final = "2026-07-28"


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an answer may be: a hard cap in bytes, a budget in estimated tokens."""

    max_bytes: int = 1 << 20
    max_tokens: int = 8_000


@dataclass(slots=True)
class Reply:
    """One answered call: `body` is the JSON document, or the plain text, that the client receives."""

    kind: Kind
    body: bytes
    code: str | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()
    requests: Mapping[str, Mapping[str, Any]] | None = None
    """Questions the client must answer before the call can go on."""
    missing: Mapping[str, Any] | None = None
    """Capabilities the client would have had to declare."""
    ref: str = ""
    """The call's own reference."""
    meta: Mapping[str, Any] | None = None
    """Facts about the answer, for `_meta`."""

    @property
    def is_error(self) -> bool:
        return self.kind == "error"


def encode(tool: Tool, value: Any, limits: Limits) -> Reply:
    """The reply that carries `value`, or the family's error when it passes the hard cap."""
    if isinstance(value, dict):
        return _checked(tool, Reply("json", json.dumps(value)), cast("dict[str, Any]", value), limits)
    if isinstance(value, Page):
        return _encode_page(tool, value, limits)
    if isinstance(value, Blocks):
        return _encode_blocks(tool, value, limits)
    if isinstance(value, Linked):
        reply = encode(tool, value.body, limits)
        reply.blocks = tuple(link.block() for link in value.links)
        reply.meta = value.meta
        return reply
    if isinstance(value, bytes):
        if not tool.binary:
            raise TypeError(f"{tool.name} returned bytes, which no tool's result can carry")
        return _checked(tool, Reply("binary", value), value, limits)
    if isinstance(value, str):
        return _checked(tool, Reply("text", value.encode()), value, limits)
    return _checked(tool, Reply("json", json.dumps(value)), value, limits)


def _encode_page(tool: Tool, page: Page, limits: Limits) -> Reply:
    """The page cut to the budget; a single row past the hard cap is refused with the cursor that skips it."""
    try:
        body = fit(page, limits.max_tokens)
        return _checked(tool, Reply("json", json.dumps(body)), body, limits)
    except ToolError as refused:
        refused.details = {**(refused.details or {}), "nextCursor": page.resume(1)}
        refused.message += " The cursor in details continues after the row that is too large."
        raise


def _encode_blocks(tool: Tool, value: Blocks, limits: Limits) -> Reply:
    body = json.dumps(value.structured) if value.structured is not None else b""
    size = len(body) + sum(len(json.dumps(block)) for block in value.blocks)
    if size > limits.max_bytes:
        raise _too_large(tool, size, limits, "Narrow the request", {})
    return Reply("blocks", body, blocks=value.blocks)


def encode_error(tool: Tool, error: ToolError, arguments: Any) -> Reply:
    """The family's envelope, as the text that goes into `content` alone."""
    known = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None
    body = json.dumps(tool.family.render(error, known))
    if len(body) > LARGEST_ERROR:
        short = ToolError(error.code, error.message[:500] + "…", {"omitted": "the details are too large"})
        body = json.dumps(tool.family.render(short, known))
    missing = error.capabilities if isinstance(error, ClientCannot) else None
    written = foreign.fields_of_refusal(error.details)
    meta = {**(error.meta or {}), foreign.META_KEY: written} if written else error.meta
    return Reply("error", body, code=error.code, missing=missing, meta=meta)


def fit(page: Page, budget: int) -> dict[str, Any]:
    """As many whole rows as the budget holds, at least one, with the cursor that continues."""
    rows: list[Any] = page.body[page.rows]
    spent = estimate(json.dumps({**page.body, page.rows: []}))
    kept = 0
    for row in rows:
        spent += estimate(json.dumps(row)) + 1
        if kept and spent > budget:
            break
        kept += 1
    cut = kept < len(rows)
    return _continued({**page.body, page.rows: rows[:kept]}, page, kept, cut)


def _continued(body: dict[str, Any], page: Page, kept: int, cut: bool) -> dict[str, Any]:
    place = {**body["metadata"]} if isinstance(body.get("metadata"), dict) else body
    place["truncated"] = cut
    if cut or page.more:
        place["nextCursor"] = page.resume(kept)
    if place is not body:
        body["metadata"] = place
    return body


def _checked(tool: Tool, reply: Reply, value: Any, limits: Limits) -> Reply:
    if len(reply.body) <= limits.max_bytes:
        return reply
    details: dict[str, Any] = {}
    remedy = "Narrow the request"
    if tool.page_size and tool.rows and isinstance(value, dict):
        page = cast("dict[str, Any]", value)
        details[tool.page_size] = _page_that_fits(page, tool.rows, limits.max_bytes)
        remedy = f"Ask for {tool.page_size} {details[tool.page_size]} or less"
    raise _too_large(tool, len(reply.body), limits, remedy, details)


def _too_large(tool: Tool, size: int, limits: Limits, remedy: str, details: Mapping[str, Any]) -> ToolError:
    message = f"The answer has {size} bytes, more than {limits.max_bytes}. {remedy}."
    return ToolError(tool.family.too_large, message, {**details, "bytes": size, "maxBytes": limits.max_bytes})


def _page_that_fits(value: dict[str, Any], rows: str, cap: int) -> int:
    room = cap - len(json.dumps({**value, rows: []}))
    count = 0
    for row in value[rows]:
        room -= len(json.dumps(row)) + 1
        if room < 0:
            break
        count += 1
    return max(count, 1)


def tool_result(reply: Reply, tool: Tool, version: str) -> dict[str, Any]:
    """The MCP result of `reply` at a protocol version; bodies stay the bytes they are."""
    if reply.kind == "error":
        return {"content": [_text(json.quote(reply.body))], "isError": True}
    if reply.kind == "blocks":
        result: dict[str, Any] = {"content": list(reply.blocks), "isError": False}
        structured = reply.body
    else:
        result = {"content": [_text(json.quote(reply.body)), *reply.blocks], "isError": False}
        structured = reply.body if reply.kind == "json" else json.quote(reply.body)
    if structured and _takes_structure(tool, version):
        result["structuredContent"] = json.Raw(structured)
    return result


def _text(quoted: bytes) -> dict[str, Any]:
    return {"type": "text", "text": json.Raw(quoted)}


def _takes_structure(tool: Tool, version: str) -> bool:
    if tool.output is None or version < STRUCTURED_SINCE:
        return False
    return version >= ANY_STRUCTURE_SINCE or tool.output.get("type") == "object"
