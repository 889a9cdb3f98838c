"""Keccak-256 against another implementation, at every length around its block."""

from __future__ import annotations

from Crypto.Hash import keccak as other  # comes with vyper
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.fuzz.keccak import keccak


@given(st.binary(max_size=420))
def test_a_digest_is_what_another_implementation_says(data: bytes) -> None:
    assert keccak(data) == other.new(digest_bits=256, data=data).digest()


def test_the_edges_of_a_block_are_padded_right() -> None:
    for length in (0, 1, 134, 135, 136, 137, 271, 272, 273):
        data = bytes(range(256))[:length].ljust(length, b"x")
        assert keccak(data) == other.new(digest_bits=256, data=data).digest(), length


def test_a_known_selector() -> None:
    assert keccak(b"transfer(address,uint256)")[:4].hex() == "a9059cbb"
