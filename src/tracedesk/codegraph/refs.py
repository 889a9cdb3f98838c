"""The addresses of projects, versions, files and reports; attempts and events have the trace's own."""

from __future__ import annotations

import hashlib
import os
from typing import Final
from urllib.parse import quote

SCHEME: Final = "tracedesk://codegraph/"
VERSIONS: Final = f"{SCHEME}versions/"
REPORTS: Final = f"{SCHEME}reports/"
FILES: Final = f"{SCHEME}files/"
LONGEST: Final = 256
"""Characters of a reference; a file whose path is longer has none."""
_KEY_DIGITS: Final = 16


def key_of(root: str) -> str:
    """A project's name in references: its path would not fit there."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:_KEY_DIGITS]


def version_ref(version: str) -> str:
    """The reference of a state of the code."""
    return VERSIONS + quote(version, safe="")


def file_ref(project: str, path: str) -> str | None:
    """The reference of a file of a project."""
    ref = f"{FILES}{key_of(project)}/{quote(path, safe='')}"
    return ref if len(ref) <= LONGEST else None


def report_ref(root: str, page: int = 1) -> str:
    """The reference of a page of the report of a project's last index."""
    return f"{REPORTS}{key_of(root)}/{page}"
