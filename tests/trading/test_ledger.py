"""The ledger: entries that are whole, chained and durable, and portfolios that follow from them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.journal.powerloss import Losses, lose_power
from tests.journal.workers import together
from tests.trading.ledgers import (
    LEDGER,
    OPEN_NS,
    SHARE,
    TABLES,
    WALL_NS,
    call,
    fill,
    later,
    open_ledger,
    opening,
    placing,
    refused,
    resting,
    rows,
    script,
    submit_the_same_calls,
    submit_without_looking,
    trading,
    write,
)
from tracedesk.journal.sqlite import ConstraintError, connect
from tracedesk.primitives.time import DAY
from tracedesk.trading import audit, book, schema
from tracedesk.trading.ledger import GENESIS, CallRecorded, Ledger, LedgerBusy, LedgerError, New
from tracedesk.trading.model import CASH, EdgeTo, Fill, Order, OrderState, Portfolio, Posting, Side, Trade
from tracedesk.trading.schema import CHAINED
from tracedesk.trading.units import notional

# --- entries


def test_an_entry_is_read_back_as_it_was_written(ledger: Ledger) -> None:
    for seq, new in zip(write(ledger, script()), script(), strict=True):
        entry = ledger.entry(seq)
        assert entry is not None
        assert (entry.seq, entry.kind, entry.account) == (seq, new.kind, new.account)
        assert (entry.at_ns, entry.clock_ns, entry.body) == (WALL_NS, new.clock_ns, new.body)
        assert entry.orders == tuple(new.orders)
        assert entry.states == tuple(new.states)
        assert entry.fills == tuple(new.fills)
        assert entry.postings == tuple(new.postings)
        assert entry.edges == tuple(new.edges)
        filled_in = new.call and replace(new.call, account=new.account, entry=seq, at_ns=WALL_NS)
        assert entry.call == filled_in


def test_seqs_have_no_gaps_and_the_head_is_the_last_entrys(ledger: Ledger) -> None:
    assert ledger.head() == (0, GENESIS)
    assert write(ledger, script()) == list(range(1, 16))
    entry = ledger.entry(15)
    assert entry is not None
    assert ledger.head() == (15, entry.hash)


def test_the_body_is_canonical_whatever_order_its_members_came_in(tmp_path: Path) -> None:
    heads: list[bytes] = []
    for name, body in (("a", {"x": 1, "y": {"p": 1, "q": 2}}), ("b", {"y": {"q": 2, "p": 1}, "x": 1})):
        with open_ledger(tmp_path / name) as ledger:
            write(ledger, [New("event", "default", OPEN_NS, body)])
            heads.append(ledger.head()[1])
    assert heads[0] == heads[1]


def test_each_hash_depends_on_the_one_before(tmp_path: Path) -> None:
    heads: list[bytes] = []
    for cash in (1, 2):
        with open_ledger(tmp_path / str(cash)) as ledger:
            write(ledger, [opening(cash=cash), trading("o1")])
            heads.append(ledger.head()[1])
    assert heads[0] != heads[1]


def test_entries_are_paged_and_can_be_of_one_account(ledger: Ledger) -> None:
    write(ledger, script())
    assert [entry.seq for entry in ledger.entries(3, 4)] == [4, 5, 6, 7]
    assert [entry.seq for entry in ledger.entries(account="second account")] == [3, 6]
    assert [entry.seq for entry in ledger.entries(3, account="second account")] == [6]
    assert [entry.seq for entry in ledger.newest(2)] == [14, 15]
    assert [entry.seq for entry in ledger.walk()] == list(range(1, 16))
    assert ledger.entry(16) is None


# --- what is refused, and leaves nothing

BAD: dict[str, tuple[New, str]] = {
    "cash out of nothing": (New("x", "default", 0, postings=[Posting("cash", CASH, 1)]), "balance"),
    "one cent too little": (
        replace(
            trading("o9"),
            postings=[
                replace(p, units=p.units + (p.book == "cash")) for p in book.for_fill(fill("o9"))
            ],
        ),
        "balance",
    ),
    "shares of one symbol for another": (
        New("x", "default", 0, postings=[Posting("position", "A", 1), Posting("splits", "B", -1)]),
        "balance",
    ),
    "a book that is none": (
        New("x", "default", 0, postings=[Posting("cash", CASH, 1), Posting("gift", CASH, -1)]),
        "gift",
    ),
    "a fill without its postings": (replace(trading("o9"), postings=()), "fills"),
    "postings without their fill": (New("x", "default", 0, postings=book.for_fill(fill("o9"))), "fills"),
    "an order that was placed before": (trading("o1"), "already"),
    "an order without a state": (replace(trading("o9"), states=(), fills=(), postings=()), "state"),
    "an order of another account": (
        replace(placing(resting("A", "buy", 1, 1), "o9", "open", account="b"), account="default"),
        "own account",
    ),
    "a state of no order": (New("x", "default", 0, states=[OrderState("o9", "open")]), "no order"),
    "a state that says more than was filled": (
        New("x", "default", 0, states=[OrderState("o1", "filled", 11 * SHARE)]),
        "fills of",
    ),
    "a state of another account's order": (
        New("x", "b", 0, states=[OrderState("o1", "cancelled", 10 * SHARE)]),
        "another account",
    ),
    "a fill without a new state": (
        New("x", "default", 0, fills=[fill("o1")], postings=book.for_fill(fill("o1"))),
        "new state",
    ),
    "a number past 64 bits": (New("x", "default", 0, postings=book.for_opening(2**63)), "64 bits"),
    "cash of nobody": (opening(""), "need an account"),
    "an order of nobody": (placing(resting("A", "buy", 1, 1), "o9", "open", account=""), "need an account"),
    "a symbol that is the currency": (trading("o9", "USD"), "currency"),
    "a quantity of nothing": (placing(resting("A", "buy", 0, 1), "o9", "open"), "fit"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_an_entry_that_an_audit_would_condemn_is_refused(ledger: Ledger, what: str) -> None:
    write(ledger, [opening(), replace(trading("o1"), call=None)])
    before = rows(ledger.connection)
    new, words = BAD[what]
    with ledger.writing() as writer:
        assert words in refused(writer, replace(new, call=None))
    assert rows(ledger.connection) == before, "nothing of it is kept, though the transaction went on"


def test_a_second_call_of_the_same_id_is_refused_for_its_account_only(ledger: Ledger) -> None:
    write(ledger, [opening(), opening("b"), trading("o1")])
    again = replace(trading("o2"), call=call("call-o1"))
    with pytest.raises(CallRecorded, match="call-o1"):
        write(ledger, [again])
    write(ledger, [replace(trading("o2", account="b"), call=call("call-o1"))])
    assert ledger.call("b", "call-o1") is not None


class _Undone(BaseException):
    """Why a transaction is given up: as sharp as an interrupt."""


def test_an_exception_inside_a_transaction_undoes_all_of_it(ledger: Ledger) -> None:
    write(ledger, [opening()])
    before = rows(ledger.connection)
    with suppress(_Undone), ledger.writing() as writer:
        writer.append(trading("o1"))
        assert writer.portfolio("default").positions["IBM"].quantity == 10 * SHARE
        writer.append(trading("o2", clock_ns=later(1)))
        assert writer.portfolio_at("default", later(1)).version == 2
        raise _Undone
    assert rows(ledger.connection) == before
    write(ledger, [trading("o2", clock_ns=later(2))])
    assert ledger.portfolio_at("default", later(1)).version == 1, "no fold of what was undone is left"


def test_a_writer_takes_nothing_after_its_transaction(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.append(opening())
    with pytest.raises(LedgerError, match="ended"):
        writer.append(trading("o1"))
    with ledger.writing(), pytest.raises(LedgerError, match="open already"), ledger.writing():
        pass


def test_a_writer_that_waits_too_long_says_so(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracedesk.journal.sqlite.BUSY_SECONDS", 0.05)
    with open_ledger(path) as other, other.writing(), pytest.raises(LedgerBusy), ledger.writing():
        pass


# --- guards


@pytest.mark.parametrize("table", CHAINED)
def test_rows_are_never_changed_removed_or_replaced(ledger: Ledger, path: Path, table: str) -> None:
    write(ledger, script())
    before = rows(ledger.connection)
    other = connect(path)
    key = "seq" if table == "entry" else "entry"
    for statement in (
        f"UPDATE {table} SET {key} = {key}",
        f"DELETE FROM {table}",
        f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
    ):
        with pytest.raises(ConstraintError, match="immutable"):
            other.execute(statement)
    other.close()
    assert rows(ledger.connection) == before


@pytest.mark.parametrize(("table", "column"), [("call", "entry"), ("trade_order", "entry")])
def test_a_row_is_not_replaced_through_its_other_key(path: Path, table: str, column: str) -> None:
    with open_ledger(path) as ledger:
        write(ledger, script())
        columns = [name for _, name, *_ in ledger.connection.execute(f"PRAGMA table_info({table})")]
        moved = ", ".join("entry + 1000" if name == column else name for name in columns)
        with pytest.raises(ConstraintError, match="immutable"):
            ledger.connection.execute(f"INSERT OR REPLACE INTO {table} SELECT {moved} FROM {table} LIMIT 1")


def test_the_file_is_the_owners_alone_and_synced(path: Path) -> None:
    with open_ledger(path) as ledger:
        write(ledger, [opening()])
        assert ledger.connection.pragma("synchronous") == 2
        assert ledger.connection.pragma("journal_mode") == "wal"
        assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_another_programs_file_is_left_alone(path: Path) -> None:
    other = connect(path)
    other.execute("CREATE TABLE theirs(x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="another program"):
        open_ledger(path)
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.read_only(path)
    assert path.read_bytes() == before


def test_text_is_not_a_ledger_and_neither_is_nothing(path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.read_only(path)
    path.write_text("not a database at all, but long enough to be looked at\n" * 40)
    with pytest.raises(LedgerError, match="not a ledger"):
        open_ledger(path)


# --- any history

ACCOUNTS = st.sampled_from(["a", "b"])
SYMBOLS = st.sampled_from(["IBM", "BRK.B", "^X"])
MOMENTS = st.one_of(
    st.integers(OPEN_NS, OPEN_NS + 4), st.integers(0, 4).map(lambda days: OPEN_NS + days * DAY)
)
SIDES: st.SearchStrategy[Side] = st.sampled_from(["buy", "sell"])


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens to an account; `units` are a dividend's cents or a split's shares."""

    kind: Literal["trade", "dividend", "split", "event"]
    account: str
    symbol: str
    moment: int
    trades: tuple[tuple[Side, int, int, int], ...] = ()
    units: int = 0


def _acts(kind: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Act]:
    return st.builds(Act, st.just(kind), ACCOUNTS, SYMBOLS, MOMENTS, **more)  # type: ignore[arg-type]


TRADED = st.tuples(SIDES, st.integers(1, 10**12), st.integers(1, 10**9), st.integers(0, 500))
ACTS = st.one_of(
    _acts("trade", trades=st.lists(TRADED, min_size=1, max_size=3).map(tuple)),
    _acts("dividend", units=st.integers(-(10**6), 10**6)),
    _acts("split", units=st.integers(-(10**10), 10**12)),
    _acts("event"),
)
HISTORIES = st.lists(st.tuples(ACTS, st.booleans()), max_size=20)


class _Model:
    """Cash and shares as a child would count them."""

    def __init__(self) -> None:
        self.cash = {"a": 50_000, "b": 70_000}
        self.fees = {"a": 0, "b": 0}
        self.shares: dict[str, Counter[str]] = {"a": Counter(), "b": Counter()}

    def take(self, act: Act) -> None:
        shares = self.shares[act.account]
        for side, quantity, price, fees in act.trades:
            sign = 1 if side == "buy" else -1
            self.cash[act.account] -= sign * notional(quantity, price) + fees
            self.fees[act.account] += fees
            shares[act.symbol] += sign * quantity
        if act.kind == "dividend":
            self.cash[act.account] += act.units
        if act.kind == "split":
            shares[act.symbol] += act.units


def _new(act: Act, number: int) -> New:
    if act.kind == "dividend":
        return New("dividend", act.account, act.moment, postings=book.for_dividend(act.symbol, act.units))
    if act.kind == "split":
        return New("split", act.account, act.moment, postings=book.for_split(act.symbol, act.units))
    fills = [
        Fill(f"{number}-{leg}", act.symbol, side, quantity, price, notional(quantity, price), fees)
        for leg, (side, quantity, price, fees) in enumerate(act.trades)
    ]
    return New(
        act.kind,
        act.account,
        act.moment,
        orders=[Order(f.order, act.account, Trade(f.symbol, f.side, f.quantity)) for f in fills],
        states=[OrderState(f.order, "filled", f.quantity) for f in fills],
        fills=fills,
        postings=[posting for f in fills for posting in book.for_fill(f)],
        edges=[EdgeTo("used", "tracedesk://calls/x")],
    )


def _folded_by_hand(ledger: Ledger, account: str, before_ns: int, and_at: Sequence[str] = ()) -> Portfolio:
    entries = [
        entry
        for entry in ledger.walk(account)
        if entry.clock_ns < before_ns or (entry.clock_ns == before_ns and entry.kind in and_at)
    ]
    return reduce(book.apply, entries, book.opened(account))


@settings(max_examples=60, deadline=None)
@given(HISTORIES)
def test_any_history_folds_the_same_by_steps_and_from_scratch_and_a_rollback_leaves_no_trace(
    history: list[tuple[Act, bool]],
) -> None:
    model = _Model()
    with tempfile.TemporaryDirectory() as folder, open_ledger(Path(folder) / "ledger.db") as ledger:
        ledger.connection.execute("PRAGMA synchronous = OFF")
        write(ledger, [opening("a", 50_000), opening("b", 70_000)])
        for number, (act, is_kept) in enumerate(history):
            before = rows(ledger.connection)
            try:
                with ledger.writing() as writer:
                    writer.append(_new(act, number))
                    if not is_kept:
                        raise _Undone
                model.take(act)
            except _Undone:
                assert rows(ledger.connection) == before
            moment = act.moment + number % 2
            for kinds in ((), ("split", "dividend")):
                by_hand = _folded_by_hand(ledger, act.account, moment, kinds)
                assert ledger.portfolio_at(act.account, moment, and_at=kinds) == by_hand
        for account in ("a", "b"):
            portfolio = ledger.portfolio(account)
            assert portfolio == ledger.refold(account)
            assert portfolio.cash == model.cash[account]
            assert portfolio.fees == model.fees[account]
            held = {symbol: units for symbol, units in model.shares[account].items() if units}
            assert {s: p.quantity for s, p in portfolio.positions.items()} == held
        assert audit.verify(ledger.path).faults == []


def test_cash_is_the_opening_less_what_trades_cost_plus_dividends(ledger: Ledger) -> None:
    write(ledger, script())
    fills = [f for entry in ledger.walk("default") for f in entry.fills]
    portfolio = ledger.portfolio("default")
    assert len(fills) == 4
    assert portfolio.cash == 10_000_000 - sum(f.total_cost for f in fills) + 6_900
    assert portfolio.dividends == 6_900


# --- several processes


def test_eight_processes_with_the_same_call_write_it_once_and_answer_alike(path: Path) -> None:
    with open_ledger(path) as ledger:
        write(ledger, [opening()])
    rounds = 25
    answers = together(8, submit_the_same_calls, path, rounds)
    for n in range(rounds):
        assert len({answer[n] for answer in answers}) == 1
    with open_ledger(path) as ledger:
        assert ledger.head()[0] == 1 + rounds
        assert ledger.portfolio("default").positions["IBM"].quantity == rounds * SHARE
    assert audit.verify(path).faults == []


def test_eight_processes_that_do_not_look_are_kept_from_writing_a_call_twice(path: Path) -> None:
    with open_ledger(path) as ledger:
        write(ledger, [opening()])
    assert sum(together(8, submit_without_looking, path, 10)) == 10
    with open_ledger(path) as ledger:
        counted = next(ledger.connection.execute("SELECT count(*), count(DISTINCT tool_call_id) FROM call"))
    assert counted == (10, 10)
    assert audit.verify(path).faults == []


# --- power loss

FEW, MANY = 16, 40
"""Commits whose every write and sync is a moment to lose the power at: here, and with the judges."""


def _lose_power(
    tmp_path: Path, commits: int, synchronous: str | None = None, enough: int | None = None
) -> Losses:
    def work(ledger: Ledger, acknowledge: Callable[[], None]) -> None:
        for new in [*script(), *(trading(f"p{n}") for n in range(commits - len(script())))]:
            write(ledger, [new])
            acknowledge()

    return lose_power(LEDGER, tmp_path, work, pages=40, synchronous=synchronous, enough=enough)


@pytest.mark.parametrize("commits", [FEW, pytest.param(MANY, marks=pytest.mark.judge)])
def test_no_power_loss_at_any_write_or_sync_loses_an_acknowledged_entry(tmp_path: Path, commits: int) -> None:
    result = _lose_power(tmp_path, commits)
    assert result.problems == []
    assert result.lost == 0
    assert result.commits == commits
    assert result.images > 30 * commits


def test_the_harness_bites_when_commits_are_not_synced(tmp_path: Path) -> None:
    assert _lose_power(tmp_path, FEW, "NORMAL", enough=100).lost == 100


def test_every_table_of_the_schema_is_known_to_the_tests() -> None:
    tables = {name for name, sql in schema.definitions().items() if sql.startswith("CREATE TABLE")}
    assert tables == set(TABLES)
