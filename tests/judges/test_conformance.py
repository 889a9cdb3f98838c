"""The official conformance suite on the real wire, for both revisions whose requirements are frozen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml

from tests.judges.support import Server, package, run_node, server

pytestmark = pytest.mark.judge

REVISIONS: Final = ("2025-11-25", "2026-07-28")
SUITE: Final = ("@modelcontextprotocol", "conformance")
UNSCORED: Final = {
    "2025-11-25": frozenset[str](),
    # The tasks extension is not offered.
    "2026-07-28": frozenset(
        {
            "tasks-capability-negotiation",
            "tasks-dispatch-and-envelope",
            "tasks-lifecycle",
            "tasks-mrtr-composition",
            "tasks-mrtr-input",
            "tasks-request-headers",
            "tasks-request-state-removal",
            "tasks-required-task-error",
            "tasks-wire-fields",
        }
    ),
}
"""Scenarios outside the score that fail; one that starts to pass must leave this list."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the suite found in one scenario."""

    scenario: str
    scored: bool
    checks: list[dict[str, Any]]

    @property
    def counts(self) -> Counter[str]:
        return Counter(check["status"] for check in self.checks)

    @property
    def faults(self) -> list[str]:
        """Failures and warnings, in the suite's words."""
        bad = (check for check in self.checks if check["status"] in ("FAILURE", "WARNING"))
        return [f"{self.scenario}: {check['id']}: {check.get('errorMessage')}" for check in bad]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with server(tmp_path_factory.mktemp("conformance") / "home", "conformance") as running:
        yield running


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_scored_scenario_of_a_revision_passes(
    revision: str, desk: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["server", "--url", desk.mcp, "--requirements", revision, "-o", str(tmp_path)]
    ran = run_node(package(*SUITE, "dist", "index.js"), arguments, timeout=110)
    verdicts = _verdicts(revision, tmp_path)
    with capsys.disabled():
        print(f"\n{_figures(revision, verdicts)}")
    assert [fault for verdict in verdicts if verdict.scored for fault in verdict.faults] == []
    assert ran.code == 0, ran.out[-2000:]
    assert {v.scenario for v in verdicts if not v.scored and v.faults} == UNSCORED[revision]


def _verdicts(revision: str, results: Path) -> list[Verdict]:
    """One verdict per scenario that the revision's requirements name; none may be missing."""
    text = Path(package(*SUITE, "requirements", f"{revision}.yaml")).read_text(encoding="utf-8")
    requirements = cast("dict[str, Any]", yaml.safe_load(text))
    others = [entry["scenario"] for entry in requirements["not_scored"] if entry["leg"] == "server"]
    return [Verdict(name, True, _checks(results, name)) for name in requirements["server"]] + [
        Verdict(name, False, _checks(results, name)) for name in others
    ]


def _checks(results: Path, scenario: str) -> list[dict[str, Any]]:
    (folder,) = results.glob(f"server-{scenario}-{'[0-9]' * 4}-*")
    return json.loads((folder / "checks.json").read_text(encoding="utf-8"))


def _figures(revision: str, verdicts: list[Verdict]) -> str:
    lines = [f"conformance {revision}: {len(verdicts)} scenarios"]
    for scored, title in ((True, "scored"), (False, "not scored")):
        chosen = [verdict for verdict in verdicts if verdict.scored is scored]
        counts = sum((verdict.counts for verdict in chosen), Counter[str]())
        passed, failed = counts["SUCCESS"], counts["FAILURE"]
        lines.append(f"  {title}: {len(chosen)} scenarios, {passed} checks passed, {failed} failed")
    failing = sorted(verdict.scenario for verdict in verdicts if not verdict.scored and verdict.faults)
    lines.append(f"  failing outside the score: {', '.join(failing) or 'none'}")
    return "\n".join(lines)
