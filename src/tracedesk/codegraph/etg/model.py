"""What is traced: events of attempts, what logging one answers, and what the code graph is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args
from urllib.parse import unquote

from tracedesk.calls.attempt import ATTEMPTS
from tracedesk.calls.attempt import attempt_ref as attempt_ref
from tracedesk.journal.file import SEQ_BITS

Kind = Literal["tool_start", "tool_end", "checkpoint", "context_retrieved", "answer_rendered"]
Source = Literal["client", "hook", "otlp", "git", "self"]
Given = Literal["succeeded", "failed", "abandoned"]
"""The outcomes that a client may state."""

Outcome = Literal["succeeded", "failed", "abandoned", "superseded", "unknown"]
Role = Literal["changed", "read", "cited"]

KINDS: Final[tuple[str, ...]] = get_args(Kind)
GIVEN: Final[tuple[str, ...]] = get_args(Given)
SOURCES: Final[tuple[str, ...]] = get_args(Source)
STATUSES: Final = ("ok", "error", "timeout", "cancelled", "denied")
"""What a tool's status may be; any other is kept as it is and means nothing."""

FAILING: Final = ("error", "timeout")

OWN_TOOLS: Final = frozenset(
    {
        "graph_index_project",
        "graph_update_files",
        "graph_context_for_files",
        "graph_search",
        "graph_neighbors",
        "etg_log_event",
        "etg_query_similar_attempts",
        "etg_get_attempt",
        "etg_timeline",
    }
)
"""Our own look-ups: an attempt is not made of having asked about attempts."""

STREAM_KIND: Final = "etg"
DEFAULT_PROJECT: Final = "default"
LONGEST_ID: Final = 200
LARGEST_PAYLOAD: Final = 65_536
IDLE_NS: Final = 86_400 * 1_000_000_000
"""An attempt without an answer is closed after so long without an event; a larger skew is flagged."""

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_SCHEME: Final = "tracedesk://codegraph/"


@dataclass(slots=True)
class NewEvent:
    """An event to log. Without a timestamp it is of now; without an event_id it gets one."""

    attempt_id: str
    kind: str
    payload: Mapping[str, Any]
    timestamp_ns: int | None = None
    project: str | None = None
    outcome: str | None = None
    call_id: str | None = None
    event_id: str | None = None
    source: Source = "client"


@dataclass(frozen=True, slots=True)
class Logged:
    """An event that is on the disk; `duplicate` when it had been there before."""

    event_id: str
    attempt_id: str
    ref: str
    duplicate: bool = False
    warnings: tuple[str, ...] = ()


class World(Protocol):
    """What the code graph knows of projects and their versions."""

    def version(self, project: str | None) -> str | None:
        """The current version of a project's graph, or of the only one."""
        ...

    def project_of(self, graph_version: str) -> str | None:
        """The project that has or had this version; None for a version that no graph had."""
        ...

    def only_project(self) -> str | None:
        """The project, when there is exactly one."""
        ...


class Unindexed:
    """A world without a code graph."""

    def version(self, project: str | None) -> str | None:
        return None

    def project_of(self, graph_version: str) -> str | None:
        return None

    def only_project(self) -> str | None:
        return None


def is_own(tool: str) -> bool:
    """Whether a tool, as a client names it (`graph_search`, `mcp__desk__graph_search`), is one of ours."""
    return tool in OWN_TOOLS or tool.rpartition("__")[2] in OWN_TOOLS


def canonical(name: str) -> str:
    """The attempt that a name means: a traceparent, which each call of a trace carries, means the trace."""
    found = _TRACEPARENT.fullmatch(name) if name.startswith("00-") else None
    return found[1] if found else name


def event_ref(stream: str, seq: int) -> str:
    return f"{_SCHEME}{stream}/{seq}"


def attempt_of(ref: str) -> str | None:
    """The attempt that a reference names."""
    return unquote(ref.removeprefix(ATTEMPTS)) if ref.startswith(ATTEMPTS) else None


def place_of(ref: str) -> tuple[str, int] | None:
    """The stream and seq that a reference to an event names."""
    stream, _, seq = ref.removeprefix(_SCHEME).partition("/")
    known = ref.startswith(f"{_SCHEME}etg-") and seq.isascii() and seq.isdecimal() and len(seq) <= 13
    return (stream, int(seq)) if known and 0 < int(seq) < 1 << SEQ_BITS else None
