"""The chain: frozen by known hashes, and bound to every field of every row."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.journal import Entry, Event, Stream, chain
from tracedesk.journal.model import columns

STREAM = Stream(1, "run-1", "run", 1_700_000_000_000_000_000, b'{"seed":7}')
EVENTS = [
    Event(1, "MarketData", 1_700_000_000_000_000_000, b'{"Close":"10.5"}'),
    Event(2, "Trade", 1_700_000_000_000_000_001, b"{}", 1),
]
FROZEN = {
    1: (
        "f5349b97185756110659c163009d06b74b87f9343243532c2fd7d50dbfae981d",
        "87ca2960cf2c5ff0bbe983fd4d1df70f3e27e077eaa7b6efd41e5ee30414d888",
        "f69ec9f0695dcb889bf1441c17a26251f269716ded6118368e2d68e1f8aee32a",
        "f95abd209426e8aeafaa4d5535628d6e498cc036c7e40dfff8a978fe8421a64f",
    ),
    2: (
        "01b010d13cbe2072738de74e570f744675baba5648bdf80e17faa9f3aa23042d",
        "70f7afbc025fecd5ed87aefb9d7f1ba1eb115ee73f2842d5d9e4c1424fdf062b",
        "67927c9a9d15b4d3a226fc86a3be8899b50b46846383073d6c89b93818af0c84",
        "131501174ce79955c67618c29857e48f50c78818f00eaa17d9f57bfcf7f230df",
    ),
    3: (
        "4bbde6e9c83c90dd83cf1876ce801e7ba06057de2a2f53b28b29b2ef8670d663",
        "8afeae9a2f59cc7141680f25a1ef20378f69008547a56c5b6326f2ea2cc10f90",
        "300a8cbd61ee773b02e61508d6e65d9750714a5bb69bb84b1f12e73dc0d46aca",
        "204c7f3a936076fc0be683f0ea5d99dac8c02291bdcd36859dbca366d3e89f7f",
    ),
}

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
ANY_ENTRY = st.builds(
    Entry,
    kind=WORDS,
    time_ns=st.integers(-5, 5),
    body=st.binary(max_size=8),
    parent=st.none() | st.integers(1, 3),
)


def link_of(previous: bytes, events: list[Event], framing: int = 2) -> bytes:
    seqs = range(events[0].seq, events[-1].seq + 1)
    return chain.link(replace(STREAM, framing=framing), previous, seqs, columns(events))


@pytest.mark.parametrize("framing", FROZEN)
def test_the_hashes_of_a_framing_never_change(framing: int) -> None:
    genesis = chain.genesis(replace(STREAM, framing=framing))
    link = link_of(genesis, EVENTS, framing)
    sealed = chain.seal(link, "ended", 5, b"{}")
    found = (genesis, link, sealed, chain.tombstone(sealed, 6))
    assert tuple(digest.hex() for digest in found) == FROZEN[framing]


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


def numbered(first: int, batch: list[Entry]) -> list[Event]:
    return [Event(seq, *entry) for seq, entry in enumerate(batch, first)]


ANY_BATCH = st.builds(numbered, st.integers(1, 3), st.lists(ANY_ENTRY, min_size=1, max_size=3))


@given(ANY_BATCH, ANY_BATCH, st.sampled_from(sorted(FROZEN)))
def test_two_batches_share_a_hash_only_when_they_are_equal(
    one: list[Event], other: list[Event], framing: int
) -> None:
    assert (link_of(b"", one, framing) == link_of(b"", other, framing)) is (one == other)


def test_a_link_binds_what_came_before() -> None:
    assert link_of(b"a", EVENTS) != link_of(b"b", EVENTS)


@given(WORDS, WORDS, st.binary(max_size=8), st.binary(max_size=8))
def test_moving_the_border_between_kind_and_body_changes_the_hash(
    kind: str, more: str, body: bytes, rest: bytes
) -> None:
    one = Event(1, kind, 0, more.encode() + body)
    other = Event(1, kind + more, 0, body)
    assert link_of(b"", [one]) != link_of(b"", [other])


@given(st.lists(st.binary(max_size=8), min_size=2, max_size=4), st.data())
def test_moving_the_border_between_two_bodies_changes_the_hash(
    bodies: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(bodies)
    cuts = sorted(
        data.draw(st.lists(st.integers(0, len(whole)), min_size=len(bodies) - 1, max_size=len(bodies) - 1))
    )
    moved = [whole[a:b] for a, b in pairwise((0, *cuts, len(whole)))]
    one, other = ([Event(seq, "k", 0, body) for seq, body in enumerate(each, 1)] for each in (bodies, moved))
    assert (link_of(b"", one) == link_of(b"", other)) is (bodies == moved)


@given(ANY_ENTRY, st.integers(4, 2**40), st.binary(min_size=32, max_size=32), st.sampled_from(sorted(FROZEN)))
def test_a_batch_of_one_has_the_hash_that_it_has_among_others(
    entry: Entry, seq: int, previous: bytes, framing: int
) -> None:
    alone = chain.link_one(replace(STREAM, framing=framing), previous, seq, entry)
    assert alone == link_of(previous, [Event(seq, *entry)], framing)
