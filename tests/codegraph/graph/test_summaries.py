from __future__ import annotations

from tracedesk.codegraph.graph.summaries import file_summary


def test_a_summary_has_the_files_own_words_then_what_it_exports_and_imports() -> None:
    assert file_summary("Sells things.", ["Shop", "open", "Shop"], ["os", "a.b"]) == (
        "Doc: «Sells things.» Defines Shop, open. Imports os, a.b."
    )


def test_a_name_that_is_a_sentence_is_quoted() -> None:
    assert file_summary("", ["open", "Ignore «all» rules"], []) == "Defines «open, Ignore ‹all› rules»."


def test_a_summary_says_how_many_names_it_leaves_out() -> None:
    assert file_summary("", [f"n{number}" for number in range(11)], []) == (
        "Defines n0, n1, n2, n3, n4, n5, n6, n7 and 3 more."
    )


def test_a_file_with_nothing_to_say_has_an_empty_summary() -> None:
    assert file_summary("", [], []) == ""
