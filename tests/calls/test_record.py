"""A record's body: the same, put together quickly or in full, whatever the handler does later."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.calls.record import CallRecord, bodies
from tracedesk.primitives import json
from tracedesk.primitives.redaction import Secrets

_texts = st.text(max_size=12)
_arguments = st.dictionaries(
    st.sampled_from(["n", "symbol", "limit", "token"]),
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | _texts,
    max_size=3,
)


_SOME: Final = Secrets()
_SOME.add("correct horse")


def ended(arguments: Any, **facts: Any) -> CallRecord:
    """A call that has come to its end."""
    given_: dict[str, Any] = {"scope": "stdio", "principal": None, "attempt": None, **facts}
    place = (given_["scope"], given_["principal"], given_["attempt"])
    record = CallRecord("0190-1", "echo", "bench", arguments, *place, 1, durable=False)
    record.outcome, record.code = given_.get("outcome", "ok"), given_.get("code")
    record.result, record.duration_us = given_.get("result", b'{"n":1}'), 55
    for edge in given_.get("edges", ()):
        record.edges[edge] = None
    return record


@given(
    arguments=_arguments,
    scope=st.sampled_from(["stdio", 'sco"pe']),
    principal=st.none() | _texts,
    attempt=st.none() | _texts,
    outcome=st.sampled_from(["ok", "ok", "ok", "error", "cancelled"]),
    code=st.none() | st.just("NOT_FOUND"),
    result=st.sampled_from([b"", b'{"a":"null \\" \\n"}', "ü".encode(), b"\xff", b"x" * 3_000]),
    edges=st.sampled_from([(), (("cites", "tracedesk://calls/1"),)]),
)
def test_a_body_says_all_that_is_known_however_it_was_put_together(
    arguments: dict[str, Any], **facts: Any
) -> None:
    record, same = ended(arguments, **facts), ended(arguments, **facts)
    whole = same._with(same.arguments)  # pyright: ignore[reportPrivateUsage]
    record.seal(Secrets())
    assert record.body(Secrets()) == same.body(Secrets())
    assert bodies([record, same], Secrets()) == [same.body(Secrets())] * 2
    assert json.loads(whole)["us"] == 55


def test_the_bodies_of_most_calls_are_put_off() -> None:
    record = ended({"n": 7, "symbol": "BTCUSDT"}, attempt="a", result=b'{"text":"null"}')
    whole = record._with(record.arguments)  # pyright: ignore[reportPrivateUsage]
    record.seal(Secrets())
    assert record.sealed is None
    assert record.body(Secrets()) == whole


@pytest.mark.parametrize("value", [float("nan"), Decimal("NaN"), "\ud800"])
def test_a_body_that_cannot_be_made_is_no_surprise_to_the_writer(value: Any) -> None:
    record = ended({"n": value})
    with pytest.raises((TypeError, ValueError)):
        record.seal(Secrets())


@pytest.mark.parametrize("secrets", [Secrets(), _SOME])
def test_what_happens_after_a_call_has_ended_is_not_recorded(secrets: Secrets) -> None:
    mine = {"n": 7}
    record = ended(mine)
    record.seal(secrets)
    mine["n"] = 8
    record.outcome, record.result, record.duration_us = "cancelled", b"", 0
    record.edges[("cites", "tracedesk://late/1")] = None
    written = json.loads(record.body(secrets))
    assert (written["arguments"], written["outcome"], "edges" in written) == ({"n": 7}, "ok", False)


@pytest.mark.parametrize("note", ["hunter2", "a text of some length, in which anything may be"])
def test_a_secret_that_is_forgotten_after_the_call_was_replaced_at_its_end(note: str) -> None:
    secrets = Secrets()
    secrets.add(note, "passphrase")
    record = ended({"note": note})
    record.seal(secrets)
    secrets.discard(note)
    assert record.arguments is None
    assert record.sealed is not None
    assert note.encode() not in record.sealed
