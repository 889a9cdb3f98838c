"""Files read natively: the module `tracedesk_code`, where it was built and knows the language.

What it gives is what `extract` and `file_rows` give, byte for byte. It takes no file that has a syntax error
or needs what only Python's own tables say; those are read in Python, and without the module all are.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Final, Protocol, cast

from tracedesk.codegraph.graph.modules import family_of
from tracedesk.codegraph.graph.reading import Source as File
from tracedesk.codegraph.graph.rows import Task
from tracedesk.codegraph.graph.secrets import without_secrets
from tracedesk.codegraph.graph.syntax import docs, grammars
from tracedesk.codegraph.graph.syntax.source import Source
from tracedesk.primitives.natively import is_wanted

_LANGUAGES: Final = frozenset(("python",))
_SHARE: Final = 0.1
"""Of the time that a parse may take: a file that the module gives up is still to be read in Python."""


class Reader(Protocol):
    """Reads the files of one language."""

    def rows(
        self,
        path: str,
        language: str,
        family: int,
        hint: str | None,
        data: bytes,
        mtime_ns: int,
        seconds: float,
    ) -> bytes | None: ...


@cache
def reader(language: str) -> Reader | None:
    """What reads a language natively; None where nothing does."""
    if language not in _LANGUAGES or (pointer := grammars.pointer(language)) is None:
        return None
    try:
        module: Any = importlib.import_module("tracedesk_code")
        return cast("Reader", module.Reader(pointer, docs.comment, _head_comment, without_secrets))
    except (ImportError, ValueError):
        # Not built, or the installed grammar is of a later form than it was built for.
        return None


def rows(task: Task, file: File, seconds: float) -> bytes | None:
    """A file's rows, marshalled; None when it is to be read in Python."""
    found = reader(task.language) if is_wanted() else None
    if found is None:
        return None
    family = family_of(task.language)
    return found.rows(task.path, task.language, family, task.hint, file.data, file.mtime_ns, seconds * _SHARE)


def _head_comment(text: bytes) -> str:
    return docs.head_comment(Source(text), hash_marks=True)
