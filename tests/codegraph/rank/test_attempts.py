from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.rank.cases import Shop
from tracedesk.codegraph.rank.attempts import MOST, SMALL, Usual
from tracedesk.codegraph.rank.calibration import REFERENCE, likeness, mass

SUBJECTS = ("basket", "payment", "session", "view", "template", "cookie", "header", "query", "cache", "form")
VERBS = ("crash", "leak", "order", "encode", "rename", "validate", "deprecate", "cast", "expire", "merge")


def _history(shop: Shop, count: int = 2 * SMALL) -> None:
    """Many attempts, no two at the same thing; every tenth knows the same hub."""
    for n in range(count):
        subject, verb = SUBJECTS[n % 10], VERBS[n // 10 % 10]
        files = [f"shop/{subject}_{verb}_{n}.py", *(["CHANGES.md"] if n % 2 else [])]
        shop.attempt(f"old{n}", f"{subject} must {verb} in case {n} of the {verb}{subject}", files)


def test_the_only_attempt_is_found_by_its_own_question(shop: Shop) -> None:
    shop.attempt("a1", "the session expires too early", ["shop/session.py"])
    shop.attempt("a2", "charge a card twice", ["shop/payment.py"])
    matches = shop.similar("session expires too early").matches
    assert [match.attempt_id for match in matches] == ["a1"]
    assert 0.2 <= matches[0].score <= 1


def test_in_a_long_history_the_attempt_at_the_same_thing_is_first_and_others_do_not_score(shop: Shop) -> None:
    _history(shop)
    shop.attempt("ours", "cookies of guests vanish behind a proxy", ["shop/cookies.py"])
    matches = shop.similar("guests lose their cookies behind the proxy").matches
    assert matches[0].attempt_id == "ours"
    assert len(shop.similar("guests lose their cookies behind the proxy", top_k=100).matches) <= 5


def test_a_long_question_is_also_asked_by_its_first_line(shop: Shop) -> None:
    _history(shop)
    shop.attempt("ours", "cookies of guests vanish behind a proxy")
    shop.attempt("thanks", "Thanks to Ada Lovelace and Charles Babbage for the report and the review")
    words = "Cookies of guests vanish behind a proxy\n\n"
    words += "Thanks to Ada Lovelace and Charles Babbage for the report and the review."
    found = shop.scored(words)
    assert (
        found["ours"].components["text"] >= shop.scored(words.partition("\n")[0])["ours"].components["text"]
    )


def test_shared_files_raise_the_score_and_never_filter(shop: Shop) -> None:
    _history(shop)
    shop.attempt("words", "cookies of guests vanish behind a proxy", ["a.py"])
    shop.attempt("files", "something entirely different", ["shop/jar.py"])
    without = shop.scored("cookies of guests vanish")
    with_files = shop.scored("cookies of guests vanish", ["shop/jar.py"])
    assert with_files["files"].score > 0.2
    assert "files" not in without
    assert with_files["words"].components == without["words"].components
    assert with_files["files"].components["files"] > 0.5


def test_a_file_that_everybody_changes_says_little(shop: Shop) -> None:
    _history(shop)
    shop.attempt("hub", "something entirely different", ["CHANGES.md"])
    shop.attempt("rare", "another thing altogether", ["shop/cookies.py"])
    found = shop.scored("zzz", ["CHANGES.md", "shop/cookies.py"])
    assert found["rare"].components["files"] > 2 * found["hub"].components["files"]


def test_an_empty_question_is_answered_by_its_files(shop: Shop) -> None:
    shop.attempt("a1", "charge a card twice", ["shop/payment.py"])
    assert [m.attempt_id for m in shop.similar("", ["shop/payment.py"]).matches] == ["a1"]
    assert shop.similar("", []).matches == ()


def test_of_two_equal_attempts_the_later_is_first(shop: Shop) -> None:
    _history(shop)
    for name in ("first", "second"):
        shop.attempt(name, "cookies of guests vanish behind a proxy")
    order = [m.attempt_id for m in shop.similar("cookies of guests vanish").matches[:2]]
    assert order == ["second", "first"]


def test_our_own_look_ups_are_never_evidence(shop: Shop) -> None:
    shop.attempt("a1", "the session expires too early", source="self")
    assert shop.similar("the session expires too early", min_score=0).matches == ()


def test_the_asking_attempt_does_not_find_itself(shop: Shop) -> None:
    shop.attempt("me", "the session expires too early")
    shop.attempt("other", "the session expires too early")
    found = shop.similar("the session expires too early", without="me").matches
    assert [match.attempt_id for match in found] == ["other"]


def test_other_projects_are_asked_only_on_request(shop: Shop) -> None:
    shop.attempt("far", "the session expires too early", project="/elsewhere")
    assert shop.similar("the session expires too early").matches == ()
    everywhere = shop.similar("the session expires too early", project=None).matches
    assert [match.attempt_id for match in everywhere] == ["far"]


def test_too_many_wanted_matches_are_capped_and_said_so(shop: Shop) -> None:
    for n in range(MOST + 10):
        shop.attempt(f"a{n}", "the session expires too early")
    found = shop.similar("the session expires too early", top_k=10**6, min_score=0)
    assert (len(found.matches), found.capped) == (MOST, True)
    assert not shop.similar("the session expires too early", top_k=MOST).capped


def test_a_higher_least_score_only_takes_matches_away(shop: Shop) -> None:
    _history(shop, 40)
    everything = shop.similar("basket must crash", top_k=100, min_score=0).matches
    for least in (0.1, 0.2, 0.5, 0.9):
        some = shop.similar("basket must crash", top_k=100, min_score=least).matches
        assert some == tuple(match for match in everything if match.score >= least)


def test_scores_fall_from_match_to_match(shop: Shop) -> None:
    _history(shop)
    scores = [m.score for m in shop.similar("basket must crash", top_k=100, min_score=0).matches]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A history that no test changes."""
    made = Shop(tmp_path_factory.mktemp("quiet"))
    made.attempt("a1", "the session expires too early", ["shop/session.py"])
    yield made
    made.close()


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=300), st.lists(st.text(max_size=40), max_size=5))
def test_no_question_breaks_it(quiet: Shop, query: str, files: list[str]) -> None:
    assert all(0 <= match.score <= 1 for match in quiet.similar(query, files, min_score=0).matches)


@pytest.mark.parametrize("count", [SMALL - 5, SMALL + 5])
def test_the_way_of_counting_changes_without_a_jump(shop: Shop, count: int) -> None:
    _history(shop, count - 1)
    shop.attempt("ours", "cookies of guests vanish behind a proxy")
    found = shop.scored("cookies of guests vanish")
    assert found["ours"].likeness > 0.6
    assert max((m.likeness for name, m in found.items() if name != "ours"), default=0) < REFERENCE


def test_in_a_young_history_too_a_word_and_a_file_that_many_attempts_share_do_not_make_a_match(
    shop: Shop,
) -> None:
    for n in range(60):
        subject, verb = SUBJECTS[n % 10], VERBS[n // 6]
        shop.attempt(f"old{n}", f"{subject} of customers number {n} must {verb}", [f"shop/{subject}.py"])
    shop.attempt("ours", "guests lose the cookie behind a proxy", ["shop/jar.py"])
    assert shop.similar("the session must crash", ["shop/session.py"]).matches == ()
    found = shop.similar("guests lose the cookie behind a proxy", ["shop/jar.py"]).matches
    assert [match.attempt_id for match in found] == ["ours"]


def test_what_was_tried_again_and_again_is_found_however_often_it_was(shop: Shop) -> None:
    often = 24
    for n in range(often):
        shop.attempt(f"again{n}", "Update the pinned dependencies", ["requirements.txt"])
    _history(shop, 4 * SMALL)
    found = shop.similar("Update the pinned dependencies", ["requirements.txt"], top_k=MOST).matches
    assert {match.attempt_id for match in found} == {f"again{n}" for n in range(often)}


raws = st.lists(st.floats(0, 0.99), max_size=40)


@given(raws, st.floats(0.05, 2), st.floats(0.5, 3))
def test_a_question_is_measured_by_its_own_likenesses_and_never_by_less_than_its_history(
    likenesses: list[float], typical: float, seldom: float
) -> None:
    usual = Usual(5, typical, seldom)
    least = usual.level([])
    assert usual.level(likenesses) >= least
    assert usual.level([*likenesses, 0.99]) >= usual.level(likenesses)
    few = likenesses[:5]
    assert usual.level(few) == least


def test_what_is_usual_is_the_likeness_at_its_place() -> None:
    usual = Usual(place=2, typical=mass(0.2), seldom=1.5)
    assert usual.level([0.3, 0.9, 0.4, 0.8]) == pytest.approx(likeness(1.5 * mass(0.4)))
    assert usual.level([0.9, 0.8, 0.1]) == pytest.approx(likeness(1.5 * mass(0.2)))
    assert usual.level([0.9, 0.9, 0.9]) == pytest.approx(likeness(1.5 * 3 * mass(0.2)))


TASKS = (
    "Make the session cookie salt configurable",
    "Stop the crash when a voucher has no owner",
    "Encode headers of responses as latin-1",
    "Cache the parsed templates of a view",
    "Validate the form before the query runs",
    "Merge duplicate payments of one basket",
)


@pytest.mark.parametrize(("tasks", "most"), [(1, 120), (len(TASKS), 1_000)])
def test_a_verbatim_retry_is_found_at_every_number_of_attempts(shop: Shop, tasks: int, most: int) -> None:
    for n in range(1, most + 1):
        shop.attempt(f"a{n}", TASKS[n % tasks], ["shop/session.py"])
        if n <= 40 or n in (64, 100, 101, 250, 500, 1_000):
            for asked in range(min(n, tasks)):
                found = shop.similar(TASKS[(n - asked) % tasks].upper(), top_k=1).matches
                assert [match.attempt_id for match in found] == [f"a{n - asked}"], n
                assert found[0].score >= 0.8, n


def test_retries_of_some_tasks_hide_no_attempt_at_another(shop: Shop) -> None:
    shop.attempt("ours", "cookies of guests vanish behind a proxy", ["shop/cookies.py"])
    for n in range(200):
        shop.attempt(f"a{n}", TASKS[n % len(TASKS)], ["shop/session.py"])
    found = shop.similar("guests lose their cookies behind the proxy").matches
    assert found[0].attempt_id == "ours"
