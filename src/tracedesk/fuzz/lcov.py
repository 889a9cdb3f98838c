"""Coverage as LCOV: functions, branches and lines per file, as genhtml and CI services read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tracedesk.fuzz.lines import BranchHits, Coverage, FileCoverage, RoutineHits


def text(coverage: Coverage) -> str:
    """The whole trace file; a record per source, in order of its path."""
    return "".join(records(coverage))


def records(coverage: Coverage) -> Iterator[str]:
    """One record per source with anything to cover."""
    files = {
        coverage.project.sources[path].relative_to(coverage.project.root): file
        for path, file in coverage.files.items()
    }
    for path in sorted(files):
        if files[path].lines:
            yield "".join(f"{line}\n" for line in _record(path, files[path]))


def _record(path: str, file: FileCoverage) -> Iterator[str]:
    yield "TN:"
    # The format ends a field at the line's end, whatever a file is called.
    yield f"SF:{' '.join(path.splitlines())}"
    yield from _functions(sorted(file.routines.values(), key=lambda routine: (routine.line, routine.name)))
    yield from _branches(sorted(file.branches.values(), key=lambda branch: (branch.line, branch.start)))
    for line in sorted(file.lines):
        yield f"DA:{line},{file.lines[line]}"
    yield f"LF:{len(file.lines)}"
    yield f"LH:{sum(hits > 0 for hits in file.lines.values())}"
    yield "end_of_record"


def _functions(routines: list[RoutineHits]) -> Iterator[str]:
    named = list(zip(_names(routines), routines, strict=True))
    yield from (f"FN:{routine.line},{name}" for name, routine in named)
    yield from (f"FNDA:{routine.hits},{name}" for name, routine in named)
    yield f"FNF:{len(named)}"
    yield f"FNH:{sum(routine.hits > 0 for routine in routines)}"


def _names(routines: list[RoutineHits]) -> Iterator[str]:
    """Names that are unique in the file: overloads are numbered, as forge does."""
    total = Counter(routine.name for routine in routines)
    met: Counter[str] = Counter()
    for routine in routines:
        yield routine.name if total[routine.name] == 1 else f"{routine.name}.{met[routine.name]}"
        met[routine.name] += 1


def _branches(branches: list[BranchHits]) -> Iterator[str]:
    for block, branch in enumerate(branches):
        for side, taken in enumerate((branch.held, branch.failed)):
            # A dash says that the decision was never reached, a zero that it always went the other way.
            yield f"BRDA:{branch.line},{block},{side},{taken if branch.hit else '-'}"
    yield f"BRF:{2 * len(branches)}"
    yield f"BRH:{sum(branch.hit for branch in branches)}"
