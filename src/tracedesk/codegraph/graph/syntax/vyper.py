"""Vyper read with Python's grammar: what differs is put into Python of the same length, byte by byte.

Blocks that Python does not know (`event`, `struct`, `interface`, `flag`, `enum`, `error`) become marks of
their own; `log`, `extcall`, `staticcall`, the types of loop variables and what a module says of others
(`implements: X`) are covered. The rest (functions, decorators, state variables, imports, docstrings) is
Python already; what still is not leaves error nodes around itself.
"""

from __future__ import annotations

import re

from tracedesk.codegraph.graph.syntax.marks import DEFINITION, Mark

_BLOCK = re.compile(rb"(?m)^(event|struct|interface|flag|enum|error)[ \t]+(\w+)[ \t]*:")
_BODY = re.compile(rb"[^\n]*(?:(?:\n[ \t\r]*)*\n[ \t]+[^\s][^\n]*)*")
_LOG = re.compile(rb"(?m)^([ \t]+)log(?=[ \t]+\w)")
_CLAIM = re.compile(rb"(?m)^((?:implements|uses|initializes|exports)[ \t]*):")
_CALL = re.compile(rb"\b(?:extcall|staticcall)\b")
_LOOP = re.compile(rb"(?m)^([ \t]*for[ \t]+\w+)([ \t]*:[^\n]{0,200}?)(?=[ \t]in\b)")
_KINDS = {b"flag": "enum"}


def covered(text: bytes) -> tuple[bytes, list[Mark]]:
    """Return the text as Python of the same length, and the blocks it hides."""
    blocks = [_mark(text, found) for found in _BLOCK.finditer(text)]
    text = _BLOCK.sub(lambda found: b"if 1".ljust(len(found[0]) - 1) + b":", text)
    text = _CLAIM.sub(rb"\1,", text)
    text = _LOG.sub(rb"\1not", text)
    text = _CALL.sub(lambda found: b"await".ljust(len(found[0])), text)
    return _LOOP.sub(lambda found: found[1] + b" " * len(found[2]), text), blocks


def _mark(text: bytes, found: re.Match[bytes]) -> Mark:
    body = _BODY.match(text, found.end())
    end = body.end() if body else found.end()
    kind = _KINDS.get(found[1], found[1].decode())
    return Mark(
        found.start(), -end, DEFINITION, kind, found.start(2), found.end(2), found.start(), found.end()
    )
