"""Lines and branches of a campaign, computed when asked for and never twice for the same state."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tracedesk.foreign import listed, named
from tracedesk.fuzz import lcov, lines, marked, native, page
from tracedesk.fuzz.config import Config, Format
from tracedesk.fuzz.lines import ContractMap, Coverage, Tally
from tracedesk.fuzz.native import Campaign
from tracedesk.fuzz.project import Contract, Project
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.spec import Spec

Summary = dict[str, Any]


class Mark(NamedTuple):
    """How far a campaign was: what is covered changes with the points, hits with every call."""

    points: int
    calls: int


class CoverageView:
    """What was covered so far; any thread may ask."""

    def __init__(self, campaign: Campaign, project: Project, spec: Spec, config: Config) -> None:
        self._campaign = campaign
        self._project = project
        self._spec = spec
        self._config = config
        self._maps: dict[str, ContractMap] = {}
        self._lock = threading.Lock()
        self._at: Mark | None = None
        self.latest: Coverage | None = None
        """The last one computed."""

    @property
    def calls(self) -> int:
        """How many calls had been made when the last one was computed."""
        return self._at.calls if self._at is not None else 0

    def is_current(self, *, hits: bool) -> bool:
        """Whether the last one computed still tells what is covered, and with `hits` how often."""
        now = self._mark()
        return self._at is not None and (self._at == now if hits else self._at.points == now.points)

    def refresh(self, *, hits: bool = True) -> Coverage:
        """The coverage of now."""
        with self._lock:
            if self.latest is None or not self.is_current(hits=hits):
                mark = self._mark()
                self.latest = self._computed()
                self._at = mark
            return self.latest

    def _mark(self) -> Mark:
        status = native.read(self._campaign.status())
        return Mark(status["coverage_points"], status["calls"])

    def _computed(self) -> Coverage:
        rows: list[Mapping[str, Any]] = native.read(self._campaign.coverage())
        used = {row["code"] for row in rows if row["blocks"]} | set(self._spec.deployed)
        for id, contract in self._spec.contracts.items():
            if id in used and id not in self._maps:
                self._maps[id] = ContractMap.of(self._project, contract)
        return lines.coverage(self._project, self._maps, rows, self._config.excludes)


def points(campaign: Campaign) -> dict[str, list[int]]:
    """By hash of a code, the blocks that were entered."""
    rows: list[Mapping[str, Any]] = native.read(campaign.coverage())
    found = {row["hash"]: sorted(pc for pc, hits in row["blocks"] if hits) for row in rows}
    return {digest: places for digest, places in found.items() if places}


def summary(coverage: Coverage) -> Summary:
    """What `show_coverage` says of all contracts."""
    names = _names([found.contract for found in coverage.contracts])
    contracts = [
        {"name": name, **_row(found.tally), "qualified": found.contract.qualified}
        for name, found in zip(names, coverage.contracts, strict=True)
    ]
    return {"contracts": contracts, "overallCoverage": coverage.tally.line_percent, **_counts(coverage.tally)}


def chosen(whole: Summary, contract: str | None) -> Summary:
    """The summary of all, or of the one contract that was asked for."""
    rows: Sequence[Mapping[str, Any]] = whole["contracts"]
    plain = [{key: value for key, value in row.items() if key != "qualified"} for row in rows]
    if contract is None:
        return {**whole, "contracts": plain}
    for kept, row in zip(plain, rows, strict=True):
        if contract in (row["name"], row["qualified"]):
            counts = {key: row[key] for key in ("lines", "linesHit", "branches", "branchesHit")}
            return {"contracts": [kept], "overallCoverage": row["lineCoverage"], **counts}
    known = [str(row["name"]) for row in rows]
    there = listed(known) or "none"
    message = f"contract: {named(contract[:80])} is not part of this campaign. There are: {there}."
    raise invalid("UNKNOWN_CONTRACT", message, known=known)


def report(coverage: Coverage, form: Format) -> bytes:
    """The coverage as a file of one of Echidna's three formats."""
    if form == "lcov":
        return lcov.text(coverage).encode()
    return (page.html(coverage) if form == "html" else marked.text(coverage)).encode()


def _names(contracts: Sequence[Contract]) -> list[str]:
    count = [contract.name for contract in contracts].count
    return [c.name if count(c.name) == 1 else c.qualified for c in contracts]


def _row(tally: Tally) -> dict[str, Any]:
    percents = {"lineCoverage": tally.line_percent, "branchCoverage": tally.branch_percent}
    return {**percents, **_counts(tally)}


def _counts(tally: Tally) -> dict[str, int]:
    return {
        "lines": tally.lines,
        "linesHit": tally.lines_hit,
        "branches": tally.branches,
        "branchesHit": tally.branches_hit,
    }
