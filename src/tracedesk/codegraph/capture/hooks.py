"""What a client's hook means to the trace: which attempt it belongs to, and the events it becomes.

One attempt is one prompt with all that follows it until the next. Its id is `<client>:<session>:<turn>`;
the turn is the client's own number of the prompt where it sends one (`prompt_id`), else the time at which
the prompt was dropped, so that draining a file twice names the same attempt twice.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tracedesk.codegraph.capture.bounds import LONGEST_TOOL, folder, is_tool
from tracedesk.codegraph.capture.inbox import Drop, Malformed
from tracedesk.codegraph.etg.model import NewEvent, is_own
from tracedesk.primitives import json
from tracedesk.primitives.time import parse

EDITING: Final = frozenset(
    (
        *("write_file", "edit", "replace", "notebook_edit", "apply_patch"),
        *("Write", "Edit", "MultiEdit", "NotebookEdit"),
    )
)
"""Tools of Qwen Code and Claude Code whose files are new afterwards."""

_ONE_PATH: Final = ("file_path", "absolute_path", "notebook_path", "path")
_MANY_PATHS: Final = ("paths", "files", "file_paths")
_TURN_MARK: Final = "########"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LONGEST_MOMENT: Final = 40

Newest = Callable[[str], tuple[str, bool] | None]
"""`(prefix of attempt ids) -> the attempt of that prefix that began last, and whether it was answered`."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The events of one drop, and the files that are different since."""

    events: tuple[NewEvent, ...] = ()
    edited: tuple[str, ...] = ()


_NOTHING: Final = Meaning()
UNINDEXED: Final = "unindexed"
"""The graph version of a checkpoint in a project without a graph."""


class Turns:
    """Which attempt each session is in."""

    def __init__(self, newest: Newest) -> None:
        self._newest = newest
        self._current: dict[str, tuple[str, bool]] = {}

    def attempt(self, drop: Drop) -> str | None:
        """The attempt that a drop belongs to; None before a session's first prompt."""
        prefix = f"{drop.client}:{session_of(drop)}:"
        turn = _turn(drop)
        if turn is not None:
            self._enter(prefix, prefix + turn, answered=drop.event == "Stop")
            return prefix + turn
        known = self._known(prefix)
        if known is None:
            return None
        self._enter(prefix, known[0], answered=known[1] or drop.event == "Stop")
        return known[0]

    def is_answered(self, drop: Drop) -> bool:
        """Whether the session's last attempt has its answer."""
        known = self._known(f"{drop.client}:{session_of(drop)}:")
        return known is not None and known[1]

    def _known(self, prefix: str) -> tuple[str, bool] | None:
        if prefix not in self._current and (found := self._newest(prefix)) is not None:
            self._current[prefix] = found
        return self._current.get(prefix)

    def _enter(self, prefix: str, attempt: str, *, answered: bool) -> None:
        self._current[prefix] = (attempt, answered)


def session_of(drop: Drop) -> str:
    """The session of a drop, as part of an attempt's id."""
    session = drop.hook.get("session_id")
    if not isinstance(session, str) or not session:
        raise Malformed("it names no session (session_id)")
    return _plain(session)


def _turn(drop: Drop) -> str | None:
    named = drop.hook.get("prompt_id")
    if isinstance(named, str) and named:
        return _plain(named.removeprefix(f"{drop.hook['session_id']}{_TURN_MARK}"))
    return str(drop.received_ns) if drop.event == "UserPromptSubmit" and _prompt(drop.hook) else None


def _plain(name: str) -> str:
    """A client's own name where it is short and plain, else a digest of it."""
    if _PLAIN.fullmatch(name):
        return name
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# --- what each hook becomes ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Heard:
    """A drop with its attempt, its project and its time."""

    drop: Drop
    attempt: str
    root: str | None
    version: str

    @property
    def hook(self) -> Mapping[str, Any]:
        return self.drop.hook

    def event(self, kind: str, id: str, payload: dict[str, Any]) -> NewEvent:
        agent = self.hook.get("agent_type")
        return NewEvent(
            attempt_id=self.attempt,
            kind=kind,
            payload={**payload, "agent": agent} if isinstance(agent, str) and agent else payload,
            timestamp_ns=_time(self.drop),
            project=self.root,
            event_id=f"{self.attempt}:{id}",
            source="hook",
        )


def meaning(drop: Drop, turns: Turns, root: str | None = None, version: str | None = None) -> Meaning:
    """What a drop says in the project at `root`, whose graph has `version`; it may say nothing."""
    become = _BECOMES.get(drop.event)
    if become is None:
        return _NOTHING
    ended_early = drop.event == "SessionEnd" and not turns.is_answered(drop)
    attempt = turns.attempt(drop)
    if attempt is None or (drop.event == "SessionEnd" and not ended_early):
        return _NOTHING
    return become(_Heard(drop, attempt, root, version or UNINDEXED))


def _prompted(heard: _Heard) -> Meaning:
    prompt = _prompt(heard.hook)
    # Qwen Code calls this hook again, with an empty prompt, each time it hands a tool's result to the model.
    if not prompt:
        return _NOTHING
    payload: dict[str, Any] = {"files": [], "query": prompt}
    return Meaning((heard.event("context_retrieved", "prompt", payload),))


def _tool_started(heard: _Heard) -> Meaning:
    tool, arguments = _tool(heard.hook)
    payload: dict[str, Any] = {"tool": tool, "arguments": arguments}
    return Meaning((_tool_event(heard, "tool_start", "start", tool, payload),))


def _tool_done(heard: _Heard) -> Meaning:
    tool, arguments = _tool(heard.hook)
    payload = {"tool": tool, "status": "ok", "output": _output(heard.hook.get("tool_response"))}
    event = _tool_event(heard, "tool_end", "end", tool, _timed(payload, heard.hook))
    return Meaning((event,), tuple(_files(heard, arguments)) if tool in EDITING else ())


def _tool_failed(heard: _Heard) -> Meaning:
    tool, _ = _tool(heard.hook)
    status = "cancelled" if heard.hook.get("is_interrupt") is True else "error"
    payload = {"tool": tool, "status": status, "error": _text(heard.hook.get("error"))}
    return Meaning((_tool_event(heard, "tool_end", "end", tool, _timed(payload, heard.hook)),))


def _answered(heard: _Heard) -> Meaning:
    payload = {"content": _text(heard.hook.get("last_assistant_message"))}
    return Meaning((heard.event("answer_rendered", f"stop:{_moment(heard.drop)}", payload),))


def _broke_off(heard: _Heard) -> Meaning:
    error, details = _text(heard.hook.get("error")), _text(heard.hook.get("error_details"))
    said = f"The turn ended with an error: {error or 'unknown'}" + (f" ({details})" if details else "")
    return _checkpoint(heard, "failure", said, "failed")


def _left(heard: _Heard) -> Meaning:
    reason = _text(heard.hook.get("reason")) or "no reason given"
    return _checkpoint(heard, "left", f"The session ended without an answer: {reason}", "abandoned")


_BECOMES: Final[dict[str, Callable[[_Heard], Meaning]]] = {
    "UserPromptSubmit": _prompted,
    "PreToolUse": _tool_started,
    "PostToolUse": _tool_done,
    "PostToolUseFailure": _tool_failed,
    "Stop": _answered,
    "StopFailure": _broke_off,
    "SessionEnd": _left,
}


def _checkpoint(heard: _Heard, id: str, message: str, outcome: str) -> Meaning:
    payload: dict[str, Any] = {"message": message, "files": [], "graph_version": heard.version}
    event = heard.event("checkpoint", f"{id}:{_moment(heard.drop)}", payload)
    return Meaning((replace(event, outcome=outcome),))


def _tool_event(heard: _Heard, kind: str, id: str, tool: str, payload: dict[str, Any]) -> NewEvent:
    call = heard.hook.get("tool_use_id") or heard.hook.get("tool_call_id")
    known = _plain(call) if isinstance(call, str) and call else None
    name = f"{known or _moment(heard.drop)}:{id}"
    event = heard.event(kind, name, payload)
    return replace(event, call_id=known, source="self" if is_own(tool) else "hook")


# --- fields -------------------------------------------------------------------------------------


def _prompt(hook: Mapping[str, Any]) -> str:
    return _text(hook.get("submitted_prompt")) or _text(hook.get("prompt"))


def _tool(hook: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    tool, arguments = hook.get("tool_name"), hook.get("tool_input")
    if not isinstance(tool, str) or not tool:
        raise Malformed("it names no tool (tool_name)")
    if not is_tool(tool):
        raise Malformed(f"its tool_name is not a visible text of 1 to {LONGEST_TOOL} characters")
    if isinstance(arguments, dict):
        return tool, cast("dict[str, Any]", arguments)
    return tool, {} if arguments is None else {"input": arguments}


def _output(response: object) -> str:
    """What a tool answered, as text; Qwen Code keeps what the model saw under `llmContent`."""
    if isinstance(response, dict):
        seen = cast("dict[str, Any]", response).get("llmContent")
        if isinstance(seen, str):
            return seen
    if response is None or isinstance(response, str):
        return response or ""
    return json.dumps(response).decode()


def _timed(payload: dict[str, Any], hook: Mapping[str, Any]) -> dict[str, Any]:
    took = hook.get("duration_ms")
    return {**payload, "duration_ms": took} if type(took) is int and took >= 0 else payload


def _files(heard: _Heard, arguments: Mapping[str, Any]) -> Iterator[str]:
    """The files that a tool was given, from the client's folder, below the project where they are in it."""
    cwd = folder(heard.hook.get("cwd")) or heard.root
    start = os.path.realpath(cwd) if cwd is not None else ""
    for path in dict.fromkeys(_paths(arguments)):
        relative = _below(os.path.join(start, path) if path else "", heard.root)
        if relative is not None:
            yield relative


def _paths(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key in _ONE_PATH:
        if isinstance(arguments.get(key), str):
            yield arguments[key]
    for key in _MANY_PATHS:
        if isinstance(arguments.get(key), list):
            yield from (path for path in cast("list[Any]", arguments[key]) if isinstance(path, str))


def _below(path: str, root: str | None) -> str | None:
    if not path or "\0" in path:
        return None
    if not os.path.isabs(path):
        relative = os.path.normpath(path)
    elif root is None:
        return None
    else:
        relative = os.path.relpath(path, root)
    return None if relative in (".", "..") or relative.startswith("../") else relative


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _moment(drop: Drop) -> str:
    """What tells this hook from the next of its kind, also when it is delivered twice."""
    told = drop.hook.get("timestamp")
    return told if isinstance(told, str) and 0 < len(told) <= _LONGEST_MOMENT else str(drop.received_ns)


def _time(drop: Drop) -> int:
    """The client's own time where it says one with its zone, else the time of the drop."""
    told = drop.hook.get("timestamp")
    if isinstance(told, str):
        try:
            instant = parse(told)
        except ValueError:
            return drop.received_ns
        return instant.ns if instant.form == "exact" else drop.received_ns
    return drop.received_ns
