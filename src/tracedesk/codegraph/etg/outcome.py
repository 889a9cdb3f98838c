"""How an attempt ended: as its client said, else as its events suggest, with how sure that is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracedesk.codegraph.etg.model import FAILING, IDLE_NS, Outcome
from tracedesk.journal.sqlite import Connection

State = Literal["open", "closed"]

_GIVEN: Final = (
    "SELECT outcome FROM attempt_event WHERE attempt = ? AND speaks AND outcome IS NOT NULL "
    "ORDER BY time_ns DESC, event DESC LIMIT 1"
)
_LAST: Final = "SELECT kind FROM attempt_event WHERE attempt = ? ORDER BY time_ns DESC, event DESC LIMIT 1"
_ANSWERED: Final = (
    "SELECT max(time_ns) FROM attempt_event WHERE attempt = ? AND speaks AND kind = 'answer_rendered'"
)
_ANSWER: Final = (
    "SELECT said FROM attempt_event WHERE attempt = ? AND speaks AND kind = 'answer_rendered' "
    "ORDER BY time_ns DESC, event DESC LIMIT 1"
)
_GIVES_UP: Final = re.compile(
    r"\b(?:still (?:fail|broken|red)\w*|(?:tests?|builds?|checks?|suite) (?:\w+ ){0,2}(?:fail|broke|red\b)\w*"
    r"|could(?: not|n't)|cannot|unable to|failed to|gave up|no success|not able to"
    r"|[1-9]\d* (?:tests? )?fail(?:ed|ing|ures?))",
    re.IGNORECASE,
)
"""An answer that speaks so is no sign of success."""

SURE: Final = 0.7
"""An inferred outcome that is less sure is not shown as a fact."""

_CALL: Final = (
    "SELECT judged, end_ns FROM tool_call WHERE attempt = ? AND finish IS NOT NULL AND origin != 'self' "
    "{also}ORDER BY end_ns DESC, event DESC LIMIT 1"
)
_LAST_CALL: Final = _CALL.format(also="AND end_ns <= ? ")
"""The last before a moment: what an answer was given on."""
_LAST_CHECK: Final = _CALL.format(
    also="AND (checks > 0 OR checks = 0 AND spoken IN ('failed', 'passed')) "
    "AND judged IN ('ok', 'error', 'timeout', 'unclear') "
)
_AGAIN: Final = (
    "SELECT 1 FROM attempt a JOIN attempt b ON b.query_key = a.query_key AND b.project = a.project "
    "WHERE a.id = ? AND (b.started_ns, b.id) > (a.started_ns, a.id) LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, whether it was given or inferred, how sure it is (0 to 1), and from what."""

    outcome: Outcome
    source: Literal["given", "inferred"]
    confidence: float
    reason: str

    @property
    def shown(self) -> str:
        """The outcome where nothing else says how sure it is."""
        return self.outcome if self.source == "given" or self.confidence >= SURE else "unclear"


def state(connection: Connection, attempt: int, last_ns: int, now_ns: int) -> State:
    """An attempt is closed by an answer with nothing after it, or by a day without anything."""
    if now_ns - last_ns > IDLE_NS:
        return "closed"
    return "closed" if _one(connection, _LAST, attempt) == ("answer_rendered",) else "open"


def verdict(connection: Connection, attempt: int, standing: State) -> Verdict:
    """The outcome as it can be told now."""
    given = _one(connection, _GIVEN, attempt)
    if given is not None:
        return Verdict(given[0], "given", 1.0, "stated with an event")
    answered = _one(connection, _ANSWERED, attempt)
    answer_ns: int | None = answered[0] if answered else None
    check = _one(connection, _LAST_CHECK, attempt)
    if check is not None:
        return _checked(check[0], answer_ns is not None and answer_ns >= check[1])
    if answer_ns is not None:
        answer = _one(connection, _ANSWER, attempt)
        return _answered(_one(connection, _LAST_CALL, attempt, answer_ns), answer[0] if answer else None)
    return _unanswered(connection, attempt, standing)


def _checked(status: str, answered: bool) -> Verdict:
    confidence = 0.8 if answered else 0.6
    if status in FAILING:
        return Verdict("failed", "inferred", confidence, "the last test or build failed")
    if status == "unclear":
        return Verdict("unknown", "inferred", 0.0, "the last test or build was in a pipe that hides its end")
    return Verdict("succeeded", "inferred", confidence, "the last test or build passed")


def _answered(call: tuple[Any, ...] | None, answer: str | None) -> Verdict:
    if call is not None and call[0] in FAILING:
        return Verdict("failed", "inferred", 0.4, "answered after a tool that failed")
    if answer is not None and _GIVES_UP.search(answer):
        return Verdict("unknown", "inferred", 0.0, "the answer speaks of something that did not work")
    return Verdict("succeeded", "inferred", 0.5, "answered, and the last tool before did not fail")


def _unanswered(connection: Connection, attempt: int, standing: State) -> Verdict:
    if _one(connection, _AGAIN, attempt) is not None:
        confidence = 0.6 if standing == "closed" else 0.4
        return Verdict("superseded", "inferred", confidence, "the same was asked again later")
    if standing == "closed" and _one(connection, _LAST, attempt) is not None:
        return Verdict("abandoned", "inferred", 0.5, "no answer, and nothing for a day")
    return Verdict("unknown", "inferred", 0.0, "nothing tells yet")


def _one(connection: Connection, query: str, *values: int) -> tuple[Any, ...] | None:
    return next(iter(connection.execute(query, values)), None)
