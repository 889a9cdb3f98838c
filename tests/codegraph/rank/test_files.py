from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.rank.cases import FILES, Shop
from tracedesk.codegraph.rank.files import MOST_HITS


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A project without attempts, which no test changes."""
    made = Shop(tmp_path_factory.mktemp("quiet"))
    yield made
    made.close()


def test_code_comes_before_its_tests_and_its_documents(quiet: Shop) -> None:
    paths = quiet.paths("total price of a basket")
    assert paths[0] == "shop/basket.py"
    assert {"tests/test_basket.py", "docs/basket.md"} < set(paths)


def test_a_question_about_tests_finds_the_test_first(quiet: Shop) -> None:
    assert quiet.paths("the test of the total price")[0] == "tests/test_basket.py"


def test_only_the_wanted_kinds_are_hits(quiet: Shop) -> None:
    kinds = {
        among: {hit.kind for hit in quiet.search("total price of a basket", among=among).hits}
        for among in ("all", "code", "source")
    }
    assert kinds == {"all": {"source", "test", "other"}, "code": {"source", "test"}, "source": {"source"}}


def test_a_name_in_the_question_leads_to_its_definition(quiet: Shop) -> None:
    found = quiet.search("charge_card fails")
    assert found.hits[0].path == "shop/payment.py"
    assert found.hits[0].symbols[0].qualified == "charge_card"
    assert "definitions" in found.hits[0].parts
    assert (found.symbols[0].symbol.name, found.symbols[0].path) == ("charge_card", "shop/payment.py")
    assert found.symbols[0].symbol.start == 2


def test_a_part_of_a_camel_case_name_is_enough(quiet: Shop) -> None:
    assert quiet.paths("checkout")[0] == "shop/views.py"


def test_scores_are_shares_and_their_parts_add_up_to_them(quiet: Shop) -> None:
    for hit in quiet.search("total price of a basket").hits:
        assert 0 < hit.score <= 1
        demoted = {"source": 1.0, "test": 0.6, "other": 0.7}[hit.kind]
        assert hit.score == pytest.approx(sum(hit.parts.values()) * demoted, abs=1e-3)


def test_pages_follow_each_other_without_a_gap(quiet: Shop) -> None:
    whole = quiet.paths("basket price card session")
    pages = [quiet.paths("basket price card session", k=2, offset=at) for at in range(0, len(whole), 2)]
    assert [path for page in pages for path in page] == whole
    assert quiet.search("basket price card session", 1).total == len(whole)


def test_the_same_question_has_the_same_answer_and_equals_are_in_the_order_of_their_paths(
    tmp_path: Path,
) -> None:
    twins = Shop(tmp_path, {f"twin_{n}/code.py": "def same_thing():\n    return 1\n" for n in (3, 1, 2)})
    paths = twins.paths("same thing")
    assert paths == ["twin_1/code.py", "twin_2/code.py", "twin_3/code.py"]
    assert twins.paths("same thing") == paths
    twins.close()


@pytest.mark.parametrize("text", ["", "   ", "the of a", "?!", "\0", "zzzzunknownword"])
def test_a_question_that_asks_nothing_finds_nothing(quiet: Shop, text: str) -> None:
    found = quiet.search(text)
    assert (found.hits, found.total, found.symbols) == ((), 0, ())


def test_answers_are_bounded(quiet: Shop) -> None:
    assert len(quiet.search("basket", 10**6).hits) <= MOST_HITS
    assert quiet.search("basket", -5).hits == ()


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200))
def test_no_question_breaks_the_search(quiet: Shop, text: str) -> None:
    assert all(0 < hit.score <= 1 for hit in quiet.search(text).hits)


def test_an_edit_is_seen_by_the_next_question(shop: Shop) -> None:
    assert shop.paths("voucher") == []
    shop.desk.write({"shop/voucher.py": "class Voucher:\n    pass\n"})
    shop.desk.update(["shop/voucher.py"], workers=0)
    assert shop.paths("voucher") == ["shop/voucher.py"]
    (shop.desk.root / "shop/voucher.py").unlink()
    shop.desk.update(deleted=["shop/voucher.py"], workers=0)
    assert shop.paths("voucher") == []


# --- with attempts


def test_files_of_attempts_at_like_questions_are_found_though_no_word_leads_to_them(shop: Shop) -> None:
    shop.attempt("a1", "customers are logged out too early", ["shop/session.py"])
    shop.attempt("a2", "a card is charged twice", ["shop/payment.py"])
    found = shop.search("customers logged out early")
    assert found.hits[0].path == "shop/session.py"
    assert found.hits[0].attempts == ("a1",)
    assert "shop/session.py" not in [
        hit.path for hit in shop.search("customers logged out", memory=False).hits
    ]


def test_attempts_that_are_only_our_own_look_ups_say_nothing(shop: Shop) -> None:
    shop.attempt("a1", "customers are logged out too early", ["shop/session.py"], source="self")
    assert shop.paths("customers logged out early") == []


def test_attempts_of_another_project_say_nothing(shop: Shop) -> None:
    shop.attempt("a1", "customers are logged out too early", ["shop/session.py"], project="/elsewhere")
    assert shop.paths("customers logged out early") == []


def test_an_attempt_that_changed_very_many_files_says_nothing(shop: Shop) -> None:
    many = [f"shop/file_{n}.py" for n in range(40)]
    shop.attempt("a1", "customers are logged out too early", ["shop/session.py", *many])
    assert shop.paths("customers logged out early") == []


def test_what_was_changed_counts_for_more_than_what_was_read(shop: Shop) -> None:
    query = "customers are logged out too early"
    shop.bench.log("a1", "context_retrieved", {"files": ["shop/views.py"], "query": query}, project=shop.root)
    assert shop.paths("customers logged out early")[0] == "shop/views.py"
    shop.attempt("a1", query, ["shop/session.py"])
    assert shop.paths("customers logged out early")[0] == "shop/session.py"


def test_files_that_change_together_rank_together(shop: Shop) -> None:
    for n in range(4):
        shop.attempt(f"a{n}", f"unrelated work number {n}", ["shop/payment.py", "shop/session.py"])
    together = {h.path for h in shop.search("charge a credit card").hits if "companions" in h.parts}
    assert "shop/session.py" in together
    assert "shop/views.py" not in together


def test_given_files_bring_their_companions(shop: Shop) -> None:
    for n in range(3):
        shop.attempt(f"a{n}", f"unrelated work number {n}", ["shop/views.py", "shop/session.py"])
    assert "shop/session.py" not in shop.paths("total price", memory=False)
    hits = {hit.path: hit for hit in shop.search("total price", files=("shop/views.py",)).hits}
    assert hits["shop/session.py"].parts["companions"] > 0


def test_every_file_of_the_project_can_be_a_hit(quiet: Shop) -> None:
    assert set(quiet.paths("basket price card session checkout expire")) == set(FILES)
