"""A definition's header in one line."""

from __future__ import annotations

import re

from tracedesk.codegraph.graph.syntax.source import decoded

LIMIT = 200
HEADER = 1600
"""Bytes of a header that are looked at."""

_HASH = re.compile(rb"(?m)(?:^|[ \t])#[^\n]*")
_SLASH = re.compile(rb"(?m)(?:^|[ \t])//[^\n]*|/\*.*?\*/", re.DOTALL)
_ANNOTATIONS = re.compile(rb"(?:@(?!interface\b)[\w.]+(?:\((?:[^()]|\([^()]*\))*\))?\s*|\[[^\[\]]*\]\s+)+")
_TAIL = " {[(=:;,\\"


def signature(header: bytes, *, has_body: bool, hash_comments: bool) -> str:
    """Return the header of a definition up to its body, or its first line where it has none."""
    text = header[:HEADER]
    if text.startswith((b"@", b"[")) and (found := _ANNOTATIONS.match(text)):
        text = text[found.end() :]
    if not has_body:
        text = text.split(b"\n", 1)[0]
    if hash_comments and b"#" in text:
        text = _HASH.sub(b"", text)
    elif not hash_comments and (b"//" in text or b"/*" in text):
        text = _SLASH.sub(b"", text)
    line = decoded(text)
    if "\n" in line or "  " in line or "\t" in line:
        line = _spaced(line.strip()).replace("( ", "(").replace(", )", ")").replace(" )", ")")
    line = line.strip().removesuffix("=>").rstrip(_TAIL)
    return line if len(line) <= LIMIT else line[: LIMIT - 1].rstrip() + "…"


def _spaced(line: str) -> str:
    """Return the words with a blank between them; no blank but the plain one can be printed."""
    return line if "  " not in line and line.isprintable() else " ".join(line.split())
