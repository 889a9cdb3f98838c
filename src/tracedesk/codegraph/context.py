"""Context packing: what an agent should know of some files, in no more tokens than it asked for.

The budget is for the whole answer as it is sent, counted by the installed vocabulary, or bounded without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracedesk.foreign import CLOSING, OPENING, block, closed, inner
from tracedesk.primitives import json
from tracedesk.primitives.tokens import CHARACTERS_PER_TOKEN, at_most

Status = Literal["fresh", "updated", "stale", "unindexed", "skipped", "missing"]
"""How a file's summary stands to the file: as it is; read again by this very call; of an older text; read for
this answer alone, because the graph does not have it; not to be read; not there."""

_LEAST_OUTLINE: Final = 160
"""Bytes below which names say more than a line or two of an outline."""
_SYMBOLS_SHARE: Final = 4
_MOST_NAMES: Final = 12
"""Beside an outline that was cut, a quarter of the bytes goes to names, and no more than these."""
_UNBOUNDED: Final = 1 << 30

Outline = Callable[[int], str]
"""The outline of a file in at most so many tokens."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What could be said of one file, longest form first cut where it must be."""

    file: str
    status: Status
    head: str
    """One line: what the file is, or why there is nothing to say."""
    outline: Outline | None = None
    """Lines of the file itself, which are quoted."""
    symbols: Sequence[str] = ()
    """Names, the most telling first."""


def pack(
    drafts: Sequence[Draft], max_tokens: int, max_bytes: int, version: str | None, *, more: int = 0
) -> dict[str, Any]:
    """The answer for `drafts`, in their order, in at most so many tokens and bytes.

    Every file is named first, as far as names fit; what is left is shared out in order, and what a short
    file leaves over goes to the others. `more` files were asked for of which there is no draft. A first
    answer takes texts to be ordinary ones; while it costs too many tokens, it is made again in less room.
    """
    room = min(max_tokens * CHARACTERS_PER_TOKEN, max_bytes)
    while True:
        body = _packed(drafts, max_tokens, room, version, more)
        tokens = at_most(json.dumps(body).decode())
        if tokens <= max_tokens or not body["contexts"]:
            return {**body, "estimated_tokens": min(tokens, max_tokens)}
        room = min(room - 1, len(json.dumps(body)) * max_tokens // tokens)


def _packed(
    drafts: Sequence[Draft], max_tokens: int, room: int, version: str | None, more: int
) -> dict[str, Any]:
    """The answer in so many bytes."""
    frame = _frame([], version, omitted=len(drafts) + more, tokens=max_tokens, truncated=False)
    kept, left = _named(drafts, room - len(json.dumps(frame)))
    entries, left = _shared(kept, left)
    entries = _improved(kept, entries, left)
    omitted = len(drafts) + more - len(kept)
    cut = omitted > 0 or any("truncated" in entry for entry in entries)
    return _frame(entries, version, omitted=omitted, tokens=max_tokens, truncated=cut)


def _frame(
    entries: list[dict[str, Any]], version: str | None, *, omitted: int, tokens: int, truncated: bool
) -> dict[str, Any]:
    frame: dict[str, Any] = {"contexts": entries, "truncated": truncated, "estimated_tokens": tokens}
    if omitted:
        frame["omitted"] = omitted
    if version is not None:
        frame["graph_version"] = version
    return frame


def _named(drafts: Sequence[Draft], room: int) -> tuple[list[Draft], int]:
    """As many of the first files as can at least be named, and the room that is left then."""
    kept: list[Draft] = []
    for draft in drafts:
        cost = _size(_least(draft))
        if cost > room:
            break
        room -= cost
        kept.append(draft)
    return kept, room


def _shared(drafts: Sequence[Draft], room: int) -> tuple[list[dict[str, Any]], int]:
    """Each file within an even share of what those before it have left."""
    entries: list[dict[str, Any]] = []
    for place, draft in enumerate(drafts):
        entry = _written(draft, room // (len(drafts) - place))
        room -= _size(entry) - _size(_least(draft))
        entries.append(entry)
    return entries, room


def _improved(drafts: Sequence[Draft], entries: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Give what is left to the files that were cut, in their order."""
    better: list[dict[str, Any]] = []
    for draft, entry in zip(drafts, entries, strict=True):
        if "truncated" in entry and room > 0:
            spent = _size(entry) - _size(_least(draft))
            longer = _written(draft, spent + room)
            if _size(longer) > _size(entry):
                room -= _size(longer) - _size(entry)
                entry = longer
        better.append(entry)
    return better


# --- one file -----------------------------------------------------------------------------------


def _least(draft: Draft) -> dict[str, Any]:
    return _entry(draft, "", (), cut=True)


def _entry(draft: Draft, summary: str, symbols: Sequence[str], *, cut: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"file": draft.file, "summary": summary, "status": draft.status}
    if symbols:
        entry["symbols"] = list(symbols)
    if cut:
        entry["truncated"] = True
    return entry


def _written(draft: Draft, extra: int) -> dict[str, Any]:
    """A file in at most `extra` bytes more than its name takes: whole, or cut."""
    outline = "" if draft.outline is None else _quotation(draft.outline(_UNBOUNDED))
    whole = _entry(draft, _joined(draft.head, outline), draft.symbols, cut=False)
    return whole if _size(whole) <= _size(_least(draft)) + extra else _cut(draft, extra)


def _cut(draft: Draft, extra: int) -> dict[str, Any]:
    """A line about the file, then names; and an outline where there is room for more than a few lines."""
    head = _lines_within(draft.head, extra) if draft.head else ""
    extra -= _length(head)
    short = draft.outline is None or extra < _LEAST_OUTLINE
    if short:
        symbols = _names_within(draft.symbols, extra)
    else:
        symbols = _names_within(draft.symbols[:_MOST_NAMES], extra // _SYMBOLS_SHARE)
    extra -= _names_length(symbols)
    summary = head
    if not short and draft.outline is not None and head == draft.head:
        lines = inner(draft.outline(max(1, extra // CHARACTERS_PER_TOKEN)))
        outline = _lines_within(lines, extra - len("\\n") - _length(OPENING + CLOSING))
        summary = _joined(head, _quotation(outline))
    return _entry(draft, summary, symbols, cut=True)


def _quotation(outline: str) -> str:
    return block(outline) if outline else ""


def _joined(head: str, outline: str) -> str:
    return f"{head}\n{outline}" if head and outline else head or outline


def _lines_within(text: str, room: int) -> str:
    """The first whole lines that fit; of a first line that does not, its beginning."""
    if _length(text) <= room:
        return text
    kept: list[str] = []
    for line in text.splitlines():
        cost = _length(line) + (len("\\n") if kept else 0)
        if cost > room:
            break
        room -= cost
        kept.append(line)
    return closed("\n".join(kept)) if kept else _beginning(text, room)


def _beginning(text: str, room: int) -> str:
    line = text.partition("\n")[0][: max(0, room)]
    while line and _length(line) + _length("…" + CLOSING) > room:
        line = line[: len(line) * 3 // 4]
    return closed(f"{line}…") if line else ""


def _names_within(names: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    room -= _names_length([""])
    for name in names:
        cost = _length(name) + len('"",')
        if cost > room:
            break
        room -= cost
        kept.append(name)
    return kept


def _names_length(names: Sequence[str]) -> int:
    return len(b',"symbols":') + len(json.dumps(list(names))) if names else 0


def _length(text: str) -> int:
    """The bytes of a text inside a JSON string."""
    return len(json.dumps(text)) - len('""')


def _size(entry: dict[str, Any]) -> int:
    """The bytes of an entry in a list, its comma included."""
    return len(json.dumps(entry)) + 1
