"""Who asks: API keys, the signatures they make, and the time within which a signed request holds."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import secrets
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tracedesk.exchange.local import errors
from tracedesk.primitives.disk import sync
from tracedesk.primitives.time import MICROSECOND, MILLISECOND, SECOND

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

Kind = Literal["HMAC", "Ed25519", "RSA"]
Permission = Literal["TRADE", "USER_DATA", "USER_STREAM"]

EVERY: Final[tuple[Permission, ...]] = ("TRADE", "USER_DATA", "USER_STREAM")
RECEIVE_WINDOW_MS: Final = 5_000
LONGEST_WINDOW_MS: Final = 60_000
_LENGTH: Final = 64
_ALPHABET: Final = string.ascii_letters + string.digits
_FORMAT: Final = re.compile(rf"[A-Za-z0-9]{{{_LENGTH}}}")
_WHOLE: Final = re.compile(r"[0-9]{1,20}")
_WINDOW: Final = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,3}))?")
_MICROSECOND_DIGITS: Final = 16
"""A timestamp of so many digits counts microseconds; milliseconds have fewer until the year 33658."""


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """An API key of an account: its secret, or the public half of the owner's key pair as PEM."""

    api_key: str
    account: str
    kind: Kind
    material: str
    permissions: tuple[Permission, ...] = EVERY

    def __repr__(self) -> str:
        return f"Key({self.kind} of {self.account})"

    def verifies(self, payload: bytes, signature: str) -> bool:
        """Whether the signature is this key's for exactly these bytes."""
        if self.kind == "HMAC":
            made = hmac.new(self.material.encode(), payload, hashlib.sha256).hexdigest()
            return hmac.compare_digest(made.encode(), signature.lower().encode())
        return _verifies(_public(self.material), payload, signature)


def _verifies(public: Ed25519PublicKey | RSAPublicKey, payload: bytes, signature: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

    try:
        raw = base64.b64decode(signature, validate=True)
        if isinstance(public, Ed25519PublicKey):
            public.verify(raw, payload)
        else:
            public.verify(raw, payload, PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _public(pem: str) -> Ed25519PublicKey | RSAPublicKey:
    """The key that a PEM text holds; `ValueError` when it is neither Ed25519 nor RSA."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = load_pem_public_key(pem.encode())
    except UnsupportedAlgorithm as error:
        raise ValueError("the public key must be Ed25519 or RSA") from error
    if not isinstance(found, Ed25519PublicKey | RSAPublicKey):
        raise ValueError("the public key must be Ed25519 or RSA")
    return found


class Keys:
    """Every key of the exchange, kept in a file that only its owner can read where a path is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._keys: dict[str, Key] = {}
        if path is not None and path.exists():
            for row in json.loads(path.read_text(encoding="utf-8")):
                self._take(_key(row))

    def issue(self, account: str, permissions: tuple[Permission, ...] = EVERY) -> Key:
        """A new HMAC key; its material is the secret."""
        return self._add(Key(_random(), account, "HMAC", _random(), permissions))

    def register(self, account: str, public_pem: str, permissions: tuple[Permission, ...] = EVERY) -> Key:
        """A new key for the public half of an Ed25519 or RSA pair; `ValueError` for anything else."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        kind: Kind = "Ed25519" if isinstance(_public(public_pem), Ed25519PublicKey) else "RSA"
        return self._add(Key(_random(), account, kind, public_pem, permissions))

    def revoke(self, api_key: str) -> None:
        self._keys.pop(api_key, None)
        self._write()

    def find(self, api_key: str) -> Key:
        """The key of that name, or the refusal that its absence gets."""
        if not _FORMAT.fullmatch(api_key):
            raise errors.malformed_key()
        try:
            return self._keys[api_key]
        except KeyError:
            raise errors.rejected_key() from None

    def of(self, account: str) -> list[Key]:
        """The keys of an account, oldest first."""
        return [key for key in self._keys.values() if key.account == account]

    def _add(self, key: Key) -> Key:
        self._take(key)
        self._write()
        return key

    def _take(self, key: Key) -> None:
        self._keys[key.api_key] = key

    def _write(self) -> None:
        if self._path is not None:
            _write_private(self._path, json.dumps([_row(key) for key in self._keys.values()]))


def _row(key: Key) -> dict[str, Any]:
    names = ("api_key", "account", "kind", "material")
    return {**{name: getattr(key, name) for name in names}, "permissions": list(key.permissions)}


def _key(row: dict[str, Any]) -> Key:
    permissions = tuple(row["permissions"])
    return Key(row["api_key"], row["account"], row["kind"], row["material"], permissions)


def _random() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def _write_private(path: Path, text: str) -> None:
    """Replace a file in one step by one that only its owner can read."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync(path.parent)


# --- what is signed -----------------------------------------------------------------------------


def rest_payload(query: str, body: str) -> bytes:
    """The raw query directly followed by the raw body, both without their signature."""
    return (_unsigned(query) + _unsigned(body)).encode()


def _unsigned(encoded: str) -> str:
    return "&".join(part for part in encoded.split("&") if not part.startswith("signature="))


def socket_payload(parameters: Mapping[str, str]) -> bytes:
    """All parameters but the signature, sorted by name."""
    pairs: Iterable[tuple[str, str]] = sorted(parameters.items())
    return "&".join(f"{name}={value}" for name, value in pairs if name != "signature").encode()


# --- when it holds ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timing:
    """When a signed request was made, and for how long it may be acted upon."""

    made_ns: int
    window_ns: int

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Timing:
        """The timing of a request's parameters, checked for form."""
        stamp = parameters.get("timestamp", "")
        if not stamp:
            raise errors.missing("timestamp")
        if not _WHOLE.fullmatch(stamp):
            raise errors.illegal_characters("timestamp", "^[0-9]{1,20}$")
        unit = MICROSECOND if len(stamp) >= _MICROSECOND_DIGITS else MILLISECOND
        return cls(int(stamp) * unit, _window_ns(parameters.get("recvWindow")))

    def check(self, now_ns: int) -> None:
        """Refuse a request from the future, or one that came too late."""
        if self.made_ns >= now_ns + SECOND:
            raise errors.too_new()
        if now_ns - self.made_ns > self.window_ns:
            raise errors.too_old()


def _window_ns(text: str | None) -> int:
    if text is None:
        return RECEIVE_WINDOW_MS * MILLISECOND
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise errors.illegal_characters("recvWindow", r"^[0-9]{1,20}(\.[0-9]{1,3})?$")
    window = int(match[1]) * MILLISECOND + int((match[2] or "").ljust(3, "0")) * MICROSECOND
    if window > LONGEST_WINDOW_MS * MILLISECOND:
        raise errors.too_great("recvWindow", LONGEST_WINDOW_MS)
    return window
