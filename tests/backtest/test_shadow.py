"""Runs that are recorded without tables, asked while they are recorded: interrupted, ended, begun anew."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.desks import T0, agent, record
from tests.backtest.streams import causal
from tests.backtest.streams import record as give
from tests.support import run
from tracedesk.backtest import schema, shadow
from tracedesk.backtest.projection import Projector
from tracedesk.backtest.query import Recording
from tracedesk.backtest.texts import Texts
from tracedesk.journal import Reader
from tracedesk.journal.sqlite import Connection, InterruptError, SQLiteError, connect


def told(reader: Reader, id: str) -> dict[str, Any]:
    """Everything that the reader's own tables hold."""
    return {
        name: list(reader.connection.execute(f"SELECT * FROM temp.{name} ORDER BY 1, 2"))
        for name in schema.DERIVED
    }


def test_a_shadow_that_was_interrupted_goes_on_from_its_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "_BATCH", 100)
    puts: list[int] = []
    write = Projector.put

    def interrupted(self: Projector, connection: Connection) -> None:
        write(self, connection)
        puts.append(len(puts))
        if len(puts) in (3, 4):
            raise InterruptError

    with record(tmp_path, fast=True) as rec:
        give(rec, causal(1_000))
        rec.flush()
        with Reader(rec.path) as whole, Reader(rec.path) as reader:
            shadow.prepare(whole, rec.run_id)
            monkeypatch.setattr(Projector, "put", interrupted)
            for _ in range(2):
                with pytest.raises(InterruptError):
                    shadow.prepare(reader, rec.run_id)
                kept = shadow.of(reader)
                assert kept is not None
                assert kept.done == 200
            shadow.prepare(reader, rec.run_id)
            assert len(puts) == 12
            assert told(reader, rec.run_id) == told(whole, rec.run_id)


def test_a_shadow_that_forgot_texts_finds_them_though_it_is_interrupted(tmp_path: Path) -> None:
    """The look-up of one text is repeated: what a projector has taken in by half it could not take back."""

    class Interrupted:
        def __init__(self) -> None:
            self.asked = 0

        def execute(self, *_: Any) -> Any:
            self.asked += 1
            if self.asked == 1:
                raise InterruptError
            return iter([(7,)])

    with closing(connect(tmp_path / "x.db")) as connection:
        connection.execute(schema.ROW_TABLES)
        texts = Texts(remembered=1)
        for event in range(3):
            texts.number(2, f"order {event}", event)
        texts.put(connection)
        texts.settle()
        lookup: Any = Interrupted()
        texts.begin(lookup)
        assert texts.number(2, "order 0", 9) == 7
        assert lookup.asked == 2


def test_a_shadow_whose_making_failed_does_not_hide_the_run_s_own_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rec = record(tmp_path, fast=True)
    give(rec, causal(50))
    rec.flush()
    with Reader(rec.path) as reader:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "INDEXES", ("CREATE INDEX IF NOT EXISTS broken ON nothing(x)",))
            with pytest.raises(SQLiteError):
                shadow.prepare(reader, rec.run_id)
        rec.close()
        shadow.prepare(reader, rec.run_id)
        with reader.connection:
            found = Recording.of(reader, rec.run_id)
            assert found is not None
            assert found.head == 50
            assert sum(n for (n,) in reader.connection.execute("SELECT n FROM tally")) == 50


def test_a_fast_run_that_ends_while_it_is_caught_up_with_is_told_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rec = record(tmp_path, fast=True)
    for number in range(10):
        rec.risk(T0 + number, "early")
    rec.flush()
    catch_up, calls = shadow.prepare, list[int]()

    def ended(reader: Reader, id: str) -> None:
        catch_up(reader, id)
        calls.append(1)
        if len(calls) == 2:
            for number in range(10, 20):
                rec.risk(T0 + number, "late")
            rec.close()

    async def main() -> None:
        async with agent(tmp_path) as desk:
            monkeypatch.setattr(shadow, "prepare", ended)
            page = await desk.call("get_events_by_type", runId=rec.run_id, eventType="RiskEvent")
            assert (page["metadata"]["runStatus"], page["metadata"]["totalCount"]) == ("ended", 20)

    run(main())
