"""A file in a few lines: the headers of its definitions with their line numbers, within a token budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from tracedesk.codegraph.graph.model import Symbol
from tracedesk.codegraph.graph.syntax.nesting import CALLABLES
from tracedesk.primitives.tokens import CHARACTERS_PER_TOKEN, estimate

Form = Literal["documented", "outline", "exported", "symbols", "name", "nothing"]
"""From the fullest on: headers with docs, headers, headers of what is exported, names, the file's name."""

_INDENT = " "
_MORE = ", … {} more"
_LESSER = frozenset(("field", "variable"))
"""Kinds that an outline leaves out where they are not exported."""


class Outline(NamedTuple):
    """The text, the form it has, what it costs, and how many of its symbols it leaves out."""

    text: str
    form: Form
    tokens: int
    left: int


def outline(symbols: Sequence[Symbol], budget_tokens: int, *, name: str = "") -> Outline:
    """Return the fullest form that fits; `name` stands for the file when nothing else does."""
    shown = _shown(symbols)
    exported = [place for place in shown if symbols[place].exported]
    forms: tuple[tuple[Form, list[int], bool], ...] = (
        ("documented", shown, True),
        ("outline", shown, False),
        ("exported", exported, False),
    )
    room = budget_tokens * CHARACTERS_PER_TOKEN
    for form, places, docs in forms:
        text = _joined(_lines(symbols, places, docs=docs), room)
        if text:
            return Outline(text, form, estimate(text), len(shown) - len(places))
    return _names(symbols, shown, room, name)


def _shown(symbols: Sequence[Symbol]) -> list[int]:
    """Return the places of the symbols an outline shows: what is local to a function is not among them."""
    hidden: set[int] = set()
    shown: list[int] = []
    for place, symbol in enumerate(symbols):
        if symbol.parent is not None and (
            symbol.parent in hidden or symbols[symbol.parent].kind in CALLABLES
        ):
            hidden.add(place)
        elif symbol.exported or symbol.kind not in _LESSER:
            shown.append(place)
    return shown


def _lines(symbols: Sequence[Symbol], shown: Iterable[int], *, docs: bool) -> Iterable[str]:
    depths: dict[int, int] = {}
    for place in shown:
        symbol = symbols[place]
        depth = 0 if symbol.parent is None else depths.get(symbol.parent, -1) + 1
        depths[place] = depth
        line = f"{symbol.span.start} {_INDENT * depth}{symbol.signature or symbol.name}"
        yield f"{line} -- {symbol.doc}" if docs and symbol.doc else line


def _joined(lines: Iterable[str], room: int) -> str:
    """Return the lines as one text, or nothing as soon as they are too long."""
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode(errors="surrogatepass")) + (1 if kept else 0)
        if room < 0:
            return ""
        kept.append(line)
    return "\n".join(kept)


def _names(symbols: Sequence[Symbol], shown: Sequence[int], room: int, name: str) -> Outline:
    """Return as many names as fit, in the file's order; the exported and the outermost are chosen first."""
    chosen: dict[str, int] = {}
    order = sorted(
        shown, key=lambda place: (not symbols[place].exported, symbols[place].parent is not None, place)
    )
    for place in order:
        chosen.setdefault(symbols[place].qualified, place)
    kept, left = _fitting(chosen, room)
    if kept:
        text = ", ".join(sorted(kept, key=chosen.__getitem__)) + (_MORE.format(left) if left else "")
        return Outline(text, "symbols", estimate(text), left)
    if name and len(name.encode(errors="surrogatepass")) <= room:
        return Outline(name, "name", estimate(name), left)
    return Outline("", "nothing", 0, left)


def _fitting(names: Iterable[str], room: int) -> tuple[list[str], int]:
    """Return the first names whose list fits beside the note of how many are left, and that number."""
    sizes = [(name, len(name.encode(errors="surrogatepass")) + len(", ")) for name in names]
    if sum(size for _, size in sizes) - len(", ") <= room:
        return [name for name, _ in sizes], 0
    room -= len(_MORE.format(len(sizes)).encode()) - len(", ")
    kept: list[str] = []
    for name, size in sizes:
        room -= size
        if room < 0:
            break
        kept.append(name)
    return kept, len(sizes) - len(kept)
