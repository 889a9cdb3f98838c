"""Context for a call: which files are meant, what the graph knows of them, and whether that is still so."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tracedesk.codegraph import indexing
from tracedesk.codegraph.context import Draft, Status, pack
from tracedesk.codegraph.desk import Atlas, as_tool_errors
from tracedesk.codegraph.graph.ignore import builtin
from tracedesk.codegraph.graph.index import language_for
from tracedesk.codegraph.graph.limits import REMEDIES
from tracedesk.codegraph.graph.model import Span, Symbol
from tracedesk.codegraph.graph.nodes import FileRow, SymbolRow, chunks_of, file_at, imports_of, symbols_of
from tracedesk.codegraph.graph.outline import outline
from tracedesk.codegraph.graph.rows import FileRows, Skipped, Task
from tracedesk.codegraph.graph.store import project_at
from tracedesk.codegraph.graph.summaries import file_summary
from tracedesk.codegraph.indexing import Silent
from tracedesk.errors import ToolError
from tracedesk.jobs import Job, in_thread
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.paths import PathRefused
from tracedesk.primitives.tokens import CHARACTERS_PER_TOKEN

_LEAST_ENTRY: Final = 40
"""Bytes that a file takes at least in an answer: more files than fit need not be looked at."""
_MOST_SYMBOLS: Final = 40
_MOST_PARSED: Final = 100
"""Files that one call has parsed for its answer alone."""
_WORDS: Final[Mapping[str, str]] = {
    **REMEDIES,
    "missing": "not found",
    "ignored": "excluded by a .gitignore or the built-in list",
    "unindexed": "not in the graph; call graph_update_files with it",
}


@dataclass(frozen=True, slots=True)
class _Named:
    """A file that was asked for: its path below the root, or why it is none."""

    file: str
    refusal: str | None = None


async def context(atlas: Atlas, args: Mapping[str, Any]) -> dict[str, Any]:
    """The files of a call, in their order, in at most as many tokens as it allows."""
    root = atlas.root(args["project_root"])
    tokens: int = args.get("max_tokens", 2048)
    files = list(dict.fromkeys(args["files"]))
    most = min(tokens * CHARACTERS_PER_TOKEN, atlas.max_bytes) // _LEAST_ENTRY + 1
    named, read = await in_thread(lambda: _named(atlas, root, files, most))
    standing = await _refreshed(atlas, root, [one.file for one in named if one.refusal is None])

    def work(job: Job[Any]) -> dict[str, Any]:
        drafts, version = _Drafting(atlas, root, standing, job.check).all(named)
        return pack(drafts, tokens, atlas.max_bytes, version, more=len(files) - read)

    return await atlas.job("context", root, Silent(), work)


def _named(atlas: Atlas, root: str, files: Sequence[str], most: int) -> tuple[list[_Named], int]:
    """The first files once each, by their real paths, and how many names were looked at for them.

    What cannot be a file keeps its name and says why.
    """
    found: dict[str, _Named] = {}
    for read, file in enumerate(files):
        if len(found) == most:
            return list(found.values()), read
        try:
            path = atlas.jail.resolve(root, file).relative
            found.setdefault(path, _Named(path))
        except PathRefused as refused:
            found.setdefault(file, _Named(file, refused.reason))
    return list(found.values()), len(files)


# --- how the graph stands to the disk -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Standing:
    """What became of the known files that the disk has otherwise than the graph."""

    stale: frozenset[str] = frozenset()
    updated: frozenset[str] = frozenset()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, path: str) -> Status:
        if path in self.updated:
            return "updated"
        return "stale" if path in self.stale else "fresh"


async def _refreshed(atlas: Atlas, root: str, files: Sequence[str]) -> _Standing:
    """Read known files again that changed, unless the desk only reads or another process is at it.

    A file that the graph does not have is not added: a reader does not decide what a project is made of.
    """
    changed = await in_thread(lambda: _changed(atlas, root, files))
    if not changed:
        return _Standing()
    if atlas.read_only or atlas.store.holder(root) is not None:
        return _Standing(stale=frozenset(changed))
    try:
        report = await indexing.brought(atlas, root, changed, [], Silent())
    except ToolError as refused:
        if refused.code not in ("INDEX_BUSY", "PROJECT_NOT_INDEXED"):
            raise
        return _Standing(stale=frozenset(changed))
    return _Standing(
        updated=frozenset(report.updated_files),
        skipped={skip.file: skip.reason for skip in report.skipped},
    )


def _changed(atlas: Atlas, root: str, files: Sequence[str]) -> list[str]:
    """The files that the graph has and that are something else on the disk, or gone from it."""
    with as_tool_errors(root), atlas.store.reading() as connection:
        project = project_at(connection, root)
        if project is None:
            return []
        rows = {path: file_at(connection, project.id, path) for path in files}
    return [path for path, row in rows.items() if row is not None and not row.deleted and _differs(root, row)]


def _differs(root: str, row: FileRow) -> bool:
    try:
        found = os.lstat(os.path.join(root, row.path))
    except OSError:
        return True
    return (row.size, row.mtime_ns) != (found.st_size, found.st_mtime_ns)


# --- the files ----------------------------------------------------------------------------------


class _Drafting:
    """The drafts of one call: from the graph, and for files that it does not have from a parser's process."""

    def __init__(self, atlas: Atlas, root: str, standing: _Standing, check: Callable[[], None]) -> None:
        self._atlas = atlas
        self._root = root
        self._standing = standing
        self._check = check

    def all(self, named: Sequence[_Named]) -> tuple[list[Draft], str | None]:
        """A draft for each, in their order, and the version of the graph."""
        drafts, version = self._known(named)
        missing = [one.file for one in named if one.refusal is None and one.file not in drafts]
        drafts.update(self._parsed(missing[:_MOST_PARSED]))
        return [self._draft(one, drafts) for one in named], version

    def _known(self, named: Sequence[_Named]) -> tuple[dict[str, Draft], str | None]:
        with self._atlas.store.reading() as connection:
            project = project_at(connection, self._root)
            if project is None:
                return {}, None
            rows = (file_at(connection, project.id, one.file) for one in named if one.refusal is None)
            known = [row for row in rows if row is not None and not row.deleted]
            drafts = {row.path: _indexed(connection, row, self._standing.of(row.path)) for row in known}
            return drafts, project.graph_version

    def _parsed(self, files: Sequence[str]) -> dict[str, Draft]:
        """Files that the graph does not have, read for this answer alone."""
        left_out = {file: reason for file in files if (reason := self._reason(file)) is not None}
        drafts = {file: _left_out(file, reason) for file, reason in left_out.items()}
        tasks = [Task(file, language_for(file, None), None, None) for file in files if file not in left_out]
        atlas = self._atlas
        for some in atlas.store.parsers.parsed(atlas.jail, self._root, tasks, atlas.limits, 1, self._check):
            for outcome in some:
                if isinstance(outcome, FileRows):
                    drafts[outcome.path] = _read(outcome)
                elif isinstance(outcome, Skipped):
                    drafts[outcome.path] = _left_out(outcome.path, outcome.reason)
        return drafts

    def _reason(self, file: str) -> str | None:
        """Why a file is not read at all."""
        place = os.path.join(self._root, file)
        if not os.path.lexists(place):
            return "missing"
        if os.path.isdir(place):
            return "not_regular"
        return self._standing.skipped.get(file) or builtin(file)

    def _draft(self, one: _Named, drafts: Mapping[str, Draft]) -> Draft:
        if one.refusal is not None:
            return _left_out(one.file, one.refusal)
        return drafts.get(one.file) or _left_out(one.file, "unindexed")


def _left_out(file: str, reason: str) -> Draft:
    status: Status = "missing" if reason == "missing" else "skipped"
    return Draft(file, status, _WORDS.get(reason, f"refused: {reason}"))


def _indexed(connection: Connection, row: FileRow, status: Status) -> Draft:
    """A file as the graph has it."""
    rows = symbols_of(connection, row.id)
    facts = _Facts(
        row.doc,
        _symbols(rows),
        [each.inbound for each in rows],
        [imported.module for imported in imports_of(connection, row.id)],
        "" if rows else next((c.text for c in chunks_of(connection, row.id) if c.symbol is None), ""),
        row.problem,
    )
    return _draft(row.path, status, facts)


def _symbols(rows: Sequence[SymbolRow]) -> list[Symbol]:
    """The definitions of a file as its extractor gave them."""
    places = {row.id: place for place, row in enumerate(rows)}
    return [
        Symbol(
            row.name,
            row.qualified,
            row.kind,
            Span(row.start, row.end, row.start_byte, row.end_byte),
            row.signature,
            row.doc,
            row.exported,
            None if row.parent is None else places.get(row.parent),
        )
        for row in rows
    ]


def _read(rows: FileRows) -> Draft:
    """A file as a parser read it just now."""
    symbols = [
        Symbol(name, qualified, kind, Span(*span), signature, doc, bool(exported), parent)
        for name, qualified, kind, *span, signature, doc, exported, parent in zip(
            *rows.symbols[:11], strict=True
        )
    ]
    holders, _, _, _, texts = rows.chunks
    beginning = next((text for holder, text in zip(holders, texts, strict=True) if holder is None), "")
    facts = _Facts(rows.doc, symbols, [0] * len(symbols), rows.imports[0], beginning, rows.problem)
    return _draft(rows.path, "unindexed", facts)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a file's text."""

    doc: str
    symbols: Sequence[Symbol]
    used: Sequence[int]
    """By how many others each symbol is used."""
    modules: Sequence[str]
    beginning: str
    problem: str | None


def _draft(file: str, status: Status, facts: _Facts) -> Draft:
    ranked = sorted(
        (place for place, symbol in enumerate(facts.symbols) if symbol.exported),
        key=lambda place: (-facts.used[place], facts.symbols[place].parent is not None, place),
    )
    names = list(dict.fromkeys(facts.symbols[place].qualified for place in ranked))
    head = file_summary(facts.doc, names, facts.modules)
    if facts.problem:
        head = f"{head} (incomplete: {facts.problem})".strip()
    # What defines nothing, such as a page of text, is told by how it begins.
    lines = partial(_outlined, facts.symbols) if facts.symbols else partial(_begun, facts.beginning)
    return Draft(file, status, head.replace("\n", " "), lines, names[:_MOST_SYMBOLS])


def _outlined(symbols: Sequence[Symbol], tokens: int) -> str:
    return outline(symbols, tokens).text


def _begun(text: str, _: int) -> str:
    return text
