from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.graph.sources import read
from tracedesk.codegraph.graph.model import Span, Symbol
from tracedesk.codegraph.graph.outline import outline
from tracedesk.primitives.tokens import estimate

SOURCE = '''\
    LIMIT = 3
    _own = 4

    class Shop(Base):
        """Where things are sold."""

        def open(self, at: int) -> bool:
            """Let people in."""
            def inner(): ...

        def _count(self): ...

    def _helper(): ...
'''

SYMBOLS = read("python", SOURCE).symbols


def test_with_room_an_outline_has_headers_lines_and_docs() -> None:
    found = outline(SYMBOLS, 200)
    assert found.text.splitlines() == [
        "1 LIMIT = 3",
        "4 class Shop(Base) -- Where things are sold.",
        "7  def open(self, at: int) -> bool -- Let people in.",
        "11  def _count(self)",
        "13 def _helper()",
    ]
    assert (found.form, found.tokens, found.left) == ("documented", estimate(found.text), 0)


def test_with_less_room_it_loses_docs_then_what_is_not_exported_then_headers() -> None:
    forms = [outline(SYMBOLS, budget, name="shop.py") for budget in range(60, -1, -1)]
    seen = list(dict.fromkeys(found.form for found in forms))
    assert seen == ["documented", "outline", "exported", "symbols", "name", "nothing"]
    exported = next(found for found in forms if found.form == "exported")
    assert exported.text.splitlines() == [
        "1 LIMIT = 3",
        "4 class Shop(Base)",
        "7  def open(self, at: int) -> bool",
    ]
    assert exported.left == 2


def test_a_list_of_names_that_must_be_cut_keeps_the_exported_ones_and_says_how_many_are_missing() -> None:
    symbols = read(
        "python", "def _a(): ...\n" * 30 + "".join(f"def public_{n}(): ...\n" for n in range(20))
    ).symbols
    found = outline(symbols, 30)
    assert found.form == "symbols"
    assert found.text.startswith("public_0, public_1, ")
    assert found.text.endswith(f", … {found.left} more")
    assert found.left > 0


def test_a_file_without_symbols_is_its_name() -> None:
    assert outline((), 100, name="a.md").text == "a.md"
    assert outline((), 100).form == "nothing"


_NAMES = st.text(min_size=1, max_size=30)


@st.composite
def _symbols(draw: st.DrawFn) -> list[Symbol]:
    symbols: list[Symbol] = []
    for place in range(draw(st.integers(0, 25))):
        name = draw(_NAMES)
        parent = draw(st.none() | st.integers(0, place - 1)) if place else None
        symbols.append(
            Symbol(
                name,
                name,
                draw(st.sampled_from(["class", "function", "method", "field", "constant"])),
                Span(place + 1, place + 1, 0, 0),
                draw(st.text(max_size=80)),
                draw(st.text(max_size=80)),
                draw(st.booleans()),
                parent,
            )
        )
    return symbols


@settings(max_examples=150, deadline=None)
@given(_symbols(), st.integers(0, 400), _NAMES)
def test_an_outline_never_costs_more_than_its_budget(symbols: list[Symbol], budget: int, name: str) -> None:
    found = outline(symbols, budget, name=name)
    assert found.tokens == estimate(found.text) <= budget


def test_a_file_of_fifty_thousand_names_is_outlined_in_a_moment() -> None:
    symbols = [
        Symbol(f"n{place}", f"n{place}", "function", Span(1, 1, 0, 0), "def f()", "", True, None)
        for place in range(50_000)
    ]
    assert outline(symbols, 20_000).form == "symbols"
