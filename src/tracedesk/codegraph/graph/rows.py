"""What the graph's tables get of one file: built where it is parsed, written where the file's id is known.

Places of symbols and imports are numbers in the file; they become row ids by adding the file's first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from tracedesk.codegraph.graph.chunks import contexts
from tracedesk.codegraph.graph.limits import MAX_ROWS
from tracedesk.codegraph.graph.model import Chunk, Extract, Import, Reference, Symbol
from tracedesk.codegraph.graph.modules import family_of, stem_of, wants
from tracedesk.codegraph.graph.secrets import without_secrets
from tracedesk.codegraph.graph.version import leaf
from tracedesk.codegraph.graph.words import Words
from tracedesk.codegraph.rank.terms import searchable

KEY_BYTES = 16


class Task(NamedTuple):
    """A file to read: its language, and the content and language that the graph has of it."""

    path: str
    language: str
    hint: str | None
    known: bytes | None


class Skipped(NamedTuple):
    """A file that the graph does not take."""

    path: str
    reason: str


class Same(NamedTuple):
    """A file whose content the graph has."""

    path: str
    mtime_ns: int


class FileRows(NamedTuple):
    """Columns of every table for one file; plain values, so that they pass between processes."""

    path: str
    language: str
    hint: str | None
    sha256: bytes
    leaf: bytes
    size: int
    mtime_ns: int
    lines: int
    doc: str
    problem: str | None
    stem: str
    symbols: list[Any]
    """name, qualified, kind, start, end, start_byte, end_byte, signature, doc, exported, parent, scope,
    chunk"""
    references: list[Any]
    """name, kind, line, holder"""
    imports: list[Any]
    """module, names, line"""
    wanted: list[Any]
    """stem, import"""
    chunks: list[Any]
    """symbol, start, end, key, text"""
    words: tuple[str, str, str]
    """path, symbols and text as they go into the files' full text"""
    chunk_words: list[str]
    """what follows each chunk's text in the full text"""
    symbol_words: list[list[str]]
    """name, signature and documentation of each symbol as they go into the symbols' full text"""


Outcome = FileRows | Same | Skipped


def file_rows(task: Task, data: bytes, text: str, mtime_ns: int, extract: Extract) -> FileRows:
    """The rows of a file from what its extractor found."""
    family = family_of(extract.language)
    symbols = extract.symbols[:MAX_ROWS]
    chunks = extract.chunks[:MAX_ROWS]
    sha256 = hashlib.sha256(data).digest()
    kept, body = _texts(text, extract, chunks)
    tidy = _same if body is text else without_secrets
    behind, behind_chunks = _behind(data, chunks, kept, body) if body is text else _behind_each(kept, body)
    return FileRows(
        task.path,
        extract.language,
        task.hint,
        sha256,
        leaf(task.path, extract.language, sha256),
        len(data),
        mtime_ns,
        extract.lines,
        without_secrets(extract.doc),
        extract.problem,
        stem_of(task.path, family),
        [*_symbol_columns(symbols, family, tidy), list(contexts(symbols, chunks))],
        _reference_columns(extract.references[:MAX_ROWS]),
        _import_columns(extract.imports),
        _wanted_columns(family, task.path, extract.imports),
        _chunk_columns(chunks, kept),
        (searchable(task.path), searchable(" ".join([symbol.name for symbol in symbols])), body + behind),
        behind_chunks,
        _symbol_words(symbols, tidy),
    )


def _texts(text: str, extract: Extract, chunks: Sequence[Chunk]) -> tuple[list[str], str]:
    """The chunks' texts and the file's text without secrets; without code the chunks are all of it."""
    pieces = [chunk.text for chunk in chunks]
    if not (extract.symbols or extract.references or extract.imports):
        pieces = [without_secrets(piece) for piece in pieces]
        return pieces, "\n".join(pieces)
    body = without_secrets(text)
    # A text without a secret has no part with one.
    return (pieces if body is text else [without_secrets(piece) for piece in pieces]), body


def _behind(data: bytes, chunks: Sequence[Chunk], texts: Sequence[str], body: str) -> tuple[str, list[str]]:
    """What goes behind a file's text, and behind each chunk's, in the full text."""
    places = [(chunk.span.start_byte, chunk.span.end_byte) for chunk in chunks]
    words = Words(data, chain.from_iterable(places))
    if not words.is_whole:
        return _behind_each(texts, body)
    return words.behind(0, len(data)), [words.behind(start, end) for start, end in places]


def _behind_each(texts: Sequence[str], body: str) -> tuple[str, list[str]]:
    """The same for texts that are not the file's own bytes, or are cut inside a word."""
    return searchable(body)[len(body) :], [searchable(text)[len(text) :] for text in texts]


def _same(text: str) -> str:
    return text


def _symbol_columns(symbols: Sequence[Symbol], family: int, tidy: Callable[[str], str]) -> list[Any]:
    if not symbols:
        return [[] for _ in range(12)]
    names, qualified, kinds, spans, signatures, docs, exported, parents, _ = zip(*symbols, strict=True)
    return [
        names,
        qualified,
        kinds,
        *zip(*spans, strict=True),
        signatures if tidy is _same else [tidy(signature) for signature in signatures],
        docs if tidy is _same else [tidy(doc) for doc in docs],
        [int(is_exported) for is_exported in exported],
        parents,
        [family if is_exported else 0 for is_exported in exported],
    ]


def _symbol_words(symbols: Sequence[Symbol], tidy: Callable[[str], str]) -> list[list[str]]:
    return [
        [searchable(symbol.name) for symbol in symbols],
        [searchable(tidy(f"{symbol.qualified} {symbol.signature}")) for symbol in symbols],
        [searchable(tidy(about)) if about else "" for about in _abouts(symbols)],
    ]


def _abouts(symbols: Sequence[Symbol]) -> Iterator[str]:
    """Each symbol's documentation; of those on one line that share a comment, the first has all of it."""
    line, last = 0, ""
    for symbol in symbols:
        yield symbol.doc if symbol.about == last and symbol.span.start == line else symbol.about
        line, last = symbol.span.start, symbol.about


def _reference_columns(references: Sequence[Reference]) -> list[Any]:
    return list(zip(*references, strict=True)) if references else [[], [], [], []]


def _import_columns(imports: Sequence[Import]) -> list[Any]:
    return [[i.module for i in imports], [" ".join(i.names) for i in imports], [i.line for i in imports]]


def _wanted_columns(family: int, path: str, imports: Sequence[Import]) -> list[Any]:
    pairs = dict.fromkeys(
        (want.stem, number)
        for number, found in enumerate(imports)
        for want in wants(family, path, found.module, found.names)
    )
    return [[stem for stem, _ in pairs], [number for _, number in pairs]]


def _chunk_columns(chunks: Sequence[Chunk], texts: Sequence[str]) -> list[Any]:
    return [
        [c.symbol for c in chunks],
        [c.span.start for c in chunks],
        [c.span.end for c in chunks],
        [hashlib.sha256(text.encode()).digest()[:KEY_BYTES] for text in texts],
        list(texts),
    ]
