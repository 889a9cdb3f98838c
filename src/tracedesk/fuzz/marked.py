"""Coverage as Echidna's text: every source line with its marks in front."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tracedesk.fuzz.lines import Coverage, FileCoverage
from tracedesk.fuzz.project import Source
from tracedesk.primitives.redaction import redact_text

_ORDER: Final = "roe"


def text(coverage: Coverage) -> str:
    """All sources: `*` where a line ran, and how calls ended: `r` reverted, `o` out of gas, `e` error."""
    return (
        "\n".join(line for path, file in coverage.files.items() for line in _file(coverage, path, file))
        + "\n"
    )


def _file(coverage: Coverage, path: str, file: FileCoverage) -> Iterator[str]:
    source = coverage.project.sources[path]
    yield source.relative_to(coverage.project.root)
    yield from _lines(source, file)
    yield ""


def _lines(source: Source, file: FileCoverage) -> Iterator[str]:
    width = len(str(len(source.lines)))
    for number, line in enumerate(source.lines, 1):
        yield f"{number:>{width}} | {marks(file, number):4}| {redact_text(line)}".rstrip()


def marks(file: FileCoverage, line: int) -> str:
    """The marks of a line, in Echidna's order."""
    ended = "".join(sorted(file.marks.get(line, ()), key=_ORDER.index))
    return f"*{ended}" if file.lines.get(line) else ended
