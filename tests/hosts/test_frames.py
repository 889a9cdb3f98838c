"""Frames: whatever is sent arrives exactly, however the bytes are cut; everything else is refused."""

from __future__ import annotations

import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.errors import ToolError
from tracedesk.hosts.frames import (
    BadFrame,
    Cancel,
    Decoder,
    Fault,
    FrameTooLarge,
    Message,
    Progress,
    Request,
    Result,
    encode,
    parse,
)
from tracedesk.primitives import json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# Fractions only: a whole Decimal is the same number as an integer, and arrives as one.
DECIMALS = st.decimals(-(10**12), 10**12, places=4).filter(lambda d: d != 0)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | DECIMALS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)
IDS = st.integers(0, 2**53 - 1)
NUMBERS = st.integers(0, 10**20) | st.floats(0, 1e12, allow_nan=False)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Request, IDS, TEXT, OBJECTS, st.none() | st.floats(0.001, 1e6)),
    st.builds(Cancel, IDS),
    st.builds(Progress, IDS, NUMBERS, st.none() | NUMBERS, st.none() | TEXT),
    st.builds(Result, IDS, VALUES),
    st.builds(Fault, st.none() | IDS, TEXT, TEXT, st.none() | OBJECTS),
)


def decode(data: bytes, limit: int = 16 << 20) -> list[Message]:
    return [parse(payload) for payload in Decoder(limit).feed(data)]


@given(st.lists(MESSAGES, max_size=5), st.lists(st.integers(0, 400), max_size=8))
def test_messages_arrive_as_they_were_sent_however_the_bytes_are_cut(
    messages: list[Message], cuts: list[int]
) -> None:
    data = b"".join(encode(message) for message in messages)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    decoder = Decoder()
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert [parse(payload) for piece in pieces for payload in decoder.feed(piece)] == messages


@given(st.binary(max_size=60))
def test_any_bytes_are_messages_or_a_bad_frame(data: bytes) -> None:
    try:
        decode(data, limit=1000)
        parse(data)
    except BadFrame:
        pass


@given(VALUES)
def test_json_that_is_no_message_is_a_bad_frame_and_nothing_worse(value: Any) -> None:
    with pytest.raises(BadFrame, match="no message"):
        parse(json.dumps(value))


def test_a_decimal_keeps_its_digits() -> None:
    (message,) = decode(encode(Result(1, {"price": Decimal("1.10"), "size": Decimal("0.000001000")})))
    assert isinstance(message, Result)
    assert {k: str(v) for k, v in message.value.items()} == {"price": "1.10", "size": "0.000001000"}


def test_a_refusal_travels_with_code_message_and_details() -> None:
    error = ToolError("FILTER_FAILURE", "Too fine.", {"step": Decimal("0.10")})
    (message,) = decode(encode(Fault.of(7, error)))
    assert isinstance(message, Fault)
    assert (message.error.code, message.error.message) == ("FILTER_FAILURE", "Too fine.")
    assert message.error.details == {"step": Decimal("0.10")}


def test_a_message_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    assert len(encode(Result(1, "x" * 980), limit=1000)) == 4 + 1000
    with pytest.raises(FrameTooLarge, match="1001 bytes is too large; the limit is 1000"):
        encode(Result(1, "x" * 981), limit=1000)


@pytest.mark.parametrize("size", [0, 1001, 2**32 - 1])
def test_a_length_outside_the_limits_is_refused_before_anything_is_stored(size: int) -> None:
    with pytest.raises(BadFrame, match="outside 1 to 1000"):
        list(Decoder(1000).feed(struct.pack(">I", size)))


def test_what_came_before_a_bad_frame_is_still_delivered() -> None:
    decoder = Decoder(1000)
    data = encode(Cancel(1)) + encode(Cancel(2)) + b"\xff\xff\xff\xff"
    feed = decoder.feed(data)
    assert [parse(next(feed)), parse(next(feed))] == [Cancel(1), Cancel(2)]
    with pytest.raises(BadFrame):
        next(feed)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"id": 1, "id": 2}',
        b"NaN",
        b"\xff\xfe",
        b'{"id": -1, "result": 1}',
        b'{"id": true, "result": 1}',
        b'{"id": 1.5, "result": 1}',
        b'{"id": 9007199254740992, "result": 1}',
        b'{"id": 1, "method": "x", "params": [], "timeout": null}',
        b'{"id": 1, "method": 2, "params": {}, "timeout": null}',
        b'{"id": 1, "method": "x", "params": {}, "timeout": 0}',
        b'{"id": 1, "method": "x", "params": {}, "timeout": 1e400}',
        b'{"cancel": 1, "id": 2}',
        b'{"id": 1, "progress": {"done": null, "total": null, "message": null}}',
        b'{"id": 1, "error": {"code": "X", "message": "m", "details": []}}',
    ],
)
def test_a_malformed_message_is_a_bad_frame(text: bytes) -> None:
    with pytest.raises(BadFrame):
        parse(text)
