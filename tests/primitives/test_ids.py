import os
import re
import threading
import uuid
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.primitives import ids
from tracedesk.primitives.ids import CallRef, PayloadRef, StreamRef, TimeOrdered, parse_ref

CALL = "0190b5a0-3c1e-7d4f-8a2b-6c5d4e3f2a1b"
DIGEST = "ab" * 32


def fixed(ms: int) -> Callable[[], int]:
    return lambda: ms * 1_000_000


def zeros(size: int) -> bytes:
    return bytes(size)


def ones(size: int) -> bytes:
    return b"\xff" * size


def test_session_ids_are_random_version_4_uuids() -> None:
    made = {ids.uuid4() for _ in range(500)}
    assert len(made) == 500
    assert {(uuid.UUID(text).version, uuid.UUID(text).variant) for text in made} == {(4, uuid.RFC_4122)}


def test_event_ids_are_version_7_uuids_that_sort_in_the_order_they_were_made() -> None:
    made = [ids.uuid7() for _ in range(5_000)]
    assert made == sorted(set(made))
    assert {(uuid.UUID(text).version, uuid.UUID(text).variant) for text in made} == {(7, uuid.RFC_4122)}


def test_a_version_7_uuid_begins_with_its_unix_milliseconds() -> None:
    # The example of RFC 9562, appendix A.6, was made in this millisecond.
    text = TimeOrdered(fixed(0x017F22E279B0), zeros).next()
    assert text == "017f22e2-79b0-7000-8000-000000000000"
    assert ids.milliseconds_of(text) == 0x017F22E279B0


def test_only_version_7_uuids_carry_a_time() -> None:
    with pytest.raises(ValueError, match="only version 7"):
        ids.milliseconds_of("00000000-0000-4000-8000-000000000000")


def test_ids_keep_rising_while_the_clock_stands_still_or_runs_backwards() -> None:
    times = iter([50, 50, 50, 40, 10, 50, 51, 20])
    sequence = TimeOrdered(lambda: next(times) * 1_000_000)
    made = [sequence.next() for _ in range(8)]
    assert made == sorted(set(made))
    assert [ids.milliseconds_of(text) for text in made] == [50] * 6 + [51, 51]


def test_an_exhausted_counter_borrows_from_the_next_millisecond() -> None:
    sequence = TimeOrdered(fixed(7), ones)
    first = sequence.next()
    sequence._counter = 2**42 - 1  # pyright: ignore[reportPrivateUsage]
    second = sequence.next()
    assert (ids.milliseconds_of(first), ids.milliseconds_of(second)) == (7, 8)
    assert second > first


@given(st.lists(st.integers(0, 2**48 - 1), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_every_clock_and_every_source_of_randomness_gives_rising_valid_uuids(
    times: list[int], random: Random
) -> None:
    readings = iter(times)
    sequence = TimeOrdered(lambda: next(readings) * 1_000_000, random.randbytes)
    made = [sequence.next() for _ in times]
    assert made == sorted(set(made))
    assert all(ids.is_uuid(text, 7) and uuid.UUID(text).variant == uuid.RFC_4122 for text in made)


def test_threads_never_receive_the_same_id() -> None:
    sequence, made = TimeOrdered(fixed(1), zeros), list[list[str]]()

    def work() -> None:
        made.append([sequence.next() for _ in range(2_000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text for batch in made for text in batch}) == 8_000
    assert all(batch == sorted(batch) for batch in made)


def test_a_forked_child_starts_a_sequence_of_its_own() -> None:
    before = ids._process_sequence  # pyright: ignore[reportPrivateUsage]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        fresh = ids._process_sequence is not before  # pyright: ignore[reportPrivateUsage]
        os.write(writer, b"fresh" if fresh else b"stale")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == b"fresh"


@given(st.uuids())
def test_dashed_and_bare_are_inverse_and_lower_case(value: uuid.UUID) -> None:
    assert ids.dashed(value.hex) == ids.dashed(str(value).upper()) == str(value)
    assert ids.bare(str(value)) == ids.bare(value.hex.upper()) == value.hex
    assert ids.is_uuid(str(value))
    assert ids.short(str(value)) == value.hex[-8:]


@pytest.mark.parametrize(
    "text",
    [
        "",
        CALL[:-1],
        CALL + "0",
        f"{{{CALL}}}",
        f"urn:uuid:{CALL}",
        CALL + "\n",
        CALL.replace("-", "_"),
        "g" * 32,
        "٣" * 32,
        "ﬀ" * 16,
    ],
)
def test_what_is_not_a_uuid_is_refused(text: str) -> None:
    assert not ids.is_uuid(text)
    with pytest.raises(ValueError, match="is not a UUID"):
        ids.bare(text)


def test_a_uuid_is_recognised_in_either_case_and_by_version() -> None:
    assert ids.is_uuid(CALL.upper())
    assert ids.is_uuid(CALL, 7)
    assert not ids.is_uuid(CALL, 4)
    assert not ids.is_uuid(CALL.replace("-", ""))


@pytest.mark.parametrize("length", [0, 3, 33])
def test_a_short_id_has_a_sensible_length(length: int) -> None:
    with pytest.raises(ValueError, match="4 to 32"):
        ids.short(CALL, length)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("tracedesk://backtest/run-1/0", StreamRef("backtest", "run-1", 0)),
        ("tracedesk://exchange/orders:BTCUSDT@sim/42", StreamRef("exchange", "orders:BTCUSDT@sim", 42)),
        (f"tracedesk://fuzz/{CALL}/9223372036854775807", StreamRef("fuzz", CALL, 2**63 - 1)),
        (f"tracedesk://calls/{CALL}", CallRef(CALL)),
        (f"tracedesk://payloads/{DIGEST}", PayloadRef(DIGEST)),
    ],
)
def test_a_reference_has_one_spelling(text: str, ref: ids.Ref) -> None:
    assert parse_ref(text) == ref
    assert str(ref) == text


def test_a_reference_says_what_kind_it_is() -> None:
    kinds = [StreamRef("fuzz", "c", 1).kind, CallRef(CALL).kind, PayloadRef(DIGEST).kind]
    assert kinds == ["stream", "call", "payload"]


@pytest.mark.parametrize(
    "text",
    [
        "", "tracedesk:", "tracedesk://", "tracedesk:///", "Tracedesk://fuzz/c/1", "TRACEDESK://fuzz/c/1",
        "http://fuzz/c/1", " tracedesk://fuzz/c/1", "tracedesk://fuzz/c/1 ", "tracedesk://fuzz/c/1\n",
        "tracedesk://fuzz/c", "tracedesk://fuzz", "tracedesk://fuzz/c/1/2", "tracedesk://fuzz/c/1/",
        "tracedesk://fuzz//1", "tracedesk:///c/1", "tracedesk://fuzz/c/", "tracedesk://fuzz/../1", "tracedesk://fuzz/./1",
        "tracedesk://fuzz/a..b/1", "tracedesk://fuzz/.a/1", "tracedesk://fuzz/a%2fb/1", "tracedesk://fuzz/%2e%2e/1",
        "tracedesk://fuzz/c%00/1", "tracedesk://fuzz/c\x00/1", "tracedesk://fuzz/c\t/1", "tracedesk://fuzz/c\u202e/1",
        "tracedesk://fuzz/ç/1", "tracedesk://fuzz/a b/1", "tracedesk://fuzz/a?b/1", "tracedesk://fuzz/a#b/1",
        "tracedesk://fuzz/a\\b/1", "tracedesk://user@fuzz/c/1", "tracedesk://fuzz:80/c/1", "tracedesk://Fuzz/c/1",
        "tracedesk://fuzz/c/01", "tracedesk://fuzz/c/-1", "tracedesk://fuzz/c/+1", "tracedesk://fuzz/c/1e3",
        "tracedesk://fuzz/c/1_0", "tracedesk://fuzz/c/٣", "tracedesk://fuzz/c/9223372036854775808",
        "tracedesk://fuzz/c/99999999999999999999", "tracedesk://fuzz/" + "c" * 129 + "/1",
        "tracedesk://" + "f" * 33 + "/c/1",
        "tracedesk://calls/" + CALL.upper(), "tracedesk://calls/" + CALL.replace("-", ""), f"tracedesk://calls/{CALL}/1",
        "tracedesk://calls/x/1", "tracedesk://payloads/" + "AB" * 32, "tracedesk://payloads/" + "a" * 63,
        f"tracedesk://payloads/{DIGEST}/0", "tracedesk://payloads/..",
        pytest.param("tracedesk://fuzz/c/" + "1" * 100_000, id="long"),
    ],
)  # fmt: skip
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"use|write") as refusal:
        parse_ref(text)
    assert len(str(refusal.value)) < 400


names = st.from_regex(re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}", re.ASCII), fullmatch=True)
refs = st.one_of(
    st.builds(
        StreamRef,
        st.sampled_from(["backtest", "fuzz", "exchange", "codegraph", "trading"]),
        names.filter(lambda name: ".." not in name),
        st.integers(0, 2**63 - 1),
    ),
    st.uuids().map(lambda value: CallRef(str(value))),
    st.binary(min_size=32, max_size=32).map(lambda raw: PayloadRef(raw.hex())),
)


@given(refs)
def test_every_reference_reads_back_as_itself(ref: ids.Ref) -> None:
    assert parse_ref(str(ref)) == ref
    assert len(str(ref)) <= ids.MAX_REFERENCE


@given(st.text(max_size=60).map(lambda tail: "tracedesk://" + tail))
def test_whatever_parses_is_spelled_exactly_as_it_was_given(text: str) -> None:
    try:
        ref = parse_ref(text)
    except ValueError:
        return
    assert str(ref) == text
