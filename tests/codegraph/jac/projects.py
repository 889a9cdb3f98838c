"""A small project on disk, indexed, with an attempt at it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.model import Logged, NewEvent
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.store import Store
from tracedesk.payloads import Payloads
from tracedesk.primitives.paths import Jail
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import ManualClock

NOON_NS = 1_800_000_000 * 10**9
SOURCES = {
    "shop/cart.py": (
        '"""Carts."""\n\n\ndef total(prices):\n    return sum(prices)\n\n\n'
        "class Cart:\n    def pay(self):\n        return total([1])\n"
    ),
    "shop/pay.py": "from shop.cart import Cart\n\n\ndef charge():\n    return Cart().pay()\n",
    "shop/__init__.py": "",
    "tests/test_pay.py": "from shop.pay import charge\n\n\ndef test_charge():\n    assert charge() == 1\n",
}


@dataclass(slots=True)
class Workshop:
    """Where a test's project and its stores lie."""

    root: Path
    store: Store
    etg: Etg
    clock: ManualClock

    def log(self, attempt: str, kind: str, payload: dict[str, Any], **more: Any) -> Logged:
        self.clock.advance(1)
        return self.etg.log(NewEvent(attempt, kind, payload, project=str(self.root), **more))


@contextmanager
def workshop(folder: Path, sources: dict[str, str] | None = None) -> Generator[Workshop]:
    """Write and index a project."""
    root = folder.resolve() / "project"
    for name, text in (SOURCES if sources is None else sources).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    clock = ManualClock(NOON_NS)
    home = folder / "home"
    home.mkdir()
    with Store(home / "graph.db") as store:
        index_project(store, Jail([root]), str(root), [], clock=clock)
        etg = Etg(home / "trace.db", clock, Secrets(), Payloads(home / "payloads"))
        try:
            yield Workshop(root, store, etg, clock)
        finally:
            etg.close()


def tried(shop: Workshop, attempt: str = "fix-totals") -> None:
    """An attempt that ran a tool, looked at code, and answered."""
    version = "cg-2024-05-01T12:00:00Z"
    shop.log(attempt, "tool_start", {"tool": "pytest", "arguments": {"args": ["-q"]}}, call_id="c1")
    shop.log(attempt, "tool_end", {"tool": "pytest", "status": "error", "duration_ms": 1823}, call_id="c1")
    snippet = {"file": "shop/cart.py", "summary": "Totals", "symbols": ["total"]}
    shop.log(attempt, "context_retrieved", {"files": ["shop/cart.py"], "snippets": [snippet]})
    shop.log(attempt, "checkpoint", {"message": "Rounded", "files": ["gone.py"], "graph_version": version})
    shop.log(attempt, "answer_rendered", {"content": "Done.", "citations": ["shop/pay.py:L4-L5"]})
