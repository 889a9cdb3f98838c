"""Keys of an account and the signatures made with them. A key never shows itself."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, Literal, NoReturn
from urllib.parse import quote

Value = str | int | bool | Decimal
"""What a parameter can be. A binary fraction is not among them: it is no price."""
Kind = Literal["HMAC", "Ed25519"]

_PEM: Final = "-----BEGIN"
_PROOF: Final = b"tracedesk credentials fingerprint"


class Credentials:
    """An API key with what signs for it."""

    __slots__ = ("_sign", "api_key", "fingerprint", "kind")

    def __init__(self, api_key: str, kind: Kind, sign: Callable[[bytes], str]) -> None:
        self.api_key = api_key
        self.kind: Kind = kind
        self._sign = sign
        self.fingerprint = _fingerprint(api_key, sign)
        """Tells credentials apart without telling them; who lacks the secret cannot make it."""

    @classmethod
    def of(cls, api_key: str, secret: str, password: str | None = None) -> Credentials:
        """HMAC with a secret text, or Ed25519 with a private key in PEM."""
        key, secret = api_key.strip(), secret.strip()
        if not key or not secret or not key.isascii() or not key.isprintable():
            raise ValueError("an API key and its secret are both needed, as the venue showed them")
        if secret.startswith(_PEM):
            return cls(key, "Ed25519", _ed25519(secret, password))
        return cls(key, "HMAC", _hmac(secret))

    def sign(self, payload: bytes) -> str:
        """The signature of exactly these bytes, not yet percent-encoded."""
        return self._sign(payload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Credentials) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<Credentials {self.kind} {self.fingerprint[:8]}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials are never serialised")


def _fingerprint(api_key: str, sign: Callable[[bytes], str]) -> str:
    proof = sign(_PROOF + api_key.encode())
    return hashlib.sha256(proof.encode()).hexdigest()[:32]


def _hmac(secret: str) -> Callable[[bytes], str]:
    keyed = hmac.new(secret.encode(), digestmod=hashlib.sha256)

    def sign(payload: bytes) -> str:
        one = keyed.copy()
        one.update(payload)
        return one.hexdigest()

    return sign


def _ed25519(pem: str, password: str | None) -> Callable[[bytes], str]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), password.encode() if password else None)
    except (ValueError, TypeError):
        # The library's message could quote the key's text.
        raise ValueError("the private key cannot be read; give it as PKCS#8 PEM with its password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("the private key is not Ed25519; make an Ed25519 key, or use an HMAC secret")

    def sign(payload: bytes) -> str:
        return b64encode(key.sign(payload)).decode()

    return sign


def text(value: Value) -> str:
    """A parameter as the wire writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        raise TypeError("a float is not exact; give the number as text or Decimal")
    return str(value)


def encoded(params: Mapping[str, Value]) -> str:
    """The query string, percent-encoded: exactly what is signed and sent."""
    return "&".join(f"{quote(name, safe='')}={quote(text(value), safe='')}" for name, value in params.items())


def signed_query(credentials: Credentials, params: Mapping[str, Value]) -> str:
    """The query string with its signature at the end."""
    payload = encoded(params)
    return f"{payload}&signature={quote(credentials.sign(payload.encode('ascii')), safe='')}"


def signed_params(credentials: Credentials, params: Mapping[str, Value]) -> dict[str, str | int | bool]:
    """The parameters of a WebSocket API request: sorted by name and signed as plain text."""
    named: dict[str, Value] = {**params, "apiKey": credentials.api_key}
    whole = dict(sorted(named.items()))
    payload = "&".join(f"{name}={text(value)}" for name, value in whole.items())
    plain = {name: value if isinstance(value, bool | int) else text(value) for name, value in whole.items()}
    return {**plain, "signature": credentials.sign(payload.encode())}
