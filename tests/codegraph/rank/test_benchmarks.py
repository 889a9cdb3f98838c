"""The retrieval benchmarks run on any repository and count as they say; their figures are not tested."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import codegraph_attempts, codegraph_retrieval
from benchmarks.codegraph_attempts import fitted
from benchmarks.codegraph_history import first_parents, sources, tickets, without_numbers, wordings
from benchmarks.codegraph_retrieval import Figures, Plan
from benchmarks.messages import Misbehaved
from tracedesk.codegraph.rank.calibration import REFERENCE


def _git(repository: Path, *words: str) -> None:
    named = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *words], cwd=repository, check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five nouns, each with a file of its own, that are worked on in turns."""
    folder = tmp_path_factory.mktemp("repository")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    work = {
        "basket": "Sorted",
        "payment": "Rounded",
        "session": "Ended",
        "cookie": "Signed",
        "voucher": "Counted",
    }
    for n in range(20):
        noun, verb = list(work.items())[n % 5]
        (folder / f"{noun}.py").write_text(f"def check_{noun}(value):\n    return value + {n}\n")
        (folder / f"test_{noun}.py").write_text(f"def test_{noun}():\n    assert {n}\n")
        _git(folder, "add", "--all")
        _git(
            folder,
            "commit",
            "--quiet",
            "-m",
            f"Fixed #{100 + n % 5} -- {verb} the {noun} (#{n + 900})",
        )
    return folder


def test_a_commit_asks_with_its_words_and_is_answered_by_the_source_it_modified(repository: Path) -> None:
    newest = first_parents(repository, 1)[0]
    assert wordings(newest.message)["subject"] == "Counted the voucher"
    assert sources(newest) == ["voucher.py"]
    assert tickets(newest.message) == {"104", "919"}


def test_a_folder_without_a_history_is_named_with_what_git_says(tmp_path: Path) -> None:
    with pytest.raises(Misbehaved, match=f"{tmp_path}: fatal: not a git repository"):
        first_parents(tmp_path, 1)


def test_the_plain_wording_has_nothing_that_looks_like_code() -> None:
    message = "Made QuerySet.union() call `sql_flush` in django/db/models.py for MySQL users"
    assert wordings(message)["plain"] == "Made call in for users"
    assert without_numbers("since 4.2 and abc1234f0").split() == ["since", "4.2", "and"]


@pytest.mark.parametrize("word", ["Refs", "Fixes", "Closes", "Fixed"])
def test_a_title_that_begins_like_a_trailer_is_asked_with_its_message(word: str) -> None:
    message = f"{word} #104 -- Sorted the basket.\n\nBy price.\n\nRefs #105.\nCo-authored-by: A <a@b>"
    asked = wordings(message)
    assert asked["subject"] == "Sorted the basket."
    assert asked["full"].split() == ["Sorted", "the", "basket.", "By", "price."]


def test_a_merge_asks_with_the_title_that_it_merges() -> None:
    message = "Merge pull request #12 from somebody/branch\n\nSort the basket\n\nCo-authored-by: A <a@b>"
    assert wordings(message)["subject"] == "Sort the basket"


def test_retrieval_replays_a_history(repository: Path, tmp_path: Path) -> None:
    found = codegraph_retrieval.measured(repository, tmp_path, Plan(commits=10, history=10))
    for way in ("words", "attempts"):
        assert found["figures"]["subject"][way] == {"n": 10, "recall@10": 1.0, "hit@10": 1.0, "mrr": 1.0}
    assert "recall@10 1.000" in codegraph_retrieval.as_text(found)


def test_figures_count_what_is_in_the_first_ten() -> None:
    figures = Figures()
    figures.add(["a", "b"], [*(f"other{n}" for n in range(9)), "a", "b"])
    assert figures.document() == {"n": 1, "recall@10": 0.5, "hit@10": 1.0, "mrr": 0.1}
    figures.add(["a"], [])
    assert figures.document() == {"n": 2, "recall@10": 0.25, "hit@10": 0.5, "mrr": 0.05}


def test_attempts_at_the_same_ticket_are_looked_for(repository: Path, tmp_path: Path) -> None:
    plan = codegraph_attempts.Plan(attempts=20, questions=10)
    found = codegraph_attempts.measured([repository], tmp_path, plan, fits=False)
    full = found["figures"][repository.name]["full with files"]
    assert (full["questions"], full["mrr"], full["related"]) == (10, 1.0, 1.0)
    assert full["random"] < 0.5


def test_a_fitted_table_rises_and_gives_the_default_score_to_what_random_pairs_seldom_reach() -> None:
    blind = [(n / 1000 * 0.5, False) for n in range(1000)]
    same = [(0.3 + n / 1000 * 0.7, True) for n in range(1000)]
    table = fitted(blind + same)
    assert (table[0], table[-1]) == ((0.0, 0.0), (1.0, 1.0))
    assert [score for _, score in table] == sorted(score for _, score in table)
    assert dict(table)[REFERENCE] == 0.2
