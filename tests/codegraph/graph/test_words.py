"""Parts of words: found once for a file, and the same as the shared rule finds in each piece."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.codegraph.graph.words import Words
from tracedesk.codegraph.rank.terms import searchable

_NAMES = (
    "getUserName",
    "HTTPServer",
    "x",
    "A",
    "aB",
    "ABc",
    "ABCd",
    "fooB",
    "é",
    "éA",
    "Éa",
    "_a1B",
    "sessionIDs",
)
_PIECES = st.lists(
    st.sampled_from(_NAMES) | st.sampled_from((" ", "\n", ".", "1", "\t")) | st.text("aZbYé ", max_size=6),
    max_size=20,
).map("".join)


@given(_PIECES | st.text())
def test_a_whole_text_has_the_parts_that_the_shared_rule_finds(text: str) -> None:
    data = text.encode(errors="surrogatepass")
    words = Words(data, ())
    if words.is_whole:
        assert text + words.behind(0, len(data)) == searchable(text)


@given(st.lists(_PIECES, min_size=1, max_size=6), st.data())
def test_each_piece_between_cuts_has_the_parts_of_its_own_text(
    pieces: list[str], data: st.DataObject
) -> None:
    lines = [f"{piece}\n" for piece in pieces]
    cuts = [len("".join(lines[:count]).encode()) for count in range(len(lines) + 1)]
    words = Words("".join(lines).encode(), cuts)
    assert words.is_whole
    first = data.draw(st.integers(0, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    text = "".join(lines[first:last])
    assert text + words.behind(cuts[first], cuts[last]) == searchable(text)


@pytest.mark.parametrize(("data", "cut"), [(b"getUserName", 5), (b"getUserName", 1), (b"AB", 1)])
def test_a_cut_inside_a_word_is_told(data: bytes, cut: int) -> None:
    assert not Words(data, [cut]).is_whole
    assert Words(data, [0, len(data)]).is_whole


def test_a_file_with_the_sign_that_stands_for_a_cut_is_told() -> None:
    assert not Words(b"a\0B", [1]).is_whole


def test_megabytes_are_read_in_a_fraction_of_a_second() -> None:
    data = (
        b"    def getUserName(self, sessionId):\n        return self.HTTPServer.parse_json(value)\n" * 12_000
    )
    began = time.process_time()
    Words(data, range(0, len(data), 85)).behind(0, len(data))
    assert time.process_time() - began < len(data) / 2e6
