"""Text to words: identifiers split as people read them, unknown compounds taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.codegraph.embed.words import Words, parts

VOCABULARY = ("query", "set", "http", "response", "prefetch", "ing", "v", "2", "naïve")


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("HTTPResponse_v2", ["http", "response", "v", "2"]),
        ("getHTTPStatus", ["get", "http", "status"]),
        ("SCREAMING_CASE", ["screaming", "case"]),
        ("__init__", ["init"]),
        ("utf8", ["utf", "8"]),
        ("naïveПривет", ["na", "ï", "ve", "привет"]),
        ("_", []),
    ],
)
def test_an_identifier_is_split_as_people_read_it(identifier: str, words: list[str]) -> None:
    assert parts(identifier) == words


def test_a_known_word_is_one_place_and_repeats_are_kept() -> None:
    words = Words(VOCABULARY)
    assert words.of("query the Query, query_set") == [0, 0, 0, 1]


def test_an_unknown_compound_is_its_longest_known_beginnings() -> None:
    assert Words(VOCABULARY).of("queryset prefetching") == [0, 1, 4, 5]


def test_letters_that_begin_no_word_are_skipped() -> None:
    assert Words(VOCABULARY).of("xxqueryyy") == [0]


def test_a_text_of_unknown_words_has_none() -> None:
    assert Words(VOCABULARY).of("zz — %% 77") == []


@given(st.lists(st.text(max_size=40), max_size=8))
def test_what_was_read_before_changes_nothing(texts: list[str]) -> None:
    used = Words(VOCABULARY)
    assert [used.of(text) for text in texts * 2] == [Words(VOCABULARY).of(text) for text in texts * 2]
