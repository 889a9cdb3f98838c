"""Keys, signatures and the time a signed request holds, by the vectors of the venue's own documentation."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.local.auth import Key, Keys, Timing, rest_payload, socket_payload
from tracedesk.exchange.local.errors import Refused
from tracedesk.primitives.time import MICROSECOND, MILLISECOND

# The documentation's own example keys.
API_KEY = "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"
SECRET = "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j"
EXAMPLE = Key(API_KEY, "example", "HMAC", SECRET)
QUERY = (
    "symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce=GTC&quantity=1&price=0.1"
    "&recvWindow=5000&timestamp=1499827319559"
)
SIGNATURE = "c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71"
WIDE = QUERY.replace("LTCBTC", "%EF%BC%91%EF%BC%92%EF%BC%93%EF%BC%94%EF%BC%95%EF%BC%96")
WIDE_SIGNATURE = "e1353ec6b14d888f1164ae9af8228a3dbd508bc82eb867db8ab6046442f33ef3"
NOW = 1_499_827_319_559 * MILLISECOND


@pytest.mark.parametrize(("query", "signature"), [(QUERY, SIGNATURE), (WIDE, WIDE_SIGNATURE)])
def test_the_documented_hmac_examples_verify_in_any_case_of_letters(query: str, signature: str) -> None:
    assert EXAMPLE.verifies(query.encode(), signature)
    assert EXAMPLE.verifies(query.encode(), signature.upper())
    assert not EXAMPLE.verifies(query.encode() + b" ", signature)


@pytest.mark.parametrize("cut", [0, 20, len(QUERY)])
def test_query_and_body_are_joined_without_a_separator(cut: int) -> None:
    query, body = QUERY[:cut], QUERY[cut:]
    assert EXAMPLE.verifies(rest_payload(query, body), SIGNATURE)


def test_the_signature_is_left_out_wherever_it_stands() -> None:
    first, rest = QUERY.split("&", 1)
    for encoded in (f"{QUERY}&signature={SIGNATURE}", f"{first}&signature={SIGNATURE}&{rest}"):
        assert rest_payload(encoded, "") == rest_payload("", encoded) == QUERY.encode()


def test_a_socket_signs_its_parameters_sorted_by_name() -> None:
    sent = {"timestamp": "1", "apiKey": "k", "signature": "s", "symbol": "１２", "omitZeroBalances": "true"}
    assert socket_payload(sent).decode() == "apiKey=k&omitZeroBalances=true&symbol=１２&timestamp=1"


def _pem(public: ed25519.Ed25519PublicKey | rsa.RSAPublicKey) -> str:
    shape = serialization.PublicFormat.SubjectPublicKeyInfo
    return public.public_bytes(serialization.Encoding.PEM, shape).decode()


def test_an_ed25519_signature_verifies_in_its_own_case_only() -> None:
    private = ed25519.Ed25519PrivateKey.generate()
    key = Keys().register("ann", _pem(private.public_key()))
    signature = base64.b64encode(private.sign(QUERY.encode())).decode()
    assert key.kind == "Ed25519"
    assert key.verifies(QUERY.encode(), signature)
    assert not key.verifies(QUERY.encode(), signature.swapcase())
    assert not key.verifies(QUERY.encode(), "not base64!")


def test_an_rsa_signature_verifies() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key = Keys().register("ann", _pem(private.public_key()))
    signature = base64.b64encode(private.sign(QUERY.encode(), PKCS1v15(), hashes.SHA256())).decode()
    assert key.kind == "RSA"
    assert key.verifies(QUERY.encode(), signature)
    assert not key.verifies(QUERY.encode()[1:], signature)


def test_keys_survive_in_a_file_that_only_the_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    issued = Keys(path).issue("ann", ("USER_DATA",))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Keys(path)
    assert again.find(issued.api_key) == issued
    assert again.of("ann") == [issued]
    again.revoke(issued.api_key)
    with pytest.raises(Refused, match="Invalid API-key"):
        Keys(path).find(issued.api_key)


def test_no_secret_shows_in_the_text_of_a_key() -> None:
    key = Keys().issue("ann")
    assert key.material not in f"{key!r} {key}"
    assert key.api_key not in f"{key!r} {key}"


@pytest.mark.parametrize(
    ("api_key", "code"), [("", -2014), ("short", -2014), ("x" * 63 + "!", -2014), ("x" * 64, -2015)]
)
def test_malformed_and_unknown_keys_are_told_apart(api_key: str, code: int) -> None:
    with pytest.raises(Refused) as refused:
        Keys().find(api_key)
    assert (refused.value.code, refused.value.status) == (code, 401)


# --- timing -------------------------------------------------------------------------------------


def _outcome(late_us: int, window: str | None) -> tuple[int, str] | None:
    """The refusal of a request that was made so many microseconds ago."""
    sent = {
        "timestamp": str(NOW // MICROSECOND - late_us),
        **({} if window is None else {"recvWindow": window}),
    }
    try:
        Timing.of(sent).check(NOW)
    except Refused as refused:
        return refused.code, refused.message
    return None


@given(late_us=st.integers(-3_000_000, 70_000_000), window_us=st.integers(0, 60_000_000))
def test_a_request_holds_from_less_than_a_second_ahead_until_its_window_is_over(
    late_us: int, window_us: int
) -> None:
    window = f"{window_us // 1000}.{window_us % 1000:03}"
    early = -1021, "Timestamp for this request was 1000ms ahead of the server's time."
    late = -1021, "Timestamp for this request is outside of the recvWindow."
    expected = early if late_us <= -1_000_000 else late if late_us > window_us else None
    assert _outcome(late_us, window) == expected


def test_the_window_is_five_seconds_where_none_is_sent() -> None:
    assert _outcome(5_000_000, None) is None
    assert _outcome(5_000_001, None) is not None


def test_milliseconds_and_microseconds_are_told_apart() -> None:
    milliseconds = Timing.of({"timestamp": "1499827319559"})
    assert milliseconds == Timing.of({"timestamp": "1499827319559000"})
    assert milliseconds.made_ns == NOW


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        ({}, -1102, "Mandatory parameter 'timestamp' was not sent, was empty/null, or malformed."),
        (
            {"timestamp": "now"},
            -1100,
            "Illegal characters found in parameter 'timestamp'; legal range is '^[0-9]{1,20}$'.",
        ),
        (
            {"timestamp": "1", "recvWindow": "60000.001"},
            -1102,
            "'recvWindow' contains unexpected value. Cannot be greater than 60000.",
        ),
    ],
)
def test_malformed_times_are_named(sent: dict[str, str], code: int, text: str) -> None:
    with pytest.raises(Refused) as refused:
        Timing.of(sent)
    assert (refused.value.code, refused.value.message) == (code, text)


@pytest.mark.parametrize("window", ["1.0001", "-1", "five", ""])
def test_a_window_that_is_no_number_of_milliseconds_is_refused(window: str) -> None:
    with pytest.raises(Refused) as refused:
        Timing.of({"timestamp": "1", "recvWindow": window})
    assert refused.value.code == -1100
