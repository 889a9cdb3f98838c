"""The chain: frozen by known hashes, and bound to every field of every row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.journal import Event, Stream, chain

STREAM = Stream(1, "run-1", "run", 1_700_000_000_000_000_000, b'{"seed":7}')
EVENTS = [
    Event(1, "MarketData", 1_700_000_000_000_000_000, b'{"Close":"10.5"}'),
    Event(2, "Trade", 1_700_000_000_000_000_001, b"{}", 1),
]
GENESIS = "f5349b97185756110659c163009d06b74b87f9343243532c2fd7d50dbfae981d"
LINK = "87ca2960cf2c5ff0bbe983fd4d1df70f3e27e077eaa7b6efd41e5ee30414d888"
SEAL = "f69ec9f0695dcb889bf1441c17a26251f269716ded6118368e2d68e1f8aee32a"
TOMBSTONE = "f95abd209426e8aeafaa4d5535628d6e498cc036c7e40dfff8a978fe8421a64f"

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
ANY_EVENT = st.builds(
    Event,
    seq=st.integers(1, 3),
    kind=WORDS,
    time_ns=st.integers(-5, 5),
    body=st.binary(max_size=8),
    parent=st.none() | st.integers(1, 3),
)


def test_the_hashes_of_format_1_never_change() -> None:
    genesis = chain.genesis(STREAM)
    link = chain.link(genesis, 1, 2, EVENTS)
    sealed = chain.seal(link, "ended", 5, b"{}")
    found = [genesis, link, sealed, chain.tombstone(sealed, 6)]
    assert [digest.hex() for digest in found] == [GENESIS, LINK, SEAL, TOMBSTONE]


@pytest.mark.parametrize(
    "change",
    [{"id": 2}, {"name": "run-2"}, {"kind": "other"}, {"created_ns": 0}, {"raw_meta": b'{"seed":8}'}],
    ids=lambda change: next(iter(change)),
)
def test_the_genesis_binds_every_column_of_the_streams_row(change: dict[str, object]) -> None:
    assert chain.genesis(replace(STREAM, **change)) != chain.genesis(STREAM)


def test_meta_is_bound_by_its_bytes_not_by_what_they_parse_to() -> None:
    spellings = [b'{"x":1e22}', b'{"x":1E22}', b'{"x":1e+22}']
    assert len({chain.genesis(replace(STREAM, raw_meta=raw)) for raw in spellings}) == 3


@given(st.lists(ANY_EVENT, max_size=3), st.lists(ANY_EVENT, max_size=3))
def test_two_batches_share_a_hash_only_when_they_are_equal(one: list[Event], other: list[Event]) -> None:
    same = chain.link(b"", 1, 3, one) == chain.link(b"", 1, 3, other)
    assert same is (one == other)


def test_a_link_binds_its_span_and_what_came_before() -> None:
    links = {chain.link(previous, 1, last, EVENTS) for previous in (b"a", b"b") for last in (2, 3)}
    assert len(links) == 4


@given(WORDS, WORDS, st.binary(max_size=8), st.binary(max_size=8))
def test_moving_the_border_between_kind_and_body_changes_the_hash(
    kind: str, more: str, body: bytes, rest: bytes
) -> None:
    one = Event(1, kind, 0, more.encode() + body)
    other = Event(1, kind + more, 0, body)
    assert chain.link(b"", 1, 1, [one]) != chain.link(b"", 1, 1, [other])
