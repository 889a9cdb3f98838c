"""`fuzz run` of a project: every suite in turn, a line for each as it ends, then the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tracedesk.cli.console import Console, table
from tracedesk.cli.fuzz_exit import FALSIFIED, UNDECIDED
from tracedesk.fuzz import native, suite_report, suites
from tracedesk.fuzz.building import options
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.launch import Request
from tracedesk.fuzz.limits import MIB
from tracedesk.fuzz.project import Project
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.suite_process import Interrupts, Plan, until
from tracedesk.fuzz.suites import Outcome
from tracedesk.hosts.confined import limit_own_memory
from tracedesk.primitives.text import sanitize_terminal

_ENDED: Final = "the run was ended"


def run(console: Console, request: Request) -> int:
    """Run every suite of a project; 1 when a test failed, 2 when one has no verdict."""
    native.engine()
    # The suites' processes are forks of this one and have the same limit.
    limit_own_memory(request.limits.memory_mb * MIB)
    chosen, _ = options(request.config, trusted=request.trusted, budget=request.budget)
    with until(request.budget, "the compilation"):
        project = compile_project(request.path, chosen)
    found = suites.find(project)
    if not found:
        raise _nothing(project)
    warnings = [*request.warnings, *project.warnings]
    for warning in project.warnings:
        console.note(f"Warning: {warning}")
    with Interrupts() as interrupts:
        plan = Plan(project, tuple(found), request.config, request.budget, interrupts)
        outcomes = list(_noted(console, plan))
    document = suite_report.document(outcomes, warnings, project.unbuilt)
    if len(outcomes) < len(found):
        document |= {"success": False, "error": f"{_ENDED} after {len(outcomes)} of {len(found)} suites"}
    console.answer(document, "\n".join(_words(outcomes, document)))
    if document["totals"]["failed"]:
        return FALSIFIED
    return UNDECIDED if document["error"] else 0


def _nothing(project: Project) -> Exception:
    forms = "functions like test_x(), testFuzz_x(uint256) or invariant_x()"
    message = (
        f"path: there is no suite: no contract has {forms}. For tests of Echidna give --test-mode property."
    )
    left_out = f" {project.warnings[0]}" if project.warnings else ""
    return invalid("NO_TESTS", f"{message}{left_out}")


def _noted(console: Console, plan: Plan) -> Iterator[Outcome]:
    """The outcomes of the suites, each with a line as it comes, and each warning once."""
    warned: set[str] = set()
    for outcome in plan.outcomes():
        console.note(sanitize_terminal(_line(outcome)))
        for warning in outcome.warnings:
            if warning not in warned:
                console.note(sanitize_terminal(f"Warning: {warning}"))
        warned |= set(outcome.warnings)
        yield outcome


def _line(outcome: Outcome) -> str:
    counts = ", ".join(
        f"{outcome.count(status)} {status}" for status in suites.STATUSES if outcome.count(status)
    )
    return f"{outcome.suite}: {counts} in {outcome.seconds:.1f} s"


def _words(outcomes: list[Outcome], document: dict[str, Any]) -> list[str]:
    found = [line for outcome in outcomes for line in suite_report.details(outcome)]
    text = table(suite_report.rows(outcomes), suite_report.HEAD)
    error = [f"Incomplete: {document['error']}."] if document["error"] else []
    return [*found, *([""] if found else []), text, *error]
