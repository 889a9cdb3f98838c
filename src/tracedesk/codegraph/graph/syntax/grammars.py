"""The grammars: loaded once in a process, when first needed; parsing with a deadline."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from time import thread_time
from typing import TYPE_CHECKING, NamedTuple

from tracedesk.codegraph.graph import languages

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, QueryCursor, Tree

_PIECE = 8192
"""Bytes given to the parser at a time; between two pieces the clock is looked at."""

_BREADTH = 20_000**2
"""A query takes about a nanosecond for each, so this is a good half second."""

_DEPTH = 4096
"""How deep a query looks; its cursor counts depth in 16 bits and never ends where that is too few."""

_STATES = 1 << 16
"""How many matches a query may have open at once."""

_CAPSULE = b"tree_sitter.Language"


class Role(NamedTuple):
    """What a capture's name says; the table is in `queries/README.md`."""

    action: str
    kind: str
    field: str
    value: str


def _role(capture: str) -> Role:
    action, kind, field, value = (*capture.split("."), "", "", "")[:4]
    return Role(action, kind, field or "name", value)


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language's grammar with our query and, where it is used, the query its wheel ships."""

    language: Language
    own: Query
    tags: Query | None
    roles: Mapping[str, Role]

    def parse(self, text: bytes, timeout_s: float) -> Tree | None:
        """Return the tree, or None when this thread's processor time ran out, or a query's would."""
        from tree_sitter import Parser

        # The binding's own progress callback runs without the interpreter's lock and crashes, so the
        # clock is read where the parser asks for text; an early end of text makes it stop soon.
        deadline = thread_time() + timeout_s
        late = False

        def read(at: int, _: object) -> bytes:
            nonlocal late
            late = late or (parsing and thread_time() > deadline)
            return b"" if late else text[at : at + _PIECE]

        # A query's predicates read through the same function later, when no clock runs.
        parsing = True
        tree = Parser(self.language).parse(read)
        parsing = False
        return None if late or _broken(tree.root_node) else tree

    def captures(self, tree: Tree) -> dict[str, list[Node]]:
        """Return what our query captures, by the capture's name."""
        return _cursor(self.own).captures(tree.root_node)

    def tagged(self, tree: Tree) -> Sequence[Mapping[str, list[Node]]]:
        """Return the matches of the shipped query."""
        if self.tags is None:
            return ()
        return [captured for _, captured in _cursor(self.tags).matches(tree.root_node)]


@cache
def grammar(language: str) -> Grammar | None:
    """Return a language's grammar; None when its wheel is not installed."""
    found = pointer(language)
    if found is None:
        return None
    try:
        from tree_sitter import Language, Query
    except ImportError:
        return None
    loaded = Language(_capsule(found))
    own = Query(loaded, languages.own_query(language))
    shipped = languages.shipped_query(language)
    roles = {name: _role(name) for name in map(own.capture_name, range(own.capture_count))}
    return Grammar(loaded, own, Query(loaded, shipped) if shipped else None, roles)


def pointer(language: str) -> object | None:
    """Return where a grammar's tables are, as its wheel says it; None when that is not installed."""
    wheel = languages.WHEELS[language]
    try:
        address: Callable[[], object] = getattr(import_module(wheel.module), wheel.function)
    except ImportError:
        return None
    return address()


def _broken(root: Node) -> bool:
    """Return whether error nodes are so wide that a query would not end: each costs its children squared."""
    cost = 0
    waiting = [root] if root.has_error else []
    while waiting and cost <= _BREADTH:
        node = waiting.pop()
        if node.is_error:
            cost += node.child_count**2
        if cost <= _BREADTH:
            waiting += [child for child in node.children if child.has_error]
    return cost > _BREADTH


def _cursor(query: Query) -> QueryCursor:
    from tree_sitter import QueryCursor

    cursor = QueryCursor(query, match_limit=_STATES)
    cursor.set_max_start_depth(_DEPTH)
    return cursor


def _capsule(pointer: object) -> object:
    """Return the capsule the binding wants; some wheels still give the bare address."""
    if not isinstance(pointer, int):
        return pointer
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(pointer, _CAPSULE, None)
