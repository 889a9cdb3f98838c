"""Reads of the graph in threads: a bounded number at once, each of one state of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tracedesk.codegraph.graph.store import Store
from tracedesk.journal.pool import Pool
from tracedesk.journal.sqlite import Connection

T = TypeVar("T")


class Readers(Pool[Connection]):
    """At most `size` reads at once. Cancelling a caller interrupts its read."""

    def __init__(self, store: Store, size: int = 4) -> None:
        super().__init__(store.path, lambda _: store.open_reader(), size)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """`work` on a connection of its own, in a thread and in one transaction."""
        return await super().run(lambda connection: _in_one_state(work, connection))


def _in_one_state(work: Callable[[Connection], T], connection: Connection) -> T:
    connection.execute("BEGIN DEFERRED")
    try:
        return work(connection)
    finally:
        connection.execute("ROLLBACK")
