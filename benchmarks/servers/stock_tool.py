"""The echo tool on the official low-level server, as its documentation shows it."""

from __future__ import annotations

import json
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"n": {"type": "number"}},
    "required": ["n"],
}
ECHO: Final = types.Tool(
    name="echo",
    description="Returns the number it is given.",
    input_schema={**SCHEMA, "additionalProperties": False},
    output_schema=SCHEMA,
    annotations=types.ToolAnnotations(read_only_hint=True),
)


async def list_tools(
    ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[ECHO])


async def call_tool(
    ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    value = {"n": (params.arguments or {})["n"]}
    text = types.TextContent(type="text", text=json.dumps(value))
    return types.CallToolResult(content=[text], structured_content=value)


def build(**options: Any) -> Server[Any]:
    return Server("stock", version="1", on_list_tools=list_tools, on_call_tool=call_tool, **options)
