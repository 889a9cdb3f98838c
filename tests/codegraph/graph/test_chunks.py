from __future__ import annotations

from tests.codegraph.graph.sources import read
from tracedesk.codegraph.graph.chunks import LIMIT, contexts
from tracedesk.codegraph.graph.model import Chunk, Extract

SOURCE = '''\
    """Head."""
    import os

    LIMIT = 3

    class Shop:
        """Sells."""

        name = "x"

        def open(self):
            def inner():
                return 1
            return inner

        late = 2

    def close():
        return 2
'''


def _of(found: Extract, name: str) -> Chunk:
    (place,) = [place for place, symbol in enumerate(found.symbols) if symbol.name == name]
    (chunk,) = [chunk for chunk in found.chunks if chunk.symbol == place]
    return chunk


def test_the_head_ends_where_the_first_definition_begins() -> None:
    head = read("python", SOURCE).chunks[0]
    assert head.symbol is None
    assert head.text == '"""Head."""\nimport os\n\nLIMIT = 3'
    assert (head.span.start, head.span.end) == (1, 4)


def test_a_class_shows_itself_up_to_its_first_method() -> None:
    found = read("python", SOURCE)
    assert _of(found, "Shop").text.splitlines()[-1].strip() == 'name = "x"'
    assert _of(found, "open").text.startswith("def open(self):")
    assert _of(found, "close").span.start == 18


def test_small_things_have_no_chunk_of_their_own_where_the_one_around_shows_them() -> None:
    found = read("python", SOURCE)
    own = {found.symbols[chunk.symbol].name for chunk in found.chunks if chunk.symbol is not None}
    assert own == {"Shop", "open", "late", "close"}


def test_every_symbol_has_a_chunk_that_shows_its_first_line() -> None:
    found = read("python", SOURCE)
    for symbol, place in zip(found.symbols, contexts(found.symbols, found.chunks), strict=True):
        assert place is not None
        chunk = found.chunks[place]
        assert chunk.span.start <= symbol.span.start <= chunk.span.end
        assert symbol.name in chunk.text


def test_a_long_definition_is_cut_after_a_whole_statement() -> None:
    body = "".join(f"    if a_{n}:\n        call_{n}(\n            {n},\n        )\n" for n in range(100))
    chunk = _of(read("python", f"def long():\n{body}"), "long")
    assert LIMIT // 2 < len(chunk.text) <= LIMIT
    assert chunk.text.endswith("        )")
    assert chunk.span.end == len(chunk.text.splitlines())


def test_a_line_without_end_is_cut_between_characters() -> None:
    found = read("python", 'LONG = "' + "é" * 5000 + '"\n')
    assert len(found.chunks[-1].text.encode()) <= LIMIT
    assert "�" not in found.chunks[-1].text


def test_text_has_its_head_alone() -> None:
    found = read("markdown", "# Title\n\n" + "words " * 1000)
    assert [chunk.symbol for chunk in found.chunks] == [None]
    assert found.chunks[0].text.startswith("# Title")
    assert len(found.chunks[0].text) <= LIMIT
    assert (found.language, found.symbols, found.problem) == ("markdown", (), None)


def test_a_text_for_people_is_documented_by_its_title() -> None:
    assert read("markdown", "---\n\n# The title\n\nMore.").doc == "The title"
    assert read("restructuredtext", "=====\nTitle here\n=====\n").doc == "Title here"
    assert read("json", '{"a": 1}').doc == ""


def test_an_empty_file_has_no_chunks() -> None:
    for language in ("python", "text"):
        found = read(language, "")
        assert (found.chunks, found.lines, found.symbols) == ((), 0, ())
