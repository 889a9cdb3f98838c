from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.codegraph.rank.terms import MOST_TERMS, TOKENIZER, match, query_terms, searchable
from tracedesk.journal.sqlite import Connection, connect


@pytest.fixture(scope="module")
def index() -> Iterator[Connection]:
    connection = connect(Path(":memory:"))
    connection.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{TOKENIZER}')")
    yield connection
    connection.close()


def _finds(index: Connection, text: str, query: str) -> bool:
    index.execute("DELETE FROM t")
    index.execute("INSERT INTO t VALUES(?)", (searchable(text),))
    return any(index.execute("SELECT 1 FROM t WHERE t MATCH ?", (match(query_terms(query)),)))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("def getUserName(): ...", "user"),
        ("def getUserName(): ...", "get"),
        ("def getUserName(): ...", "getUserName"),
        ("class HTTPServer: ...", "server"),
        ("class HTTPServer: ...", "http"),
        ("x = parseJSON(y)", "json"),
        ("_sessionId = 1", "session"),
        ("total_price = 0", "price"),
        ("total_price = 0", "totalPrice"),
        ("totalPrice = 0", "total_price"),
        ("sessions expire", "expiring session"),
        ("naïve Ärger", "ärger"),
    ],
)
def test_a_name_is_found_by_itself_and_by_its_parts(index: Connection, text: str, query: str) -> None:
    assert _finds(index, text, query)


def test_a_name_is_not_found_by_another(index: Connection) -> None:
    assert not _finds(index, "def getUserName(): ...", "password")


@given(st.text())
def test_the_text_itself_stays_in_front_of_its_parts(text: str) -> None:
    assert searchable(text).startswith(text)


@given(st.text() | st.from_regex(r'["*^:(){}+\-]|NEAR|AND|OR|NOT|text ?:', fullmatch=False))
def test_no_question_can_be_read_as_syntax_of_the_index(text: str) -> None:
    with connect(Path(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{TOKENIZER}')")
        for terms in (query_terms(text), [text]):
            if terms:
                list(connection.execute("SELECT 1 FROM t WHERE t MATCH ?", (match(terms),)))


@given(st.text(max_size=5_000))
def test_terms_are_small_distinct_and_few(text: str) -> None:
    terms = query_terms(text)
    assert len(terms) == len(set(terms)) <= MOST_TERMS
    assert all(term == term.lower() and 1 < len(term) <= 64 for term in terms)


def test_words_that_say_nothing_are_not_looked_up() -> None:
    assert query_terms("how does it use the session of a user?") == ["session", "user"]


def test_a_very_long_question_takes_no_longer_than_its_beginning() -> None:
    began = time.process_time()
    assert len(query_terms("getUserName otherThing " * 200_000)) <= MOST_TERMS
    assert time.process_time() - began < 0.5


def test_megabytes_are_made_searchable_in_a_fraction_of_a_second() -> None:
    text = (
        "    def getUserName(self, sessionId):\n        return self.HTTPServer.parse_json(value)\n" * 12_000
    )
    began = time.process_time()
    searchable(text)
    assert time.process_time() - began < len(text) / 5e6
