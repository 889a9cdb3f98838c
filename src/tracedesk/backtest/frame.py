"""What an event is emitted with beside its properties: told in words where it cannot be."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final, cast

from tracedesk.backtest.ids import guid_bytes
from tracedesk.backtest.model import CATEGORIES, SEVERITIES, TYPES, Category, EventType, Severity
from tracedesk.backtest.projection import Given
from tracedesk.backtest.validation import Fault
from tracedesk.primitives import json


def event_type(given: EventType | str) -> EventType:
    found = TYPES.get(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(f"type: {given!r} is no event type; use one of {', '.join(TYPES)}")
    return found


def parent_seq(parent: Any) -> int:
    """A seq that is not an `int` itself: an integer of a numerical library."""
    try:
        if not isinstance(parent, bool):
            return operator.index(parent)
    except TypeError:
        pass
    raise ValueError(f"parent: {parent!r} is no seq; give what `emit` returned for an earlier event")


def given(
    severity: Severity | str | None,
    category: Category | str | None,
    guid: str | None,
    faults: list[Fault] | None,
) -> Given | None:
    if severity is None and category is None and guid is None and not faults:
        return None
    return Given(
        None if severity is None else _numbered("severity", SEVERITIES, severity),
        None if category is None else _numbered("category", CATEGORIES, category),
        None if guid is None else guid_bytes(guid),
        json.dumps([_fault(one) for one in faults]) if faults else None,
    )


def _numbered(field: str, names: Mapping[str, int], given: int | str) -> int:
    for name, number in names.items():
        if given in (name, number):
            return int(number)
    raise ValueError(f"{field}: {given!r} is not known; use one of {', '.join(names)}")


def _fault(given: Any) -> Fault:
    members = cast("dict[Any, Any]", given) if isinstance(given, dict) else {}
    texts = members.keys() == _FAULT and all(isinstance(text, str) for text in members.values())
    if not texts or members["Severity"] not in ("Error", "Warning"):
        raise ValueError(
            f"faults: {given!r} is none; give objects of the texts Field, Error and Severity, "
            "which is Error or Warning"
        )
    return cast("Fault", given)


_FAULT: Final = {"Field", "Error", "Severity"}
