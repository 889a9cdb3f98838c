"""The plain HTTP door: `POST /tools/{name}`, with the contracts' own envelopes and statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import tracedesk
from tracedesk.contract import Tool
from tracedesk.errors import ClientCannot, NotPermitted, UnknownTool, http_status
from tracedesk.primitives import json
from tracedesk.registry import Registry
from tracedesk.wire.auth import Identity
from tracedesk.wire.dispatch import Dispatch, Origin
from tracedesk.wire.documents import ARGUMENTS
from tracedesk.wire.encode import Reply
from tracedesk.wire.guard import Guard
from tracedesk.wire.publish import portable
from tracedesk.wire.request import Refused, Request, Response


class Silence:
    """The channel of a client that can only wait for its answer."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return {}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: Any) -> None: ...

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        raise ClientCannot("elicitation")


class Door:
    """Calls tools for clients that speak no MCP."""

    def __init__(self, dispatch: Dispatch, guard: Guard) -> None:
        self._dispatch = dispatch
        self._guard = guard
        self._running: set[asyncio.Task[Reply]] = set()

    async def call(self, request: Request, identity: Identity, name: str) -> Response:
        """Run the tool with the body as its arguments; an empty body is no arguments."""
        body = await request.body()
        origin = Origin(
            identity.scope, Silence(), identity.principal, identity.granted, subject=identity.subject
        )
        try:
            arguments = await self._dispatch.documents.read(
                body or b"{}", ARGUMENTS, stranger=origin.is_stranger
            )
        except ValueError as fault:
            raise Refused(400, f"The body is not JSON: {fault}") from None
        del body  # which would stay in memory as long as the call runs
        try:
            return _response(await self._run(request, name, arguments, origin))
        except UnknownTool as unknown:
            return Response.of(unknown.envelope, 404)
        except NotPermitted as refused:
            status, headers = self._guard.denial(refused)
            raise Refused(status, refused.remedy, headers) from None

    async def _run(self, request: Request, name: str, arguments: Any, origin: Origin) -> Reply:
        """The call in a task of its own, cancelled when the client leaves or the desk closes."""
        task = asyncio.get_running_loop().create_task(self._dispatch.call(name, arguments, origin))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        done, _ = await asyncio.wait({task}, timeout=_WATCH_AFTER)
        if not done:
            await self._watch(request, task)
        try:
            return task.result()
        except asyncio.CancelledError:
            raise Refused(503, "The call was cancelled: the client left or the desk is closing") from None
        finally:
            del task, done  # a raised error holds this frame, and with it the body, until the collector runs

    async def _watch(self, request: Request, task: asyncio.Task[Reply]) -> None:
        left = asyncio.get_running_loop().create_task(request.left())
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        task.cancel()
        await asyncio.wait({task})

    def close(self) -> None:
        """Cancel what runs."""
        for task in self._running:
            task.cancel()


_WATCH_AFTER: Final = 0.05


def _response(reply: Reply) -> Response:
    headers = {"Tracedesk-Call": reply.ref} if reply.ref else {}
    if reply.kind == "error":
        return Response(http_status(reply.code or ""), reply.body, headers=headers)
    if reply.kind == "text":
        return Response(200, reply.body, "text/plain; charset=utf-8", headers)
    if reply.kind == "blocks":
        structured = {"structuredContent": json.Raw(reply.body)} if reply.body else {}
        return Response.of({"content": list(reply.blocks), **structured}, 200, headers)
    return Response(200, reply.body, headers=headers)


def openapi(registry: Registry, base: str) -> dict[str, Any]:
    """OpenAPI 3.1 of the door, straight from the contracts."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tracedesk",
            "version": tracedesk.__version__,
            "description": "Every tool of this desk as a plain POST. Errors keep their contract's envelope.",
        },
        "servers": [{"url": base}],
        "paths": {f"/tools/{tool.name}": {"post": _operation(tool)} for tool in registry.tools.values()},
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(tool: Tool) -> dict[str, Any]:
    media = "text/plain" if tool.output and tool.output.get("type") == "string" else "application/json"
    operation: dict[str, Any] = {
        "operationId": tool.name,
        "tags": [tool.toolset],
        "summary": tool.description.split("\n")[0],
        "description": tool.description,
        "requestBody": {"content": {"application/json": {"schema": portable(tool.input)}}},
        "responses": {
            "200": {"description": "The result", "content": {media: {"schema": tool.output or {}}}},
            "default": {
                "description": f"The error envelope of the {tool.family.name} family",
                "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
            },
        },
    }
    if tool.scope != "read":
        operation["security"] = [{"bearer": [tool.scope]}]
    return operation
