"""Lines and branches of the source, derived from the counters of blocks and jumps.

What belongs to a line is found once per contract; a coverage is then a few additions, made while workers run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from tracedesk.fuzz.branches import Branch, branches
from tracedesk.fuzz.bytecode import JUMP, JUMPI, jump_target
from tracedesk.fuzz.layout import CodeKind, Layout
from tracedesk.fuzz.outline import Kind, Routine
from tracedesk.fuzz.project import Contract, Project

Mark = str
"""How frames ended on a line: `r` reverted, `o` out of gas, `e` another error."""

_QUIET: Final = ("stop", "return", "selfdestruct", "suicide")


def percent(hit: int, total: int) -> Decimal:
    """A share in percent, half up to one decimal: 100.0 only when complete, or with nothing to cover."""
    if total == 0:
        return Decimal("100.0")
    tenths = (2000 * hit + total) // (2 * total)
    return Decimal(min(tenths, 999) if hit < total else 1000).scaleb(-1)


# --- what can be covered ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line begins in a block: the block's number and the place of the line's first instruction."""

    block: int
    pc: int


@dataclass(frozen=True, slots=True)
class CodeMap:
    """One code's lines, branches and functions, by what is counted when they run."""

    layout: Layout
    lines: Mapping[tuple[int, int], tuple[Place, ...]]
    """By source and line."""
    branches: tuple[Branch, ...]
    entries: Mapping[tuple[int, Routine], tuple[Place, ...]]
    """By source and routine: the places that run once for each call."""

    @classmethod
    def of(cls, project: Project, contract: Contract, kind: CodeKind) -> CodeMap:
        layout = Layout.of(project, contract, kind)
        return cls(layout, _lines(layout), branches(layout), _entries(layout))


@dataclass(frozen=True, slots=True)
class ContractMap:
    """Everything of a contract that can be covered."""

    contract: Contract
    runtime: CodeMap
    init: CodeMap

    @classmethod
    def of(cls, project: Project, contract: Contract) -> ContractMap:
        return cls(contract, CodeMap.of(project, contract, "runtime"), CodeMap.of(project, contract, "init"))


def _lines(layout: Layout) -> dict[tuple[int, int], tuple[Place, ...]]:
    places: dict[tuple[int, int], dict[int, Place]] = defaultdict(dict)
    for number, line in enumerate(layout.lines):
        span = layout.spans[number]
        if line is not None and span is not None:
            block = layout.block_of[number]
            places[span.source, line].setdefault(block, Place(block, layout.instructions[number].pc))
    return {key: tuple(found.values()) for key, found in places.items()}


def _entries(layout: Layout) -> dict[tuple[int, Routine], tuple[Place, ...]]:
    entered = _entered(layout)
    headers: dict[tuple[int, Routine], list[Place]] = defaultdict(list)
    bodies: dict[tuple[int, Routine], Place] = {}
    for number, span in enumerate(layout.spans):
        routine = layout.routine(span) if span is not None else None
        if span is None or routine is None or routine.is_modifier:
            continue
        place = Place(layout.block_of[number], layout.instructions[number].pc)
        if routine.start == span.start and layout.opens(number) and place.pc in entered:
            headers[span.source, routine].append(place)
        elif layout.lines[number] is not None:
            bodies.setdefault((span.source, routine), place)
    return {key: tuple(headers.get(key) or [bodies[key]]) for key in {**bodies, **headers}}


def _entered(layout: Layout) -> set[int]:
    """The places to which calls inside the code jump."""
    found: set[int] = set()
    for number, span in enumerate(layout.spans):
        if span is not None and span.jump == "i" and layout.instructions[number].opcode == JUMP:
            target = jump_target(layout.instructions, number)
            if target is not None:
                found.add(target)
    return found


# --- what was covered ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counters:
    """What the native core counted in one code."""

    blocks: Mapping[int, int]
    branches: Mapping[int, tuple[int, int]]
    halts: Sequence[tuple[int, str, int]] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Counters:
        """From one row of the core's coverage."""
        return cls(
            dict(row["blocks"]),
            {pc: (taken, fallen) for pc, taken, fallen in row["branches"]},
            tuple((halt[0], str(halt[1]), halt[2] if len(halt) > 2 else 0) for halt in row.get("halts", ())),
        )


class _Hits:
    """How often each block of one code was entered, and how often one was left halfway."""

    def __init__(self, layout: Layout, counters: Counters) -> None:
        self._starts = [block.start for block in layout.blocks]
        self._entered = [self._of(layout, number, counters) for number in range(len(layout.blocks))]
        self._left: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for pc, _, hits in counters.halts:
            self._left[bisect_right(self._starts, pc) - 1].append((pc, hits))

    @staticmethod
    def _of(layout: Layout, number: int, counters: Counters) -> int:
        block = layout.blocks[number]
        if block.start in counters.blocks:
            return counters.blocks[block.start]
        if layout.opens(block.first) or block.first == 0:
            return 0
        before = layout.instructions[block.first - 1]
        return counters.branches.get(before.pc, (0, 0))[1] if before.opcode == JUMPI else 0

    def block(self, number: int) -> int:
        return self._entered[number]

    def at(self, place: Place) -> int:
        """How often an instruction ran: its block's entries without those that ended before it."""
        left = sum(hits for pc, hits in self._left.get(place.block, ()) if pc < place.pc)
        return max(0, self._entered[place.block] - left)


@dataclass(slots=True)
class BranchHits:
    """How often a decision went each way."""

    kind: Kind
    line: int
    start: int
    held: int = 0
    failed: int = 0

    @property
    def hit(self) -> int:
        """Sides taken, of two."""
        return (self.held > 0) + (self.failed > 0)


@dataclass(slots=True)
class RoutineHits:
    """How often a function ran."""

    name: str
    line: int
    hits: int = 0


@dataclass(slots=True)
class FileCoverage:
    """What was covered of one file, by all contracts that contain it."""

    path: str
    lines: dict[int, int] = field(default_factory=dict[int, int])
    branches: dict[int, BranchHits] = field(default_factory=dict[int, BranchHits])
    """By where the decision starts."""
    routines: dict[int, RoutineHits] = field(default_factory=dict[int, RoutineHits])
    """By where the routine starts."""
    marks: dict[int, set[Mark]] = field(default_factory=dict[int, set[Mark]])

    @property
    def tally(self) -> Tally:
        sides = sum(branch.hit for branch in self.branches.values())
        hit = sum(hits > 0 for hits in self.lines.values())
        return Tally(hit, len(self.lines), sides, 2 * len(self.branches))


@dataclass(frozen=True, slots=True)
class Tally:
    """Covered and coverable lines and branch sides."""

    lines_hit: int = 0
    lines: int = 0
    branches_hit: int = 0
    branches: int = 0

    @property
    def line_percent(self) -> Decimal:
        return percent(self.lines_hit, self.lines)

    @property
    def branch_percent(self) -> Decimal:
        return percent(self.branches_hit, self.branches)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.lines_hit + other.lines_hit,
            self.lines + other.lines,
            self.branches_hit + other.branches_hit,
            self.branches + other.branches,
        )


@dataclass(frozen=True, slots=True)
class LineCoverage:
    """What was covered of one contract: its own code, with what it inherits."""

    contract: Contract
    tally: Tally


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage of a campaign at one moment."""

    project: Project
    contracts: tuple[LineCoverage, ...]
    files: Mapping[str, FileCoverage]
    """By the compiler's path, in order."""

    @property
    def tally(self) -> Tally:
        """All contracts together, each with its own weight."""
        return sum((contract.tally for contract in self.contracts), Tally())


def coverage(
    project: Project,
    maps: Mapping[str, ContractMap],
    counted: Iterable[Mapping[str, Any]],
    is_excluded: Callable[[str], bool] = lambda path: False,
) -> Coverage:
    """The coverage that the core's counters mean; `maps` are the contracts by the ids of their codes."""
    rows = {(row["code"], row["kind"]): Counters.of(row) for row in counted if row["code"] in maps}
    whole: dict[str, FileCoverage] = {}
    contracts: list[LineCoverage] = []
    for code, of in maps.items():
        own: dict[str, FileCoverage] = {}
        for kind, part in (("runtime", of.runtime), ("init", of.init)):
            counters = rows.get((code, kind), Counters({}, {}))
            _count(part, of.contract, counters, own, is_excluded)
        contracts.append(LineCoverage(of.contract, sum((file.tally for file in own.values()), Tally())))
        for file in own.values():
            _merge(_file(whole, file.path), file)
    return Coverage(project, tuple(contracts), {path: whole[path] for path in sorted(whole)})


def _count(
    part: CodeMap,
    contract: Contract,
    counters: Counters,
    files: dict[str, FileCoverage],
    is_excluded: Callable[[str], bool],
) -> None:
    """Add one code's counters to the files of its contract."""
    hits = _Hits(part.layout, counters)
    shown = {n: p for n, p in contract.source_ids.items() if n in part.layout.sources and not is_excluded(p)}
    for (source, line), places in part.lines.items():
        if source in shown:
            counted = _file(files, shown[source]).lines
            counted[line] = counted.get(line, 0) + max(hits.at(place) for place in places)
    for branch in part.branches:
        if branch.source in shown:
            _count_branch(part, branch, counters, hits, _file(files, shown[branch.source]))
    for (source, routine), places in part.entries.items():
        if source in shown:
            calls = max(hits.at(place) for place in places)
            _count_routine(part, source, routine, calls, _file(files, shown[source]))
    _mark(part, counters, shown, files)


def _file(files: dict[str, FileCoverage], path: str) -> FileCoverage:
    return files.setdefault(path, FileCoverage(path))


def _count_branch(part: CodeMap, branch: Branch, counters: Counters, hits: _Hits, file: FileCoverage) -> None:
    start = branch.decision.start
    line = part.layout.sources[branch.source].line_of(start)
    counted = file.branches.setdefault(start, BranchHits(branch.decision.kind, line, start))
    held = failed = 0
    for jump in branch.jumps:
        taken, fallen = counters.branches.get(jump.pc, (0, 0))
        held += taken if jump.held_when_taken else fallen
        failed += fallen if jump.held_when_taken else taken
    for check in branch.checks:
        held += hits.block(check.after)
        failed += max(0, hits.block(check.before) - hits.block(check.after))
    counted.held += held
    counted.failed += failed
    if failed and counted.kind in ("require", "assert"):
        # The revert itself is often shared by many statements, and then belongs to no line.
        file.marks.setdefault(line, set()).add("r")
    # Reports show a branch on its line, so the line is one that can be covered.
    file.lines.setdefault(line, held + failed)


def _count_routine(part: CodeMap, source: int, routine: Routine, hits: int, file: FileCoverage) -> None:
    line = part.layout.sources[source].line_of(routine.start)
    counted = file.routines.setdefault(routine.start, RoutineHits(routine.qualified, line))
    counted.hits += hits


def _mark(
    part: CodeMap, counters: Counters, shown: Mapping[int, str], files: dict[str, FileCoverage]
) -> None:
    numbers = {instruction.pc: number for number, instruction in enumerate(part.layout.instructions)}
    for pc, reason, _ in counters.halts:
        number = numbers.get(pc)
        mark = _mark_of(reason)
        span = part.layout.spans[number] if number is not None else None
        line = part.layout.lines[number] if number is not None else None
        if mark and span is not None and line is not None and span.source in shown:
            _file(files, shown[span.source]).marks.setdefault(line, set()).add(mark)


def _mark_of(reason: str) -> Mark:
    word = reason.lower()
    if word.startswith(_QUIET):
        return ""
    if "revert" in word:
        return "r"
    return "o" if "gas" in word else "e"


def _merge(whole: FileCoverage, part: FileCoverage) -> None:
    for line, hits in part.lines.items():
        whole.lines[line] = whole.lines.get(line, 0) + hits
    for start, branch in part.branches.items():
        sum_of = whole.branches.setdefault(start, BranchHits(branch.kind, branch.line, start))
        sum_of.held += branch.held
        sum_of.failed += branch.failed
    for start, routine in part.routines.items():
        whole.routines.setdefault(start, RoutineHits(routine.name, routine.line)).hits += routine.hits
    for line, marks in part.marks.items():
        whole.marks.setdefault(line, set()).update(marks)
