"""The outcome of a project's suites: a table for people, and a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tracedesk.fuzz.result import because
from tracedesk.fuzz.suites import STATUSES, Outcome, Row, totals

_CALLS: Final = 20
"""Calls of a failing sequence that are printed; the document has all."""


def document(outcomes: Sequence[Outcome], warnings: Sequence[str], unbuilt: Sequence[str]) -> dict[str, Any]:
    """What `fuzz run --json` prints for a project."""
    return {
        "success": not unbuilt and not any(each.count("undecided") for each in outcomes),
        "error": trouble(outcomes, unbuilt),
        "suites": [each.document() for each in outcomes],
        "totals": {"suites": len(outcomes), **totals(outcomes)},
        "unbuilt": list(unbuilt),
        "warnings": list(warnings),
    }


def trouble(outcomes: Sequence[Outcome], unbuilt: Sequence[str]) -> str | None:
    """Why the verdict is incomplete; none when every test passed, failed or was skipped."""
    found = totals(outcomes)
    left = [f"{found[status]} {status}" for status in ("unsupported", "undecided") if found[status]]
    parts = [f"no verdict on some tests ({', '.join(left)})"] if left else []
    parts += [f"{_counted(len(unbuilt), 'file')} could not be built"] if unbuilt else []
    return "; ".join(parts) or None


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """The table: a row for each suite, and the totals."""
    found = [
        (each.suite, *(str(each.count(status)) for status in STATUSES), f"{each.seconds:.1f} s")
        for each in outcomes
    ]
    summed = totals(outcomes)
    spent = sum(each.seconds for each in outcomes)
    return [
        *found,
        (_counted(len(outcomes), "suite"), *(str(summed[status]) for status in STATUSES), f"{spent:.1f} s"),
    ]


HEAD: Final = ("SUITE", *(status.upper() for status in STATUSES), "TIME")


def details(outcome: Outcome) -> Iterator[str]:
    """The tests of a suite that did not pass, with the calls that broke them."""
    for row in outcome.rows:
        if row["status"] == "passed":
            continue
        yield f"{outcome.suite} {row['name']}: {row['status']} ({_reason(row)})"
        yield from _calls(row)


def _reason(row: Row) -> str:
    """Why a test did not pass; the contract's own words only between marks."""
    # A refusal, also that of a set-up, quotes already: only a failed test's is the contract's.
    is_own = row["status"] != "failed" or row["kind"] == "setup"
    return row["reason"] if is_own else because(row["reason"])


def _calls(row: Row) -> Iterator[str]:
    sequence = row.get("sequence", ())
    for call in sequence[:_CALLS]:
        yield f"    {call['call']}  (from {call['sender']})"
    if len(sequence) > _CALLS:
        yield f"    and {len(sequence) - _CALLS} more calls"
