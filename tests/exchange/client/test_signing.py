"""Signatures: the venue's own examples, and keys that do not show themselves."""

from __future__ import annotations

import base64
import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from tracedesk.exchange.client.signing import Credentials, encoded, signed_params, signed_query

KEY: Final = "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"
SECRET: Final = "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j"
"""The venue's published example key, which opens nothing."""


def _pem(key: Any, encryption: KeySerializationEncryption | None = None) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()).decode()


@pytest.mark.parametrize(
    ("symbol", "signature"),
    [
        ("LTCBTC", "c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71"),
        ("１２３４５６", "e1353ec6b14d888f1164ae9af8228a3dbd508bc82eb867db8ab6046442f33ef3"),
    ],
)
def test_rest_signatures_equal_the_venues_published_examples(symbol: str, signature: str) -> None:
    params = {
        "symbol": symbol,
        "side": "BUY",
        "type": "LIMIT",
        "timeInForce": "GTC",
        "quantity": "1",
        "price": Decimal("0.1"),
        "recvWindow": 5000,
        "timestamp": 1499827319559,
    }
    query = signed_query(Credentials.of(KEY, SECRET), params)
    assert query == f"{encoded(params)}&signature={signature}"
    assert query.isascii()


@pytest.mark.parametrize(
    ("params", "signature"),
    [
        (
            {
                "symbol": "BTCUSDT",
                "side": "SELL",
                "quantity": "0.01000000",
                "price": "52000.00",
                "recvWindow": 100,
            },
            "aa1b5712c094bc4e57c05a1a5c1fd8d88dcd628338ea863fec7b88e59fe2db24",
        ),
        (
            {
                "symbol": "１２３４５６",
                "side": "BUY",
                "quantity": "1.00000000",
                "price": "0.10000000",
                "recvWindow": 5000,
            },
            "b33892ae8e687c939f4468c6268ddd4c40ac1af18ad19a064864c47bae0752cd",
        ),
    ],
)
def test_socket_signatures_equal_the_venues_published_examples(
    params: dict[str, Any], signature: str
) -> None:
    sent = {**params, "type": "LIMIT", "timeInForce": "GTC", "timestamp": 1645423376532}
    assert signed_params(Credentials.of(KEY, SECRET), sent)["signature"] == signature


def test_an_ed25519_key_signs_what_its_public_key_verifies() -> None:
    private = Ed25519PrivateKey.generate()
    credentials = Credentials.of(KEY, _pem(private))
    assert credentials.kind == "Ed25519"
    private.public_key().verify(base64.b64decode(credentials.sign(b"a=1&b=2")), b"a=1&b=2")


def test_an_encrypted_private_key_opens_with_its_password_only() -> None:
    pem = _pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"correct horse"))
    assert Credentials.of(KEY, pem, "correct horse").kind == "Ed25519"
    for password in (None, "wrong horse"):
        with pytest.raises(ValueError, match="cannot be read"):
            Credentials.of(KEY, pem, password)


def test_a_signature_is_percent_encoded_after_signing() -> None:
    credentials = Credentials.of(KEY, _pem(Ed25519PrivateKey.generate()))
    signature = signed_query(credentials, {"a": 1}).removeprefix("a=1&signature=")
    assert signature == credentials.sign(b"a=1").replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")


def _formatted(each: object) -> str:
    return f"{each} {each!r:>80}"


@pytest.mark.parametrize("show", [repr, str, _formatted])
def test_credentials_show_neither_key_nor_secret(show: Callable[[object], str]) -> None:
    credentials = Credentials.of(KEY, SECRET)
    shown = show(credentials)
    assert KEY not in shown
    assert KEY[:6] not in shown
    assert SECRET[:6] not in shown


def test_credentials_are_never_serialised_or_copied_apart() -> None:
    credentials = Credentials.of(KEY, SECRET)
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never serialised"):
            write(credentials)
    assert not hasattr(credentials, "__dict__")


def test_only_who_has_key_and_secret_makes_the_fingerprint() -> None:
    one = Credentials.of(KEY, SECRET)
    assert one == Credentials.of(f" {KEY}\n", SECRET)
    assert one != Credentials.of(KEY, SECRET[::-1])
    assert one != Credentials.of(KEY[::-1], SECRET)
    assert len({one, Credentials.of(KEY, SECRET)}) == 1


@pytest.mark.parametrize(("key", "secret"), [("", "s"), ("k", " "), ("k\r\nHost: x", "s"), ("ключ", "s")])
def test_keys_that_no_venue_gives_are_refused_without_being_shown(key: str, secret: str) -> None:
    with pytest.raises(ValueError, match="both needed") as refusal:
        Credentials.of(key, secret)
    assert "Host" not in str(refusal.value)


def test_a_broken_or_foreign_private_key_is_refused_without_its_text() -> None:
    rsa = _pem(generate_private_key(65537, 2048))
    for pem, remedy in ((rsa, "not Ed25519"), (rsa.replace("A", "?"), "cannot be read")):
        with pytest.raises(ValueError, match=remedy) as refusal:
            Credentials.of(KEY, pem)
        assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
        assert pem[40:60] not in str(refusal.value)


def test_a_binary_fraction_is_never_sent() -> None:
    inexact: Any = 0.1
    with pytest.raises(TypeError, match="not exact"):
        encoded({"price": inexact})


def test_parameters_are_written_as_the_wire_writes_them() -> None:
    sent = {"a": True, "b": Decimal("1E-8"), "c": Decimal("10.50"), "d": "x y&z=1", "e": 7}
    assert encoded(sent) == "a=true&b=0.00000001&c=10.50&d=x%20y%26z%3D1&e=7"
