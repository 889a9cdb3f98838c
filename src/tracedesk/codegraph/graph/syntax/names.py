"""A definition's own name, and what stands before it."""

from __future__ import annotations

import re

from tracedesk.codegraph.graph.syntax.source import decoded

LIMIT = 200
DEEP = 600
_RECEIVER = re.compile(rb"func\s*\(\s*(?:\w+\s+)?\*?\s*(\w+)")
_GENERICS = re.compile(r"<.*", re.DOTALL)
_CONST = re.compile(rb"\bconst\b")


def split(name: bytes, language: str) -> tuple[str, str]:
    """Return what a written name belongs to (`A::run` belongs to A), and the name itself."""
    text = name.decode("utf-8", "replace")
    if text.isidentifier():
        return "", text[:LIMIT]
    text = decoded(name)
    if language == "cpp" and "::" in text:
        *owners, last = "".join(text.split()).split("::")
        return ".".join(filter(None, map(space_name, owners))), last[:LIMIT]
    return "", " ".join(text.split()).strip("\"'`")[:LIMIT]


def joined(*parts: str) -> str:
    """Return a qualified name; of a very deep one the innermost names."""
    whole = ".".join(filter(None, parts))
    return whole if len(whole) <= DEEP else "…" + whole[-DEEP:]


def kind(found: str, name: str, before: bytes) -> str:
    """Return a constant's kind for a variable that is written as one."""
    return "constant" if found == "variable" and (name.isupper() or _CONST.search(before)) else found


def space(name: bytes, kind: str) -> str:
    """Return the prefix that a namespace, or the type of an implementation, gives to the names inside."""
    plain = space_name(decoded(name)).replace("::", ".").replace("\\", ".")
    return plain.rpartition(".")[2] if kind == "impl" else plain


def space_name(name: str) -> str:
    """Return a type's name without its parameters."""
    return _GENERICS.sub("", name).strip("& \t\r\n").rpartition(" ")[2]


def receiver(header: bytes) -> str:
    """Return the type of a Go method's receiver."""
    found = _RECEIVER.match(header)
    return decoded(found[1]) if found else ""
