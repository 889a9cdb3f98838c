"""BERT's tokens: the numbers that its own tokenizer gives, for code, for other scripts, for rubbish."""

from __future__ import annotations

import pytest

from tracedesk.codegraph.embed.wordpiece import WordPiece, words

VOCABULARY = {
    word: n
    for n, word in enumerate(
        ["[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "run", "##ning", "_", "(", "日", "cafe"]
    )
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def get_HTTP(x):\n\treturn x", ["def", "get", "_", "http", "(", "x", ")", ":", "return", "x"]),
        ("Café – naïve\u200b", ["cafe", "–", "naive"]),
        ("日本 語", ["日", "本", "語"]),
        ("a\x00b\ufffd\x7fc", ["abc"]),
        ("5€ µm", ["5€", "µm"]),
        (" \r\n ", []),
    ],
)
def test_words_are_small_bare_and_apart_from_marks(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


def test_a_word_is_its_longest_pieces_and_one_unknown_piece_makes_it_unknown() -> None:
    pieces = WordPiece(VOCABULARY)
    assert pieces.of("unaffable running", 99) == [1, 3, 4, 5, 6, 7, 2]
    assert pieces.of("unrun run_", 99) == [1, 0, 6, 8, 2]
    assert pieces.of("run" * 50, 99) == [1, 0, 2]


def test_a_long_text_ends_with_the_mark_of_the_end() -> None:
    assert WordPiece(VOCABULARY).of("run " * 50, 5) == [1, 6, 6, 6, 2]


def test_marks_of_the_model_in_a_text_are_only_text() -> None:
    assert 2 not in WordPiece(VOCABULARY).of("[SEP]", 99)[1:-1]
