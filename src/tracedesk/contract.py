"""What a toolset declares: tools, resources, prompts, and how its references resolve.

A toolset is a module that creates one `Toolset` and decorates functions with it. Everything a wire
needs is read from these declarations; nothing here knows a protocol.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from tracedesk import contracts
from tracedesk.declared import DeclarationError, check_name, check_text, check_tool, put
from tracedesk.errors import STANDARD, Family
from tracedesk.hooks import (
    AcceptsHeaders,
    Brought,
    Canonical,
    Ended,
    Facts,
    Hooks,
    Requester,
    Watched,
    holder_of,
)
from tracedesk.primitives.redaction import shown_scope
from tracedesk.results import Blocks as Blocks
from tracedesk.results import Link as Link
from tracedesk.results import Linked as Linked
from tracedesk.results import Page as Page

S = TypeVar("S")
Scope = Literal["read", "write", "trade"]
ListKind = Literal["tools", "prompts", "resources"]
CacheScope = Literal["public", "private"]
Audience = Literal["reader", "own_account", "anyone"]
"""The callers of what reads: those with the scope; also those that brought credentials of their own; all."""
Json = Any
Arguments = dict[str, Any]

USER_SECONDS: Final = 300.0
"""Seconds that a user may take to answer a question."""

READ_DEADLINE: Final = 30.0
"""Seconds that a resource or a prompt may take."""

_ANY_OBJECT: Final = {"type": "object"}


# --- what a handler is given -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """A question to the user, answered with the fields of a flat JSON Schema; never for secrets.

    The answer is the client's own word, so nothing that needs a person may rest on it.
    """

    message: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Url:
    """A page the user is asked to open; what they enter there never passes through the client."""

    message: str
    url: str
    id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the user did with a question: accepted (with content), declined or cancelled."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])


class InputRequired(BaseException):
    """Ends a handler's run until the client has answered; the call is then run again from its start.

    Not an `Exception`, so that a handler's own `except Exception` cannot swallow it. A handler must
    therefore ask before it acts.
    """

    def __init__(self, requests: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__("the client must answer first")
        self.requests = requests


class Channel(Protocol):
    """The client's side of one call, as its transport offers it."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared it can do."""
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: Json) -> None: ...

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """Put named requests to the client and return its named results, or raise `InputRequired`."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """What a reference points at: a kind, a body, and the references it was made from."""

    ref: str
    kind: str
    body: Json
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """One step from a reference back to what it came from."""

    relation: str
    ref: str


class Services(Protocol):
    """What the desk offers every call."""

    async def resolve(
        self, ref: str, scope: str, principal: str | None, subject: str | None = None
    ) -> Source | None: ...

    def credential(self, scope: str, name: str) -> str | None: ...

    async def notify_resource(self, uri: str) -> None: ...

    async def notify_lists(self, kind: ListKind) -> None: ...


@dataclass(slots=True)
class Call(Generic[S]):
    """One run of one tool, resource or prompt, as its handler sees it."""

    id: str
    scope: str
    principal: str | None
    deadline: float
    state: S
    channel: Channel
    services: Services
    attempt: str | None = None
    budget: int = 8_000
    cancelled: bool = False
    sent: bool = False
    """Set before an order leaves the desk: from then on a deadline means an unknown outcome."""
    window: asyncio.Timeout | None = None
    """What cancels the call at its deadline, once it has begun to wait."""
    record: Any = None
    """This call's record; a store that changes state commits `record.entry(...)` with its effect."""
    recorded: bool = False
    """Set by a store that did so: the desk then does not write the record again."""
    subject: str | None = None
    """The principal that stored things belong to, the same on every desk of the home; None without one."""
    may_read: bool = True
    """False for a caller without a token that is not known to be the desk's own user: it is shown nothing of
    the owner's, also where it may call."""
    _questions: int = 0

    @property
    def label(self) -> str:
        """The scope as it may be shown."""
        return shown_scope(self.scope)

    @property
    def holder(self) -> str:
        """The key of what this call stores for later calls: its subject, or else its scope."""
        return holder_of(self.scope, self.subject)

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        await self.channel.progress(done, total, message)

    async def log(self, level: str, data: Json) -> None:
        await self.channel.log(level, data)

    def cite(self, relation: str, ref: str) -> None:
        """Note in this call's record what its answer was made from."""
        if self.record is not None:
            self.record.edges[relation, ref] = None

    def credential(self, name: str) -> str | None:
        return self.services.credential(self.scope, name)

    async def resolve(self, ref: str) -> Source | None:
        return await self.services.resolve(ref, self.scope, self.principal, self.subject)

    async def notify_resource(self, uri: str) -> None:
        await self.services.notify_resource(uri)

    async def notify_lists(self, kind: ListKind) -> None:
        await self.services.notify_lists(kind)

    async def elicit(self, question: Form | Url, *, key: str | None = None) -> Answer:
        """Ask the user through the client; raises `ToolError` when the client cannot."""
        self._questions += 1
        name = key or f"question-{self._questions}"
        with self.user_time():
            answers = await self.channel.ask({name: _elicitation(question)})
        reply: Mapping[str, Any] = answers[name]
        return Answer(reply.get("action", "cancel"), reply.get("content") or {})

    @contextmanager
    def user_time(self) -> Generator[None]:
        """While the user thinks, the tool's own deadline stands still."""
        now = asyncio.get_running_loop().time
        left = self.deadline - now()
        self._move_deadline(now() + USER_SECONDS)
        try:
            yield
        finally:
            self._move_deadline(now() + left)

    def _move_deadline(self, when: float) -> None:
        self.deadline = when
        if self.window is not None and not self.window.expired():
            self.window.reschedule(when)


def _elicitation(question: Form | Url) -> dict[str, Any]:
    if isinstance(question, Form):
        params: dict[str, Any] = {"message": question.message, "requestedSchema": dict(question.schema)}
        return {"method": "elicitation/create", "params": {"mode": "form", **params}}
    if not question.url.startswith(("https://", "http://127.0.0.1:", "http://localhost:", "http://[::1]:")):
        raise ValueError("a user is only ever sent to an https or loopback page")
    params = {"message": question.message, "url": question.url, "elicitationId": question.id}
    return {"method": "elicitation/create", "params": {"mode": "url", **params}}


Handler = Callable[[Arguments, "Call[Any]"], Awaitable[Json]]


# --- declarations ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Annotations:
    """MCP's hints about a tool; `read_only` also drives `--read-only`."""

    read_only: bool
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False

    def wire(self) -> dict[str, bool]:
        hints = {"readOnlyHint": self.read_only, "openWorldHint": self.open_world}
        if not self.read_only:
            hints |= {"destructiveHint": self.destructive, "idempotentHint": self.idempotent}
        return hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A contract and the function that keeps it."""

    name: str
    toolset: str
    description: str
    input: Mapping[str, Any]
    output: Mapping[str, Any] | None
    annotations: Annotations
    scope: Scope
    family: Family
    deadline: float
    handler: Handler
    page_size: str | None = None
    """The parameter that sizes an addressed page, named in the too-large error."""
    rows: str | None = None
    """The output list that an addressed page fills."""
    codes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Properties whose violation has a code of its own."""
    writes: tuple[str, ...] = ()
    """Parameters that write; a read-only desk serves the tool without them."""
    binary: bool = False
    """Whether the handler may return bytes, as a resource's may."""
    audience: Audience = "reader"
    """The callers for whom the scope `read` may be lacking."""
    header_parameters: bool = False
    """Whether the input schema mirrors parameters into HTTP headers (`x-mcp-header`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something readable by URI; `{name}` parts make it a template."""

    uri: str
    name: str
    description: str
    mime_type: str
    read: Handler
    toolset: str
    subscribable: bool = False
    complete: Mapping[str, Completer] = field(default_factory=dict[str, "Completer"])
    ttl_ms: int = 0
    """How long a reading may be shown again instead of read again."""
    cache_scope: CacheScope = "private"
    """Whether readings of one client may be shown to others."""
    audience: Audience = "reader"

    @property
    def is_template(self) -> bool:
        return "{" in self.uri


Completer = Callable[[str, Mapping[str, str], Any], Awaitable[Sequence[str]]]
"""`(prefix, the other arguments, the toolset's state) -> values`, best first."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a prompt."""

    name: str
    description: str
    required: bool = False
    complete: Completer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt with data: its function returns text, or a list of MCP prompt messages."""

    name: str
    description: str
    arguments: tuple[Argument, ...]
    get: Handler
    toolset: str


def as_tool(declared: Resource | Prompt) -> Tool:
    """A resource or prompt under the rules of a read-only tool: scope, deadline, limits, record, errors."""
    is_resource = isinstance(declared, Resource)
    return Tool(
        name=declared.uri if is_resource else declared.name,
        toolset=declared.toolset,
        description=declared.description,
        input=_ANY_OBJECT,
        output=None,
        annotations=Annotations(read_only=True),
        scope="read",
        family=STANDARD,
        deadline=READ_DEADLINE,
        handler=declared.read if is_resource else declared.get,
        binary=is_resource,
        audience=declared.audience if is_resource else "anyone",
    )


@dataclass(frozen=True, slots=True)
class Posted:
    """A JSON document that was posted to an intake, as its bytes, and by whose token."""

    body: bytes
    principal: str | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an intake answers."""

    body: Json
    status: int = 200


Take = Callable[[Posted, Any], Awaitable[Receipt]]
"""`(the document, the toolset's state) -> the answer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """An address on the HTTP app where programs that speak no MCP post documents of their own protocol."""

    path: str
    toolset: str
    scope: Scope
    largest: int
    """Bytes of a document, also after it was unpacked."""
    remedy: str
    """What to set on a sender that sends something else than JSON."""
    take: Take


Opener = Callable[[Any], AbstractAsyncContextManager[Any]]
Open = Callable[[Any], AbstractAsyncContextManager[S]]
"""`(the desk) -> what opens the toolset`, and closes it.

Called as the desk starts: it reads the toolset's settings, raises `BadSetting` for what does not fit, and is
quick. What it returns is entered later, when a call first needs the toolset or the desk has a moment.
"""

Resolver = Callable[[str, Any, Requester], Awaitable[Source | None]]
"""`(reference, the toolset's state, the caller) -> what it points at`."""

Withhold = Callable[[Mapping[str, Any]], Mapping[str, str] | Sequence[str]]
"""`(the toolset's table of tracedesk.toml) -> tools and prompts not served under it`, best with remedies."""


class Toolset(Generic[S]):
    """One toolset's declarations, collected by decorators and checked as they arrive."""

    def __init__(
        self,
        name: str,
        *,
        summary: str,
        guide: str,
        family: Family = STANDARD,
        open: Open[S] | None = None,
        withhold: Withhold | None = None,
        ended: Ended | None = None,
        watched: Watched | None = None,
        canonical: Canonical | None = None,
        headers: Mapping[str, str] | None = None,
        accepts_headers: AcceptsHeaders | None = None,
        facts: Facts | None = None,
        brought: Brought | None = None,
    ) -> None:
        check_name("toolset", name)
        check_text(f"toolset {name}", summary=summary, guide=guide)
        self.name = name
        self.summary = summary
        self.guide = guide
        self.family = family
        self.open = open
        self.withhold = withhold
        self.hooks = Hooks(
            ended=ended,
            watched=watched,
            canonical=canonical,
            headers=headers or {},
            accepts_headers=accepts_headers,
            facts=facts,
            brought=brought,
        )
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.intakes: dict[str, Intake] = {}
        self.resolver: Resolver | None = None

    def tool(
        self,
        *,
        annotations: Annotations,
        scope: Scope,
        deadline: float,
        page_size: str | None = None,
        rows: str | None = None,
        codes: Mapping[str, str] | None = None,
        writes: tuple[str, ...] = (),
        audience: Audience = "reader",
    ) -> Callable[[Handler], Handler]:
        """Declare a function as the tool of its name; its docstring is the description clients see."""

        def register(handler: Handler) -> Handler:
            contract = contracts.load(self.name, handler.__name__)
            self.add(
                Tool(
                    name=handler.__name__,
                    toolset=self.name,
                    description=inspect.getdoc(handler) or "",
                    input=contract.input,
                    output=contract.output,
                    annotations=annotations,
                    scope=scope,
                    family=self.family,
                    deadline=deadline,
                    handler=handler,
                    page_size=page_size,
                    rows=rows,
                    codes=codes or {},
                    writes=writes,
                    audience=audience,
                    header_parameters="x-mcp-header" in json.dumps(contract.input),
                )
            )
            return handler

        return register

    def add(self, tool: Tool) -> None:
        """Register `tool` after checking its metadata."""
        check_name("tool", tool.name)
        schemas = json.dumps((tool.input, tool.output), ensure_ascii=False)
        check_text(f"tool {tool.name}", description=tool.description, schemas=schemas)
        check_tool(tool)
        put(self.tools, "tool", tool.name, tool)

    def resource(
        self,
        uri: str,
        *,
        mime_type: str,
        subscribable: bool = False,
        complete: Mapping[str, Completer] | None = None,
        ttl_ms: int = 0,
        cache_scope: CacheScope = "private",
        audience: Audience = "reader",
    ) -> Callable[[Handler], Handler]:
        """Declare a function as the reader of `uri`; template parts arrive as arguments."""

        def register(reader: Handler) -> Handler:
            description = inspect.getdoc(reader) or ""
            check_name("resource", reader.__name__)
            check_text(f"resource {uri}", uri=uri, description=description, mime_type=mime_type)
            declared = Resource(
                uri=uri,
                name=reader.__name__,
                description=description,
                mime_type=mime_type,
                read=reader,
                toolset=self.name,
                subscribable=subscribable,
                complete=complete or {},
                ttl_ms=ttl_ms,
                cache_scope=cache_scope,
                audience=audience,
            )
            put(self.resources, "resource", uri, declared)
            return reader

        return register

    def prompt(self, *arguments: Argument) -> Callable[[Handler], Handler]:
        """Declare a function as the prompt of its name."""

        def register(getter: Handler) -> Handler:
            name, description = getter.__name__, inspect.getdoc(getter) or ""
            check_name("prompt", name)
            check_text(f"prompt {name}", description=description)
            for argument in arguments:
                check_text(f"prompt {name}", name=argument.name, description=argument.description)
            declared = Prompt(
                name=name, description=description, arguments=arguments, get=getter, toolset=self.name
            )
            put(self.prompts, "prompt", name, declared)
            return getter

        return register

    def intake(self, path: str, *, scope: Scope, largest: int, remedy: str) -> Callable[[Take], Take]:
        """Declare a function as what takes documents posted to `path`."""

        def register(take: Take) -> Take:
            check_text(f"intake {path}", path=path, remedy=remedy)
            declared = Intake(
                path=path, toolset=self.name, scope=scope, largest=largest, remedy=remedy, take=take
            )
            put(self.intakes, "intake", path, declared)
            return take

        return register

    def resolves(self, resolver: Resolver) -> Resolver:
        """Declare how this toolset turns one of its references into a `Source` with its edges."""
        if self.resolver is not None:
            raise DeclarationError(f"toolset {self.name} declares two resolvers")
        self.resolver = resolver
        return resolver
