"""The desk as an MCP server: the SDK's registry of methods, with tool calls answered in our bytes."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import tracedesk
from tracedesk import foreign
from tracedesk.contract import Completer, Prompt, Resource, Tool, as_tool
from tracedesk.errors import STANDARD, NotPermitted, ToolError, UnknownTool
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.primitives import json
from tracedesk.registry import Registry
from tracedesk.wire.consent import STATE_SECONDS, Consent, Spent
from tracedesk.wire.dispatch import Dispatch, Origin
from tracedesk.wire.encode import Reply, tool_result
from tracedesk.wire.exchange import Exchange
from tracedesk.wire.inbound import VERSION_KEY
from tracedesk.wire.peer import Peer
from tracedesk.wire.publish import ToolList
from tracedesk.wire.sdk import (
    CallNext,
    Connection,
    HandlerResult,
    MCPError,
    NotificationOptions,
    PromptsListChanged,
    RequestStateBoundary,
    RequestStateSecurity,
    ResourcesListChanged,
    Server,
    ServerRequestContext,
    ServerRunner,
    ToolsListChanged,
    types,
)
from tracedesk.wire.sealing import HomeCodec
from tracedesk.wire.watches import FOLLOWED, Listening, Tell, Watch, Watches, too_many

Context = ServerRequestContext[Any, Exchange]

CALL_KEY: Final = "tracedesk/call"
_CLIENT_KEY: Final = types.CLIENT_INFO_META_KEY
_CAPABILITIES_KEY: Final = types.CLIENT_CAPABILITIES_META_KEY
FORBIDDEN: Final = -32003
_COMPLETIONS: Final = 100
_COMPLETION_SECONDS: Final = 2.0
_LIST_TTL_MS: Final = 60_000
_KNOWN_CLIENTS: Final = 256
_LARGEST_KEPT: Final = 4_096
_RESOURCE_NOT_FOUND_BEFORE_2026: Final = -32002


class Kernel:
    """Serves one desk's registry to every transport."""

    def __init__(self, dispatch: Dispatch, spent: Spent, codec: HomeCodec) -> None:
        self.dispatch = dispatch
        self.registry: Registry = dispatch.registry
        self.watches = Watches(self.registry, dispatch.state, dispatch.secrets)
        self.listen = Listening(self.watches)
        self.peers: set[Peer] = set()
        self._tools = ToolList(self.registry)
        self._spent = spent
        self._codec = codec
        self._connections: dict[bytes, Connection] = {}
        self._own = {"tools/call": self._call_tool, "tools/list": self._list_tools}
        self.server = self._build()
        changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        self._options = self.server.create_initialization_options(changes)
        self._stamp = {
            types.SERVER_INFO_META_KEY: json.Raw(json.dumps(self.server.server_info_stamp)),
        }

    def _build(self) -> Server[Any]:
        server: Server[Any] = Server(
            "tracedesk",
            version=tracedesk.__version__,
            title="Tracedesk",
            instructions=self.registry.instructions,
            get_tool_input_schema=self._input_schema,
            on_list_tools=_answered_before,
            on_call_tool=_answered_before,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=cast("Any", self._read_resource),
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_list_prompts=self._list_prompts if self.registry.prompts else None,
            on_get_prompt=cast("Any", self._get_prompt) if self.registry.prompts else None,
            on_completion=self._complete,
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _set_level)
        security = RequestStateSecurity(codec=self._codec, ttl=STATE_SECONDS)
        security.bind_principal = _principal
        boundary = RequestStateBoundary(security, default_audience="tracedesk")
        server.middleware[:] = [boundary, self._shortcut]
        return server

    # --- the two ways in

    def open_peer(self, standalone: Any, session_id: str | None = None) -> Peer:
        """A handshake-era client whose unasked-for messages go to `standalone`."""
        peer = Peer(self.server, self._own_answer, standalone, session_id, self._options)
        self.peers.add(peer)
        return peer

    async def close_peer(self, peer: Peer) -> None:
        self.peers.discard(peer)
        await peer.close()
        for watch in peer.subscriptions.values():
            self.watches.end(watch)

    async def close(self) -> None:
        """End what clients follow, while the toolsets are still open."""
        self.dispatch.documents.close()
        await self.watches.close()

    def answer_modern(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None
    ) -> Awaitable[dict[str, Any]]:
        """Run one self-contained request of the stateless era."""
        own = self._own_answer(exchange, method, params)
        return self._answer_by_sdk(exchange, method, params) if own is None else own

    def _answer_by_sdk(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None
    ) -> Awaitable[dict[str, Any]]:
        return ServerRunner(self.server, exchange.connection, None).on_request(exchange, method, params)

    def known(self, meta: Mapping[str, Any]) -> Connection | None:
        """The connection of an envelope that was accepted before; None where one must be looked at."""
        try:
            version, capabilities = meta[VERSION_KEY], meta[_CAPABILITIES_KEY]
            return self._connections.get(json.dumps((version, meta.get(_CLIENT_KEY), capabilities)))
        except (KeyError, TypeError, RecursionError):
            return None

    def connection(self, version: str, client_info: Any, capabilities: Any) -> Connection:
        """What an accepted envelope of a stateless client says; clients repeat it, so it is kept."""
        key = json.dumps((version, client_info, capabilities))
        found = self._connections.get(key)
        if found is None:
            found = Connection.from_envelope(version, client_info, capabilities)
            if len(key) <= _LARGEST_KEPT:
                if len(self._connections) >= _KNOWN_CLIENTS:
                    del self._connections[next(iter(self._connections))]
                self._connections[key] = found
        return found

    # --- notifications to clients

    async def notify_resource(self, uri: str) -> None:
        """Tell every subscriber, of either era, that a resource changed."""
        await self.watches.notify(self.registry.canonical(uri))

    async def notify_lists(self, kind: str) -> None:
        """Tell clients that the list of tools, prompts or resources changed."""
        events = {"tools": ToolsListChanged, "prompts": PromptsListChanged, "resources": ResourcesListChanged}
        await self.listen.publish(events[kind]())
        for peer in tuple(self.peers):
            if peer.ready:
                await peer.notify(f"notifications/{kind}/list_changed", None)

    # --- tools, answered without the SDK's models

    def _own_answer(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None
    ) -> Awaitable[dict[str, Any]] | None:
        """The answer to a request that the SDK would only hand on; None where it does more than that."""
        own = self._own.get(method)
        given = params or {}
        sealed = given.get("requestState") is not None
        if own is None or sealed or not exchange.connection.initialize_accepted:
            return None
        return own(exchange, given)

    async def _shortcut(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        own = self._own.get(ctx.method)
        exchange = ctx.request
        if own is None or exchange is None or not exchange.connection.initialize_accepted:
            return await call_next(ctx)
        return exchange.answer or await own(exchange, ctx.params or {})

    async def _list_tools(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        if params.get("cursor") is not None:
            raise _no_such_cursor()
        result: dict[str, Any] = {"tools": self._tools.at(exchange.version)}
        if exchange.is_modern:
            result |= {"ttlMs": _LIST_TTL_MS, "cacheScope": "public"}
        return self._stamped(result, exchange)

    async def _call_tool(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise MCPError(
                types.INVALID_PARAMS, "tools/call needs the tool's name as a string in params.name"
            )
        try:
            tool = self.registry.tool(name)
        except UnknownTool as unknown:
            message = f"Unknown tool: {unknown.name}{unknown.remedy and f'. {unknown.remedy}'}"
            raise MCPError(types.INVALID_PARAMS, message, unknown.envelope) from None
        reply = await self._run(tool, {} if arguments is None else arguments, exchange, params)
        facts = _facts(tool, reply)
        result = self._stamped(self._tool_result(tool, reply, exchange), exchange, reply.ref, facts)
        if reply.requests is not None and params.get("requestState") is None:
            # A first question has not been through the SDK, which is to seal what the client carries.
            exchange.answer = result
            return await self._answer_by_sdk(exchange, "tools/call", params)
        return result

    async def _run(self, tool: Tool, arguments: Any, exchange: Exchange, params: Mapping[str, Any]) -> Reply:
        """Dispatch a tool, or what is run like one, with the user's answers so far."""
        if exchange.is_modern and ("requestState" in params or "inputResponses" in params):
            exchange.consent = await self._consent(tool, params, exchange)
        try:
            reply = await self.dispatch.run(tool, arguments, origin_of(exchange))
        except NotPermitted as refused:
            raise _denied(refused, exchange) from None
        if exchange.has_answers and reply.requests is not None and not tool.annotations.read_only:
            # There is more to ask: the answers so far come back with the rest.
            await self._spent.give_back(origin_of(exchange).holder, exchange.consent.nonce)
        return reply

    async def _consent(self, tool: Tool, params: Mapping[str, Any], exchange: Exchange) -> Consent:
        """The answers that came with a request; for what changes state, no other call gets them again."""
        state, responses = params.get("requestState"), params.get("inputResponses")
        consent = Consent.resumed(state, responses, trusting=tool.annotations.read_only)
        if not consent.answers or tool.annotations.read_only:
            return consent
        try:
            is_first = await self._spent.claim(origin_of(exchange).holder, consent.nonce)
        except (SQLiteError, OSError) as problem:
            message = f"The user's answer cannot be noted as used: {problem}. `tracedesk doctor` finds why."
            raise MCPError(types.INTERNAL_ERROR, message) from None
        return consent if is_first else Consent()

    def _tool_result(self, tool: Tool, reply: Reply, exchange: Exchange) -> dict[str, Any]:
        if reply.requests is not None:
            return _input_required(reply.requests, exchange)
        if reply.missing is not None and exchange.is_modern:
            data = {"requiredCapabilities": reply.missing}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client lacks a capability", data)
        return tool_result(reply, tool, exchange.version)

    def _stamped(
        self,
        result: dict[str, Any],
        exchange: Exchange,
        ref: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        meta: dict[str, Any] = {CALL_KEY: ref} if ref else {}
        if facts:
            meta |= facts
        if exchange.is_modern:
            result.setdefault("resultType", "complete")
            meta |= self._stamp
        if meta:
            result["_meta"] = meta
        return result

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self.registry.tools.get(name)
        return None if tool is None else tool.input

    # --- resources

    async def _list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        _refuse_cursor(params)
        fixed = (r for r in self.registry.resources.values() if not r.is_template)
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=r.uri, name=r.name, description=r.description, mime_type=r.mime_type)
                for r in fixed
            ],
            ttl_ms=_LIST_TTL_MS,
            cache_scope="public",
        )

    async def _list_templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        _refuse_cursor(params)
        templates = (r for r in self.registry.resources.values() if r.is_template)
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=r.uri, name=r.name, description=r.description, mime_type=r.mime_type
                )
                for r in templates
            ],
            ttl_ms=_LIST_TTL_MS,
            cache_scope="public",
        )

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | dict[str, Any]:
        exchange = _exchange(ctx)
        found = self.registry.resource(self._canonical(params.uri))
        if found is None:
            raise _not_found(params.uri, exchange)
        reply = await self._run(as_tool(found.resource), found.arguments, exchange, ctx.params or {})
        if reply.requests is not None:
            return _input_required(reply.requests, exchange)
        if reply.kind == "json" and reply.body == b"null":
            raise _not_found(params.uri, exchange)
        _raise_refusal(reply)
        contents = _contents(params.uri, found.resource.mime_type, reply, _facts(found.resource, reply))
        fresh = found.resource
        return types.ReadResourceResult(
            contents=[contents], ttl_ms=fresh.ttl_ms, cache_scope=fresh.cache_scope
        )

    def _canonical(self, uri: str) -> str:
        try:
            return self.registry.canonical(uri)
        except ToolError as fault:
            raise MCPError(types.INVALID_PARAMS, fault.message, STANDARD.render(fault)) from None

    # --- subscriptions

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        exchange = _exchange(ctx)
        peer = self._peer(exchange)
        if params.uri in peer.subscriptions:
            return types.EmptyResult()
        if len(peer.subscriptions) >= FOLLOWED:
            raise too_many()
        watch = self._watch(params.uri, exchange, _teller(peer))
        if watch.match is None:
            raise _not_found(params.uri, exchange)
        if not watch.match.resource.subscribable:
            raise MCPError(types.INVALID_PARAMS, f"{params.uri} does not change; read it instead")
        await self._follow(watch, exchange)
        if peer not in self.peers or params.uri in peer.subscriptions:
            self.watches.end(watch)  # it left meanwhile, or asked twice at once
        else:
            peer.subscriptions[params.uri] = watch
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        watch = self._peer(_exchange(ctx)).subscriptions.pop(params.uri, None)
        if watch is not None:
            self.watches.end(watch)
        return types.EmptyResult()

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        exchange = _exchange(ctx)

        async def follow(uri: str, tell: Tell) -> Watch:
            return await self._follow(self._watch(uri, exchange, tell), exchange)

        has_token = exchange.identity.credential is not None
        return await self.listen.serve(ctx, params, follow, has_token=has_token)

    def _watch(self, given: str, exchange: Exchange, tell: Tell) -> Watch:
        """A subscription that has not begun; following needs the right to read."""
        uri = self._canonical(given)
        match, origin = self.registry.resource(uri), origin_of(exchange)
        try:
            self.dispatch.permit_following(match, origin)
        except NotPermitted as refused:
            raise _denied(refused, exchange) from None
        return Watch(uri, given, origin.scope, origin.principal, tell, match, origin.may_read)

    async def _follow(self, watch: Watch, exchange: Exchange) -> Watch:
        """Begin a subscription, or raise what its toolset has against it."""

        async def run(tool: Tool, arguments: Mapping[str, str]) -> Reply:
            reply = await self._run(tool, arguments, exchange, {})
            _raise_refusal(reply)
            return reply

        await self.watches.follow(watch, run)
        return watch

    def _peer(self, exchange: Exchange) -> Peer:
        return next(peer for peer in self.peers if peer.connection is exchange.connection)

    # --- prompts and completion

    async def _list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        _refuse_cursor(params)
        return types.ListPromptsResult(
            prompts=[_prompt(p) for p in self.registry.prompts.values()],
            ttl_ms=_LIST_TTL_MS,
            cache_scope="public",
        )

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | dict[str, Any]:
        declared = self.registry.prompts.get(params.name)
        if declared is None:
            raise self._no_prompt(params.name)
        arguments = dict(params.arguments or {})
        _check_arguments(declared, arguments)
        exchange = _exchange(ctx)
        reply = await self._run(as_tool(declared), arguments, exchange, ctx.params or {})
        if reply.requests is not None:
            return _input_required(reply.requests, exchange)
        _raise_refusal(reply)
        messages = [_user_text(reply.body.decode())] if reply.kind == "text" else json.loads(reply.body)
        return types.GetPromptResult.model_validate(
            {"description": declared.description, "messages": messages}, by_name=False
        )

    def _no_prompt(self, name: str) -> MCPError:
        remedy = self.registry.withheld.get(name) or "Call prompts/list."
        return MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}. {remedy}")

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        declared, completer = self._completer(params)
        others = dict(params.context.arguments or {}) if params.context else {}

        async def complete(arguments: Any, call: Any) -> list[str]:
            return list(await completer(params.argument.value, others, call.state)) if completer else []

        name = f"complete {declared.name}"
        tool = replace(as_tool(declared), name=name, handler=complete, deadline=_COMPLETION_SECONDS)
        reply = await self._run(tool, {"value": params.argument.value}, _exchange(ctx), {})
        _raise_refusal(reply)
        values: list[str] = json.loads(reply.body)
        shown = values[:_COMPLETIONS]
        return types.CompleteResult(
            completion=types.Completion(values=shown, total=len(values), has_more=len(values) > len(shown))
        )

    def _completer(self, params: types.CompleteRequestParams) -> tuple[Resource | Prompt, Completer | None]:
        name = params.argument.name
        if isinstance(params.ref, types.PromptReference):
            prompt = self.registry.prompts.get(params.ref.name)
            if prompt is None:
                raise self._no_prompt(params.ref.name)
            return prompt, next((a.complete for a in prompt.arguments if a.name == name), None)
        template = self.registry.resources.get(params.ref.uri)
        if template is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown template: {params.ref.uri}.")
        return template, template.complete.get(name)


async def _answered_before(ctx: Context, params: Any) -> Any:
    raise MCPError(types.INVALID_REQUEST, "the connection is not initialized")


async def _set_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    _exchange(ctx).connection.state[types.LOG_LEVEL_META_KEY] = params.level
    return types.EmptyResult()


def _teller(peer: Peer) -> Tell:
    async def tell(uri: str) -> None:
        await peer.notify("notifications/resources/updated", {"uri": uri})

    return tell


def _refuse_cursor(params: Any) -> None:
    if params is not None and params.cursor is not None:
        raise _no_such_cursor()


def _no_such_cursor() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "This list has one page; ask without a cursor")


def _exchange(ctx: Context) -> Exchange:
    assert ctx.request is not None
    return ctx.request


def _principal(ctx: Context) -> str | None:
    """The caller that request state is bound to: the owner's is the same by every way to the home."""
    if ctx.request is None:
        return None
    return ctx.request.identity.subject or ctx.request.identity.principal


def origin_of(exchange: Exchange) -> Origin:
    """The caller of an exchange, as dispatch wants it."""
    who = exchange.identity
    return Origin(who.scope, exchange, who.principal, who.granted, exchange.attempt, who.subject)


def _denied(refused: NotPermitted, exchange: Exchange) -> MCPError:
    """The protocol error of a lacking scope; over HTTP its status and challenge go with it."""
    exchange.denied = refused.with_traceback(None)  # its frames hold the exchange
    return MCPError(FORBIDDEN, refused.remedy, {"scope": refused.scope})


def _input_required(requests: Mapping[str, Any], exchange: Exchange) -> dict[str, Any]:
    return {
        "resultType": "input_required",
        "inputRequests": {key: dict(value) for key, value in requests.items()},
        "requestState": exchange.consent.state(requests),
    }


def _not_found(uri: str, exchange: Exchange) -> MCPError:
    code = types.INVALID_PARAMS if exchange.is_modern else _RESOURCE_NOT_FOUND_BEFORE_2026
    return MCPError(code, f"Resource not found: {uri}. See resources/list.", {"uri": uri})


def _raise_refusal(reply: Reply) -> None:
    """Resources and prompts have no error results: their envelope is the protocol error's data."""
    if reply.is_error:
        envelope = json.loads(reply.body)
        code = types.INTERNAL_ERROR if reply.code == "INTERNAL_ERROR" else types.INVALID_PARAMS
        raise MCPError(code, envelope["error"]["message"], envelope)


def _facts(declared: Tool | Resource, reply: Reply) -> dict[str, Any]:
    """The facts of an answer for its `_meta`, with the fields that strangers wrote."""
    if reply.kind == "json":
        written = foreign.fields_in(declared.name, reply.body)
    else:
        written = {} if reply.is_error or reply.kind == "input" else dict(foreign.fields(declared.name))
    return {**(reply.meta or {}), **({foreign.META_KEY: written} if written else {})}


def _contents(
    uri: str, mime_type: str, reply: Reply, facts: Mapping[str, Any]
) -> types.TextResourceContents | types.BlobResourceContents:
    meta = dict(facts) or None
    if reply.kind == "binary":
        blob = base64.b64encode(reply.body).decode()
        return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=blob, _meta=meta)
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=reply.body.decode(), _meta=meta)


def _prompt(declared: Prompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=a.name, description=a.description, required=a.required)
        for a in declared.arguments
    ]
    return types.Prompt(name=declared.name, description=declared.description, arguments=arguments)


def _check_arguments(declared: Prompt, arguments: Mapping[str, Any]) -> None:
    known = {a.name for a in declared.arguments}
    missing = [a.name for a in declared.arguments if a.required and a.name not in arguments]
    unknown = sorted(set(arguments) - known)
    if missing or unknown:
        faults = [f"missing: {', '.join(missing)}"] if missing else []
        faults += [f"unknown: {', '.join(unknown)}"] if unknown else []
        raise MCPError(types.INVALID_PARAMS, f"Prompt {declared.name}: {'; '.join(faults)}")


def _user_text(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}
