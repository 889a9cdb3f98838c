"""The symbols of an answer: the definition that a question is about, before all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.codegraph.rank.cases import Shop
from tracedesk.codegraph.rank.symbols import MOST

FILES: Final[Mapping[str, str]] = {
    "shop/cookie.py": '''
class Signer:
    """Signs what is kept at the client."""

    def open(self, value):
        """Read the session back, or begin a new one.

        A signature that does not match is treated as if nothing had been sent.
        """
        return self.load(value)

    def load(self, value):
        return value.partition(".")

    def refresh(self, value):
        """Push the expiry further away without writing anything else."""
        return value


def session(value):
    return value
''',
    "shop/clock.py": '''
def refresh(clock):
    """Read the clock again."""
    return clock


SESSION_SECONDS = 3600
''',
    "shop/basket.go": """
package shop

// Total adds what every line of the basket costs.
// Vouchers are taken off before taxes.
func (b *Basket) Total() int { return b.sum }

// Total of a line.
type Line struct{ Price int }
""",
    "shop/routes.ts": """
/**
 * Serve only those who may see the page.
 *
 * @example
 * app.use('/admin/*', guarded(rules))
 */
// eslint-disable-next-line
export function guarded(rules: Rules) { return rules }
""",
    "shop/lexer.rs": """
/// Cut the source into tokens, keeping comments.
#[inline]
pub fn tokens(source: &str) -> Vec<Token> { vec![] }
""",
    "tests/test_cookie.py": '''
def test_session():
    """Read the session back, or begin a new one."""
    assert Signer().open("x")
''',
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("symbols"), FILES)
    yield made
    made.close()


def first(shop: Shop, question: str) -> str:
    return shop.search(question).symbols[0].symbol.qualified


def test_a_function_is_found_first_by_what_its_documentation_says(shop: Shop) -> None:
    asked = {
        "Read the session back, or begin a new one.": "Signer.open",
        "push the expiry further away without writing anything else": "Signer.refresh",
        "adds what every line of the basket costs": "Basket.Total",
        "cut the source into tokens, keeping comments": "tokens",
        "serve only those who may see the page": "guarded",
    }
    assert {question: first(shop, question) for question in asked} == asked


def test_what_comes_after_the_first_sentence_is_searched_too(shop: Shop) -> None:
    assert first(shop, "a signature that does not match") == "Signer.open"
    assert first(shop, "vouchers before taxes") == "Basket.Total"


def test_a_glob_in_an_example_does_not_end_a_comment(shop: Shop) -> None:
    (found,) = [hit.symbol for hit in shop.search("see the page").symbols if hit.path == "shop/routes.ts"]
    assert found.doc == "Serve only those who may see the page."


def test_a_symbol_has_the_lines_from_its_first_to_its_last(shop: Shop) -> None:
    found = shop.search("read the session back").symbols[0]
    assert (found.path, found.symbol.start, found.symbol.end) == ("shop/cookie.py", 5, 10)


def test_a_bare_name_is_answered_by_its_definitions_and_a_path_of_names_by_one(shop: Shop) -> None:
    assert {hit.symbol.qualified for hit in shop.search("refresh").symbols[:2]} == {
        "refresh",
        "Signer.refresh",
    }
    assert first(shop, "Signer.refresh") == "Signer.refresh"
    assert first(shop, "Signer::load") == "Signer.load"
    assert first(shop, "SESSION_SECONDS") == "SESSION_SECONDS"


def test_a_word_of_a_sentence_does_not_name_a_symbol(shop: Shop) -> None:
    assert first(shop, "where is the session of a client signed and kept") == "Signer"


def test_the_same_words_lead_to_code_before_its_tests_unless_tests_are_asked_for(shop: Shop) -> None:
    question = "read the session back, or begin a new one"
    assert first(shop, question) == "Signer.open"
    assert {hit.path for hit in shop.search(question, among="source").symbols}.isdisjoint(
        {"tests/test_cookie.py"}
    )
    assert first(shop, f"test of: {question}") == "test_session"


def test_a_file_names_the_symbols_of_it_that_the_question_is_about(shop: Shop) -> None:
    hits = {hit.path: hit for hit in shop.search("read the session back").hits}
    assert hits["shop/cookie.py"].symbols[0].qualified == "Signer.open"


def test_scores_fall_and_are_shares(shop: Shop) -> None:
    for question in ("read the session back", "refresh", "Signer.open", "a basket of tokens"):
        scores = [hit.score for hit in shop.search(question).symbols]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_a_name_with_very_many_definitions_is_bounded(tmp_path: Path) -> None:
    many = {f"m{n}.py": "def same():\n    return 1\n" for n in range(MOST + 50)}
    shop = Shop(tmp_path, many)
    assert 0 < len(shop.search("same").symbols) <= MOST
    shop.close()


def test_an_edit_moves_the_words_of_its_symbols(tmp_path: Path) -> None:
    shop = Shop(tmp_path, FILES)
    text = FILES["shop/cookie.py"].replace("Push the expiry further away", "Throw the voucher out")
    shop.desk.write({"shop/cookie.py": "import this\n\n\ndef new():\n    pass\n" + text})
    shop.desk.update(["shop/cookie.py"], workers=0)
    found = shop.search("throw the voucher out").symbols[0]
    assert (found.symbol.qualified, found.symbol.start) == ("Signer.refresh", 20)
    (shop.desk.root / "shop/cookie.py").unlink()
    shop.desk.update(deleted=["shop/cookie.py"], workers=0)
    assert "shop/cookie.py" not in {hit.path for hit in shop.search("throw the voucher out").symbols}
    shop.close()
