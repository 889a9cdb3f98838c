"""The keys of one account, which are never printed, compared by text or written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from tracedesk.exchange.client.signing import Credentials

API_KEY: Final = "binance_api_key"
API_SECRET: Final = "binance_api_secret"
PRIVATE_KEY: Final = "binance_private_key"
"""The names under which a scope's own keys lie in the vault."""


class Keys:
    """An API key with its HMAC secret or its Ed25519 private key in PEM."""

    __slots__ = ("api_key", "private_key", "secret")

    def __init__(self, api_key: str, *, secret: str = "", private_key: str = "") -> None:
        if bool(secret) == bool(private_key):
            raise ValueError("an account has either a secret or a private key")
        self.api_key: Final = api_key
        self.secret: Final = secret
        self.private_key: Final = private_key

    def credentials(self) -> Credentials:
        """What signs with them."""
        from tracedesk.exchange.client.signing import Credentials

        return Credentials.of(self.api_key, self.secret or self.private_key)

    def __repr__(self) -> str:
        return f"<Keys {'Ed25519' if self.private_key else 'HMAC'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are never serialised")


class BadKeys(ValueError):
    """Keys that cannot be used, with what to do about it; the message never has a byte of them."""


def checked(api_key: str, *, secret: str = "", private_key: str = "") -> Keys:
    """Keys whose parts have the form of keys."""
    api_key, secret, private_key = api_key.strip(), secret.strip(), private_key.strip()
    for name, text in (("the API key", api_key), ("the secret", secret)):
        if len(text) > 256 or not all(33 <= ord(c) < 127 for c in text):
            raise BadKeys(f"{name} must be at most 256 visible ASCII characters without spaces")
    if len(api_key) < 16:
        raise BadKeys("the API key is missing or too short; copy it whole")
    if bool(secret) == bool(private_key):
        raise BadKeys("give either the secret of an HMAC key or the private key of an Ed25519 key, not both")
    if secret and len(secret) < 16:
        raise BadKeys("the secret is too short; copy it whole")
    if private_key:
        _check_pem(private_key)
    return Keys(api_key, secret=secret, private_key=private_key)


def _check_pem(text: str) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        loaded = load_pem_private_key(text.encode(), password=None)
    except (TypeError, ValueError):
        raise BadKeys("the private key must be an unencrypted PEM (-----BEGIN PRIVATE KEY-----)") from None
    if not isinstance(loaded, Ed25519PrivateKey):
        raise BadKeys("the private key must be an Ed25519 key; others are not taken")
