"""The names of attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.calls.attempt import LONGEST_NAME, LONGEST_REFERENCE, attempt_ref, is_name


@given(st.text(st.sampled_from("a /%é€\U0001f600\t"), max_size=240) | st.text(max_size=240))
def test_a_name_is_a_visible_text_that_fits_into_its_reference(text: str) -> None:
    visible = 0 < len(text) <= LONGEST_NAME and text.isprintable() and bool(text.strip())
    assert is_name(text) == (visible and len(attempt_ref(text)) <= LONGEST_REFERENCE)


@pytest.mark.parametrize("character", ["%", "a", "é"])
def test_the_longest_name_is_the_one_with_the_longest_reference(character: str) -> None:
    fitting = [size for size in range(LONGEST_NAME + 2) if is_name(character * size)]
    assert fitting == list(range(1, fitting[-1] + 1))
    longest = attempt_ref(character * (fitting[-1] + 1))
    assert len(longest) > LONGEST_REFERENCE or fitting[-1] == LONGEST_NAME


@pytest.mark.parametrize("value", [None, 1, "", " ", "a\n", ["a"]])
def test_what_cannot_be_seen_or_is_no_text_is_no_name(value: object) -> None:
    assert not is_name(value)
