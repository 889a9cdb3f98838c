"""What the queries found in a tree, as plain numbers: definitions, scopes, references, docs, imports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import methodcaller
from typing import TYPE_CHECKING, NamedTuple

from tracedesk.codegraph.graph.model import make

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

    from tracedesk.codegraph.graph.syntax.grammars import Grammar, Role

DEFINITION, SCOPE, DOC, IMPORT, EXPORTED = range(5)
REFERENCE = 10
"""A reference's action is this and the rank of its kind, so that sorting puts the kinds in their order."""

REFERENCES = ("base", "decorator", "call", "type", "element")
"""The kinds of reference; where two patterns name one place, the earlier kind is kept."""

_RANK = {kind: REFERENCE + rank for rank, kind in enumerate(REFERENCES)}
_ACTIONS = {"scope": SCOPE, "doc": DOC, "import": IMPORT, "exported": EXPORTED}

_TAG_REFERENCES = {"implementation": "base", "interface": "base", "type": "type"}
_TAG_KINDS = {
    "struct_specifier": "struct",
    "enum_specifier": "enum",
    "trait_declaration": "trait",
    "namespace_definition": "space",
    "method_declaration": "method",
}
_BODILESS = frozenset(("variable", "constant", "field"))
_NEED_BODY = frozenset(("struct_specifier", "enum_specifier", "class_specifier"))


Place = tuple[int, int, int] | tuple[int, int, int, "Mark"]
"""Where a thing starts, where it ends (negative, so that of two with one start the longer comes first) and
what it is; of a definition its mark too. Sorting is quicker where all are plain tuples.
"""


class Mark(NamedTuple):
    """A definition; it begins as a place does."""

    start: int
    end: int
    """Negative, as in a place."""
    action: int
    kind: str
    name_start: int
    name_end: int
    header_start: int
    header_end: int
    """Where the body begins; 0 without one."""


@dataclass(slots=True)
class Marks:
    """All marks of one file, and where the statements around definitions begin."""

    places: list[Place] = field(default_factory=list[Place])
    """Everything but definitions."""
    definitions: dict[tuple[int, int], Mark] = field(default_factory=dict[tuple[int, int], Mark])
    wraps: dict[int, int] = field(default_factory=dict[int, int])
    leads: dict[int, int] = field(default_factory=dict[int, int])
    exports: set[int] = field(default_factory=set[int])
    """Where export statements begin."""

    def add(self, role: Role, nodes: Iterable[Node]) -> None:
        """Take the nodes of one capture."""
        if role.action == "ref":
            self._places(_RANK[role.kind], nodes)
        elif role.action == "def":
            self._define_all(role, nodes)
        elif role.action in _ACTIONS:
            self._places(_ACTIONS[role.action], nodes)
        else:
            self._around(role, nodes)

    def tag(self, match: Mapping[str, list[Node]]) -> None:
        """Take one match of a shipped tags query."""
        names = match.get("name")
        for capture, nodes in match.items():
            action, _, kind = capture.partition(".")
            if not names:
                continue
            if action == "definition":
                self._define(_tagged(nodes[0], names[0], kind))
            elif action == "reference":
                self._places(_RANK[_TAG_REFERENCES.get(kind, "call")], names)

    def sorted(self) -> list[Place]:
        """Return everything in the order of the text, each definition from where its statement begins.

        What holds comes before what is held.
        """
        known = self.definitions.values()
        begun = map(self._begun, known) if self.wraps or self.leads else known
        places = [*((mark[0], mark[1], DEFINITION, mark) for mark in begun), *self.places]
        places.sort()
        return places

    def _places(self, action: int, nodes: Iterable[Node]) -> None:
        self.places += [(start, -end, action) for start, end in [node.byte_range for node in nodes]]

    def _define_all(self, role: Role, nodes: Iterable[Node]) -> None:
        named, body = _finder(role.field), _body_finder(role)
        for node in nodes:
            if (name := named(node)) is not None:
                self._define(_mark(node, name, role.kind, body(node)))

    def _define(self, mark: Mark | None) -> None:
        if mark is not None:
            place = mark[:2]
            known = self.definitions.setdefault(place, mark)
            if known is not mark and _telling(mark) >= _telling(known):
                self.definitions[place] = mark

    def _around(self, role: Role, nodes: Iterable[Node]) -> None:
        places = self.wraps if role.action == "wrap" else self.leads
        for node in nodes:
            held = _held(node, role.kind)
            start = node.start_byte
            if role.action == "export":
                self.exports.add(start)
            elif role.action == "lead" and held is not None and held.start_point[0] > node.start_point[0]:
                continue
            if held is not None and held.start_byte > start:
                places[held.start_byte] = start

    def _begun(self, mark: Mark) -> Mark:
        if mark.start not in self.leads and mark.start not in self.wraps:
            return mark
        header = mark.start
        while header in self.leads:
            header = self.leads[header]
        start = header
        while start in self.wraps or start in self.leads:
            start = self.wraps.get(start, start)
            start = self.leads.get(start, start)
        return mark._replace(start=start, header_start=header)


def _telling(mark: Mark) -> tuple[bool, bool]:
    """Two patterns may name one node: the one that knows a body, or a kind of its own, says more."""
    return mark.header_end > 0, mark.kind not in ("variable", "type", "field")


def collect(grammar: Grammar, tree: Tree) -> Marks:
    """Run the queries of a grammar over a tree."""
    marks = Marks()
    for match in grammar.tagged(tree):
        marks.tag(match)
    for name, nodes in grammar.captures(tree).items():
        marks.add(grammar.roles[name], nodes)
    return marks


def _held(node: Node, kind: str) -> Node | None:
    """Return what a field holds, or the first node of a type a step or two below; no kind: the first."""
    if not kind:
        return node.named_child(0)
    if (held := node.child_by_field_name(kind)) is not None:
        return held
    below = [
        *node.named_children,
        *(inner for child in node.named_children for inner in child.named_children),
    ]
    return next((child for child in below if child.type == kind), None)


_Finder = Callable[["Node"], "Node | None"]


def _body_finder(role: Role) -> _Finder:
    """Return what finds the body of a role's definitions."""
    if role.kind in _BODILESS:
        return lambda _: None
    if role.value:
        return lambda node: _stepped(node, (role.value, "body"))
    return methodcaller("child_by_field_name", "body")


def _tagged(node: Node, named: Node, kind: str) -> Mark | None:
    while node.type.endswith("declarator"):
        if node.parent is None or node.parent.type == "parameter_declaration":
            return None
        node = node.parent
    body = node.child_by_field_name("body")
    if body is None and node.type in _NEED_BODY:
        return None
    return _mark(node, named, _TAG_KINDS.get(node.type, kind), body)


def _mark(node: Node, named: Node, kind: str, body: Node | None) -> Mark:
    start, end = node.byte_range
    name_start, name_end = named.byte_range
    header_end = 0 if body is None else body.start_byte
    return make(Mark, (start, -end, DEFINITION, kind, name_start, name_end, start, header_end))


def _finder(path: str) -> _Finder:
    """Return what finds the name of a definition by the path of its fields."""
    if path == "first":
        return methodcaller("child", 0)
    if path == "declarator":
        return lambda node: _innermost(node.child_by_field_name(path))
    if "-" not in path:
        return methodcaller("child_by_field_name", path)
    steps = path.split("-")
    return lambda node: _stepped(node, steps)


def _stepped(node: Node, steps: Iterable[str]) -> Node | None:
    found: Node | None = node
    for step in steps:
        found = None if found is None else found.child_by_field_name(step)
    return found


def _innermost(node: Node | None) -> Node | None:
    while node is not None:
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type in ("parenthesized_declarator", "reference_declarator"):
            inner = node.named_child(0)
        if inner is None:
            break
        node = inner
    return node
