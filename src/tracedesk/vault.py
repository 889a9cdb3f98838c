"""Credentials, keyed by scope: kept in memory, gone with their scope."""

from __future__ import annotations

from typing import NoReturn

from tracedesk.primitives.redaction import Secrets


class Vault:
    """Secrets of live scopes. They are never printed, pickled or written down."""

    __slots__ = ("_by_scope", "_secrets")

    def __init__(self, secrets: Secrets) -> None:
        self._by_scope: dict[str, dict[str, str]] = {}
        self._secrets = secrets

    def put(self, scope: str, name: str, secret: str) -> None:
        """Keep `secret` for `scope`; from now on it is redacted wherever it would appear."""
        self._by_scope.setdefault(scope, {})[name] = secret
        self._secrets.add(secret)

    def get(self, scope: str, name: str) -> str | None:
        return self._by_scope.get(scope, {}).get(name)

    def drop(self, scope: str, name: str) -> None:
        """Forget one secret of `scope`."""
        self._forget(self._by_scope.get(scope, {}).pop(name, None))

    def wipe(self, scope: str) -> None:
        """Forget everything of `scope`."""
        for secret in self._by_scope.pop(scope, {}).values():
            self._forget(secret)

    def _forget(self, secret: str | None) -> None:
        if secret is not None and not self._held(secret):
            self._secrets.discard(secret)

    def _held(self, secret: str) -> bool:
        return any(secret in held.values() for held in self._by_scope.values())

    def __repr__(self) -> str:
        return f"<Vault of {len(self._by_scope)} scopes>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a vault is never serialised")
