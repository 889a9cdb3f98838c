"""Words about an attempt: extracted, the same every time, without control characters, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codegraph.etg.bench import NOON, SECOND, Bench
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.codegraph.etg.text import LONGEST_SUMMARY, Said, clean, evidence, first_sentence, summarise


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("Here is the patch. It works.", "Here is the patch."),
        ("# Done\n\nThe rest.", "Done"),
        ("```py\nx = 1.5\n```\nFixed the 1.5 case! Really.", "Fixed the 1.5 case!"),
        ("```only code```", "```only code```"),
        ("no end", "no end"),
        ("", ""),
        ("Two\nlines. More", "Two lines."),
    ],
)
def test_the_first_sentence_is_that_of_the_prose(content: str, sentence: str) -> None:
    assert first_sentence(content) == sentence


@given(st.text(), st.integers(2, 50))
def test_clean_text_is_one_short_visible_line(text: str, longest: int) -> None:
    line = clean(text, longest)
    assert len(line) <= longest
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
    assert clean(line, longest) == line


def test_escapes_and_invisible_characters_do_not_reach_a_summary(bench: Bench) -> None:
    hidden = "fix\x1b[31m the\u202e pars\u200ber\x00\r\nnow"
    bench.log("a", "context_retrieved", {"files": [], "query": hidden})
    assert bench.view("a").brief.summary == "fix the parser now"


def test_a_summary_is_the_query_the_last_steps_what_failed_and_the_answer(bench: Bench) -> None:
    bench.log("a", "context_retrieved", {"files": [], "query": "Why does the parser fail?"})
    for n in range(5):
        bench.log("a", "checkpoint", {"message": f"step {n}", "graph_version": "v"})
    bench.end("a", "shell_run", "error")
    bench.log("a", "answer_rendered", {"content": "It was a comma. I removed it."})
    view = bench.view("a")
    assert view.brief.summary == (
        "Why does the parser fail? | Steps: … step 2; step 3; step 4 | Failed: shell_run | "
        "Answer: It was a comma."
    )
    assert view.brief.summary_source == "extractive:1"
    assert bench.rows("SELECT evidence FROM summary") == [
        (
            "Why does the parser fail?\nstep 0\nstep 1\nstep 2\nstep 3\nstep 4\nfailed: shell_run\n"
            "It was a comma.",
        )
    ]


def test_a_clients_own_summary_is_shown_and_the_latest_counts(bench: Bench) -> None:
    bench.log("a", "answer_rendered", {"content": "Done.", "summary": "second"}, timestamp_ns=NOON + SECOND)
    bench.log(
        "a", "checkpoint", {"message": "m", "graph_version": "v", "summary": "first"}, timestamp_ns=NOON
    )
    brief = bench.view("a").brief
    assert (brief.summary, brief.summary_source) == ("second", "client")


def test_a_message_that_begins_the_query_is_not_repeated() -> None:
    said = Said(["Fix the parser\n\nIt failed."], ["Fix the parser", "other"], [], None)
    assert evidence(said) == "Fix the parser\n\nIt failed.\nother"


def test_an_attempt_of_very_many_words_stays_bounded(bench: Bench) -> None:
    payloads = [
        {"message": f"{n} " + "word " * 500, "graph_version": "v", "query": f"{n} " + "ask " * 500}
        for n in range(300)
    ]
    bench.etg.log_many([NewEvent("a", "checkpoint", payload) for payload in payloads])
    assert len(bench.view("a").brief.summary) <= LONGEST_SUMMARY
    assert bench.rows("SELECT length(evidence) < 7000 FROM summary") == [(1,)]


def test_the_same_words_give_the_same_summary() -> None:
    said = Said(["q"], ["m"], ["t"], "a")
    assert summarise(said) == summarise(said) == "q | Steps: m | Failed: t | Answer: a"


def test_words_and_paths_are_found_in_the_full_text_index(bench: Bench) -> None:
    bench.log(
        "a", "checkpoint", {"message": "parseHeader fails", "graph_version": "v", "files": ["src/http.py"]}
    )
    bench.log("b", "checkpoint", {"message": "other", "graph_version": "v", "files": ["src/tls.py"]})
    found = "SELECT name FROM attempt_fts f JOIN attempt a ON a.id = f.rowid WHERE attempt_fts MATCH "
    assert bench.rows(f"{found} 'text : header'") == [("a",)]
    assert bench.rows(f"{found} 'paths : tls'") == [("b",)]
    bench.log("a", "checkpoint", {"message": "and the footer", "graph_version": "v"})
    assert bench.rows(f"{found} 'footer AND header'") == [("a",)]
