"""The finance lexicon against sentences written for it; every second triple was held out from tuning."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.trading.sentiment import MODEL, THRESHOLD, lexicon, score

Row = tuple[str, str]


def _rows() -> list[Row]:
    lines = (Path(__file__).parent / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    return [(label, text) for label, _, text in (line.partition("\t") for line in lines)]


ROWS = _rows()
HELD_OUT = [row for at, row in enumerate(ROWS) if at // 3 % 2 == 1]


def test_there_are_enough_sentences_of_each_class() -> None:
    labels = [label for label, _ in ROWS]
    assert len(ROWS) == len(set(ROWS)) >= 120
    assert {label: labels.count(label) for label in set(labels)} == dict.fromkeys(
        ("positive", "negative", "neutral"), len(ROWS) // 3
    )


@pytest.mark.parametrize("rows", [ROWS, HELD_OUT], ids=["all", "held out"])
def test_it_is_right_in_85_of_100_and_turns_the_sign_in_3_at_most(rows: Sequence[Row]) -> None:
    judged = [(label, score(text).label) for label, text in rows]
    right = sum(wanted == found for wanted, found in judged)
    turned = sum({wanted, found} == {"positive", "negative"} for wanted, found in judged)
    assert right / len(rows) >= 0.85
    assert turned / len(rows) <= 0.03


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("The net loss narrowed", "The net loss widened"),
        ("Costs fell", "Costs rose"),
        ("The company cut its debt", "The company increased its debt"),
        ("Shortages eased", "Shortages grew"),
        ("The lawsuit was dismissed", "The lawsuit was filed"),
        ("The dividend was not cut", "The dividend was cut"),
        ("No delays were reported", "Delays were reported"),
        ("Provisions for loan losses fell", "Provisions for loan losses jumped"),
        ("Sales rose", "Sales did not rise"),
    ],
)
def test_what_moves_and_what_is_denied_turns_the_sign(good: str, bad: str) -> None:
    assert (score(good).label, score(bad).label) == ("positive", "negative")


def test_the_figures_follow_the_formulas() -> None:
    one = score("Excellent")
    assert (one.label, one.score, one.impact_score) == ("positive", 0.5, 0.25)
    both = score("Excellent; terrible weakness")
    assert (both.label, both.score, both.impact_score) == ("neutral", 0.0, 0.4)
    assert (score("sharply weaker").score, score("slightly weaker").score) == (-0.6, -0.3333)
    nothing = score("The meeting is on Monday")
    assert (nothing.label, nothing.score, nothing.impact_score) == ("neutral", 0.0, 0.0)


def test_the_lexicon_is_large_and_each_term_has_a_known_part() -> None:
    terms = lexicon().terms
    roles = {"good", "bad", "asset", "burden", "up", "down", "relief", "neutral", "not", "more"}
    assert (MODEL, len(terms) >= 150) == ("lex-1", True)
    assert {term.role for term in terms.values()} == roles
    assert [term for term in terms if term != term.lower().strip() or "*" in term[:-1]] == []


@given(st.text(max_size=400))
def test_any_text_gets_figures_in_range_and_a_label_that_fits_them(text: str) -> None:
    found = score(text)
    assert -1 < found.score < 1
    assert 0 <= found.impact_score < 1
    expected = (
        "positive" if found.score >= THRESHOLD else "negative" if found.score <= -THRESHOLD else "neutral"
    )
    assert found.label == expected


def test_a_text_made_to_be_slow_is_not() -> None:
    begun = time.process_time()
    score("loss up not sharply " * 10_000)
    assert time.process_time() - begun < 0.5
