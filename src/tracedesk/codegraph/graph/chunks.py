"""Pieces of text to be found and shown: one for each definition, and the head of the file."""

from __future__ import annotations

from collections.abc import Sequence

from tracedesk.codegraph.graph.model import Chunk, Symbol, make
from tracedesk.codegraph.graph.syntax.nesting import CALLABLES
from tracedesk.codegraph.graph.syntax.source import Source, decoded

LIMIT = 1200
"""Bytes of a chunk at most; a longer definition is cut after a whole statement where it has any."""

_SMALL = frozenset(("field", "variable", "constant"))
_SMALL_LINES = 2


def cut(source: Source, symbols: Sequence[Symbol]) -> tuple[Chunk, ...]:
    """Return a file's chunks in its order: the head up to the first definition, then one for each symbol.

    The chunk of a class ends where its first method begins. A field or a constant of a line or two, and a
    function inside a function, has none of its own where the chunk around it already shows it whole
    (see `contexts`).
    """
    ends = _ends(source, symbols)
    head = _end(source.text, 0, ends[-1])
    chunks = [_chunk(source, None, 0, head)]
    for place, symbol in enumerate(symbols):
        shown = head if symbol.parent is None else ends[symbol.parent]
        ends[place] = _end(source.text, symbol.span.start_byte, ends[place])
        if not (symbol.span.end_byte <= shown and _shares(symbol, symbols)):
            chunks.append(_chunk(source, place, symbol.span.start_byte, ends[place]))
    return tuple([chunk for chunk in chunks if chunk.text])


def contexts(symbols: Sequence[Symbol], chunks: Sequence[Chunk]) -> tuple[int | None, ...]:
    """Return, for each symbol, the place of the chunk that shows it: its own, or the one around it."""
    own = {chunk.symbol: place for place, chunk in enumerate(chunks)}
    found: list[int | None] = []
    for place, symbol in enumerate(symbols):
        around = own.get(None) if symbol.parent is None else found[symbol.parent]
        found.append(own.get(place, around))
    return tuple(found)


def _ends(source: Source, symbols: Sequence[Symbol]) -> list[int]:
    """Return where each symbol's chunk ends before it is cut to size; last, where the file's head does."""
    ends = [symbol.span.end_byte for symbol in symbols]
    ends.append(len(source.text))
    for symbol in symbols:
        parent = -1 if symbol.parent is None else symbol.parent
        if parent >= 0 and symbols[parent].kind in CALLABLES:
            continue
        if not _small(symbol) and symbol.span.start_byte < ends[parent]:
            ends[parent] = symbol.span.start_byte
    return ends


def _small(symbol: Symbol) -> bool:
    return symbol.kind in _SMALL and symbol.span.end - symbol.span.start < _SMALL_LINES


def _shares(symbol: Symbol, symbols: Sequence[Symbol]) -> bool:
    return _small(symbol) or (symbol.parent is not None and symbols[symbol.parent].kind in CALLABLES)


def _chunk(source: Source, symbol: int | None, start: int, end: int) -> Chunk:
    text = source.text[start:end].rstrip()
    return make(Chunk, (source.span(start, start + len(text)), symbol, decoded(text).strip()))


def _end(text: bytes, start: int, end: int) -> int:
    """Return the end, or where the last whole statement before the limit ends."""
    if end - start <= LIMIT:
        return end
    limit = start + LIMIT
    lines = text[start:limit].split(b"\n")
    lines.pop()
    body = min((_indent(line) for line in lines[1:3] if line.strip()), default=0)
    at, best = start, 0
    for line in lines:
        if at > start + LIMIT // 2 and line.strip() and _indent(line) <= body:
            best = at
        at += len(line) + 1
    if best or at > start + LIMIT // 2:
        return best or at
    while limit > start and text[limit] & 0xC0 == 0x80:
        limit -= 1
    return limit


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))
