"""A file in a sentence: its own first words, quoted, then what it defines and imports."""

from __future__ import annotations

from collections.abc import Sequence

from tracedesk.foreign import CLOSING, block, listed

_NAMES = 8
_MODULES = 6


def file_summary(doc: str, symbols: Sequence[str], imports: Sequence[str]) -> str:
    """Return a file's own first sentence, the names it exports (the most used first) and what it imports."""
    words = f"Doc: {block(doc.strip())}" if doc.strip() else ""
    parts = (words, _listed("Defines", symbols, _NAMES), _listed("Imports", imports, _MODULES))
    return " ".join(
        part if part.rstrip(CLOSING).endswith((".", "!", "?", "…")) else f"{part}." for part in parts if part
    )


def _listed(verb: str, names: Sequence[str], most: int) -> str:
    unique = list(dict.fromkeys(name for name in names if name))
    if not unique:
        return ""
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return f"{verb} {listed(unique[:most])}{more}"
