"""The table `fact` over zones answers as the plain table does."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
import tracedesk_runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backtest.zones import BASE, MEMORY, ZONE, Facts, Plain, Shape, Zoned, engine, made, opened
from tracedesk.backtest import schema
from tracedesk.journal.sqlite import Connection

Query = tuple[str, tuple[Any, ...]]

_KEYS: Final = ("type", "symbol", "order_ref", "position_ref", "indicator", "slot", "parent")
_NAMES: Final = ("event", "type", "ts", "severity", "category", "parent", *_KEYS[1:6], "errors", "guid")
_COLUMNS: Final = ", ".join(_NAMES)
_ODD: Final = (None, 0, -1, 5.0, 5.5, "5", "7.0", "x", b"5", 2**40, 2**63 - 1, -(2**63), 1e30, -1e30)


class Asking:
    """Random queries about facts."""

    def __init__(self, facts: Facts, done: int, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rows = facts.rows[:done]

    def row(self) -> tuple[Any, ...]:
        return self.dice.choice(self.rows) if self.rows else (BASE + 1, 1, 0) + (1,) * 10

    def value(self, column: int) -> Any:
        if self.dice.random() < 0.1:
            return self.dice.choice(_ODD)
        return self.row()[column] or self.row()[column]

    def bounds(self) -> Query:
        """Conditions on the time and the event."""
        where, values = "1", list[Any]()
        for name, column in (("ts", 2), ("event", 0)):
            for _ in range(self.dice.choice((0, 0, 0, 1, 2))):
                sign = self.dice.choice(("<", "<=", ">", ">=", "=" if name == "ts" else "<"))
                where += f" AND f.{name} {sign} ?"
                values.append(self.value(column))
        if self.dice.random() < 0.2:
            where += " AND (f.ts, f.event) > (?, ?)"
            row = self.row()
            values += (row[2], row[0])
        return where, tuple(values)

    def search(self) -> Query:
        """A condition on a key, or none."""
        name = self.dice.choice((*_KEYS, *_KEYS, "guid", "event", "errors", "any", ""))
        column = _NAMES.index(name) if name in _NAMES else 0
        if name == "any":
            return f"f.{self.dice.choice((*_KEYS, 'errors', 'guid'))} IS NOT NULL", ()
        if name == "errors":
            return "f.errors IS NOT NULL AND f.errors & ?", (self.dice.choice((1, 2, 3)),)
        if not name:
            return "1", ()
        if self.dice.random() < 0.2:
            values = tuple(self.value(column) for _ in range(self.dice.randrange(1, 5)))
            return f"f.{name} IN ({','.join('?' * len(values))})", values
        plus = "+" if self.dice.random() < 0.1 else ""
        return f"{plus}f.{name} = ?", (self.value(column),)

    def order(self) -> str:
        orders = ("f.ts, f.event", "f.ts DESC, f.event DESC", "f.event", "f.event DESC", "f.ts DESC, f.event")
        return self.dice.choice(orders)

    def query(self) -> Query:
        (search, keys), (bounds, limits) = self.search(), self.bounds()
        where, values = f"{search} AND {bounds}", keys + limits
        also = self.dice.choice(
            ("", "", " AND f.severity = 2", " AND +f.type IN (1, 2)", " AND f.slot IS NULL")
        )
        where += also
        kind = self.dice.random()
        if kind < 0.1:
            return (
                f"SELECT count(*), min(f.ts), max(f.event), sum(f.symbol) FROM fact f WHERE {where}",
                values,
            )
        if kind < 0.2:
            group = self.dice.choice(("f.type", "f.ts", "f.event", "f.ts, f.event", "f.slot"))
            return (
                f"SELECT {group}, count(*) FROM fact f WHERE {where} GROUP BY {group} ORDER BY 1, 2",
                values,
            )
        if kind < 0.25:
            column = self.dice.choice(("f.ts", "f.symbol", "f.type, f.severity"))
            return f"SELECT DISTINCT {column} FROM fact f WHERE {where} ORDER BY {column}", values
        if kind < 0.3:
            other, more = self.search()
            query = (
                f"SELECT f.rowid FROM fact f WHERE ({search} OR {other}) AND {bounds} ORDER BY f.ts, f.event"
            )
            return query, (*keys, *more, *limits)
        limit = self.dice.choice(("", " LIMIT 1", " LIMIT 7", " LIMIT 100 OFFSET 3"))
        if kind < 0.4:
            query = (
                "SELECT f.event, f.guid, p.ts, p.guid, p.type FROM fact f LEFT JOIN fact p "
                f"ON p.event = {BASE} + f.parent WHERE {where} ORDER BY {self.order()}{limit}"
            )
            return query, values
        if kind < 0.5:
            query = (
                f"SELECT f.* FROM (SELECT f.event AS at FROM fact f WHERE {where} ORDER BY {self.order()}"
                f"{limit}) CROSS JOIN fact f ON f.event = at ORDER BY f.ts, f.event"
            )
            return query, values
        return f"SELECT {_COLUMNS} FROM fact f WHERE {where} ORDER BY {self.order()}{limit}", values


def compare(one: Connection, other: Connection, query: Query) -> None:
    found, expected = list(one.execute(*query)), list(other.execute(*query))
    assert found == expected, (query, len(found), len(expected))


def written(shape: Shape, path: Path = MEMORY) -> tuple[Facts, Zoned, Plain]:
    """A run in both forms, in batches of a zone and a half."""
    facts, zoned, plain = made(shape), Zoned(path), Plain()
    while zoned.done < shape.size:
        zoned.write(facts, ZONE * 3 // 2)
        plain.write(facts, ZONE * 3 // 2)
    return facts, zoned, plain


shapes = st.builds(
    Shape,
    size=st.one_of(st.integers(1, 60), st.integers(ZONE - 2, ZONE + 2), st.integers(1, 3 * ZONE)),
    seed=st.integers(0, 2**32),
    times=st.sampled_from(("rising", "rising", "shaken", "wild", "far", "one")),
    fresh=st.sampled_from((0.0005, 0.02, 0.3)),
    empty=st.sampled_from((0.0, 0.4, 0.95, 1.0)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shape=shapes, seed=st.integers(0, 2**32))
def test_every_query_finds_in_zones_what_it_finds_in_the_plain_table(shape: Shape, seed: int) -> None:
    facts, zoned, plain = written(shape)
    asking = Asking(facts, shape.size, seed)
    for _ in range(150):
        compare(zoned.connection, plain.connection, asking.query())
    everything = f"SELECT {_COLUMNS} FROM fact"
    compare(zoned.connection, plain.connection, (everything, ()))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=shapes,
    sizes=st.lists(st.one_of(st.integers(1, 5), st.integers(1, 2 * ZONE)), min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
)
def test_a_reader_follows_while_the_run_grows_and_after_it_is_made_anew(
    tmp_path_factory: pytest.TempPathFactory, shape: Shape, sizes: list[int], seed: int
) -> None:
    path = tmp_path_factory.mktemp("zones") / "run.sqlite"
    zoned, reader = Zoned(path), opened(path)
    for turn in range(2):
        facts, plain = made(shape._replace(seed=shape.seed + turn)), Plain()
        for size in sizes:
            zoned.write(facts, size)
            plain.write(facts, size)
            asking = Asking(facts, zoned.done, seed + size)
            for _ in range(20):
                compare(reader, plain.connection, asking.query())
        zoned.clear()
        assert list(reader.execute("SELECT * FROM fact")) == []


def test_many_zones_are_found_through_the_blocks() -> None:
    facts, zoned, plain = written(Shape(34 * ZONE + 5, 7, "shaken", fresh=0.01, empty=0.6))
    asking = Asking(facts, len(facts.rows), 1)
    for _ in range(150):
        compare(zoned.connection, plain.connection, asking.query())


def test_a_batch_that_came_to_nothing_is_written_again() -> None:
    facts, zoned, plain = made(Shape(34 * ZONE, 3, fresh=0.01)), Zoned(), Plain()
    for count in (30 * ZONE, 5, ZONE, 2 * ZONE, 3):
        rows = facts.rows[zoned.done : zoned.done + count]
        zoned.connection.execute("BEGIN")
        zoned.put(facts, rows)
        zoned.connection.execute("ROLLBACK")
        zoned.write(facts, count)
        plain.write(facts, count)
    asking = Asking(facts, zoned.done, 9)
    for _ in range(50):
        compare(zoned.connection, plain.connection, asking.query())


def test_zones_depend_on_the_events_and_not_on_how_they_were_batched() -> None:
    facts = made(Shape(2 * ZONE + 77, 4))
    tables: list[list[Any]] = []
    for size in (1_000, ZONE, 3 * ZONE):
        zoned = Zoned()
        while zoned.done < len(facts.rows):
            zoned.write(facts, size)
        rows = (zoned.connection.execute(f"SELECT * FROM {table}") for table in ("zone", "strip", "seen"))
        tables.append([list(found) for found in rows])
    assert tables[0] == tables[1] == tables[2]


def test_a_batch_that_does_not_follow_is_refused() -> None:
    facts, zoned = made(Shape(10, 1)), Zoned()
    zoned.write(facts, 3)
    with pytest.raises(apsw.SQLError, match="from the first event on"):
        zoned.put(facts, facts.rows[5:])


def test_what_is_not_yet_committed_is_seen_and_what_is_undone_is_not() -> None:
    facts, zoned, plain = made(Shape(3 * ZONE, 5)), Zoned(), Plain()
    everything = f"SELECT {_COLUMNS} FROM fact", ()
    zoned.write(facts, 10)
    plain.write(facts, 10)
    compare(zoned.connection, plain.connection, everything)
    zoned.connection.execute("BEGIN")
    zoned.put(facts, facts.rows[10:])
    assert list(zoned.connection.execute(everything[0])) == facts.rows
    zoned.connection.execute("ROLLBACK")
    compare(zoned.connection, plain.connection, everything)


@pytest.mark.parametrize("kind", ["TABLE", "TEMP TABLE", "VIEW"])
def test_a_table_of_the_name_comes_first(kind: str) -> None:
    _, zoned, _ = written(Shape(10, 1))
    zoned.connection.execute(f"CREATE {kind} fact AS SELECT 7 AS seven")
    assert list(zoned.connection.execute("SELECT * FROM fact")) == [(7,)]


def test_zones_of_temporary_tables_come_first() -> None:
    facts, zoned, _ = written(Shape(10, 1))
    assert len(list(zoned.connection.execute("SELECT * FROM fact"))) == 10
    tables = tracedesk_runs.TABLES.replace("CREATE TABLE", "CREATE TEMP TABLE")
    zoned.connection.execute(tables)
    zoned.begin()
    other = made(Shape(ZONE + 5, 8))
    zoned.connection.execute("DELETE FROM given")
    zoned.connection.execute("DELETE FROM slot")
    zoned.write(other, ZONE)
    assert list(zoned.connection.execute("SELECT * FROM fact")) == other.rows[:ZONE]
    zoned.write(other, 5)
    assert list(zoned.connection.execute("SELECT * FROM fact")) == other.rows
    for table in (*schema.PACKED_ALONE, "text"):
        zoned.connection.execute(f"DROP TABLE temp.{table}")
    found = zoned.connection.execute("SELECT event, ts FROM fact")
    assert list(found) == [(row[0], row[2]) for row in facts.rows]


def test_nobody_writes_to_it() -> None:
    _, zoned, _ = written(Shape(10, 1))
    with pytest.raises(apsw.SQLError, match="may not be modified"):
        zoned.connection.execute("DELETE FROM fact")


# --- what is looked at ---------------------------------------------------------------------------------


def ruin(connection: Connection, keep: int) -> None:
    """Damage the strips of all zones but one; a connection that is new notices."""
    connection.execute("UPDATE strip SET data = x'09' WHERE id >> 5 <> ? AND id & 31 <> 10", (keep,))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ts FROM fact WHERE slot = 1 AND ts <= ? ORDER BY ts DESC, event DESC LIMIT 1",
        "SELECT type FROM fact WHERE type = 2 AND ts <= ? ORDER BY ts DESC, event DESC LIMIT 3",
        "SELECT ts FROM fact WHERE ts <= ? ORDER BY ts DESC, event DESC LIMIT 3",
        "SELECT event FROM fact WHERE parent IS NOT NULL AND ts <= ? ORDER BY event DESC LIMIT 3",
    ],
)
def test_a_query_with_a_limit_looks_at_few_zones(tmp_path: Path, query: str) -> None:
    facts, zoned, plain = written(Shape(5 * ZONE, 2, fresh=0.001, empty=0.1), tmp_path / "run.sqlite")
    ruin(zoned.connection, 3)
    last = facts.rows[4 * ZONE - 1 - ZONE // 2][2]
    compare(opened(tmp_path / "run.sqlite"), plain.connection, (query, (last,)))


@pytest.mark.parametrize(
    ("query", "plan"),
    [
        (
            "SELECT p.ts FROM fact f LEFT JOIN fact p ON p.event = 5 + f.parent WHERE f.order_ref = 1",
            "p * 4:k*",
        ),
        ("SELECT f.ts FROM slot s CROSS JOIN fact f ON f.slot = s.id WHERE f.ts < 5", "f * 164:kd"),
        ("SELECT 1 FROM fact f WHERE f.type = 1 AND f.order_ref = 2 AND f.symbol = 3", "f * 116:k"),
        ("SELECT 1 FROM fact f WHERE +f.type = 1 AND f.event > 2", "f * 0:B"),
    ],
)
def test_the_way_of_a_query_is_the_narrowest(query: str, plan: str) -> None:
    plans = [row[3] for row in Zoned().connection.execute("EXPLAIN QUERY PLAN " + query)]
    start, end = plan.replace("*", "VIRTUAL TABLE INDEX", 1).rstrip("*"), plans[-1]
    assert end.startswith(f"SCAN {start}")


@pytest.mark.parametrize("order", ["ts, event", "ts DESC, event DESC", "event", "event DESC", "ts"])
def test_an_order_that_the_zones_have_is_not_made_again(order: str) -> None:
    query = f"EXPLAIN QUERY PLAN SELECT event FROM fact WHERE type = 1 AND ts > 5 ORDER BY {order}"
    assert len(list(Zoned().connection.execute(query))) == 1


# --- what goes wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["x''", "x'00'", "substr(data, 1, 19)", "substr(data, 1, 50)", "CAST(data || x'00' AS BLOB)"]
)
def test_a_damaged_strip_is_an_error_and_never_more(tmp_path: Path, damage: str) -> None:
    _, zoned, _ = written(Shape(ZONE + 9, 2, "shaken", empty=0.1), tmp_path / "run.sqlite")
    zoned.connection.execute(f"UPDATE strip SET data = {damage} WHERE id & 31 <> 10")
    reader = opened(tmp_path / "run.sqlite")
    for query in (
        f"SELECT {_COLUMNS} FROM fact",
        "SELECT event FROM fact WHERE symbol = 1",
        "SELECT event FROM fact WHERE parent = 5",
        "SELECT event FROM fact ORDER BY ts, event",
    ):
        with pytest.raises(apsw.CorruptError):
            list(reader.execute(query))


def test_a_missing_strip_is_an_error(tmp_path: Path) -> None:
    _, zoned, _ = written(Shape(9, 2), tmp_path / "run.sqlite")
    zoned.connection.execute("DELETE FROM strip WHERE id & 31 = 0")
    with pytest.raises(apsw.CorruptError):
        list(opened(tmp_path / "run.sqlite").execute("SELECT type FROM fact"))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bytes_that_were_changed_give_wrong_rows_or_an_error(seed: int) -> None:
    dice = random.Random(seed)
    facts, zoned, _ = written(Shape(300, 2, "shaken"))
    for table, column in (
        ("strip", "data"),
        ("zone", "n"),
        ("zone", "id"),
        ("zone", "min_ts"),
        ("seen", "zones"),
    ):
        for rowid, value in list(zoned.connection.execute(f"SELECT rowid, {column} FROM {table}")):
            if dice.random() < 0.5:
                changed = _changed(dice, value)
                zoned.connection.execute(
                    f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?", (changed, rowid)
                )
    asking = Asking(facts, len(facts.rows), seed)
    for _ in range(20):
        with suppress(apsw.CorruptError, apsw.SQLError):
            list(zoned.connection.execute(*asking.query()))


def _changed(dice: random.Random, value: Any) -> Any:
    if isinstance(value, int):
        return dice.choice((0, 1, -1, value + 1, 2**40, -(2**63), 2**63 - 1))
    data = bytearray(value)
    for _ in range(dice.randrange(1, 4)):
        data[dice.randrange(min(24, len(data)))] = dice.randrange(256)
    return bytes(data)


def test_a_file_without_zones_says_so() -> None:
    with pytest.raises(apsw.SQLError, match=r"no such table: zone"):
        list(opened().execute("SELECT * FROM fact"))


def test_an_interrupted_query_ends_as_any_other() -> None:
    _, zoned, _ = written(Shape(2 * ZONE, 2))
    engine(zoned.connection).set_progress_handler(lambda: True, 100)
    with pytest.raises(apsw.InterruptError):
        list(zoned.connection.execute("SELECT f.ts, p.ts FROM fact f JOIN fact p ON p.event = f.event"))
    engine(zoned.connection).set_progress_handler(None)
    assert len(list(zoned.connection.execute("SELECT ts FROM fact"))) == 2 * ZONE


def test_a_query_inside_a_callback_of_another_one_is_refused_or_answered() -> None:
    _, zoned, _ = written(Shape(2 * ZONE, 2))

    def ask() -> bool:
        engine(zoned.connection).set_progress_handler(None)
        with suppress(apsw.LockedError):
            list(zoned.connection.execute("SELECT max(symbol) FROM fact"))
        return False

    engine(zoned.connection).set_progress_handler(ask, 1)
    assert len(list(zoned.connection.execute("SELECT ts, slot FROM fact"))) == 2 * ZONE


def test_connections_close_and_take_their_memory_with_them(tmp_path: Path) -> None:
    written(Shape(ZONE + 1, 2), tmp_path / "run.sqlite")

    def visit() -> None:
        connection = opened(tmp_path / "run.sqlite")
        rows = connection.execute("SELECT ts, guid FROM fact WHERE symbol = 1 ORDER BY ts, event")
        next(rows, None)
        connection.close()

    visit()
    before = apsw.memory_used()
    for _ in range(50):
        visit()
    assert apsw.memory_used() <= before + 65_536
