"""What of a project is looked at, and the reasons for which a file is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tracedesk.primitives.paths import Reason as PathReason

Reason = (
    PathReason
    | Literal[
        "ignored",
        "secret",
        "unprintable",
        "unknown_language",
        "too_large",
        "binary",
        "minified",
        "undecodable",
        "unreadable",
        "too_deep",
        "too_many_files",
        "parser_crashed",
        "text_only",
    ]
)

REMEDIES: Final[dict[str, str]] = {
    "ignored": "excluded by a .gitignore or the built-in list; name the file itself to index it",
    "secret": "its name says that it holds secrets, or is one; it is never indexed",
    "unprintable": "has a name with signs that cannot be printed; rename it",
    "unknown_language": "of no kind that the graph reads; give a language hint to index it",
    "too_large": "larger than the limit for one file; raise it in the settings if the file is source",
    "binary": "has a NUL byte near its start",
    "minified": "has a line longer than the limit",
    "undecodable": "is not UTF-8",
    "unreadable": "could not be read",
    "too_deep": "lies deeper than 100 folders",
    "too_many_files": "the project has more files than the limit; index a folder of it, or raise the limit",
    "parser_crashed": "its parser ended while reading it",
    "text_only": "is searched as text, without definitions: there is no parser for it here",
}
"""What to say to someone about each of our own reasons."""

SNIFFED: Final = 8_192
"""Bytes at a file's start in which a NUL makes it binary."""

DEEPEST: Final = 100

SCHEMA_VERSION: Final = 3
"""The number of the tables' form, in the file and in every graph version."""

ROW_BITS: Final = 20
"""Rows of one kind that a file may have, as bits: more than a file of the largest size holds."""

MAX_ROWS: Final = 1 << ROW_BITS


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an index."""

    file_bytes: int = 1_000_000
    line_chars: int = 5_000
    files: int = 200_000
    parse_seconds: float = 2.0
    silent_files: int = 20
    """So many files of one language without a single symbol mean that its parser does not work."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that is not in the graph, and why."""

    file: str
    reason: str

    def document(self) -> dict[str, str]:
        return {"file": self.file, "reason": self.reason}
