"""Files that an event names: found in its payload, and written relative to the attempt's project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from posixpath import normpath
from typing import Any, Final, cast

from tracedesk.codegraph.etg.model import DEFAULT_PROJECT, Role, is_own

MOST_FILES: Final = 2_000
"""Files of one event that are linked; its payload keeps all it fits."""

_LONGEST_PATH: Final = 1_024
_ARGUMENTS: Final = frozenset(
    {"file_path", "filepath", "path", "file", "filename", "absolute_path", "notebook_path", "paths", "files"}
)
_EDITS: Final = re.compile(r"edit|write|replace|patch|create|delete|rename|move|insert", re.IGNORECASE)
_CITATION: Final = re.compile(
    r"(?P<path>[^\s:#][^:#\n]*?)(?:[:#]L?(?P<start>[0-9]{1,9})(?:C[0-9]+)?(?:\s*[-–:]\s*L?(?P<end>[0-9]{1,9}))?)"
)
_LOOKS_LIKE_A_FILE: Final = re.compile(r"[^\s:#]+\.[A-Za-z0-9_+-]{1,12}|[^\s:#]*/[^\s:#]+")

Named = tuple[str, Role]


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation as it was written, and the file and lines in it where they can be told."""

    text: str
    path: str | None = None
    start: int | None = None
    end: int | None = None


def citation(text: str) -> Citation:
    """`a.py:L10-L40`, `a.py:10`, `a.py#L10` and the like; anything else stays a text."""
    found = _CITATION.fullmatch(text.strip())
    if found is None:
        plain = _LOOKS_LIKE_A_FILE.fullmatch(text.strip())
        return Citation(text, plain[0] if plain and "://" not in text else None)
    start, end = int(found["start"]), int(found["end"] or found["start"])
    if "://" in text or end < start:
        return Citation(text)
    return Citation(text, found["path"], start, end)


def normalised(path: str, project: str) -> str | None:
    """The path below the project; one outside it stays as it is, and what is no path is None."""
    plain = path.strip().removeprefix("file://").replace("\\", "/")
    if not plain or len(plain) > _LONGEST_PATH or not plain.isprintable():
        return None
    plain = normpath(plain)
    root = project.rstrip("/") + "/"
    if project != DEFAULT_PROJECT and plain.startswith(root):
        plain = plain[len(root) :]
    return None if plain in (".", "..", "/", "//") else plain


def named(kind: str, payload: Mapping[str, Any]) -> list[Named]:
    """The files that a payload names and what it has to do with them, each once, as written."""
    found: dict[str, Role] = {}
    for path, role in _named(kind, payload):
        if path not in found or role == "changed":
            found[path] = role
        if len(found) >= MOST_FILES:
            break
    return list(found.items())


def _named(kind: str, payload: Mapping[str, Any]) -> Iterator[Named]:
    if kind == "checkpoint":
        yield from _all("changed", _texts(payload.get("files")))
    elif kind == "context_retrieved":
        snippets = cast("list[Mapping[str, Any]]", payload.get("snippets") or [])
        yield from _all("read", _texts(payload.get("files")))
        yield from _all("read", (path for snippet in snippets for path in _texts(snippet.get("file"))))
    elif kind == "answer_rendered":
        cited = map(citation, _texts(payload.get("citations")))
        yield from _all("cited", (one.path for one in cited if one.path is not None))
    elif not is_own(payload["tool"]):
        yield from _of_tool(payload)


def _all(role: Role, paths: Iterable[str]) -> Iterator[Named]:
    return ((path, role) for path in paths)


def _of_tool(payload: Mapping[str, Any]) -> Iterator[Named]:
    role: Role = "changed" if _EDITS.search(payload["tool"]) else "read"
    for name, value in (*arguments_of(payload).items(), ("files", payload.get("files"))):
        if name.lower() in _ARGUMENTS:
            yield from _all(role, _texts(value))


def arguments_of(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool's arguments; an end need not have any."""
    given = payload.get("arguments")
    return cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    return [item for item in cast("list[Any]", value) if isinstance(item, str)]
