"""One file's definitions, references, imports, docs and chunks."""

from __future__ import annotations

import re
from bisect import bisect_right

from tracedesk.codegraph.graph import chunks, languages
from tracedesk.codegraph.graph.model import Extract, Import, Reference, Symbol, make
from tracedesk.codegraph.graph.syntax import docs, exports, grammars, imports, names, vyper
from tracedesk.codegraph.graph.syntax.marks import Marks, collect
from tracedesk.codegraph.graph.syntax.nesting import KINDS, Nest, Nested, nest
from tracedesk.codegraph.graph.syntax.signatures import HEADER, signature
from tracedesk.codegraph.graph.syntax.source import Source, decoded

STATEMENT = 32_768
"""Bytes of an import statement that are looked at."""

_HASH_COMMENTS = frozenset(("python", "vyper", "ruby", "bash"))
_PROSE = frozenset(("markdown", "restructuredtext", "text"))
_ECMASCRIPT = frozenset(("javascript", "typescript", "tsx"))
_CPP_HEADER = re.compile(
    rb"(?m)^[ \t]*(?:class|namespace|template|using)\b[^;\n]*[{<;=]|^[ \t]*(?:public|private):"
)
_OUTSIDE = ("", True, -1)
"""What stands for the definition around one that is in none."""

_TRAIT_IMPL = re.compile(rb"\bfor\b")


def extract(path: str, text: bytes, language: str, *, timeout_s: float = 2.0) -> Extract:
    """Return what a file holds. Bad source is never an error: `problem` says what could not be read."""
    source = Source(text)
    if language == "c" and path.endswith(".h") and _CPP_HEADER.search(text):
        language = "cpp"
    if language not in languages.WHEELS:
        return _as_text(source, language, _undecodable(text))
    grammar = grammars.grammar(language)
    if grammar is None:
        return _as_text(source, language, "no_grammar")
    plain, blocks = vyper.covered(text) if language == "vyper" else (text, ())
    tree = grammar.parse(plain, timeout_s)
    if tree is None:
        return _as_text(source, language, "parse_timeout")
    marks = collect(grammar, tree)
    marks.definitions |= {block[:2]: block for block in blocks}
    return _Reading(source, language, marks).extract()


def _undecodable(text: bytes) -> str | None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return "undecodable"
    return None


def _as_text(source: Source, language: str, problem: str | None) -> Extract:
    doc = docs.title(source) if language in _PROSE else ""
    return Extract(language, source.lines, doc, (), (), (), chunks.cut(source, ()), problem)


class _Reading:
    """One file being read: its text, what the queries found, and the rules of its language."""

    def __init__(self, source: Source, language: str, marks: Marks) -> None:
        self.source = source
        self.text = source.text
        self.language = language
        self.marks = marks
        self.found: Nest = nest(source.text, marks.sorted())
        self.exported = exports.rule(language, source.text)
        self.hash_comments = language in _HASH_COMMENTS
        self.any_marked = bool(marks.exports or self.found.exported or language == "rust")

    def extract(self) -> Extract:
        symbols = self._symbols()
        return Extract(
            language=self.language,
            lines=self.source.lines,
            doc=self._file_doc(),
            symbols=symbols,
            references=self._references(),
            imports=self._imports(),
            chunks=chunks.cut(self.source, symbols),
            problem=_undecodable(self.text),
        )

    def _symbols(self) -> tuple[Symbol, ...]:
        symbols: list[Symbol] = []
        for place, definition in enumerate(self.found.definitions):
            outer = symbols[definition.parent] if definition.parent >= 0 else None
            symbols.append(self._symbol(place, definition, outer))
        return tuple(symbols)

    def _symbol(self, place: int, definition: Nested, outer: Symbol | None) -> Symbol:
        mark, kind, parent, _ = definition
        start, end, _, _, name_start, name_end, header_start, header_end = mark
        text, end, around = self.text, -end, _OUTSIDE
        if outer is not None:
            end = min(end, outer.span.end_byte)
            around = (outer.kind, outer.exported, outer.span.start_byte)
        header = text[header_start : min(header_end or end, header_start + HEADER)]
        before = text[start:name_start]
        owner, name = names.split(text[name_start:name_end], self.language)
        marked = self.any_marked and self._marked(definition)
        case = make(exports.Case, (name, kind, start, before, header, *around, marked))
        span = self.source.span(start, end)
        doc = self._doc(place, span.start, outer)
        values = (
            name,
            self._qualified(definition, outer, owner, name, header),
            names.kind(kind, name, before) if kind == "variable" else kind,
            span,
            signature(header, has_body=header_end > 0, hash_comments=self.hash_comments),
            doc.sentence,
            self.exported(case),
            None if outer is None else parent,
            doc.whole,
        )
        return make(Symbol, values)

    def _qualified(
        self, definition: Nested, outer: Symbol | None, owner: str, name: str, header: bytes
    ) -> str:
        if self.language == "go" and definition.kind == "method" and outer is None:
            owner = names.receiver(header)
        if not (definition.spaces or owner):
            return name if outer is None else names.joined(outer.qualified, name)
        spaces = [
            names.space(self.text[mark.name_start : mark.name_end], mark.kind) for mark in definition.spaces
        ]
        return names.joined(outer.qualified if outer else "", *spaces, owner, name)

    def _marked(self, definition: Nested) -> bool:
        mark = definition.mark
        if (
            mark.start in self.marks.exports
            or self.text[mark.name_start : mark.name_end] in self.found.exported
        ):
            return True
        if not definition.spaces or definition.spaces[-1].kind != "impl":
            return False
        around = definition.spaces[-1]
        return bool(_TRAIT_IMPL.search(self.text, around.start, around.name_start))

    def _doc(self, place: int, line: int, outer: Symbol | None) -> docs.Doc:
        if (doc := self.found.docs.get(place)) is not None:
            return docs.docstring(self.text[slice(*doc)])
        if outer is not None and outer.span.start == line:
            return docs.NONE
        return docs.comment_above(self.source, line - 1, self.hash_comments)

    def _file_doc(self) -> str:
        if (doc := self.found.docs.get(-1)) is not None:
            return docs.docstring(self.text[slice(*doc)]).sentence
        return docs.head_comment(self.source, self.hash_comments)

    def _references(self) -> tuple[Reference, ...]:
        starts = self.source.starts
        return tuple(
            [
                make(
                    Reference,
                    (
                        name.decode("utf-8", "replace"),
                        KINDS[action],
                        bisect_right(starts, at),
                        None if holder < 0 else holder,
                    ),
                )
                for (name, action, holder), at in self.found.references.items()
            ]
        )

    def _imports(self) -> tuple[Import, ...]:
        found = [taken for start, end in self.found.imports for taken in self._taken(start, end)]
        if self.language in _ECMASCRIPT and b"require(" in self.text:
            found += [Import(*taken, self.source.row(at) + 1) for at, taken in imports.required(self.text)]
            found.sort(key=lambda taken: taken.line)
        return tuple(found)

    def _taken(self, start: int, end: int) -> list[Import]:
        return imports.taken(
            self.language, decoded(self.text[start : min(end, start + STATEMENT)]), self.source.row(start) + 1
        )
