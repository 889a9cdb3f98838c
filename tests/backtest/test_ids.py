"""Ids: an event's id is its run and its seq, both ways without a look-up."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.backtest.ids import event_id, guid_bytes, guid_text, run_id_of, seq_of

RUN = "a1b2c3d4-e5f6-7890-abcd-ef1234567890"
OTHER = "a1b2c3d4-e5f6-7890-abcd-ef1234567891"
SEQS = st.integers(1, 2**40 - 1)


@given(st.uuids(), SEQS)
def test_an_id_gives_back_its_seq_in_either_case(run: UUID, seq: int) -> None:
    id = event_id(str(run), seq)
    assert seq_of(str(run), id) == seq
    assert seq_of(str(run), id.upper()) == seq


@given(SEQS)
def test_an_id_is_a_uuid_of_version_8(seq: int) -> None:
    id = UUID(event_id(RUN, seq))
    assert id.version == 8
    assert id.variant == "specified in RFC 4122"
    assert id.bytes[-6:] == seq.to_bytes(6, "big")


@given(SEQS)
def test_an_id_of_another_run_names_nothing_here(seq: int) -> None:
    assert seq_of(OTHER, event_id(RUN, seq)) is None


@pytest.mark.parametrize(
    "text", ["", "7", "not-a-guid", "11111111-2222-3333-4444-555555555555", "' OR 1=1 --"]
)
def test_what_is_no_derived_id_names_nothing(text: str) -> None:
    assert seq_of(RUN, text) is None


def test_the_seqs_that_no_stream_can_have_name_nothing() -> None:
    head = event_id(RUN, 1)[:-12]
    assert seq_of(RUN, f"{head}{0:012x}") is None
    assert seq_of(RUN, f"{head}{2**40:012x}") is None


@given(st.uuids())
def test_a_guid_is_sixteen_bytes_and_back(id: UUID) -> None:
    assert guid_bytes(str(id).upper()) == id.bytes
    assert guid_text(id.bytes) == str(id)


def test_a_run_id_has_one_form() -> None:
    assert run_id_of(RUN.upper()) == run_id_of(RUN.replace("-", "")) == RUN
    with pytest.raises(ValueError, match="is not a UUID"):
        run_id_of("yesterday")
