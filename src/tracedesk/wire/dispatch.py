"""The way of a call: look up, validate, record, run under a deadline, encode, close the record."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final, cast

from tracedesk.calls import CallRecord, Outcome, Recorder, RecordError
from tracedesk.contract import (
    Call,
    Channel,
    InputRequired,
    Scope,
    Services,
    Tool,
    as_tool,
)
from tracedesk.errors import NotPermitted, ToolError
from tracedesk.hooks import holder_of
from tracedesk.journal import JournalError
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.redaction import Secrets, redact_text
from tracedesk.primitives.supervision import is_ending
from tracedesk.registry import Registry, ResourceMatch
from tracedesk.storage import StorageFault, StorageHealth
from tracedesk.wire.admission import Admission, Load
from tracedesk.wire.documents import AT_ONCE, Documents
from tracedesk.wire.encode import Limits, Reply, encode, encode_error
from tracedesk.wire.validate import Validator, compile_schema

log = logging.getLogger(__name__)

Opened = Callable[[str], Awaitable[Any]]
"""`(toolset) -> what it opened`, once it is open; a `ToolError` where it cannot be."""

EVERY_SCOPE: Final[frozenset[Scope]] = frozenset(("read", "write", "trade"))


@dataclass(slots=True)
class Origin:
    """Who calls, and what their transport allows."""

    scope: str
    channel: Channel
    principal: str | None = None
    granted: frozenset[Scope] = EVERY_SCOPE
    attempt: str | None = None
    subject: str | None = None
    """The owner of what the call stores for later; None where the scope owns it."""

    @property
    def holder(self) -> str:
        """The key of what the caller stores for later calls; see `Call.holder`."""
        return holder_of(self.scope, self.subject)

    @property
    def is_stranger(self) -> bool:
        """Whether nothing says who calls: over HTTP, without a token."""
        return self.principal is None and self.granted != EVERY_SCOPE

    @property
    def may_read(self) -> bool:
        """True when the owner's data may be shown: to tokens, and to the desk's own user."""
        return self.principal is not None or "read" in self.granted

    @property
    def may_write(self) -> bool:
        """Whether the caller may change what others see, such as by what is recorded of an attempt."""
        return "write" in self.granted


class Dispatch:
    """Runs calls; the only place that validates, times, records and renders errors."""

    def __init__(
        self,
        registry: Registry,
        services: Services,
        recorder: Recorder,
        *,
        states: Mapping[str, Any],
        opened: Opened | None = None,
        limits: Limits | None = None,
        load: Load | None = None,
        secrets: Secrets | None = None,
        check_output: bool = False,
        storage: StorageHealth | None = None,
    ) -> None:
        self.registry = registry
        self.limits = limits or Limits()
        self.admission = Admission(load or Load())
        self._services = services
        self._recorder = recorder
        self._states = states
        self._opened = opened
        self.secrets = secrets
        self._check_output = check_output
        self.documents = Documents()
        self._storage = storage
        self._validators: dict[str, Validator] = {}

    @property
    def in_flight(self) -> int:
        """Calls that run; those that wait for a place are not counted."""
        return self.admission.running

    async def state(self, toolset: str) -> Any:
        """What a toolset opened; it is waited for, and a `ToolError` says why it cannot be opened."""
        return self._states.get(toolset) if self._opened is None else await self._opened(toolset)

    async def call(self, name: str, arguments: Any, origin: Origin) -> Reply:
        """Run the tool of that name to its reply; raises `UnknownTool` or `NotPermitted`."""
        return await self.run(self.registry.tool(name), arguments, origin)

    async def run(self, tool: Tool, arguments: Any, origin: Origin) -> Reply:
        """Run one tool to its reply."""
        self.permit(tool, arguments, origin)
        if self._recorder.is_full(stranger=origin.is_stranger):
            await self._recorder.room(stranger=origin.is_stranger)
        call = self._make_call(tool, origin)
        why = json.cut_of(arguments)
        kept = arguments if why is None else {"omitted": why}
        call.record = record = self._recorder.open(call, tool, kept)
        if not origin.may_write:
            record.attempt = None  # attempts are made of what those did who may write
        started = perf_counter_ns()
        outcome: Outcome = "cancelled"
        code: str | None = None
        result = b""
        try:
            reply = await self._admitted(tool, arguments, call, origin.is_stranger)
            outcome, code, result = _outcome(reply), reply.code, self._without_secrets(reply.body)
        except asyncio.CancelledError:
            call.cancelled = True
            raise
        finally:
            self._recorder.close(record, outcome, code, result, (perf_counter_ns() - started) // 1000)
        if record.durable and not call.recorded:
            return await self._settled(reply, tool, arguments, call)
        reply.ref = record.ref
        return reply

    def permit(self, tool: Tool, arguments: Any, origin: Origin) -> None:
        """Raise `NotPermitted` where the caller may not run this tool with these arguments."""
        scope = _scope_of(tool, arguments)
        # A token has the scopes that its owner gave it, and what is open to strangers adds none.
        is_stranger = origin.principal is None
        if scope in origin.granted or (
            is_stranger and scope == "read" and self._is_open(tool, arguments, origin.scope)
        ):
            return
        raise NotPermitted(scope, authenticated=origin.principal is not None)

    def permit_following(self, match: ResourceMatch | None, origin: Origin) -> None:
        """Raise `NotPermitted` where the caller may not read, and so not follow, this resource."""
        if match is not None:
            self.permit(as_tool(match.resource), match.arguments, origin)
        elif "read" not in origin.granted:
            raise NotPermitted("read", authenticated=origin.principal is not None)

    def _is_open(self, tool: Tool, arguments: Any, caller: str) -> bool:
        """True when a reading tool is open to a caller without the scope for it."""
        if tool.audience == "own_account" and isinstance(arguments, dict):
            brought = self.registry.hooks(tool.toolset).brought
            state = self._states.get(tool.toolset)
            given = cast("dict[str, Any]", arguments)
            return brought is not None and state is not None and brought(caller, given, state)
        return tool.audience == "anyone"

    def _without_secrets(self, result: bytes) -> bytes:
        """What is kept of a result: a caller may see its own credential again, the record may not."""
        if self.secrets is None or not self.secrets.occur_in(result):
            return result
        text = result.decode(errors="surrogateescape")
        return self.secrets.redact_text(text).encode(errors="surrogateescape")

    async def _settled(self, reply: Reply, tool: Tool, arguments: Any, call: Call[Any]) -> Reply:
        """The reply, once its record is on the disk; a refusal is told also where its record is lost."""
        try:
            await self._recorder.settle(call.record)
        except (RecordError, SQLiteError, JournalError, OSError) as problem:
            fault = self._storage_fault(problem)
            lost = _unrecorded(tool, call, problem, fault)
            return reply if reply.is_error else encode_error(tool, lost, arguments)
        reply.ref = call.record.ref
        return reply

    def _make_call(self, tool: Tool, origin: Origin) -> Call[Any]:
        return Call(
            id=uuid7(),
            scope=origin.scope,
            principal=origin.principal,
            deadline=asyncio.get_running_loop().time() + tool.deadline,
            state=self._states.get(tool.toolset),
            channel=origin.channel,
            services=self._services,
            attempt=origin.attempt,
            budget=self.limits.max_tokens,
            subject=origin.subject,
            may_read=origin.may_read,
        )

    async def _admitted(self, tool: Tool, arguments: Any, call: Call[Any], stranger: bool) -> Reply:
        limit = await self.admission.enter(call.scope, stranger=stranger, until=call.deadline)
        if limit is not None:
            return encode_error(tool, tool.family.overloaded(tool.name, limit), arguments)
        try:
            return await self._answer(tool, arguments, call)
        finally:
            self.admission.leave(call.scope, stranger=stranger)

    async def _answer(self, tool: Tool, arguments: Any, call: Call[Any]) -> Reply:
        try:
            accepted = await self._accepted(tool, arguments)
            if tool.toolset not in self._states:
                await self._open(tool, call)
            value = await self._timed(tool, accepted, call)
            reply = encode(tool, value, self.limits)
            if self._check_output:
                check_output(tool, reply)
            return reply
        except ToolError as error:
            return encode_error(tool, self._explained(tool, error), arguments)
        except InputRequired as question:
            return Reply("input", b"", requests=question.requests)
        except BaseException as problem:
            if is_ending(problem):
                raise
            fault = self._storage_fault(problem)
            if fault is not None:
                log.error("call %s: tool %s failed: %s", call.id, tool.name, fault.text)
                return encode_error(tool, fault.error(tool.family), arguments)
            # Text, not exc_info: a kept record would keep the frames, and with them their secrets.
            trace = redact_text(traceback.format_exc(), self.secrets)
            log.error("call %s: tool %s failed\n%s", call.id, tool.name, trace)
            return encode_error(tool, tool.family.broken(call.id), arguments)

    async def _accepted(self, tool: Tool, arguments: Any) -> dict[str, Any]:
        """The arguments as the tool takes them, or the family's error naming what is wrong with them."""
        if (why := json.cut_of(arguments)) is not None:
            message = f"arguments: the document {why}. Flatten it, or split it over several calls."
            raise ToolError(tool.family.invalid, message, {"path": [], "rule": "limits"})
        validator = self._validator(tool)
        if validator.takes(arguments):
            return validator.filled(arguments)
        if json.is_longer(arguments, AT_ONCE):
            await asyncio.sleep(0)  # looking and saying what is wrong each take a while
        raise validator.refusal(arguments)

    def _storage_fault(self, problem: BaseException) -> StorageFault | None:
        return None if self._storage is None else self._storage.explain(problem)

    def _explained(self, tool: Tool, error: ToolError) -> ToolError:
        """A toolset's error of its store, with the disk's fault where that is the cause."""
        if error.code not in (tool.family.storage, tool.family.internal):
            return error
        fault = self._storage_fault(error)
        if fault is None or (error.details or {}).get("kind") == fault.kind:
            return error
        return fault.error(tool.family)

    async def _open(self, tool: Tool, call: Call[Any]) -> None:
        """Wait until the tool's toolset is open; the time that the tool has begins then."""
        call.state = await self.state(tool.toolset)
        call.deadline = asyncio.get_running_loop().time() + tool.deadline

    async def _timed(self, tool: Tool, arguments: dict[str, Any], call: Call[Any]) -> Any:
        running = tool.handler(arguments, call).__await__()
        try:
            waits_for = next(running)
        except StopIteration as finished:
            value = finished.value  # it never waited: there was nothing to cancel
        else:
            value = await self._within(tool, _Rest(running, waits_for), call)
        # What has changed state is answered as it is; a late reading is a failed one.
        if tool.annotations.read_only and _is_late(call):
            raise tool.family.timed_out(tool.name, tool.deadline, sent=call.sent)
        return value

    async def _within(self, tool: Tool, rest: _Rest, call: Call[Any]) -> Any:
        window = call.window = asyncio.timeout_at(call.deadline)
        try:
            async with window:
                return await rest
        except TimeoutError:
            if not window.expired():
                raise
            raise tool.family.timed_out(tool.name, tool.deadline, sent=call.sent) from None

    def _validator(self, tool: Tool) -> Validator:
        validator = self._validators.get(tool.name)
        if validator is None:
            validator = self._validators[tool.name] = Validator(tool)
        return validator


def _is_late(call: Call[Any]) -> bool:
    cut = call.window is not None and call.window.expired()
    return cut or asyncio.get_running_loop().time() > call.deadline


class _Rest:
    """The rest of a coroutine that has been run to its first wait."""

    def __init__(self, running: Generator[Any, Any, Any], waits_for: Any) -> None:
        self._running = running
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self._waits_for
        while True:
            try:
                try:
                    answer = yield waits_for
                except BaseException as thrown:
                    waits_for = self._running.throw(thrown)
                else:
                    waits_for = self._running.send(answer)
            except StopIteration as finished:
                return finished.value


def _scope_of(tool: Tool, arguments: Any) -> Scope:
    """The scope a call needs: a reading tool given a parameter that writes needs more than reading."""
    if tool.scope == "read" and tool.writes and isinstance(arguments, dict):
        return "write" if any(name in arguments for name in tool.writes) else "read"
    return tool.scope


def _unrecorded(tool: Tool, call: Call[Any], problem: Exception, fault: StorageFault | None) -> ToolError:
    """A call that was carried out but of which there is no record."""
    if fault is not None:
        message = (
            f"{tool.name} was carried out, but its record could not be written. {fault.text} Look at what it "
            "has changed before you call it again."
        )
        return ToolError(tool.family.storage, message, {"kind": fault.kind, "correlationId": call.id})
    lost = RecordError.of(problem)
    message = (
        f"{tool.name} was carried out, but its record could not be written: {lost}. Look at what it has "
        "changed before you call it again; `tracedesk doctor` looks for the cause."
    )
    return ToolError(tool.family.storage, message, {"kind": lost.kind, "correlationId": call.id})


def _outcome(reply: Reply) -> Outcome:
    if reply.kind == "input":
        return "input_required"
    return "error" if reply.is_error else "ok"


def check_output(tool: Tool, reply: Reply) -> None:
    """Raise when a reply breaks its own contract: tests and `doctor` run with this on."""
    if tool.output is None or reply.kind not in ("json", "text"):
        return
    value = json.loads(reply.body) if reply.kind == "json" else reply.body.decode()
    compile_schema(tool.output).validate(value)


__all__ = ["EVERY_SCOPE", "CallRecord", "Dispatch", "Origin", "check_output"]
