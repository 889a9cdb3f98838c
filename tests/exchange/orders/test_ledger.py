"""The ledger by itself: ids for ever, usage by account and day, months, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.orders.desks import START_NS
from tracedesk.exchange.orders.caps import Usage
from tracedesk.exchange.orders.identity import Identity
from tracedesk.exchange.orders.ledger import Duplicate, Intent, Ledger, News
from tracedesk.exchange.orders.report import State
from tracedesk.journal import Journal, Reader, verify
from tracedesk.primitives.time import DAY, ManualClock


def _intent(name: str, account: str = "sim/a", **changes: Any) -> Intent:
    facts: dict[str, Any] = {"quote": "USDT", "notional": 500, **changes}
    return Intent(name, account, "sim", "BTCUSDT", "BUY", "LIMIT", 10, venue_ms=1, body={}, **facts)


def _free(_: Usage) -> None: ...


def _open(home: Path, clock: ManualClock | None = None) -> Ledger:
    return Ledger(home / "trace.db", clock or ManualClock(START_NS))


def test_an_id_is_used_once_for_ever(tmp_path: Path) -> None:
    ledger = _open(tmp_path)
    ledger.intend(_intent("td-1"), _free)
    ledger.tell(News("td-1", State("FILLED", 1, 10, 500)))
    ledger.close()
    later = _open(tmp_path, ManualClock(START_NS + 4000 * DAY))
    with pytest.raises(Duplicate) as known:
        later.intend(_intent("td-1"), _free)
    assert known.value.order.state.status == "FILLED"
    assert later.intend(_intent("td-2"), _free).state.status == "SENT"


def test_what_is_refused_by_its_judge_is_not_written_down(tmp_path: Path) -> None:
    ledger = _open(tmp_path)

    def never(_: Usage) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ledger.intend(_intent("td-1"), never)
    assert ledger.order("td-1") is None
    ledger.intend(_intent("td-1"), _free)
    assert verify(tmp_path / "trace.db").faults == []


def test_usage_is_by_account_quote_and_utc_day_and_leaves_out_what_was_refused(tmp_path: Path) -> None:
    clock = ManualClock(START_NS)
    ledger = _open(tmp_path, clock)
    for name, change in (("1", {}), ("2", {"quote": "BTC"}), ("3", {"account": "sim/b"}), ("4", {})):
        ledger.intend(_intent(name, **change), _free)
    ledger.tell(News("4", State("REFUSED")))
    assert ledger.usage(Identity("sim/a"), "USDT") == Usage(3, 500)
    clock.advance(61)
    assert ledger.usage(Identity("sim/a"), "USDT") == Usage(0, 500)
    clock.advance(15 * 3600)
    assert ledger.usage(Identity("sim/a"), "USDT") == Usage(0, 0)


def test_each_month_is_a_stream_and_an_order_goes_on_in_the_next(tmp_path: Path) -> None:
    clock = ManualClock(START_NS)
    ledger = _open(tmp_path, clock)
    first = ledger.intend(_intent("td-1"), _free)
    clock.advance(20 * 86_400)
    order, _ = ledger.tell(News("td-1", State("NEW", 1)))
    assert first.latest == "tracedesk://exchange/orders-2026-11/1"
    assert order.latest == "tracedesk://exchange/orders-2026-12/1"
    found = ledger.resolve(order.latest)
    assert found is not None
    assert [(edge.relation, edge.ref) for edge in found.edges] == [("intent", first.latest)]


def test_news_that_is_none_leaves_no_entry(tmp_path: Path) -> None:
    ledger = _open(tmp_path)
    ledger.intend(_intent("td-1"), _free)
    for _ in range(3):
        ledger.tell(News("td-1", State("NEW", 1)))
    with Reader(tmp_path / "trace.db") as reader:
        assert reader.head("orders-2026-11").seq == 2


def test_threads_and_processes_share_it(tmp_path: Path) -> None:
    ledgers = [_open(tmp_path) for _ in range(2)]

    def intend(number: int) -> str:
        try:
            return ledgers[number % 2].intend(_intent(f"td-{number // 4}"), _free).client_order_id
        except Duplicate:
            return ""

    with ThreadPoolExecutor(8) as pool:
        made = [name for name in pool.map(intend, range(80)) if name]
    assert sorted(made) == sorted({f"td-{number}" for number in range(20)})
    assert len(ledgers[0].unresolved()) == 20
    assert verify(tmp_path / "trace.db").faults == []


def test_it_lives_beside_the_other_streams_of_the_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "trace.db") as journal:
        journal.open("etg-2026-11", "etg")
    ledger = _open(tmp_path)
    ledger.intend(_intent("td-1"), _free)
    with Reader(tmp_path / "trace.db") as reader:
        assert {stream.kind for stream in reader.streams()} == {"etg", "orders"}
    assert ledger.resolve("tracedesk://exchange/etg-2026-11/1") is None
