"""What a sequence does when it is executed once more: status, gas, events, storage, and the tree of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.fuzz import native
from tracedesk.fuzz.answers import fitting
from tracedesk.fuzz.native import Campaign, Engine
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.target import EventType, Target

Row = Mapping[str, Any]
_SHOWN: Final = 20
"""Events, slots and created contracts of one transaction that are shown."""
_LONGEST: Final = 200
SECONDS: Final = 10.0
"""Seconds that a sequence may take to be executed, and again to be checked."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Parts of an execution that a reader asks for, and the time that it may take."""

    trace: bool
    budget: int
    """Characters of the answer, about."""
    seconds: float = SECONDS


def stopped(fault: Exception, seconds: float) -> ToolError:
    """The refusal of a sequence that reached a limit."""
    phase, limit, words = fault.args
    details = {"kind": "LIMIT_REACHED", "phase": phase, "limit": limit}
    if limit == "time":
        message = f"sequence: it did not end within {seconds:g} s. Give it fewer calls or less gas."
        return ToolError("EXECUTION_TIMEOUT", message, details)
    return ToolError("INVALID_INPUT", f"sequence: {words}. Give it fewer calls or less gas.", details)


def executed(
    campaign: Campaign, engine: Engine, target: Target, sequence: Sequence[Row], asked: Asked
) -> dict[str, Any]:
    """What `execute_sequence` says, but for the campaign's id; the workers notice nothing."""
    document = native.text(list(sequence))
    try:
        done = campaign.execute(document, asked.trace, asked.seconds)
        rows: list[Row] = native.read(done)["transactions"]
        checked = native.read(campaign.check(document, asked.seconds))
    except engine.LimitError as fault:
        raise stopped(fault, asked.seconds) from None
    except engine.SpecError as fault:
        raise invalid("PARSE_ERROR", f"sequence: {fault}.", argument="sequence") from None
    told = Teller(target, engine)
    shown = [told.transaction(row) for row in rows]
    # Later calls are what a reader asks about; of many, the first ones give way.
    kept = fitting(shown[::-1], asked.budget)[::-1]
    answer: dict[str, Any] = {"transactions": kept, "failures": [_failure(f) for f in checked["failures"]]}
    if checked["unsupported"]:
        answer["unsupported"] = checked["unsupported"]
    if any(value is not None for value in checked["values"].values()):
        answer["values"] = checked["values"]
    if asked.trace and rows and rows[-1].get("trace"):
        answer["trace"] = fitting(list(told.tree(rows[-1]["trace"])), asked.budget // 2)
    return {**answer, "truncated": True} if len(kept) < len(shown) else answer


def _failure(failure: Row) -> dict[str, Any]:
    kept = {key: failure[key] for key in ("reason", "position") if failure.get(key) is not None}
    return {"test": str(failure["test"]), **kept}


class Teller:
    """Puts what the core saw into words, with names where they are known."""

    def __init__(self, target: Target, engine: Engine) -> None:
        self._target = target
        self._engine = engine

    def transaction(self, row: Row) -> dict[str, Any]:
        """One executed transaction."""
        shown: dict[str, Any] = {
            "call": self._target.text(row["tx"], self._engine),
            "status": row["status"],
            "gasUsed": row["gas"],
        }
        optional = {
            "reason": row.get("reason"),
            "assertion": row.get("assertion"),
            "output": self._output(row),
            "events": [self.event(log) for log in row["logs"][:_SHOWN]],
            "storage": [_slot(change) for change in row["storage"][:_SHOWN]],
            "created": row.get("created", [])[:_SHOWN],
            "unsupported": row["unsupported"],
        }
        return shown | {key: value for key, value in optional.items() if value not in (None, [], "")}

    def _output(self, row: Row) -> str | None:
        call: Row | None = row["tx"].get("call")
        function = self._target.function(call.get("function", "")) if call else None
        data = str(row.get("return") or "0x")
        if data == "0x" or row.get("reason"):
            return None
        types = function.outputs if function else ()
        return self._values(types, data) or _short(data)

    def event(self, log: Row) -> str:
        """An event by its name and values where a contract declares it, else by its topics."""
        topics: list[str] = log["topics"]
        known = self._target.events.get(topics[0]) if topics else None
        if known is None:
            return f"{log['address']}: {', '.join(topics) or 'no topic'} {_short(log['data'])}"
        return f"{known.name}({', '.join(self._parts(known, topics[1:], log['data']))})"

    def _parts(self, known: EventType, topics: Sequence[str], data: str) -> Iterator[str]:
        plain = [kind for kind, indexed in zip(known.types, known.indexed, strict=True) if not indexed]
        values = iter(self._decoded(plain, data) or [data])
        rest = iter(topics)
        for kind, indexed in zip(known.types, known.indexed, strict=True):
            if not indexed:
                yield _shown(next(values, "?"))
                continue
            topic = next(rest, "0x")
            # Of a value that does not fit in a word, only its hash is in the topic.
            words = self._decoded([kind], topic) if _fits_a_word(kind) else None
            yield _shown(words[0]) if words else topic

    def tree(self, node: Row, depth: int = 0) -> Iterator[str]:
        """The calls of a transaction, indented by depth."""
        yield f"{'  ' * depth}{self._head(node)}"
        for log in node["logs"]:
            yield f"{'  ' * (depth + 1)}emit {self.event(log)}"
        for call in node["calls"]:
            yield from self.tree(call, depth + 1)
        if node.get("left_out"):
            yield f"{'  ' * (depth + 1)}… {node['left_out']:,} more calls and events"

    def _head(self, node: Row) -> str:
        name = node.get("code") or node["to"]
        function = self._target.function(node.get("function") or "")
        data = str(node["input"])
        if function is not None and function.form != "abi":
            what = f"{name}.{function.name}({_short(data) if function.form == 'raw' else ''})"
        elif function is not None:
            values = self._decoded(function.types, "0x" + data[10:])
            args = ", ".join(map(_shown, values)) if values is not None else _short(data[10:])
            what = f"{name}.{function.name}({args})"
        else:
            what = f"{name} {_short(data)}"
        paid = f" value {node['value']}" if node["value"] != "0" else ""
        return f"{node['kind']} {what}{paid} gas {node['gas_used']} → {self._result(node, function)}"

    def _result(self, node: Row, function: Any) -> str:
        if node.get("reason"):
            return f"{node['status']}: {node['reason']}"
        types = function.outputs if function is not None else ()
        return self._values(types, str(node["output"])) or node["status"]

    def _values(self, types: Sequence[str], data: str) -> str | None:
        values = self._decoded(types, data) if types else None
        return ", ".join(map(_shown, values)) if values else None

    def _decoded(self, types: Sequence[str], data: str) -> list[Any] | None:
        try:
            found = self._engine.abi_decode(native.text(list(types)), bytes.fromhex(data.removeprefix("0x")))
            return native.read(found)
        except ValueError:
            return None


def _fits_a_word(kind: str) -> bool:
    return kind not in ("string", "bytes") and not kind.endswith("]") and not kind.startswith("(")


def _slot(change: Row) -> str:
    before, after = _word(change["before"]), _word(change["after"])
    return f"{change['address']}[{_word(change['slot'])}]: {before} → {after}"


def _word(text: str) -> str:
    return f"0x{int(text, 16):x}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_shown(item) for item in value)}]"  # pyright: ignore[reportUnknownVariableType]
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
