"""The version of a graph: a hash of what it holds, the same for the same tree whatever its history."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final

from tracedesk.codegraph.graph.limits import SCHEMA_VERSION as VERSION

if TYPE_CHECKING:
    from tracedesk.journal.sqlite import Connection

PREFIX: Final = "cg1-"
_CHARS: Final = 26

_LEAVES: Final = "SELECT leaf FROM file WHERE project = ? AND deleted = 0 ORDER BY path"


def leaf(path: str, language: str, sha256: bytes) -> bytes:
    """What the version has of one file: a hash of its path, language and content."""
    # The lengths keep two files from reading alike.
    name, kind = path.encode(), language.encode()
    return hashlib.sha256(b"%d:%b:%d:%b:%b" % (len(name), name, len(kind), kind, sha256)).digest()


def graph_version(connection: Connection, project: int, extractor: str) -> str:
    """The version of a project's live files as the connection sees them."""
    leaves = b"".join([row[0] for row in connection.execute(_LEAVES, (project,))])
    return version_of(leaves, extractor)


def version_of(leaves: bytes, extractor: str) -> str:
    """The version of files by their leaves, in the order of their paths."""
    digest = hashlib.sha256(f"{VERSION}\n{extractor}\n".encode() + leaves).digest()
    return PREFIX + base64.b32encode(digest).decode().lower()[:_CHARS]


def put_version(connection: Connection, project: int, root: str, extractor: str, now_ns: int) -> str:
    """Give a project the version of what it holds, and keep which project ever had it."""
    version = graph_version(connection, project, extractor)
    query = "UPDATE project SET graph_version = ?, updated_ns = ? WHERE id = ?"
    connection.execute(query, (version, now_ns, project))
    connection.execute("INSERT OR IGNORE INTO version VALUES(?, ?, ?)", (version, root, now_ns))
    return version
