from __future__ import annotations

from tests.codegraph.graph.sources import by_name, exported, kinds, read, taken, uses

SOURCE = '''
    """A shop. It sells.

    More about it.
    """
    import os, sys as system
    import a.b.c
    from . import sibling
    from ..up.more import (
        one as first,  # the first
        two,
    )
    from x import *

    LIMIT = 10
    # How long to wait.
    timeout: int = 3
    type Names = list[str]


    @register("shop")
    class Shop(Base, mixins.Priced[int], metaclass=Meta):
        """Where things are sold. And bought."""

        name: str = "x"

        @property
        def total(self) -> Money | None:
            """
            The sum of all prices, over
            two lines. Not this.
            """
            local = compute(self.items)
            return local.rounded()

        def _hidden(self):  # private
            def inner():
                raise Closed from None
            return inner

    if os.name == "nt":
        def windows_only(
            a: Path,
            *,
            b=1,
        ) -> dict[str, Row]:
            try:
                pass
            except (Broken, Lost) as error:
                pass
'''


def test_functions_classes_methods_and_assignments_are_symbols() -> None:
    assert kinds(read("python", SOURCE)) == {
        "LIMIT": "constant",
        "timeout": "variable",
        "Names": "type",
        "Shop": "class",
        "Shop.name": "field",
        "Shop.total": "method",
        "Shop._hidden": "method",
        "Shop._hidden.inner": "function",
        "windows_only": "function",
    }


def test_a_span_begins_at_the_decorator_and_a_signature_does_not() -> None:
    shop = by_name(read("python", SOURCE))["Shop"]
    assert shop.signature == "class Shop(Base, mixins.Priced[int], metaclass=Meta)"
    text = SOURCE.splitlines()[shop.span.start - 1]
    assert text.strip() == '@register("shop")'


def test_a_header_over_several_lines_becomes_one_without_its_comments() -> None:
    symbols = by_name(read("python", SOURCE))
    assert symbols["windows_only"].signature == "def windows_only(a: Path, *, b=1) -> dict[str, Row]"
    assert symbols["Shop._hidden"].signature == "def _hidden(self)"


def test_a_header_is_cut_at_two_hundred_characters() -> None:
    found = read("python", f"def f({', '.join(f'argument_{n}' for n in range(60))}): pass\n")
    assert len(found.symbols[0].signature) == 200
    assert found.symbols[0].signature.endswith("…")


def test_the_first_sentence_of_a_docstring_is_the_doc() -> None:
    found = read("python", SOURCE)
    symbols = by_name(found)
    assert found.doc == "A shop."
    assert symbols["Shop"].doc == "Where things are sold."
    assert symbols["Shop.total"].doc == "The sum of all prices, over two lines."


def test_a_comment_above_stands_in_for_a_docstring() -> None:
    symbols = by_name(read("python", SOURCE))
    assert symbols["timeout"].doc == "How long to wait."
    assert symbols["LIMIT"].doc == ""


def test_a_file_without_a_docstring_has_its_first_comment_that_is_not_a_licence() -> None:
    text = """\
    #!/usr/bin/env python
    # Copyright someone. All rights reserved.

    # Reads the news. Daily.
    import os
    """
    assert read("python", text).doc == "Reads the news."


def test_what_begins_with_an_underscore_or_is_inside_a_function_is_not_exported() -> None:
    assert exported(read("python", SOURCE)) == {
        "LIMIT",
        "timeout",
        "Names",
        "Shop",
        "Shop.name",
        "Shop.total",
        "windows_only",
    }


def test_dunder_all_decides_at_the_top_and_underscores_below_it() -> None:
    found = read(
        "python", "__all__ = ['_a', 'B']\ndef _a(): pass\ndef b(): pass\nclass B:\n  def c(self): pass\n"
    )
    assert exported(found) == {"_a", "B", "B.c"}


def test_imports_keep_their_dots_and_the_names_as_the_module_has_them() -> None:
    assert taken(read("python", SOURCE)) == [
        ("os", ()),
        ("sys", ()),
        ("a.b.c", ()),
        (".", ("sibling",)),
        ("..up.more", ("one", "two")),
        ("x", ("*",)),
    ]


def test_calls_bases_decorators_and_types_are_told_apart() -> None:
    found = read("python", SOURCE)
    assert uses(found, "base") == {"Base", "Priced", "Meta"}
    assert uses(found, "decorator") == {"register", "property"}
    assert uses(found, "call") == {"compute", "rounded"}
    assert uses(found, "type") >= {"Money", "Path", "Row", "Broken", "Lost", "dict"}


def test_a_reference_knows_the_definition_it_is_in_and_its_first_line() -> None:
    found = read("python", "def f():\n    g()\n    g()\n\n\ng()\n")
    assert [(use.name, use.line, use.holder) for use in found.references] == [("g", 2, 0), ("g", 6, None)]


def test_a_decorated_method_at_the_end_of_a_decorated_class_stays_inside_it() -> None:
    found = read("python", "@a\nclass A:\n    @b\n    def m(self): pass\n")
    outer, inner = found.symbols
    assert (outer.span.start, outer.span.end) == (1, 4)
    assert (inner.span.start, inner.span.end, inner.parent) == (3, 4, 0)


def test_broken_source_keeps_what_can_be_read() -> None:
    text = "def good():\n    return 1\n\ndef broken():\n    x = = ) 2\n\nclass Fine:\n    def m(self): pass\n"
    found = read("python", text)
    assert {"good", "Fine", "Fine.m"} <= set(by_name(found))
