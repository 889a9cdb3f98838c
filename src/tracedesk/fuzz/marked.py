"""Coverage as Echidna's text: every source line with its marks in front."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from tracedesk.fuzz.lines import Coverage, FileCoverage
from tracedesk.fuzz.project import Source
from tracedesk.primitives.redaction import redact_text

_ORDER: Final = "roe"
MOST_LINES: Final = 100_000
MOST_CHARACTERS: Final = 8 << 20
"""Lines of all sources of a report, and their characters; what is left out is counted."""


def text(coverage: Coverage) -> str:
    """All sources: `*` where a line ran, and how calls ended: `r` reverted, `o` out of gas, `e` error."""
    shown = lines_shown(coverage)
    rows = (
        line for path, file in coverage.files.items() for line in _file(coverage, path, file, shown[path])
    )
    return "\n".join(rows) + "\n"


def lines_shown(coverage: Coverage) -> dict[str, int]:
    """Lines that a report shows of each source: all, where nobody made them to be too many."""
    lines, characters = MOST_LINES, MOST_CHARACTERS
    shown: dict[str, int] = {}
    for path in coverage.files:
        shown[path] = 0
        for line in islice(coverage.project.sources[path].lines, lines):
            characters -= len(line)
            if characters < 0:
                break
            shown[path] += 1
        lines -= shown[path]
    return shown


def _file(coverage: Coverage, path: str, file: FileCoverage, shown: int) -> Iterator[str]:
    source = coverage.project.sources[path]
    yield source.relative_to(coverage.project.root)
    yield from _lines(source, file, shown)
    if shown < len(source.lines):
        yield f"… {len(source.lines) - shown:,} more lines"
    yield ""


def _lines(source: Source, file: FileCoverage, shown: int) -> Iterator[str]:
    width = len(str(len(source.lines)))
    for number, line in enumerate(source.lines[:shown], 1):
        yield f"{number:>{width}} | {marks(file, number):4}| {redact_text(line)}".rstrip()


def marks(file: FileCoverage, line: int) -> str:
    """The marks of a line, in Echidna's order."""
    ended = "".join(sorted(file.marks.get(line, ()), key=_ORDER.index))
    return f"*{ended}" if file.lines.get(line) else ended
