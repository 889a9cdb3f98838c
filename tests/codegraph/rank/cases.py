"""A small project with a graph and a trace, and questions to both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.codegraph.etg.bench import NOON, SECOND, Bench
from tests.codegraph.graph.projects import Desk
from tracedesk.codegraph.graph.store import project_at
from tracedesk.codegraph.rank.attempts import Asked, Match, Matches, scored, similar
from tracedesk.codegraph.rank.files import Found, Question, Ranker
from tracedesk.codegraph.rank.recall import Recall
from tracedesk.journal.read import Reader

DAY: Final = 86_400 * SECOND

FILES: Final[Mapping[str, str]] = {
    "shop/basket.py": """
class Basket:
    def add_item(self, item):
        self.items.append(item)

    def total_price(self):
        return sum(item.price for item in self.items)
""",
    "shop/payment.py": """
def charge_card(card, amount):
    # Charge a credit card.
    return card.charge(amount)
""",
    "shop/session.py": """
class SessionStore:
    def expire(self):
        self.clock.forget()
""",
    "shop/views.py": """
from shop.basket import Basket

def checkoutView(request):
    basket = Basket()
    return basket
""",
    "tests/test_basket.py": """
from shop.basket import Basket

def test_total_price():
    basket = Basket()
    assert basket.total_price() == 0
    assert not basket.total_price()
""",
    "docs/basket.md": """
# Basket

The total price of a basket is the sum of the price of its items.
""",
}


class Shop:
    """The project, indexed, and its attempts."""

    def __init__(self, folder: Path, files: Mapping[str, str] = FILES) -> None:
        self.desk = Desk(folder)
        self.desk.write(files)
        self.desk.index(workers=0)
        self.root = str(self.desk.root)
        self.bench = Bench(folder / "home")
        self.ranker = Ranker()
        self._days = 0

    def attempt(self, name: str, query: str, files: Sequence[str] = (), **facts: Any) -> None:
        """One a day: somebody worked on a question and changed files."""
        self._days += 1
        payload = {"message": query, "query": query, "files": list(files), "graph_version": "v"}
        facts = {
            "timestamp_ns": NOON + self._days * DAY,
            "project": self.root,
            "outcome": "succeeded",
        } | facts
        self.bench.log(name, "checkpoint", payload, **facts)

    def search(self, text: str, k: int = 10, *, memory: bool = True, offset: int = 0, **asked: Any) -> Found:
        self.bench.etg.catch_up()
        with self.desk.store.reading() as graph, Reader(self.bench.path) as trace:
            project = project_at(graph, self.root)
            assert project is not None
            question = Question(text, **asked)
            return self.ranker.search(
                graph, trace.connection if memory else None, project, question, k, offset
            )

    def paths(self, text: str, **asked: Any) -> list[str]:
        return [hit.path for hit in self.search(text, **asked).hits]

    def similar(
        self, query: str, files: Sequence[str] = (), top_k: int = 5, min_score: float = 0.2, **asked: Any
    ) -> Matches:
        facts = {"project": self.root} | asked
        work = Asked(query, tuple(files), **facts)
        return self.bench.read(lambda reader: similar(reader.connection, work, top_k, min_score))

    def scored(self, query: str, files: Sequence[str] = (), recall: Recall | None = None) -> dict[str, Match]:
        work = Asked(query, tuple(files), self.root)
        found = self.bench.read(lambda reader: scored(reader.connection, work, recall)[0])
        return {match.attempt_id: match for match in found}

    def close(self) -> None:
        self.bench.etg.close()
        self.desk.store.close()
