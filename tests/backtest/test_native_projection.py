"""The native projector writes what the Python one writes, to the last row, whatever the events hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from json import JSONDecoder
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backtest.streams import START_NS, Sample, causal
from tracedesk.backtest import chunks as chunks_module
from tracedesk.backtest import schema
from tracedesk.backtest.bodies import encode, plain
from tracedesk.backtest.model import EventType
from tracedesk.backtest.projection import Batch, Given, Projector
from tracedesk.backtest.validation import Profile
from tracedesk.journal import Stream
from tracedesk.journal.file import key
from tracedesk.journal.sqlite import Connection, connect
from tracedesk.primitives import json
from tracedesk.primitives.time import EARLIEST, LATEST

tracedesk_runs = pytest.importorskip("tracedesk_runs")

STREAM = Stream(1, "run", "backtest", 0)
FACT = "type,ts,severity,category,parent,symbol,order_ref,position_ref,indicator,slot,errors"
GUID = "99999999-8888-7777-6666-555555555555"
parse = JSONDecoder(parse_float=Decimal).decode


class Told(NamedTuple):
    """An event as a journal and `given` hold it."""

    type: EventType
    time_ns: int
    body: bytes
    parent: int | None = None
    given: Given | None = None


class Limits(NamedTuple):
    """What both projectors keep at most."""

    chunk: int = schema.CHUNK
    paths: int = schema.MAX_PATHS
    known: int = schema.MAX_KNOWN


USUAL = Limits()
SMALL = Limits(3, 3, 6)


def told(sample: Sample, one: Given | None = None) -> Told:
    return Told(sample.type, sample.time_ns, encode(plain(sample.properties)), sample.parent, one)


def risks(*bodies: bytes) -> list[Told]:
    return [Told(EventType.RiskEvent, START_NS + at, body) for at, body in enumerate(bodies)]


def batches(events: Sequence[Told], steps: Sequence[int]) -> Iterator[tuple[int, Sequence[Told]]]:
    """The events with the seq of each batch's first, in batches of these sizes, again and again."""
    done, turn = 0, 0
    while done < len(events):
        size = steps[turn % len(steps)]
        yield done + 1, events[done : done + size]
        done, turn = done + size, turn + 1


def opened(*, packed: bool = False) -> Connection:
    connection = connect(Path(":memory:"))
    schema.create(connection, indexed=False, packed=packed)
    return connection


def rows(connection: Connection, table: str) -> list[Any]:
    return list(connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2"))


def tables(connection: Connection) -> dict[str, list[Any]]:
    """Everything but `fact`, row by row."""
    return {table: rows(connection, table) for table in schema.DERIVED if table != "fact"}


def in_python(
    events: Sequence[Told], steps: Sequence[int], limits: Limits, profile: Profile, bounds: tuple[int, int]
) -> dict[str, list[Any]]:
    connection = opened()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "CHUNK", limits.chunk)
        patch.setattr(chunks_module, "MAX_PATHS", limits.paths)
        patch.setattr(chunks_module, "MAX_KNOWN", limits.known)
        projector = Projector(STREAM, profile=profile, start_ns=bounds[0], end_ns=bounds[1])
        for first, part in batches(events, steps):
            drafts = [
                (e.type, e.time_ns, parse(e.body.decode()), e.parent, len(e.body), e.given) for e in part
            ]
            projector.write(connection, first, Batch.of(drafts))
    facts = connection.execute(f"SELECT {FACT} FROM fact ORDER BY event")
    return {**tables(connection), "fact": [tuple(value or 0 for value in row) for row in facts]}


def loaded() -> Connection:
    connection = opened(packed=True)
    engine: Any = connection
    engine.enable_load_extension(True)
    (library,) = Path(str(tracedesk_runs.__file__)).parent.glob("*.so")
    engine.load_extension(str(library), "sqlite3_tracedeskruns_init")
    return connection


def in_rust(
    events: Sequence[Told],
    steps: Sequence[int],
    limits: Limits,
    profile: Profile,
    bounds: tuple[int, int],
    remembered: int,
) -> dict[str, list[Any]]:
    connection = loaded()
    projector = tracedesk_runs.TableProjector(
        key(STREAM.id, 0), profile == "guid", bounds, **limits._asdict(), remembered=remembered
    )
    facts: list[tuple[int, ...]] = []
    for first, part in batches(events, steps):
        types = bytes(event.type for event in part)
        times = [event.time_ns for event in part]
        parents = [event.parent for event in part]
        bodies = [event.body for event in part]
        batch = tracedesk_runs.EventBatch(types, times, parents, bodies, [event.given for event in part])
        done = connection.execute("SELECT runs_project(?, ?, ?)", (projector.handle, batch.handle, first))
        assert next(iter(done)) == (len(part),)
        columns = dict(projector.facts())
        assert ",".join(columns) == FACT
        facts += zip(*columns.values(), strict=True)
    return {**tables(connection), "fact": facts}


def assert_equal(
    events: Sequence[Told],
    *steps: int,
    limits: Limits = USUAL,
    profile: Profile = "",
    bounds: tuple[int, int] = (EARLIEST, LATEST),
    remembered: int = 1 << 20,
) -> dict[str, list[Any]]:
    """Both projectors write the same; what they write is returned."""
    expected = in_python(events, steps, limits, profile, bounds)
    found = in_rust(events, steps, limits, profile, bounds, remembered)
    for table, wanted in expected.items():
        assert found[table] == wanted, table
    return found


# --- arbitrary events

NAMES = st.sampled_from(
    (
        *("SecuritySymbol", "OrderId", "PositionId", "IndicatorName", "Parameters", "StateType"),
        *("OrderStatus", "StateAfter", "Quantity", "Price", "Value", "RiskType", "RejectionReason"),
        *("_raw", "a.b", "x", "", 'q"\\', "é\n", "\x00", "😀", "a-b_9"),
    )
)


def written(value: int | float | Decimal) -> bytes:
    return json.dumps(Decimal(repr(value)) if isinstance(value, float) else value)


NUMBERS = st.one_of(
    st.integers(-5, 50),
    st.integers(-(10**19), 10**19),
    st.integers(-(10**97), 10**97),
    st.decimals(-1000, 1000, allow_nan=False, places=2),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
).map(written)
TOKENS = st.sampled_from(
    (
        *(b"-0", b"-0.0", b"0", b"0.000", b"0E+95", b"0E+96", b"0e200", b"-0E+300", b"0E-96", b"0E-97"),
        *(b"1E+95", b"1E96", b"9.99E+95", b"-1E+96", b"1E-96", b"1E-97", b"1E400", b"1.50E+1", b"12E+200"),
        *(
            b"1e-7",
            b"1E6144",
            b"1E-6144",
            b"1.5E-129",
            b"1.5E129",
            b"123456789012345678",
            b"0.1234567890123456",
        ),
        *(b"-9223372036854775808", b"9223372036854775807", b"9223372036854775808", b"-128", b"-129"),
        *(b"9" * 96, b"-" + b"9" * 97, b"9" * 96 + b".5", b"0." + b"1" * 96, b"0." + b"1" * 97, b"7" * 4_000),
        *(b"true", b"false", b"null", b"{}", b"[]", b'[{"a":1,"a":2},"]}",[]]'),
    )
)
TEXTS = st.one_of(
    st.sampled_from(
        (
            *(
                "AAPL",
                "MSFT",
                "42",
                "1.50",
                "",
                "PnL",
                "pNL",
                "Order",
                "OrderQuantity",
                "placed",
                "Cancelled",
            ),
            *(
                "wor\u212aing",
                "+7",
                "-.5",
                "5.",
                ".",
                "1e5",
                "1e-99",
                "1e00005",
                "0e99",
                "007.50",
                "1_0",
                "1,5",
            ),
            *("9" * 96, "9" * 97, "0." + "0" * 96, "0" * 200, "0" * 201, GUID, GUID.upper(), GUID + "\n"),
            *("x" * 60, "x" * 61, "😀" * 61, '"\\/\b\f\n\r\t\x01\x7f', "١٢"),
        )
    ),
    st.text(max_size=5).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)),
)


def escaped(text: str) -> bytes:
    """The text with each character as an escape."""
    units = text.encode("utf-16-be").hex()
    return b'"' + b"".join(b"\\u" + units[at : at + 4].encode() for at in range(0, len(units), 4)) + b'"'


QUOTED = st.one_of(TEXTS.map(json.dumps), TEXTS.map(escaped))
QUOTED_NAMES = st.one_of(NAMES.map(json.dumps), NAMES.map(json.dumps), NAMES.map(escaped))


def an_object(members: list[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in members) + b"}"


def a_list(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def objects(values: st.SearchStrategy[bytes], most: int) -> st.SearchStrategy[bytes]:
    """Objects whose names may repeat."""
    return st.lists(st.tuples(QUOTED_NAMES, values), max_size=most).map(an_object)


SCALARS = st.one_of(TOKENS, QUOTED, NUMBERS)
TREES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=2).map(a_list), objects(inner, 3)), max_leaves=4
)
BODIES = objects(TREES, 5)
FAULTS = st.sampled_from(
    (
        b"[]",
        b'[{"Field":"Timestamp","Error":"Missing","Severity":"Warning"}]',
        b'[ {"Field":"\\u0041","Error":"1","Severity":"Error"}, {"Severity":"Other","n":[1.50,null,true]} ]',
    )
)
GIVEN = st.one_of(
    st.none(),
    st.builds(
        Given,
        st.one_of(st.none(), st.integers(1, 4)),
        st.one_of(st.none(), st.integers(1, 8)),
        st.none(),
        st.one_of(st.none(), FAULTS),
    ),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Told]:
    # Few types and bodies, so that shapes and texts come again within a type, a chunk and a batch.
    kinds = draw(st.lists(st.sampled_from(list(EventType)), min_size=1, max_size=3))
    bodies = draw(st.lists(BODIES, min_size=1, max_size=12))
    count = draw(st.integers(1, 30))
    return [
        Told(
            draw(st.sampled_from(kinds)),
            START_NS + draw(st.integers(0, 20)),
            draw(st.sampled_from(bodies)),
            draw(st.one_of(st.none(), st.integers(1, seq))),
            draw(GIVEN),
        )
        for seq in range(1, count + 1)
    ]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    streams(),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.sampled_from((SMALL, Limits(8, 64, 512), USUAL)),
    st.sampled_from(("", "guid")),
    st.sampled_from((1, 1 << 20)),
)
def test_any_events_in_any_batches_give_the_same_rows(
    events: list[Told], steps: list[int], limits: Limits, profile: Profile, remembered: int
) -> None:
    bounds = (START_NS + 2, START_NS + 18)
    assert_equal(events, *steps, limits=limits, profile=profile, bounds=bounds, remembered=remembered)


ORDER_TYPES = (
    *(EventType.OrderPlaced, EventType.TradeExecution, EventType.OrderCancelled),
    *(EventType.OrderRejection, EventType.StateChange, EventType.PositionUpdate),
)
ALWAYS: dict[str, st.SearchStrategy[Any]] = {
    "OrderId": st.sampled_from(("a", "b", "c", 4, "4", Decimal("5.0"), None, True))
}
PERHAPS: dict[str, st.SearchStrategy[Any]] = {
    "Quantity": st.sampled_from(
        (0, 1, -2, Decimal("0.50"), "1.5", "x", None, 10**100, Decimal("1E+3"), Decimal("0E+5"), "1e2")
    ),
    "StateType": st.sampled_from(("Order", "order", "OrderQuantity", 1, None)),
    "OrderStatus": st.sampled_from(("New", "PLACED", "filled", "Margin", "odd", 3)),
    "StateAfter": st.sampled_from((3, "2.50", Decimal("-1E+1"), "many", None)),
}
ORDER_EVENTS: st.SearchStrategy[tuple[EventType, dict[str, Any]]] = st.tuples(
    st.sampled_from(ORDER_TYPES), st.fixed_dictionaries(ALWAYS, optional=PERHAPS)
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ORDER_EVENTS, min_size=33, max_size=140), st.integers(1, 50), st.randoms(use_true_random=False)
)
def test_any_orders_give_the_same_checkpoints(
    steps: list[tuple[EventType, dict[str, Any]]], size: int, dice: random.Random
) -> None:
    now = START_NS
    events: list[Told] = []
    for kind, properties in steps:
        now += dice.choice((0, 1, 1, 1, 1, 1, 1, 1, -1))
        events.append(told(Sample(kind, now, properties, None)))
    assert_equal(events, size)


# --- what must hold for certain


def test_a_causal_stream_gives_the_same_rows_in_large_and_small_batches() -> None:
    events = [told(sample) for sample in causal(30_000)]
    found = assert_equal(events, 16_384)
    assert len(found["checkpoint"]) > 9
    assert max(row[1] for row in found["chunk"]) > 0, "a type has more than one chunk"
    assert_equal(events[:20_000], 700, 1_300)


def test_batches_of_one_event_are_joined_in_the_same_way() -> None:
    found = assert_equal([told(sample) for sample in causal(300)], 1, limits=Limits(chunk=40))
    assert max(row[3] for row in found["value"]) > 5, "an open chunk has several parts"


def test_the_first_numeric_paths_and_the_first_paths_at_all_are_the_same() -> None:
    bodies = [encode({f"p{n:03}": n for n in range(start, start + 100)}) for start in range(0, 600, 90)]
    found = assert_equal(risks(*bodies), 2)
    assert len(found["path"]) == schema.MAX_KNOWN
    assert sum(row[-2] for row in found["path"]) == schema.MAX_PATHS
    assert found["span"][0][6] > 0, "some values are at paths beyond those listed"


def test_numbers_are_written_in_the_order_of_the_shapes() -> None:
    bodies = (b'{"x":1}', b'{"z":1,"x":2}', b'{"x":{"y":3}}', b'{"z":{"y":1},"x":{"y":3,"w":1}}')
    found = assert_equal(risks(*bodies, *bodies), 8)
    assert [row[1] for row in found["value"]] == [1, 3, 2, 4, 5], "and not in the order of the paths"


@pytest.mark.parametrize("depth", [1, 15, 16, 17, 100, 900])
def test_objects_are_entered_as_deep(depth: int) -> None:
    body = b'{"a":' * depth + b"1" + b"}" * depth
    found = assert_equal(risks(body, b'{"a":%b}' % (b"[" * depth + b"]" * depth)), 1)
    assert len(found["path"]) == min(depth, 16)


@pytest.mark.parametrize("token", [b"0E+200", b"0E+96", b"-0E+6144"])
@pytest.mark.parametrize("beside", [b"1.5", b"1", b'"1"', b"1E+96", b"1E-97", b"null", b"{}"])
def test_a_zero_far_out_counts_as_the_numbers_beside_it_let_it(token: bytes, beside: bytes) -> None:
    events = risks(b'{"x":%b}' % token, b'{"x":%b}' % beside, b'{"x":%b}' % token, b'{"x":0.25}')
    assert_equal(events, 4)
    assert_equal(events, 1)


def test_what_is_too_large_or_outside_the_run_is_told_after_the_faults_that_were_given() -> None:
    body = encode({"text": "x" * 1_000_001})
    one = Given(faults=b'[{"Field":"a","Error":"b","Severity":"Error"}]')
    found = assert_equal([Told(EventType.RiskEvent, START_NS, body, None, one)], 1, bounds=(0, 1))
    listed = json.loads(found["fault"][0][1])
    assert [fault["Error"] for fault in listed] == [
        *("b", "Missing required field", "Larger than 1 MB", "Outside the run's time range"),
    ]


def test_properties_that_were_not_json_have_one_fault() -> None:
    events = [Told(kind, START_NS, b'{"_raw":"{\\"a\\":"}') for kind in EventType]
    assert len(assert_equal(events, 9)["fault"]) == len(EventType)


def test_parameters_have_one_form_whatever_their_order_and_escapes() -> None:
    forms = (
        *(
            b'{"b":{"d":1,"c":[1.50,{"z":1,"y":2}]},"a":1E+3}',
            b'{"a":1000,"b":{"c":[1.50,{"y":2,"z":1}],"d":1}}',
        ),
        *(
            b'{"\\u0061":1E+3,"b":{"d":1,"c":[1.50,{"z":0,"y":2,"z":1}]}}',
            b"5",
            b'"5"',
            b"null",
            b"[]",
            b"{}",
        ),
        *(b"5E0", b"1E+200", b"-0", b"-0.0", b'"\\u00e9"', '"é"'.encode()),
    )
    bodies = [b'{"IndicatorName":"SMA","Value":1,"Parameters":%b}' % form for form in forms]
    events = [Told(EventType.IndicatorCalculation, START_NS, body) for body in (*bodies, *bodies)]
    assert len(assert_equal(events, 5)["slot"]) == 10


def test_forgotten_texts_keep_their_numbers() -> None:
    order = [Sample(EventType.OrderPlaced, START_NS, {"OrderId": f"o{n % 20}"}, None) for n in range(90)]
    found = assert_equal([told(sample) for sample in order], 7, remembered=4)
    assert len(found["text"]) == 20


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a"',
        b'{"a":1',
        b'{"a":1}x',
        b"[1]",
        b"7",
        b'{"a":01}',
        b'{"a":"\n"}',
        b'{"a":1,}',
        b"\xff",
    ],
)
def test_what_is_no_json_counts_as_an_event_without_properties(body: bytes) -> None:
    events = risks(b'{"a":1}', b"{}", b'{"a":2}')
    broken = [*events[:1], events[1]._replace(body=body), *events[2:]]
    args = ((3,), USUAL, "", (EARLIEST, LATEST), 1 << 20)
    assert in_rust(broken, *args) == in_rust(events, *args)


def test_spaces_between_the_parts_of_a_body_change_nothing() -> None:
    spaced = b' { "a" : 1.50 ,\n"b" : { "c" : [ 1 , 2 ] , "d" : "x" } } '
    assert_equal(risks(spaced, b'{"a":1.50,"b":{"c":[1,2],"d":"x"}}', spaced), 2)


def test_an_unknown_projector_or_batch_is_refused() -> None:
    connection = loaded()
    with pytest.raises(Exception, match="no such"):
        list(connection.execute("SELECT runs_project(0, 0, 1)"))
