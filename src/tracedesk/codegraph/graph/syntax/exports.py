"""Whether other files may use a definition: each language's own rule."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from tracedesk.codegraph.graph.syntax.nesting import CALLABLES, CLASSES

_ALL = re.compile(rb"^__all__\b[^=\n]*=\s*[\[(](.*?)[\])]", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(rb"""["'](\w+)["']""")
_PRIVATE = re.compile(rb"\bprivate\b")
_STATIC = re.compile(rb"\bstatic\b")
_PUB = re.compile(rb"\bpub\b")
_OPEN = re.compile(rb"\b(?:public|internal|protected)\b")
_MODULE = re.compile(rb"(?m)^[ \t]*(?:import|export)\b|\bmodule\.exports\b|^[ \t]*exports\.")
_COMMON = re.compile(rb"\bmodule\.exports\s*=\s*(?:\{([^{}]*)\}|(\w+))|\bexports\.(\w+)\s*=(?!=)")
_WORD = re.compile(rb"(?:^|,)\s*(\w+)")
_LABEL = re.compile(rb"(?m)^[ \t]*(public|private|protected)\b[ \t\w]*(?::(?!:)|\r?$)")


class Case(NamedTuple):
    """What a rule looks at."""

    name: str
    kind: str
    at: int
    """Where the definition begins."""
    before: bytes
    """The text from there to its name."""
    header: bytes
    """The text up to its body."""
    outer_kind: str
    """The kind of the definition around it, empty at the top."""
    outer: bool
    """Whether the definition around it is exported; true at the top."""
    outer_at: int
    marked: bool
    """Whether an export statement names or holds it, or it is in the implementation of a trait."""


Rule = Callable[[Case], bool]


def rule(language: str, text: bytes) -> Rule:
    """Return the rule for the definitions of one file."""
    if language == "python":
        return _python(text)
    if language in ("javascript", "typescript", "tsx"):
        return _ecmascript(text)
    if language in ("cpp", "ruby"):
        return _labelled(text)
    return _RULES[language]


def _python(text: bytes) -> Rule:
    listed: frozenset[str] | None = None
    if b"__all__" in text and (found := _ALL.search(text)):
        listed = frozenset(name.decode() for name in _QUOTED.findall(found[1]))

    def exported(case: Case) -> bool:
        if not case.outer_kind and listed is not None:
            return case.name in listed
        name = case.name
        hidden = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
        return case.outer and not hidden and case.outer_kind not in CALLABLES

    return exported


def _ecmascript(text: bytes) -> Rule:
    script = _MODULE.search(text) is None
    common: set[str] = set()
    if b"exports" in text:
        for listed, whole, one in _COMMON.findall(text):
            common.update(name.decode() for name in (*_WORD.findall(listed), whole, one))

    def exported(case: Case) -> bool:
        if not case.outer_kind or case.outer_kind == "namespace":
            return case.outer and (script or case.marked or case.name in common)
        if case.outer_kind in CALLABLES:
            return False
        return case.outer and not case.name.startswith("#") and not _PRIVATE.search(case.before)

    return exported


def _labelled(text: bytes) -> Rule:
    """Sections begun by a word on its own line, as in Ruby and C++; the last one before a member counts."""
    labels = [(found.start(), found[1]) for found in _LABEL.finditer(text)]
    places = [place for place, _ in labels]

    def exported(case: Case) -> bool:
        if not case.outer_kind:
            return not _STATIC.search(case.before)
        last = bisect_right(places, case.at) - 1
        hidden = case.outer_kind == "class" and b"{" in text[case.outer_at : case.at]
        if last >= 0 and places[last] > case.outer_at:
            hidden = labels[last][1] == b"private"
        return case.outer and case.outer_kind not in CALLABLES and not hidden

    return exported


def _not_private(case: Case) -> bool:
    return case.outer and case.outer_kind not in CALLABLES and not _PRIVATE.search(case.header)


def _go(case: Case) -> bool:
    return case.outer and case.name[:1].isupper() and case.outer_kind not in CALLABLES


def _rust(case: Case) -> bool:
    inherits = case.marked or case.outer_kind in ("trait", "enum") or case.kind == "macro"
    return case.outer and case.outer_kind not in CALLABLES and (inherits or bool(_PUB.search(case.before)))


def _csharp(case: Case) -> bool:
    if case.outer_kind in ("interface", "enum"):
        return case.outer
    if case.outer_kind in CLASSES:
        return case.outer and bool(_OPEN.search(case.before))
    return case.outer_kind not in CALLABLES


def _c(case: Case) -> bool:
    return case.outer and case.outer_kind not in CALLABLES and not _STATIC.search(case.before)


def _vyper(case: Case) -> bool:
    if case.kind == "variable":
        return b"public(" in case.header or b"constant(" in case.header
    return case.outer and case.outer_kind not in CALLABLES and b"@internal" not in case.before


def _always(case: Case) -> bool:
    return case.outer_kind not in CALLABLES


_RULES: dict[str, Rule] = {
    "bash": _always,
    "c": _c,
    "csharp": _csharp,
    "go": _go,
    "java": _not_private,
    "php": _not_private,
    "rust": _rust,
    "solidity": _not_private,
    "vyper": _vyper,
}
