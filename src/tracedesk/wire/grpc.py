"""The desk over gRPC: five calls on the same dispatcher, for gateways that speak no MCP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from google.protobuf import empty_pb2

import tracedesk
from tracedesk.calls.attempt import is_name
from tracedesk.contract import Prompt, Resource, Tool, as_tool
from tracedesk.errors import STANDARD, NotPermitted, ToolError, UnknownTool
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.time import Clock, format
from tracedesk.wire import provider_pb2 as pb
from tracedesk.wire.auth import Identity
from tracedesk.wire.caller_uid import CallerUids, Ends
from tracedesk.wire.dispatch import Dispatch, Origin
from tracedesk.wire.documents import ARGUMENTS
from tracedesk.wire.door import Silence
from tracedesk.wire.encode import Reply
from tracedesk.wire.grpc_room import SERVICE, Fault, Room, bearer, fail, grpc, refuse_malformed
from tracedesk.wire.guard import Guard, is_forwarded
from tracedesk.wire.publish import portable
from tracedesk.wire.watches import Watch, Watches

if TYPE_CHECKING:
    from tracedesk.wire.kernel import Kernel

log = logging.getLogger(__name__)

PORT: Final = 50053
CALL_TRAILER: Final = "tracedesk-call"
GRACE_SECONDS: Final = 3.0
MAX_CONCURRENT: Final = 1_024
"""Calls of one connection at once, also those whose message is still to come."""
HANDSHAKE_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 10.0
"""Seconds without a call after which a connection is closed; clients open another one by themselves."""
_PREFIX: Final = "binance."
_LOOPBACK: Final = {"ipv4": "127.0.0.1", "ipv6": "::1"}
_SOURCE: Final = "urn:tracedesk:desk"
_UPDATED: Final = "tracedesk.resource.updated"


Answer = tuple[Any, str]
"""A message, and the reference of the call that made it."""
Unary = Callable[[Any, Identity], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Provider:
    """The five calls."""

    dispatch: Dispatch
    watches: Watches
    guard: Guard
    clock: Clock
    port: int
    uids: CallerUids = field(default_factory=CallerUids)
    """Asked for each call without a token: gRPC does not report when a connection begins, and while a call
    waits for its answer no other connection has its addresses."""

    # --- the calls

    async def list_capabilities(self, request: Any, caller: Identity) -> Answer:
        registry = self.dispatch.registry
        listed = pb.Capabilities(
            tools=[_tool(tool) for tool in registry.tools.values()],
            resources=[_resource(resource) for resource in registry.resources.values()],
            prompts=[_prompt(prompt) for prompt in registry.prompts.values()],
            provider_version=tracedesk.__version__,
        )
        return listed, ""

    async def invoke(self, request: pb.InvokeRequest, caller: Identity) -> Answer:
        tool = self._find_tool(request.tool_name)
        arguments = await self._arguments("payload", request.payload.value, caller)
        reply = await self._run(tool, arguments, caller, request.correlation_id)
        return pb.InvokeResponse(result=pb.Json(value=_result(reply))), reply.ref

    async def read_resource(self, request: pb.ResourceRequest, caller: Identity) -> Answer:
        uri = self._canonical(request.uri)
        found = self.dispatch.registry.resource(uri)
        if found is None:
            raise _not_found(request.uri)
        reply = await self._run(as_tool(found.resource), found.arguments, caller, request.correlation_id)
        if reply.kind == "json" and reply.body == b"null":
            raise _not_found(request.uri)
        return pb.ResourceResponse(content=reply.body, mime_type=found.resource.mime_type), reply.ref

    async def get_prompt(self, request: pb.PromptRequest, caller: Identity) -> Answer:
        # Gateways of this contract know the prompts under hyphenated names.
        name = request.prompt_name.replace("-", "_")
        prompt = self.dispatch.registry.prompts.get(name)
        if prompt is None:
            raise Fault(grpc.StatusCode.NOT_FOUND, f"prompt_name {request.prompt_name!r} is not served here")
        given = await self._arguments("arguments", request.arguments.value, caller)
        arguments = _prompt_arguments(prompt, given)
        reply = await self._run(as_tool(prompt), arguments, caller, request.correlation_id)
        return pb.PromptResponse(messages=_messages(reply)), reply.ref

    async def stream(self, request: pb.StreamRequest, caller: Identity) -> AsyncGenerator[pb.CloudEvent]:
        """An event each time the topic changed; changes that come faster than they are read become one."""
        changed = asyncio.Event()

        async def tell(uri: str) -> None:
            changed.set()

        watch = await self._follow(request.topic, caller, tell)
        try:
            while True:
                await changed.wait()
                changed.clear()
                yield self._event(request.topic)
        finally:
            self.watches.end(watch)

    # --- on the way

    def _find_tool(self, name: str) -> Tool:
        registry = self.dispatch.registry
        bare = name.removeprefix(_PREFIX)
        if any(toolset.name == "exchange" and bare in toolset.tools for toolset in registry.toolsets):
            name = bare
        try:
            return registry.tool(name)
        except UnknownTool as unknown:
            remedy = unknown.remedy or "ListCapabilities names those that are"
            message = f"tool_name {name!r} is not served here; {remedy}"
            raise Fault(grpc.StatusCode.NOT_FOUND, message, unknown.envelope) from None

    def _canonical(self, uri: str) -> str:
        try:
            return self.dispatch.registry.canonical(uri)
        except ToolError as fault:
            raise Fault.of(fault.code, fault.message, STANDARD.render(fault)) from None

    async def _arguments(self, field: str, raw: bytes, caller: Identity) -> Any:
        """The JSON in a field of a message."""
        stranger = Origin(caller.scope, Silence(), caller.principal, caller.granted).is_stranger
        try:
            return await self.dispatch.documents.read(raw or b"{}", ARGUMENTS, stranger=stranger)
        except ValueError as fault:
            raise Fault(grpc.StatusCode.INVALID_ARGUMENT, f"{field} is not JSON: {fault}") from None

    async def _run(self, tool: Tool, arguments: Any, caller: Identity, correlation: str = "") -> Reply:
        """Dispatch a tool, or what is run like one; an error becomes the call's fault."""
        try:
            reply = await self.dispatch.run(tool, arguments, _origin(caller, correlation))
        except NotPermitted as refused:
            raise _denied(refused) from None
        if reply.is_error:
            message: str = json.loads(reply.body)["error"]["message"]
            raise Fault.of(reply.code or "", message, reply.body)
        return reply

    async def _follow(self, topic: str, caller: Identity, tell: Callable[[str], Awaitable[None]]) -> Watch:
        uri = self._canonical(topic)
        match, origin = self.dispatch.registry.resource(uri), _origin(caller)
        try:
            self.dispatch.permit_following(match, origin)
        except NotPermitted as refused:
            raise _denied(refused) from None
        if match is None or not match.resource.subscribable:
            message = (
                f"topic {topic!r} is no resource that can be followed; ListCapabilities names those that are"
            )
            raise Fault(grpc.StatusCode.INVALID_ARGUMENT, message)
        watch = Watch(uri, topic, caller.scope, caller.principal, tell, match, origin.may_read)
        await self.watches.follow(watch, lambda tool, arguments: self._run(tool, arguments, caller))
        return watch

    def _event(self, uri: str) -> pb.CloudEvent:
        return pb.CloudEvent(
            id=uuid7(),
            source=_SOURCE,
            type=_UPDATED,
            time=format(self.clock.now_ns()),
            specversion="1.0",
            data=pb.Json(value=json.dumps({"uri": uri})),
        )

    # --- what gRPC is given

    def handlers(self) -> Any:
        """The service, as a gRPC server takes it."""
        calls: dict[str, tuple[Any, Any, Any]] = {
            "ListCapabilities": (self._answering(self.list_capabilities), empty_pb2.Empty, pb.Capabilities),
            "Invoke": (
                self._answering(self.invoke, pb.InvokeResponse),
                pb.InvokeRequest,
                pb.InvokeResponse,
            ),
            "ReadResource": (
                self._answering(self.read_resource, pb.ResourceResponse),
                pb.ResourceRequest,
                pb.ResourceResponse,
            ),
            "GetPrompt": (
                self._answering(self.get_prompt, pb.PromptResponse),
                pb.PromptRequest,
                pb.PromptResponse,
            ),
            "Stream": (self._streaming, pb.StreamRequest, pb.CloudEvent),
        }
        # On the wire a single answer is a stream of one; only as such may a message precede a bad status.
        methods = {
            name: grpc.unary_stream_rpc_method_handler(
                serve, request_deserializer=asked.FromString, response_serializer=answer.SerializeToString
            )
            for name, (serve, asked, answer) in calls.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _answering(self, call: Unary, answer: Any = None) -> Callable[[Any, Any], AsyncGenerator[Any]]:
        """One call's handler; a fault is told in the answer's `error`, if it has one, and in the status."""

        async def serve(request: Any, context: Any) -> AsyncGenerator[Any]:
            try:
                refuse_malformed(request)
                message, ref = await call(request, self._identify(context))
                if ref:
                    context.set_trailing_metadata(((CALL_TRAILER, ref),))
                yield message
            except Fault as fault:
                fail(context, fault)
                if answer is not None:
                    yield answer(error=fault.message)

        return serve

    async def _streaming(self, request: pb.StreamRequest, context: Any) -> AsyncGenerator[pb.CloudEvent]:
        try:
            events = self.stream(request, self._identify(context))
            async with contextlib.aclosing(events):
                # The client learns that it is heard before anything happens.
                await context.send_initial_metadata(())
                async for event in events:
                    yield event
        except Fault as fault:
            fail(context, fault)

    def _identify(self, context: Any) -> Identity:
        metadata = context.invocation_metadata()
        names = [key for key, _ in metadata or ()]
        uid = (
            None
            if "authorization" in names or is_forwarded(names)
            else self.uids.of(_ends(context.peer(), self.port))
        )
        return bearer(self.guard, metadata, uid)


def _origin(caller: Identity, correlation: str = "") -> Origin:
    """The caller of a call, as dispatch wants it."""
    attempt = correlation if is_name(correlation) else None
    return Origin(caller.scope, Silence(), caller.principal, caller.granted, attempt, caller.subject)


def _denied(refused: NotPermitted) -> Fault:
    denied, nobody = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
    return Fault(denied if refused.authenticated else nobody, refused.remedy)


def _ends(peer: str, port: int) -> Ends | None:
    """The two ends of a connection by gRPC's name for the client; the desk listens on loopback alone."""
    family, _, place = unquote(peer).partition(":")
    if family not in _LOOPBACK:
        return None
    host, _, client_port = place.rpartition(":")
    host = host.strip("[]")
    is_mapped = host.lower().startswith("::ffff:")
    server = _LOOPBACK["ipv4" if is_mapped else family]
    return Ends.of((host, int(client_port)), (server, port)) if client_port.isdecimal() else None


def _not_found(uri: str) -> Fault:
    return Fault(grpc.StatusCode.NOT_FOUND, f"uri {uri!r} is no resource here; ListCapabilities names them")


def _prompt_arguments(prompt: Prompt, arguments: Any) -> dict[str, str]:
    known = {argument.name for argument in prompt.arguments}
    if not isinstance(arguments, dict):
        raise Fault(grpc.StatusCode.INVALID_ARGUMENT, "arguments is not a JSON object")
    if (why := json.cut_of(arguments)) is not None:
        raise Fault(grpc.StatusCode.INVALID_ARGUMENT, f"arguments: the document {why}; flatten or split it")
    given = cast("dict[str, Any]", arguments)
    missing = [a.name for a in prompt.arguments if a.required and a.name not in given]
    odd = sorted(name for name, value in given.items() if name not in known or not isinstance(value, str))
    if missing or odd:
        problem = f"missing: {', '.join(missing) or 'none'}; unknown or no text: {', '.join(odd) or 'none'}"
        raise Fault(grpc.StatusCode.INVALID_ARGUMENT, f"arguments of {prompt.name}: {problem}")
    return given


def _result(reply: Reply) -> bytes:
    """A result as JSON, whatever its kind."""
    if reply.kind == "text":
        return json.dumps(reply.body.decode())
    if reply.kind == "blocks":
        structured = {"structuredContent": json.Raw(reply.body)} if reply.body else {}
        return json.dumps({"content": [dict(block) for block in reply.blocks], **structured})
    return reply.body


def _messages(reply: Reply) -> list[pb.PromptMessage]:
    if reply.kind == "text":
        return [pb.PromptMessage(role="user", content=reply.body.decode())]
    return [pb.PromptMessage(role=m["role"], content=_text(m["content"])) for m in json.loads(reply.body)]


def _text(content: Any) -> str:
    """A message's text; of a picture or an embedded resource, its block as JSON."""
    return content["text"] if content.get("type") == "text" else json.dumps(content).decode()


def _tool(tool: Tool) -> pb.Tool:
    output = None if tool.output is None else pb.Json(value=json.dumps(tool.output))
    return pb.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=pb.Json(value=json.dumps(portable(tool.input))),
        output_schema=output,
        scope=tool.scope,
    )


def _resource(resource: Resource) -> pb.Resource:
    return pb.Resource(
        uri_scheme=resource.uri.partition(":")[0],
        description=resource.description,
        mime_type=resource.mime_type,
        uri=resource.uri,
        name=resource.name,
        subscribable=resource.subscribable,
    )


def _prompt(prompt: Prompt) -> pb.Prompt:
    schema = {
        "type": "object",
        "properties": {a.name: {"type": "string", "description": a.description} for a in prompt.arguments},
        "required": [a.name for a in prompt.arguments if a.required],
        "additionalProperties": False,
    }
    return pb.Prompt(
        name=prompt.name, description=prompt.description, args_schema=pb.Json(value=json.dumps(schema))
    )


# --- the server


@contextlib.asynccontextmanager
async def serving(kernel: Kernel, guard: Guard, clock: Clock, address: str) -> AsyncGenerator[int]:
    """A running server; yields its port. Health and reflection are served beside the desk."""
    # No limit of the server's own: it would count strangers and the owner alike.
    options = (
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", MAX_CONCURRENT),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1_000)),
        ("grpc.max_connection_idle_ms", int(IDLE_SECONDS * 1_000)),
    )
    server = grpc.aio.server(interceptors=(Room(guard),), options=options)
    port: int = server.add_insecure_port(address)
    provider = Provider(kernel.dispatch, kernel.watches, guard, clock, port)
    server.add_generic_rpc_handlers((provider.handlers(),))
    health = _add_health_and_reflection(server)
    await server.start()
    await health.set(SERVICE, _serving())
    try:
        yield port
    finally:
        await health.enter_graceful_shutdown()
        await server.stop(GRACE_SECONDS)
        provider.uids.close()


def _serving() -> Any:
    from grpc_health.v1 import health_pb2  # pyright: ignore[reportMissingTypeStubs]

    return health_pb2.HealthCheckResponse.SERVING  # pyright: ignore


def _add_health_and_reflection(server: Any) -> Any:
    from grpc_health.v1 import health, health_pb2_grpc  # pyright: ignore[reportMissingTypeStubs]
    from grpc_reflection.v1alpha import reflection  # pyright: ignore[reportMissingTypeStubs]

    own: Any = health
    servicer = own.aio.HealthServicer()
    services: Any = health_pb2_grpc
    services.add_HealthServicer_to_server(servicer, server)
    mirror: Any = reflection
    mirror.enable_server_reflection((SERVICE, own.SERVICE_NAME, mirror.SERVICE_NAME), server)
    return servicer


async def run(kernel: Kernel, guard: Guard, clock: Clock, address: str, ready: Callable[[int], None]) -> None:
    """Serve until a signal asks to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(kernel, guard, clock, address) as port:
        ready(port)
        await stop.wait()
