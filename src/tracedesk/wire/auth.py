"""Who is calling: bearer tokens with scopes, kept in the home as digests."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast, get_args

from tracedesk.contract import Scope

OWNER: Final = "owner"
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
ALL: Final[frozenset[Scope]] = frozenset(SCOPES)
READ: Final[frozenset[Scope]] = frozenset(("read",))
NOTHING: Final[frozenset[Scope]] = frozenset()


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of a request: where its state is kept, who it is, and what it may do."""

    scope: str
    principal: str | None = None
    granted: frozenset[Scope] = ALL
    credential: str | None = None
    """The digest of the token that was sent: a token re-issued under an old name is another one."""
    subject: str | None = None
    """The owner of what the caller's calls store for later: `OWNER` for the stdio desk, the own uid and the
    home's own token, the name of another token, or None, where the scope owns it."""


OWN_USER: Final = Identity("anonymous", None, READ, subject=OWNER)
"""A caller without a token that the kernel reports to be the desk's own user."""
STRANGER: Final = Identity("stranger", None, NOTHING)
"""Any other caller without a token: another user of this machine, or one that the kernel does not report."""


@dataclass(frozen=True, slots=True)
class Token:
    """One issued token; the secret itself is never kept here."""

    name: str
    digest: str
    scopes: frozenset[Scope]


class Tokens:
    """The tokens of a home: `tokens.json` has digests, `token` the owner's secret for printing."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._table = home / "tokens.json"
        self._owner = home / "token"
        self._tokens: tuple[Token, ...] = ()
        self._seen: tuple[int, int] | None = None
        self.list()

    def verify(self, secret: str) -> Token | None:
        """The token that `secret` is, compared in constant time."""
        digest = _digest(secret)
        found = None
        for token in self.list():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def owner(self) -> str:
        """The owner's secret, with every scope; made on first use."""
        with self._alone():
            if self._owner.exists():
                secret = self._owner.read_text(encoding="ascii").strip()
                if self.verify(secret) is not None:
                    return secret
            secret = self._add(OWNER, SCOPES, replacing=True)
            _write_private(self._owner, secret + "\n")
            return secret

    def issue(self, name: str, scopes: Iterable[Scope]) -> str:
        """A new token's secret; shown once, stored as a digest."""
        with self._alone():
            return self._add(name, scopes, replacing=False)

    def revoke(self, name: str) -> bool:
        """Take a token away; desks that run refuse it from their next request on."""
        with self._alone():
            kept = tuple(token for token in self.list() if token.name != name)
            found = len(kept) < len(self._tokens)
            if found:
                self._save(kept)
            return found

    def list(self) -> tuple[Token, ...]:
        """The tokens in force, whichever process issued or revoked them."""
        seen = _mark(self._table)
        if seen != self._seen:
            self._tokens, self._seen = _read(self._table), seen
        return self._tokens

    def _add(self, name: str, scopes: Iterable[Scope], *, replacing: bool) -> str:
        others = tuple(token for token in self.list() if token.name != name)
        if len(others) < len(self._tokens) and not replacing:
            raise ValueError(f"a token named {name!r} exists; revoke it first")
        secret = "td_" + secrets.token_urlsafe(32)
        self._save((*others, Token(name, _digest(secret), frozenset(scopes))))
        return secret

    def _save(self, tokens: tuple[Token, ...]) -> None:
        rows = [{"name": t.name, "sha256": t.digest, "scopes": sorted(t.scopes)} for t in tokens]
        _write_private(self._table, json.dumps(rows, indent=2) + "\n")

    @contextmanager
    def _alone(self) -> Generator[None]:
        """One process at a time reads, changes and writes the table."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._home / "tokens.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _mark(path: Path) -> tuple[int, int] | None:
    """What tells one version of a file from the next: files are replaced whole, so the inode changes."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> tuple[Token, ...]:
    if not path.exists():
        return ()
    rows = cast("list[dict[str, Any]]", json.loads(path.read_text(encoding="utf-8")))
    return tuple(Token(row["name"], row["sha256"], frozenset(row["scopes"])) for row in rows)


def _write_private(path: Path, text: str) -> None:
    """Replace `path` whole, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
