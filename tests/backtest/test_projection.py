"""Projection: the tables say what the events say, however these were batched, and a rebuild says it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backtest.streams import START_NS, Sample, causal
from tracedesk.backtest import chunks as chunks_module
from tracedesk.backtest import rebuild, schema
from tracedesk.backtest.bodies import encode, plain
from tracedesk.backtest.model import DEFAULT_SEVERITY, TYPES, EventType, canonical
from tracedesk.backtest.moments import Part, number
from tracedesk.backtest.orders import OpenOrders
from tracedesk.backtest.projection import Batch, Draft, Given, Projector, drafts_of, write_given
from tracedesk.backtest.schema import CHUNK
from tracedesk.backtest.texts import Texts
from tracedesk.journal import Entry, Journal, Stream
from tracedesk.journal.file import MAX_SEQ
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json, money
from tracedesk.primitives.money import Moments

RUN = "a1b2c3d4-e5f6-7890-abcd-ef1234567890"


def opened(path: Path) -> tuple[Journal, Stream]:
    journal = Journal(path)
    with journal.connection as _:
        schema.create(journal.connection)
        journal.connection.execute("INSERT INTO recording VALUES(1,1,1,0,'')")
    return journal, journal.open(RUN, "backtest")


def append(
    journal: Journal,
    stream: Stream,
    projector: Projector,
    samples: Sequence[Sample],
    given: Sequence[Given | None],
) -> None:
    """One batch, as a recorder writes it."""
    drafts: list[Draft] = []
    entries: list[Entry] = []
    for (kind, now, properties, parent), one in zip(samples, given, strict=True):
        row = plain(properties)
        body = encode(row)
        drafts.append((kind, now, row, parent, len(body), one))
        entries.append(Entry(kind.name, now, body, parent))
    batch = Batch.of(drafts)

    def beside(connection: Connection, first: int) -> None:
        write_given(connection, stream, {seq: one for seq, one in enumerate(given, first) if one})
        projector.write(connection, first, batch)

    journal.append(RUN, entries, beside=beside)


def recorded(
    path: Path, samples: Sequence[Sample], step: int = 1_000, given: Sequence[Given | None] | None = None
) -> tuple[Journal, Stream]:
    journal, stream = opened(path)
    projector = Projector(stream)
    told = given or [None] * len(samples)
    for at in range(0, len(samples), step):
        append(journal, stream, projector, samples[at : at + step], told[at : at + step])
    return journal, stream


# --- the tables as the texts and values they stand for


def tables(connection: Connection) -> dict[str, Any]:
    """Everything, with numbers replaced by what they number, and parts joined."""

    def rows(query: str) -> list[Any]:
        return list(connection.execute(query))

    texts = {id: (kind, value) for id, kind, value in rows("SELECT id, kind, value FROM text")}
    slots = {
        id: (kind, texts.get(symbol), texts.get(indicator), params)
        for id, kind, symbol, indicator, params in rows(
            "SELECT id, type, symbol, indicator, params FROM slot"
        )
    }
    facts = [
        (*row[:6], *(texts.get(ref) for ref in row[6:10]), slots.get(row[10]), *row[11:])
        for row in rows("SELECT * FROM fact ORDER BY event")
    ]
    paths = {id: (kind, path) for id, kind, path in rows("SELECT id, type, path FROM path")}
    values: dict[Any, list[Any]] = {}
    for path, chunk, *part in rows(
        "SELECT path, chunk, scale, width, start, units, places FROM value ORDER BY 1, 2, part"
    ):
        one = Part(*part)
        units = [money.trim(money.from_units(unit, one.scale)) for unit in one.values()]
        values.setdefault((paths[path], chunk), []).extend(zip(one.ordinals(), units, strict=True))
    return {
        "fact": facts,
        "fault": rows("SELECT * FROM fault ORDER BY 1"),
        "used": {(texts[text], kind): n for text, kind, n in rows("SELECT text, type, n FROM used")},
        "tally": rows("SELECT type, severity, category, n FROM tally"),
        "span": rows("SELECT * FROM span"),
        "chunk": rows("SELECT * FROM chunk"),
        "path": sorted(row[1:] for row in rows("SELECT * FROM path")),
        "moment": sorted((paths[row[0]], *row[1:]) for row in rows("SELECT * FROM moment")),
        "value": values,
        "checkpoint": [
            (event, ts, n, in_order, [(texts[ref], *rest) for ref, *rest in json.loads(found)])
            for event, ts, n, in_order, found in rows("SELECT * FROM checkpoint")
        ],
    }


# --- arbitrary events

NAMES: st.SearchStrategy[str] = st.sampled_from(
    (
        "SecuritySymbol",
        "OrderId",
        "PositionId",
        "IndicatorName",
        "Parameters",
        "StateType",
        "OrderStatus",
        "Quantity",
        "Price",
        "a.b",
        "x",
    )
)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(("AAPL", "MSFT", "42", "1.50", "", "PnL", "Order", "placed", "cancelled")),
    st.integers(-5, 50),
    st.decimals(-1000, 1000, allow_nan=False, places=2),
    st.floats(-1e6, 1e6),
    st.sampled_from((10**100, 1e300, Decimal("1E+3"), Decimal("-0.00"), 2**70)),
    st.booleans(),
    st.none(),
)
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=4,
)
ROWS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(NAMES, TREES, max_size=5)
GIVEN = st.one_of(
    st.none(),
    st.builds(
        Given,
        st.one_of(st.none(), st.integers(1, 4)),
        st.one_of(st.none(), st.integers(1, 8)),
        st.none(),
        st.one_of(st.none(), st.just(b'[{"Field":"Timestamp","Error":"Missing","Severity":"Warning"}]')),
    ),
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Sample], list[Given | None]]:
    count = draw(st.integers(1, 30))
    # Few types, so that shapes mix within a type, a chunk and a batch.
    kinds = draw(st.lists(st.sampled_from(list(EventType)), min_size=1, max_size=2))
    samples = [
        Sample(
            draw(st.sampled_from(kinds)),
            START_NS + draw(st.integers(0, 20)),
            dict(draw(ROWS)),
            draw(st.one_of(st.none(), st.integers(1, seq - 1))) if seq > 1 else None,
        )
        for seq in range(1, count + 1)
    ]
    return samples, [draw(GIVEN) for _ in samples]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(streams(), st.integers(1, 7), st.sampled_from((3, 8, CHUNK)))
def test_the_tables_are_those_of_a_rebuild_however_the_events_were_batched(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[list[Sample], list[Given | None]],
    step: int,
    size: int,
) -> None:
    samples, told = case
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "CHUNK", size)
        patch.setattr(chunks_module, "MAX_PATHS", 3)
        patch.setattr(chunks_module, "MAX_KNOWN", 6)
        journal, stream = recorded(folder / "a.db", samples, step, told)
        while_recording = tables(journal.connection)
        assert rebuild.tables(journal.connection, stream, natively=False) == len(samples)
        assert tables(journal.connection) == while_recording
        journal.close()
        _check_against_the_events(while_recording, samples, told, size)


def _check_against_the_events(
    found: dict[str, Any], samples: list[Sample], told: list[Given | None], size: int
) -> None:
    """An oracle that looks at each event by itself."""
    for seq, (sample, one, fact) in enumerate(zip(samples, told, found["fact"], strict=True), 1):
        row = sample.properties
        assert fact[0] & MAX_SEQ == seq
        assert fact[1:3] == (sample.type, sample.time_ns)
        assert fact[3] == ((one.severity if one else None) or DEFAULT_SEVERITY[sample.type])
        assert fact[5] == sample.parent
        names = ("SecuritySymbol", "OrderId", "PositionId", "IndicatorName")
        assert [ref[1] if ref else None for ref in fact[6:10]] == [canonical(row.get(name)) for name in names]
    for kind in EventType:
        rows = [sample.properties for sample in samples if sample.type == kind]
        prices = [number(row["Price"]) for row in rows if "Price" in row]
        expected = Moments.of(price for price in prices if price is not None)
        moments = [row for row in found["moment"] if row[0] == (kind, "$.Price")]
        if moments:
            whole = sum(
                (Moments(n, int(s), int(q), scale) for _, _, n, scale, s, q, *_ in moments), Moments()
            )
            assert whole == expected
        counts = [row[2] for row in found["chunk"] if row[0] == kind]
        assert sum(counts) == len(rows)
        assert all(count == size for count in counts[:-1])


def test_a_causal_stream_is_the_same_in_any_batches(tmp_path: Path) -> None:
    samples = list(causal(30_000))
    one, stream = recorded(tmp_path / "one.db", samples, 30_000)
    many, _ = recorded(tmp_path / "many.db", samples, 777)
    found = tables(many.connection)
    assert found == tables(one.connection)
    assert found["span"][0][2] > 1, "a type has more than one chunk"
    assert found["checkpoint"], "and the orders have a checkpoint"
    rebuild.tables(one.connection, stream, natively=False)
    assert tables(one.connection) == found


def test_paths_and_numbers_keep_the_order_of_the_events_when_shapes_mix(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"a": 1},
        {"b": {}, "a": 2},
        {"a": 3},
        {"d": 1, "b": {"c": 7}},
        {"b": {"e": 8}, "a": 4},
    ]
    samples = [Sample(EventType.RiskEvent, START_NS, row, None) for row in rows]
    for name, step in (("whole.db", 9), ("single.db", 1)):
        journal, _ = recorded(tmp_path / name, samples, step)
        found = [path for (path,) in journal.connection.execute("SELECT path FROM path ORDER BY id")]
        assert found == ["$.a", "$.b", "$.d", "$.b.c", "$.b.e"]
        values = tables(journal.connection)["value"][(EventType.RiskEvent, "$.a"), 0]
        assert values == [(0, 1), (1, 2), (2, 3), (4, 4)]


def test_a_path_counts_from_its_first_event_whichever_shape_has_it(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"n": {}}, {"m": 1, "n": {"x": 1}}, {"y": 1}, {"n": {"x": 2}}]
    samples = [Sample(EventType.RiskEvent, START_NS, row, None) for row in rows]
    journal, _ = recorded(tmp_path / "a.db", samples)
    found = list(journal.connection.execute("SELECT path, event & 255 FROM path ORDER BY id"))
    assert found == [("$.n", 1), ("$.m", 2), ("$.n.x", 2), ("$.y", 3)]


def test_the_first_numeric_paths_are_those_that_were_numeric_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks_module, "MAX_PATHS", 1)
    rows: list[dict[str, Any]] = [
        {"late": "x", "early": "y"},
        {"late": "x", "early": 1},
        {"late": 2, "early": 2},
    ]
    samples = [Sample(EventType.RiskEvent, START_NS, row, None) for row in rows]
    for name, step in (("whole.db", 9), ("single.db", 1)):
        journal, _ = recorded(tmp_path / name, samples, step)
        chosen = "SELECT path FROM path WHERE has_moments"
        assert list(journal.connection.execute(chosen)) == [("$.early",)]


def test_a_full_chunk_keeps_its_numbers_in_one_part(tmp_path: Path) -> None:
    journal, _ = recorded(tmp_path / "a.db", list(causal(30_000)), 500)
    query = """
        SELECT max(v.part), count(*) FROM value v JOIN path p ON p.id = v.path JOIN chunk c
        ON c.type = p.type AND c.number = v.chunk WHERE c.n = ?
    """
    assert next(iter(journal.connection.execute(query, (CHUNK,))))[0] == 0
    most = next(
        iter(
            journal.connection.execute(
                "SELECT max(n) FROM (SELECT count(*) n FROM value GROUP BY path, chunk)"
            )
        )
    )
    assert most[0] <= 16, "an open chunk has few parts, however small the batches"


def test_batches_of_one_event_leave_few_parts(tmp_path: Path) -> None:
    journal, _ = recorded(tmp_path / "a.db", list(causal(200)), 1)
    most = next(
        iter(
            journal.connection.execute(
                "SELECT max(n) FROM (SELECT count(*) n FROM value GROUP BY path, chunk)"
            )
        )
    )
    assert 1 < most[0] <= 16


def test_chunks_count_severities_and_know_whether_times_step_back(tmp_path: Path) -> None:
    def at(offset: int) -> Sample:
        return Sample(EventType.RiskEvent, START_NS + offset, {"RiskType": "x"}, None)

    journal, _ = recorded(tmp_path / "a.db", [at(5), at(7), at(7)], 1, [Given(1), None, Given(4)])
    query = "SELECT n, min_ts, max_ts, is_sorted, errors, warnings, infos, debugs FROM chunk"
    assert list(journal.connection.execute(query)) == [(3, START_NS + 5, START_NS + 7, 1, 1, 1, 0, 1)]
    later, _ = recorded(tmp_path / "b.db", [at(5), at(7), at(6)], 1)
    assert list(later.connection.execute("SELECT min_ts, max_ts, is_sorted FROM span")) == [
        (START_NS + 5, START_NS + 7, 0)
    ]


def test_open_orders_at_a_checkpoint_are_those_of_a_replay_from_the_beginning(tmp_path: Path) -> None:
    samples = list(causal(30_000))
    journal, _ = recorded(tmp_path / "a.db", samples)
    rows = list(journal.connection.execute("SELECT event, n, open FROM checkpoint"))
    refs = dict(journal.connection.execute("SELECT value, id FROM text WHERE kind = 2"))
    assert len(rows) >= 2
    replayed = OpenOrders()
    wanted = {event & MAX_SEQ: dumped for event, _, dumped in rows}
    for seq, sample in enumerate(samples, 1):
        replayed.apply(sample.type, refs.get(sample.properties.get("OrderId")), seq, sample.properties)
        if seq in wanted:
            assert OpenOrders.restored(wanted[seq]).by_ref == replayed.by_ref
            assert replayed.dumped() == wanted[seq]


def test_checkpoints_cost_no_more_than_the_events_when_no_order_ever_ends(tmp_path: Path) -> None:
    samples = [
        Sample(EventType.OrderPlaced, START_NS + n, {"OrderId": n, "Quantity": 1}, None)
        for n in range(40_000)
    ]
    journal, _ = recorded(tmp_path / "a.db", samples, 8_192)
    sizes = list(journal.connection.execute("SELECT count(*), sum(length(open)) FROM checkpoint"))
    assert sizes[0][0] <= 9
    assert sizes[0][1] < 40 * 40_000


def _order(kind: EventType, **properties: Any) -> tuple[EventType, dict[str, Any]]:
    return kind, {"OrderId": "o", **properties}


PLACED = _order(EventType.OrderPlaced, Quantity=100)


@pytest.mark.parametrize(
    ("events", "remaining"),
    [
        ([PLACED], 100),
        ([PLACED, _order(EventType.TradeExecution, Quantity=40)], 60),
        ([PLACED, _order(EventType.TradeExecution, Quantity=-40)], 60),
        (
            [
                PLACED,
                _order(EventType.TradeExecution, Quantity=40),
                _order(EventType.TradeExecution, Quantity="60.0"),
            ],
            None,
        ),
        ([PLACED, _order(EventType.OrderCancelled)], None),
        ([PLACED, _order(EventType.OrderRejection)], None),
        ([PLACED, _order(EventType.TradeExecution)], None),
        ([PLACED, _order(EventType.StateChange, StateType="Order", OrderStatus="Expired")], None),
        ([PLACED, _order(EventType.StateChange, StateType="Position", OrderStatus="Expired")], 100),
        ([_order(EventType.StateChange, StateType="Order", OrderStatus="Placed", Quantity=7)], 7),
        (
            [
                PLACED,
                _order(EventType.TradeExecution, Quantity=40),
                _order(EventType.OrderPlaced, Quantity=50),
            ],
            10,
        ),
        ([_order(EventType.TradeExecution, Quantity=40)], None),
    ],
)
def test_an_order_is_open_until_it_is_filled_cancelled_or_rejected(
    events: list[tuple[EventType, dict[str, Any]]], remaining: int | None
) -> None:
    book = OpenOrders()
    for seq, (kind, properties) in enumerate(events, 1):
        book.apply(kind, 1, seq, properties)
    assert [order.remaining for order in book.by_ref.values()] == ([] if remaining is None else [remaining])


def test_slots_are_per_symbol_and_per_indicator_with_its_parameters(tmp_path: Path) -> None:
    def indicator(**more: Any) -> Sample:
        return Sample(
            EventType.IndicatorCalculation, START_NS, {"IndicatorName": "SMA", "Value": 1, **more}, None
        )

    def position(symbol: str) -> Sample:
        return Sample(EventType.PositionUpdate, START_NS, {"SecuritySymbol": symbol}, None)

    samples = [
        indicator(Parameters={"a": 1, "b": 2}),
        indicator(Parameters={"b": 2, "a": 1}),
        indicator(Parameters={"a": 1}),
        indicator(),
        indicator(SecuritySymbol="AAPL"),
        position("AAPL"),
        position("MSFT"),
        position("AAPL"),
        Sample(EventType.StateChange, START_NS, {"StateType": "PnL"}, None),
        Sample(EventType.StateChange, START_NS, {"StateType": "Mood"}, None),
        Sample(EventType.RiskEvent, START_NS, {"RiskType": "x"}, None),
    ]
    journal, _ = recorded(tmp_path / "a.db", samples)
    slots = [slot for (slot,) in journal.connection.execute("SELECT slot FROM fact ORDER BY event")]
    assert slots == [1, 1, 2, 3, 4, 5, 6, 5, 7, None, None]


def test_forgotten_texts_keep_their_numbers(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path / "a.db")
    texts = Texts(remembered=4)
    given: dict[int, int | None] = {}
    with journal.connection:
        for round in range(3):
            texts.begin(journal.connection)
            for n in range(20):
                number = texts.number(2, f"order {n}", round * 20 + n)
                assert given.setdefault(n, number) == number
            texts.put(journal.connection)
            texts.settle()
    assert next(iter(journal.connection.execute("SELECT count(*) FROM text")))[0] == 20


def test_moments_go_to_the_first_numeric_paths_and_the_rest_is_told(tmp_path: Path) -> None:
    rows = [{f"p{n:03}": n for n in range(start, start + 100)} for start in range(0, 600, 100)]
    samples = [Sample(EventType.MarketDataEvent, START_NS, row, None) for row in rows]
    journal, _ = recorded(tmp_path / "a.db", samples, 2)
    chosen = [
        path for (path,) in journal.connection.execute("SELECT path FROM path WHERE has_moments ORDER BY id")
    ]
    assert chosen == [f"$.p{n:03}" for n in range(64)]
    assert next(iter(journal.connection.execute("SELECT count(*) FROM path")))[0] == 512
    assert next(iter(journal.connection.execute("SELECT unlisted FROM span")))[0] == 600 - 512


def test_paths_tell_kinds_ranges_and_samples(tmp_path: Path) -> None:
    values: list[Any] = [Decimal("1.50"), "2.5", "junk", True, None, {"y": 1}, [1], 10**100, 0.25]
    samples = [Sample(EventType.RiskEvent, START_NS, {"x": value, "a.b": 1}, None) for value in values]
    journal, _ = recorded(tmp_path / "a.db", samples, 4)
    kinds = "numbers, texts, decimals, unfit, booleans, nulls, objects, arrays"
    query = f"SELECT path, {kinds}, min, max, sample FROM path"
    assert list(journal.connection.execute(query)) == [
        ("$.x", 3, 2, 1, 1, 1, 1, 1, 1, "0.25", "2.5", "1.50"),
        ('$["a.b"]', 9, 0, 0, 0, 0, 0, 0, 0, "1", "1", "1"),
        ("$.x.y", 1, 0, 0, 0, 0, 0, 0, 0, "1", "1", "1"),
    ]


def test_an_event_s_own_guid_is_found_and_cannot_come_twice(tmp_path: Path) -> None:
    sample = Sample(EventType.RiskEvent, START_NS, {"RiskType": "x"}, None)
    journal, stream = recorded(tmp_path / "a.db", [sample], 1, [Given(guid=b"0123456789abcdef")])
    query = "SELECT event FROM fact WHERE guid = ?"
    assert [event & MAX_SEQ for (event,) in journal.connection.execute(query, (b"0123456789abcdef",))] == [1]
    with pytest.raises(Exception, match="UNIQUE"):
        append(journal, stream, Projector(stream), [sample], [Given(guid=b"0123456789abcdef")])
    assert len(drafts_of(journal.connection, stream, 0, 9)) == 1


def test_the_planned_indexes_answer_the_queries_they_are_for(tmp_path: Path) -> None:
    journal, _ = recorded(tmp_path / "a.db", list(causal(100)))
    cases = {
        "type = 1 AND ts > 0 ORDER BY ts, event": "fact_by_type",
        "symbol = 1 ORDER BY ts, event": "fact_by_symbol",
        "order_ref = 1 ORDER BY ts, event": "fact_by_order",
        "slot = 1 AND ts <= 5 ORDER BY ts DESC, event DESC LIMIT 1": "fact_by_slot",
        "parent = 1": "fact_by_parent",
        "position_ref = 1 ORDER BY ts, event": "fact_by_position",
        "indicator = 1 ORDER BY ts, event": "fact_by_indicator",
        "errors IS NOT NULL ORDER BY ts, event": "fact_with_errors",
        "guid = x'00'": "fact_by_guid",
    }
    for condition, index in cases.items():
        plan = list(
            journal.connection.execute(f"EXPLAIN QUERY PLAN SELECT event FROM fact WHERE {condition}")
        )
        assert len(plan) == 1, (condition, plan)
        assert index in plan[0][3]


def test_tallies_count_every_event(tmp_path: Path) -> None:
    samples = list(causal(5_000))
    journal, _ = recorded(tmp_path / "a.db", samples, 512)
    counts = Counter(sample.type for sample in samples)
    tally = dict(journal.connection.execute("SELECT type, sum(n) FROM tally GROUP BY type"))
    assert tally == counts
    query = "SELECT t.value, sum(u.n) FROM used u JOIN text t ON t.id = u.text WHERE t.kind = 1 GROUP BY 1"
    symbols = Counter(s.properties["SecuritySymbol"] for s in samples if "SecuritySymbol" in s.properties)
    assert dict(journal.connection.execute(query)) == symbols
    assert set(TYPES.values()) >= set(tally)
