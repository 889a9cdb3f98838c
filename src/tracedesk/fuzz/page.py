"""Coverage as one page: files with their shares, and every source with hits, gaps and half-taken branches.

The page holds everything it shows, runs no script, and asks for nothing from anywhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from importlib import resources
from typing import Final

from tracedesk.fuzz.lines import BranchHits, Coverage, FileCoverage, Tally
from tracedesk.fuzz.marked import lines_shown, marks
from tracedesk.fuzz.project import Source
from tracedesk.primitives.redaction import redact_text
from tracedesk.primitives.text import strip_invisible

_TEMPLATE: Final = "page_template.html"
_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")
_LONGEST: Final = 2_000
_WORDS: Final = {
    "require": ("passed", "failed"),
    "assert": ("passed", "failed"),
    "for": ("went on", "ended"),
    "while": ("went on", "ended"),
    "do": ("went on", "ended"),
    "if": ("true", "false"),
    "ternary": ("true", "false"),
}
_MARKS: Final = {"r": "reverted here", "o": "ran out of gas here", "e": "failed here"}


def html(coverage: Coverage, title: str = "Coverage") -> str:
    """The whole page; every value in it is escaped."""
    files = list(coverage.files.items())
    shown = lines_shown(coverage)
    parts = {
        "title": _shown(title),
        "figures": _figures(sum((file.tally for _, file in files), Tally())),
        "contracts": "".join(_contracts(coverage)),
        "files": "".join(_row(coverage, number, path, file) for number, (path, file) in enumerate(files)),
        "sources": "".join(
            _section(coverage, number, path, file, shown[path]) for number, (path, file) in enumerate(files)
        ),
    }
    template = (resources.files("tracedesk.fuzz") / _TEMPLATE).read_text(encoding="utf-8")
    # One pass, so that braces in a source are never filled in.
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _shown(text: str) -> str:
    return escape(strip_invisible(text))


def _figures(tally: Tally) -> str:
    return _figure("lines", tally.line_percent, tally.lines_hit, tally.lines) + _figure(
        "branches", tally.branch_percent, tally.branches_hit, tally.branches
    )


def _figure(name: str, share: object, hit: int, total: int) -> str:
    return f"<div><dt>{name}</dt><dd>{share}%<small>{hit:,} of {total:,}</small></dd></div>"


def _contracts(coverage: Coverage) -> Iterator[str]:
    for found in coverage.contracts:
        name = f"<th scope=row>{_shown(found.contract.name)}<small>{_shown(found.contract.path)}</small></th>"
        yield f"<tr>{name}{_shares(found.tally)}</tr>"


def _row(coverage: Coverage, number: int, path: str, file: FileCoverage) -> str:
    name = _shown(coverage.project.sources[path].relative_to(coverage.project.root))
    return f'<tr><th scope=row><a href="#f{number}">{name}</a></th>{_shares(file.tally)}</tr>'


def _shares(tally: Tally) -> str:
    return _share(tally.line_percent, tally.lines_hit, tally.lines) + _share(
        tally.branch_percent, tally.branches_hit, tally.branches
    )


def _share(share: object, hit: int, total: int) -> str:
    bar = (
        f'<td class="bar"><progress value="{hit}" max="{max(total, 1)}"></progress></td>'
        if total
        else "<td></td>"
    )
    return f'{bar}<td class="n">{share}%</td><td class="n soft">{hit:,}/{total:,}</td>'


# --- sources --------------------------------------------------------------------------------------


def _section(coverage: Coverage, number: int, path: str, file: FileCoverage, shown: int) -> str:
    source = coverage.project.sources[path]
    name = _shown(source.relative_to(coverage.project.root))
    tally = file.tally
    gaps = {line: gap for line, gap in _gaps(file).items() if line <= shown}
    first = f' · <a href="#f{number}g0">first line that never ran</a>' if gaps else ""
    head = f"<h2>{name}</h2><p>{tally.line_percent}% of lines, {tally.branch_percent}% of branches{first}</p>"
    body = "".join(_lines(source, file, f"f{number}", gaps, shown))
    if shown < len(source.lines):
        body += f"<tr><td></td><td></td><td></td><td>… {len(source.lines) - shown:,} more lines</td></tr>"
    scroll = f'<div class="code" tabindex="0" role="region" aria-label="{name}"><table>{body}</table></div>'
    return f'<section id="f{number}">{head}{scroll}<p><a href="#top">Back to the files</a></p></section>'


def _gaps(file: FileCoverage) -> Mapping[int, int]:
    """The first line of each run of lines that never ran, numbered in order."""
    never, before = False, dict[int, int]()
    for line in sorted(file.lines):
        if not file.lines[line] and not never:
            before[line] = len(before)
        never = not file.lines[line]
    return before


def _lines(
    source: Source, file: FileCoverage, section: str, gaps: Mapping[int, int], shown: int
) -> Iterator[str]:
    branches: dict[int, list[BranchHits]] = defaultdict(list)
    for branch in sorted(file.branches.values(), key=lambda branch: branch.start):
        branches[branch.line].append(branch)
    for number, line in enumerate(source.lines[:shown], 1):
        hits = file.lines.get(number)
        state = "" if hits is None else "miss" if not hits else _covered(branches[number])
        told = _told(number, hits, branches[number], file, section, gaps)
        text = _shown(redact_text(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"))
        place = f'<tr class="{state}" id="{section}l{number}"><td class="l">{number}</td>'
        yield f'{place}{told}<td class="s">{text}</td></tr>'


def _covered(branches: list[BranchHits]) -> str:
    return "part" if any(branch.hit < 2 for branch in branches) else "hit"


def _told(
    number: int,
    hits: int | None,
    branches: list[BranchHits],
    file: FileCoverage,
    section: str,
    gaps: Mapping[int, int],
) -> str:
    """The columns of hits and branches of one line."""
    count = "" if hits is None else f"{hits:,}"
    if number in gaps:
        onward = gaps[number] + 1 if gaps[number] + 1 < len(gaps) else 0
        place, words = f"{section}g{gaps[number]}", "to the next line that never ran"
        count = f'<a id="{place}" href="#{section}g{onward}" title="{words}">{count}</a>'
    ends = [_MARKS[mark] for mark in marks(file, number) if mark in _MARKS]
    signs = "".join(_sign(branch) for branch in branches)
    after = f'<span class="end" title="{"; ".join(ends)}">↯</span>' if ends else ""
    return f'<td class="h">{count}</td><td class="b">{signs}{after}</td>'


def _sign(branch: BranchHits) -> str:
    """Both ways of a decision: filled when taken."""
    held, failed = _WORDS[branch.kind]
    words = f"{branch.kind}: {held} {branch.held:,}, {failed} {branch.failed:,}"
    signs = ("●" if branch.held else "○") + ("●" if branch.failed else "○")
    style = ("never", "half", "both")[branch.hit]
    return f'<span class="{style}" title="{words}" aria-label="{words}" role="img">{signs}</span>'
