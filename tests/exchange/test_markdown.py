"""Markdown: nobody else's text becomes markup, and numbers keep their digits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tracedesk.exchange.markdown import cell, number, page, plain, ratio, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A|B", "«A\\|B»"),
        ("a\nb", "«a b»"),
        ("a\x1b[31mb\x00", "ab"),
        ("<img src=x>", "«\\<img src=x\\>»"),
        ("[x](http://a)", "\\[x\\](http\\://a)"),
        ("a\u202eb\u200bc", "abc"),
        ("**x**", "«\\*\\*x\\*\\*»"),
        ("BTCUSDT", "BTCUSDT"),
        ("«a» b", "«‹a› b»"),
    ],
)
def test_text_of_others_is_quoted_and_has_no_markup_controls_or_hidden_characters(
    text: str, shown: str
) -> None:
    assert plain(text) == shown
    assert cell(text) == shown


def test_numbers_have_the_places_they_are_given_or_came_with() -> None:
    assert number("67123.45000000") == "67123.45000000"
    assert number(Decimal("0.1"), 8) == "0.10000000"
    assert number("0.125", 2) == "0.12"
    assert number(5) == "5"
    assert ratio(1 / 3) == "0.3333"
    assert cell(number("-1.50")) == "-1.50"


def test_a_table_has_one_line_for_each_row_whatever_the_cells_hold() -> None:
    made = table(("Asset", "Free"), [("BTC|x\ny", number("1.0")), ("", None)], right=(1,))
    assert made.splitlines() == ["| Asset | Free |", "| --- | ---: |", "| «BTC\\|x y» | 1.0 |", "|  | — |"]


def test_a_page_ends_with_one_line_end_and_leaves_out_what_is_empty() -> None:
    assert page("# A", "", "b") == "# A\n\nb\n"
