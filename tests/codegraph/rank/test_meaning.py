"""Files and attempts by their vectors: what is near is found, what has no vector is not guessed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.codegraph.rank.cases import Shop
from tracedesk.codegraph.embed.vectors import Vectors
from tracedesk.codegraph.graph.store import project_at
from tracedesk.codegraph.rank.attempts import texts
from tracedesk.codegraph.rank.files import Ranker
from tracedesk.codegraph.rank.meaning import STATIC, TRANSFORMER, Meaning
from tracedesk.codegraph.rank.recall import Recall

SENSES = (("money", "charge", "card", "pay"), ("login", "session", "expire"), ("basket", "item", "total"))
"""Words of one sense point in one direction."""


class Senses:
    """A model small enough to be predicted: a text's direction is that of its words' senses."""

    id = "words-of-three-senses"
    dim = 4

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [[*(sum(text.lower().count(w) for w in sense) for sense in SENSES), 0.1] for text in texts]
        found = np.array(rows, np.float32)
        found[found[:, :3].sum(axis=1) == 0] = 0
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)


class Other(Senses):
    id = "transformer-1"


@pytest.fixture
def vectors(tmp_path: Path) -> Vectors:
    return Vectors(tmp_path / "vectors", Senses())


def _fill(shop: Shop, vectors: Vectors, most: int = 1_000) -> int:
    with shop.desk.store.reading() as graph:
        rows = list(graph.execute("SELECT key, text FROM chunk ORDER BY id LIMIT ?", (most,)))
    vectors.put([key for key, _ in rows], vectors.embedder.embed([text for _, text in rows]))
    return len({key for key, _ in rows})


def test_a_file_is_found_by_what_it_means_though_it_has_no_word_of_the_question(
    shop: Shop, vectors: Vectors
) -> None:
    _fill(shop, vectors)
    assert "shop/payment.py" not in shop.paths("money")
    shop.ranker = Ranker(Meaning(vectors))
    found = shop.search("money")
    assert found.hits[0].path == "shop/payment.py"
    assert found.hits[0].parts.keys() == {"meaning"}
    assert found.hits[0].score < 0.2


def test_the_coverage_tells_how_many_chunks_could_be_compared(shop: Shop, vectors: Vectors) -> None:
    shop.ranker = Ranker(Meaning(vectors))
    chunks = _chunks(shop)
    assert shop.search("money").coverage == {"model": Senses.id, "embedded": 0, "chunks": chunks}
    assert shop.search("money").hits == ()
    some = _fill(shop, vectors, 2)
    assert (shop.search("money").coverage or {})["embedded"] == some
    _fill(shop, vectors)
    assert (shop.search("money").coverage or {})["embedded"] == chunks
    assert shop.search("money").hits[0].path == "shop/payment.py"


def _chunks(shop: Shop) -> int:
    with shop.desk.store.reading() as graph:
        project = project_at(graph, shop.root)
        assert project is not None
        return next(graph.execute("SELECT count(*) FROM chunk"))[0]


def test_without_a_model_there_is_no_coverage_to_tell(shop: Shop) -> None:
    assert shop.search("basket").coverage is None


def test_a_question_without_a_known_word_has_no_meaning(shop: Shop, vectors: Vectors) -> None:
    _fill(shop, vectors)
    shop.ranker = Ranker(Meaning(vectors))
    assert shop.search("zebra").hits == ()


def test_the_table_counts_for_little_and_a_transformer_for_more(tmp_path: Path) -> None:
    assert Meaning(Vectors(tmp_path, Senses())).weight == STATIC
    assert Meaning(Vectors(tmp_path, Other())).weight == TRANSFORMER
    assert 0 < STATIC < TRANSFORMER < 1


# --- attempts


def _remember(shop: Shop, vectors: Vectors) -> None:
    rows = shop.bench.read(lambda reader: list(texts(reader.connection, None)))
    vectors.put([key for _, key, _ in rows], vectors.embedder.embed([text for _, _, text in rows]))


def _attempts(shop: Shop) -> None:
    for n in range(30):
        shop.attempt(f"basket{n}", f"basket item total number {n}")
        shop.attempt(f"login{n}", f"login session expire number {n}")
    shop.attempt("paid", "charge of a card")


def test_an_attempt_is_found_by_what_it_means(shop: Shop, vectors: Vectors) -> None:
    _attempts(shop)
    _remember(shop, vectors)
    assert "paid" not in shop.scored("money")
    found = shop.scored("money", recall=Recall(vectors))
    assert next(iter(found)) == "paid"
    assert found["paid"].components["meaning"] > 0.3


def test_what_is_usual_in_a_history_is_not_near(shop: Shop, vectors: Vectors) -> None:
    for n in range(60):
        shop.attempt(f"basket{n}", f"basket item total number {n}")
    _remember(shop, vectors)
    assert shop.scored("baskets", recall=Recall(vectors)) == {}


def test_too_few_vectors_say_nothing_about_what_is_usual(shop: Shop, vectors: Vectors) -> None:
    shop.attempt("paid", "charge of a card")
    shop.attempt("other", "login session")
    _remember(shop, vectors)
    assert shop.scored("money", recall=Recall(vectors)) == {}


def test_attempts_without_a_vector_are_still_found_by_their_words(shop: Shop, vectors: Vectors) -> None:
    _attempts(shop)
    _remember(shop, vectors)
    shop.attempt("new", "zebra crossing")
    recall = Recall(vectors)
    assert next(iter(shop.scored("zebra crossing", recall=recall))) == "new"
    asked = shop.bench.read(lambda reader: recall.near(reader.connection, shop.root, "money"))
    assert dict(asked.coverage) == {"model": Senses.id, "embedded": 61, "attempts": 62}
