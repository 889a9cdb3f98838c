"""The JSON-RPC messages every contestant is sent, and the checks every answer must pass."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

Era = Literal["modern", "handshake"]

ERAS: Final[tuple[Era, ...]] = ("modern", "handshake")
VERSION: Final[dict[Era, str]] = {"modern": "2026-07-28", "handshake": "2025-11-25"}
_CLIENT: Final = {"name": "benchmark", "version": "1"}
_ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": VERSION["modern"],
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Misbehaved(Exception):
    """A server gave a wrong answer, or none; its figures would mean nothing."""


def echo(era: Era, number: int) -> bytes:
    """A call of `echo` whose id and argument are both `number`."""
    return request(number, "tools/call", era, {"name": "echo", "arguments": {"n": number}})


def list_tools(era: Era, number: int) -> bytes:
    return request(number, "tools/list", era, {})


def initialize(number: int) -> bytes:
    hello = {"protocolVersion": VERSION["handshake"], "capabilities": {}, "clientInfo": _CLIENT}
    return request(number, "initialize", "handshake", hello)


def initialized() -> bytes:
    return _dump({"jsonrpc": "2.0", "method": "notifications/initialized"})


def request(number: int, method: str, era: Era, params: dict[str, Any]) -> bytes:
    """Any request, in the words of its era."""
    if era == "modern":
        params = {**params, "_meta": _ENVELOPE}
    return _dump({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def _dump(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def check_echo(answer: bytes, number: int) -> None:
    """Refuse anything but the whole result of `echo(era, number)`."""
    result = _result(answer, number)
    wanted = {"n": number}
    if result.get("isError") or result.get("structuredContent") != wanted:
        raise Misbehaved(f"a wrong result for echo: {answer[:400]!r}")
    content: list[dict[str, Any]] = result.get("content", [])
    if [json.loads(block["text"]) for block in content] != [wanted]:
        raise Misbehaved(f"wrong text for echo: {answer[:400]!r}")


def check_tools(answer: bytes, number: int) -> None:
    """Refuse a list without `echo` and both of its schemas."""
    tools: list[dict[str, Any]] = _result(answer, number).get("tools", [])
    found = next((tool for tool in tools if tool["name"] == "echo"), None)
    if found is None or "inputSchema" not in found or "outputSchema" not in found:
        raise Misbehaved(f"echo is not listed with both schemas: {answer[:400]!r}")


def check_answered(answer: bytes, number: int) -> None:
    """Refuse an answer that is not a result at all."""
    _result(answer, number)


def _result(answer: bytes, number: int) -> dict[str, Any]:
    try:
        message = json.loads(answer)
        if message["id"] != number:
            raise Misbehaved(f"answer to {message['id']!r} instead of {number}")
        return message["result"]
    except (ValueError, KeyError, TypeError):
        raise Misbehaved(f"not a result: {answer[:400]!r}") from None
