"""Cursors: each event once, however the stream grows, and no cursor but our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.samples import entries
from tracedesk.journal import BadEntry, Cursor, Event, Journal, Reader


def _seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


def test_pages_end_at_the_watermark_and_the_next_one_begins_a_new_watermark(
    journal: Journal, path: Path
) -> None:
    journal.open("a", "run")
    journal.append("a", entries(5))
    with Reader(path) as reader:
        first, cursor = reader.page("a", None, 3)
        journal.append("a", entries(4))
        second, cursor = reader.page("a", cursor, 3)
        third, cursor = reader.page("a", cursor, 3)
        fourth, cursor = reader.page("a", cursor, 3)
        nothing, cursor = reader.page("a", cursor, 3)
    assert [_seqs(page) for page in (first, second, third, fourth)] == [[1, 2, 3], [4, 5], [6, 7, 8], [9]]
    assert (nothing, cursor.after, cursor.is_spent) == ([], 9, True)


def test_an_empty_stream_gives_a_cursor_that_waits_for_its_first_event(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    with Reader(path) as reader:
        nothing, cursor = reader.page("a", None, 10)
        assert nothing == []
        journal.append("a", entries(2))
        found, cursor = reader.page("a", Cursor.parse(cursor.text(), "a"), 10)
    assert _seqs(found) == [1, 2]


@given(stream=st.text(min_size=1), after=st.integers(0, 2**40), more=st.integers(0, 2**40))
def test_a_cursor_survives_being_text(stream: str, after: int, more: int) -> None:
    try:
        stream.encode()
    except UnicodeEncodeError:
        return
    cursor = Cursor(stream, after, after + more)
    assert Cursor.parse(cursor.text(), stream) == cursor


def test_a_cursor_is_good_for_its_own_stream_only() -> None:
    with pytest.raises(BadEntry, match="another stream"):
        Cursor.parse(Cursor("a", 3, 9).text(), "b")


@pytest.mark.parametrize("text", ["", "nonsense", "!!!!", "é", "AAAA", "A" * 400, "AAAAAAAAMS4yLjM"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadEntry):
        Cursor.parse(text, "a")


@given(place=st.integers(0, 12), letter=st.sampled_from("ABCxyz012-_"))
def test_a_cursor_with_a_letter_changed_is_refused(place: int, letter: str) -> None:
    text = Cursor("a", 3, 9).text()
    place %= len(text)
    changed = text[:place] + letter + text[place + 1 :]
    if changed != text:
        with pytest.raises(BadEntry):
            Cursor.parse(changed, "a")
