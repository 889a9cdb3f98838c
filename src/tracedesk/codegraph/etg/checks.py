"""What an event must have, by its kind: everything that is wrong with one is said at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast

from tracedesk.calls.attempt import ATTEMPTS, LONGEST_NAME, LONGEST_REFERENCE, is_name
from tracedesk.codegraph.etg.model import (
    GIVEN,
    KINDS,
    LONGEST_ID,
    SOURCES,
    NewEvent,
)
from tracedesk.errors import ToolError
from tracedesk.primitives.time import parse


@dataclass(frozen=True, slots=True)
class Flaw:
    """One field that is missing or not what it must be."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


Test = Callable[[Any], bool]
Field = tuple[str, bool, Test, str]
"""Name, whether it is required, what its value must pass, and that in words."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_named(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_amount(value: Any) -> bool:
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return number and 0 <= value < 2**53


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


_NAME: Final = "a text that is not empty"
_TEXT: Final = "a text"
_TEXTS: Final = "a list of texts"
ANY_KIND: Final[tuple[Field, ...]] = (
    ("query", False, _is_text, _TEXT),
    ("summary", False, _is_text, _TEXT),
)
FIELDS: Final[Mapping[str, tuple[Field, ...]]] = {
    "tool_start": (
        ("tool", True, _is_named, _NAME),
        ("arguments", True, _is_object, "an object ({} without any)"),
    ),
    "tool_end": (
        ("tool", True, _is_named, _NAME),
        ("status", True, _is_named, "a text such as ok, error, timeout, cancelled or denied"),
        ("duration_ms", False, _is_amount, "a number of at least 0"),
        ("output_ref", False, _is_text, _TEXT),
    ),
    "checkpoint": (
        ("message", True, _is_text, _TEXT),
        ("graph_version", True, _is_named, _NAME),
        ("files", False, _is_texts, _TEXTS),
    ),
    "context_retrieved": (
        ("files", True, _is_texts, _TEXTS),
        ("snippets", False, _is_list, "a list of objects"),
    ),
    "answer_rendered": (
        ("content", True, _is_text, _TEXT),
        ("citations", False, _is_texts, _TEXTS),
        ("token_count", False, _is_count, "an integer of at least 0"),
    ),
}
_EVERY_FIELD: Final = {kind: (*fields, *ANY_KIND) for kind, fields in FIELDS.items()}
SNIPPET: Final[tuple[Field, ...]] = (
    ("file", True, _is_named, _NAME),
    ("summary", True, _is_text, _TEXT),
    ("symbols", False, _is_texts, _TEXTS),
)
_NAMES: Final = (
    f"must be a visible text of 1 to {LONGEST_NAME} characters, at most "
    f"{LONGEST_REFERENCE - len(ATTEMPTS)} in percent notation"
)
_MOST_NAMED: Final = 20
"""Flaws that a message spells out; the details have all."""


def check(event: NewEvent, version: Callable[[], str | None]) -> None:
    """Refuse an event that lacks something, naming every field; `version` is asked for the remedy."""
    flaws: list[Flaw] = []
    _check_frame(event, flaws)
    _check_payload(event, flaws)
    if flaws:
        raise refusal(flaws, version)


def refusal(flaws: Sequence[Flaw], version: Callable[[], str | None]) -> ToolError:
    """The error that names every flaw, and the current graph version where one was missing."""
    details: dict[str, Any] = {"fields": [{"field": f.field, "problem": f.problem} for f in flaws]}
    shown = [str(flaw) for flaw in flaws[:_MOST_NAMED]]
    if len(flaws) > _MOST_NAMED:
        shown.append(f"and {len(flaws) - _MOST_NAMED} more")
    message = "; ".join(shown) + "."
    if any(flaw.field == "payload.graph_version" for flaw in flaws):
        current = details["currentGraphVersion"] = version()
        message += _version_remedy(current)
    return ToolError("INVALID_PARAMETER", message, details)


def _version_remedy(current: str | None) -> str:
    if current is None:
        return " No project is indexed here; call graph_index_project for a version, or name your own."
    return f" The current graph_version is {current}."


def timestamp(text: str) -> int:
    """The nanoseconds of an RFC 3339 date-time; one without an offset could be any of 38 hours."""
    try:
        instant = parse(text)
    except ValueError as problem:
        raise _bad_timestamp(str(problem)) from None
    if instant.form != "exact":
        shown = text if instant.form == "naive" else f"{text}T00:00:00"
        raise _bad_timestamp(f"needs an offset; write {shown}Z for UTC, or leave it out for now")
    return instant.ns


def _bad_timestamp(problem: str) -> ToolError:
    details = {"fields": [{"field": "timestamp", "problem": problem}]}
    return ToolError("INVALID_PARAMETER", f"timestamp: {problem}.", details)


# --- the frame ---------------------------------------------------------------------------------


def _check_frame(event: NewEvent, flaws: list[Flaw]) -> None:
    if not is_name(event.attempt_id):
        flaws.append(Flaw("attempt_id", _NAMES))
    if event.kind not in KINDS:
        flaws.append(Flaw("kind", f"must be one of {', '.join(KINDS)}"))
    for name, value in (("event_id", event.event_id), ("call_id", event.call_id)):
        if value is not None and not _is_identifier(value, LONGEST_ID):
            flaws.append(Flaw(name, f"must be a visible text of 1 to {LONGEST_ID} characters"))
    if event.source not in SOURCES:
        flaws.append(Flaw("source", f"must be one of {', '.join(SOURCES)}"))
    if event.outcome is not None:
        _check_outcome(event, flaws)


def _check_outcome(event: NewEvent, flaws: list[Flaw]) -> None:
    if event.outcome not in GIVEN:
        flaws.append(Flaw("outcome", f"must be one of {', '.join(GIVEN)}"))
    elif event.kind not in ("checkpoint", "answer_rendered"):
        flaws.append(Flaw("outcome", "belongs to a checkpoint or an answer_rendered; leave it out here"))


def _is_identifier(value: Any, longest: int) -> bool:
    return (
        isinstance(value, str) and 0 < len(value) <= longest and value.isprintable() and bool(value.strip())
    )


# --- the payload -------------------------------------------------------------------------------


def _check_payload(event: NewEvent, flaws: list[Flaw]) -> None:
    if not isinstance(cast("object", event.payload), Mapping):
        flaws.append(Flaw("payload", "must be an object"))
        return
    _check_fields(event.payload, _EVERY_FIELD.get(event.kind, ANY_KIND), "payload", flaws)
    snippets: Any = event.payload.get("snippets")
    if event.kind == "context_retrieved" and isinstance(snippets, list):
        _check_snippets(cast("list[Any]", snippets), flaws)


def _check_snippets(snippets: list[Any], flaws: list[Flaw]) -> None:
    for number, snippet in enumerate(snippets):
        place = f"payload.snippets[{number}]"
        if isinstance(snippet, Mapping):
            _check_fields(cast("Mapping[str, Any]", snippet), SNIPPET, place, flaws)
        else:
            flaws.append(Flaw(place, "must be an object with file and summary"))


def _check_fields(values: Mapping[str, Any], fields: Sequence[Field], place: str, flaws: list[Flaw]) -> None:
    for name, required, test, words in fields:
        if name not in values:
            if required:
                flaws.append(Flaw(f"{place}.{name}", f"is missing; it must be {words}"))
        elif not test(values[name]):
            flaws.append(Flaw(f"{place}.{name}", f"must be {words}"))
