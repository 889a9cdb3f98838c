"""kill -9 and power loss of a venue while it trades: what was answered is there, whole, and once."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.venue.crash import LISTING, NAMES, Tally, kill_venues
from tests.exchange.venue.support import FUNDS, SYMBOL, asking
from tests.journal import powerloss
from tests.journal.powerloss import Losses, lose_power
from tests.judges.size import Size
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.orders import VenueRefused
from tracedesk.exchange.venue.store import Store
from tracedesk.exchange.venue.venue import Venue
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.time import SystemClock


def _assert_nothing_lost(tally: Tally, kills: int) -> None:
    print(tally)
    assert tally.problems == []
    assert tally.kills == kills
    assert tally.acknowledged > 4 * kills, "venues lived long enough to prove something"
    assert tally.unanswered > 0, "some kills fell between a commit and its answer"
    assert tally.kills - tally.unanswered > 0, "after others the file was exactly what had been told"


def test_25_kills_while_trading_lose_nothing(tmp_path: Path) -> None:
    _assert_nothing_lost(kill_venues(tmp_path, "ours", 25), 25)


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_many_kills_while_trading_lose_nothing(tmp_path: Path, size: Size) -> None:
    kills = size.of(judge=300, prove=1_000)
    _assert_nothing_lost(kill_venues(tmp_path, "ours", kills, seed=2), kills)


@pytest.mark.parametrize(("kind", "finding"), [("late", "lost"), ("parts", "fills")])
def test_the_harness_catches_a_naive_store(tmp_path: Path, kind: str, finding: str) -> None:
    tally = kill_venues(tmp_path, kind, 200)
    print(tally)
    assert any(finding in problem for problem in tally.problems)


# --- power loss --------------------------------------------------------------------------------

_TABLES = ("user_order", "fill", "posting", "balance", "amendment", "prevented", "account WHERE id > 3")
COMMITS = 12


def _rows(connection: Connection) -> object:
    return [list(connection.execute(f"SELECT * FROM {table}")) for table in _TABLES]


@contextmanager
def _opened(path: Path, vfs: str | None = None) -> Generator[Store]:
    store = Store(path, vfs=vfs)
    try:
        yield store
    finally:
        store.close()


def _faults(path: Path) -> Sequence[object]:
    venue = Venue([LISTING], SystemClock(), store := Store(path))
    try:
        sums = {asset: sum(t for (_, each), t in venue.totals().items() if each == asset) for asset in FUNDS}
        agree = {key: amount for key, amount in store.posted().items() if amount} == venue.totals()
        return [*(asset for asset, total in sums.items() if total), *([] if agree else ["postings"])]
    finally:
        venue.close()


STORE: Any = powerloss.Store("venue.db", _rows, _opened, _faults)


def _work(store: Store, acknowledge: Callable[[], None]) -> None:
    venue = Venue([LISTING], SystemClock(), store)
    dice = random.Random(5)
    for name in NAMES:
        venue.open_account(name, FUNDS)
        acknowledge()
    done = len(NAMES)
    while done < COMMITS:
        side: Any = dice.choice(["BUY", "SELL"])
        asked = asking(side, "LIMIT", f"{dice.randint(1, 9)}", price=f"{dice.randint(95, 105)}", tif="GTC")
        try:
            venue.place(dice.choice(NAMES), asked)
        except VenueRefused:
            continue
        acknowledge()
        done += 1


def _lose_power(folder: Path, synchronous: str | None = None, enough: int | None = None) -> Losses:
    return lose_power(STORE, folder, _work, pages=25, synchronous=synchronous, enough=enough)


def test_no_power_loss_at_any_write_or_sync_loses_an_answered_command(tmp_path: Path) -> None:
    result = _lose_power(tmp_path)
    assert result.problems == []
    assert result.lost == 0
    assert result.commits == COMMITS


@pytest.mark.parametrize("synchronous", ["NORMAL", pytest.param("OFF", marks=pytest.mark.judge)])
def test_the_power_harness_bites_when_commits_are_not_synced(tmp_path: Path, synchronous: str) -> None:
    assert _lose_power(tmp_path, synchronous, enough=5).lost == 5


# --- restarts ----------------------------------------------------------------------------------


def test_after_a_restart_users_orders_rest_in_their_old_order(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    venue = Venue([LISTING], SystemClock(), Store(path))
    for name in NAMES:
        venue.open_account(name, FUNDS, maker=0, taker=0)
    first = venue.place("ann", asking("BUY", "LIMIT", "2", price="100", tif="GTC", iceberg="0.5")).order
    second = venue.place("bob", asking("BUY", "LIMIT", "1", price="100", tif="GTC")).order
    venue.flow_limit(SYMBOL, "BUY", units("100"), units("7"))
    venue.flow_market(SYMBOL, "SELL", units("0.5"))
    stop = venue.place("ann", asking("SELL", "STOP_LOSS", "1", stop="50")).order
    before = [venue.account(name) for name in NAMES]
    venue.close()
    venue = Venue([LISTING], SystemClock(), Store(path))
    assert [venue.account(name) for name in NAMES] == before
    # The iceberg queued again when its first part was taken, so bob's order is older now.
    assert venue.books(SYMBOL).depth()[0] == [(units("100"), units("1.5"))]
    venue.flow_market(SYMBOL, "SELL", units("1.25"))
    assert venue.order("bob", SYMBOL, order_id=second.id).status == "FILLED"
    assert venue.order("ann", SYMBOL, order_id=first.id).executed == units("0.75")
    venue.flow_limit(SYMBOL, "BUY", units("50"), units("2"))
    venue.cancel("ann", SYMBOL, order_id=first.id)
    venue.flow_market(SYMBOL, "SELL", units("0.5"))
    assert venue.order("ann", SYMBOL, order_id=stop.id).status == "FILLED"
    venue.close()


def test_a_halt_and_the_numbers_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    venue = Venue([LISTING], SystemClock(), Store(path))
    last = venue.flow_limit(SYMBOL, "BUY", units("100"), units("1"))
    venue.flow_market(SYMBOL, "SELL", units("1"))
    trade, update = venue.last_trade_id(SYMBOL), venue.last_update_id(SYMBOL)
    venue.set_status(SYMBOL, "HALT")
    venue.close()
    venue = Venue([LISTING], SystemClock(), Store(path))
    assert venue.status(SYMBOL) == "HALT"
    assert venue.last_trade_id(SYMBOL) >= trade
    assert venue.last_update_id(SYMBOL) >= update
    assert venue.flow_limit(SYMBOL, "BUY", units("100"), units("1")) > last
    venue.close()


def test_a_file_with_open_orders_of_a_symbol_that_is_gone_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    venue = Venue([LISTING], SystemClock(), Store(path))
    venue.open_account("ann", FUNDS)
    venue.place("ann", asking("BUY", "LIMIT", "1", price="100", tif="GTC"))
    venue.close()
    store = Store(path)
    with pytest.raises(Exception, match="BTCUSDT, which is not listed"):
        Venue([], SystemClock(), store)
    store.close()
