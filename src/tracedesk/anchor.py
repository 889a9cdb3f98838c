"""Anchors: the heads of all streams of a home, signed, in a file outside it; and what was lost since.

An anchor finds losses that the home alone cannot show: both databases put back together, a run or a stream
deleted, a seal removed. Its signature, by a key of the home, shows that nobody without that key has changed
the anchor since. Everyone who may write the home may sign too: keep the anchor where they cannot replace it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import tracedesk
from tracedesk import rollback
from tracedesk.home import Home, HomeError, alone, read_format
from tracedesk.journal import JournalError, Reader
from tracedesk.journal import seal as seals
from tracedesk.journal.model import Head, Stream
from tracedesk.journal.sqlite import Connection, SQLiteError
from tracedesk.journal.stream import every
from tracedesk.journal.stream import head_of as open_head
from tracedesk.primitives.disk import sync
from tracedesk.primitives.time import Clock, SystemClock, format

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT: Final = 1
KEY: Final = "anchor.key"
PUBLIC: Final = "anchor.pub"
"""The public halves of all keys that signed for this home, one a line. Backups have these, and no key."""
_CONTEXT: Final = b"tracedesk anchor 1\n"
"""Signed before the anchor itself, so that the key's signatures mean nothing elsewhere."""


class AnchorError(HomeError):
    """An anchor that cannot be written or used, with the remedy."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """An anchor whose signature holds."""

    facts: Mapping[str, Any]
    public_key: bytes

    @property
    def written_at(self) -> str:
        return self.facts["writtenAt"]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public_key)


@dataclass(slots=True)
class Comparison:
    """The home beside an anchor."""

    losses: list[rollback.Loss] = field(default_factory=list[rollback.Loss])
    pruned: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(file, stream) that were pruned since; their seals are still there."""


def fingerprint(public_key: bytes) -> str:
    """The SHA-256 of a public key, as people compare it."""
    return hashlib.sha256(public_key).hexdigest()


# --- writing one -------------------------------------------------------------------------------


def document(home: Home, clock: Clock | None = None) -> dict[str, Any]:
    """The signed heads of everything that the home holds now, all of them on the disk."""
    known = read_format(home.path)
    facts = {
        "format": FORMAT,
        "home": known.created_at if known is not None else None,
        "writtenAt": format((clock or SystemClock()).now_ns()),
        "writtenBy": tracedesk.__version__,
        "files": dict(_files(home)),
    }
    with alone(home.path):  # two first anchors at once would make two keys
        key = _signing_key(home.path)
    return {
        "anchor": facts,
        "publicKey": _text(key.public_key().public_bytes_raw()),
        "signature": _text(key.sign(_signed(facts))),
    }


def write(anchor: Mapping[str, Any], target: Path, home: Path) -> None:
    """Write an anchor to a file outside the home, whole or not at all; an older anchor is replaced."""
    place = target.resolve()
    if place.is_relative_to(home.resolve()):
        raise AnchorError(
            f"{target} lies in the home itself. Choose a file outside it, best on another machine"
        )
    if place.exists() and not _is_anchor(place):
        raise AnchorError(f"{target} is there already and is no anchor. Choose another file")
    _keep(place, json.dumps(anchor, indent=1, sort_keys=True).encode() + b"\n")


def _is_anchor(path: Path) -> bool:
    try:
        return "anchor" in json.loads(path.read_bytes())
    except (ValueError, TypeError, RecursionError):
        return False


def _files(home: Home) -> Iterator[tuple[str, Any]]:
    for path in home.databases():
        name = path.relative_to(home.path).as_posix()
        if path == home.ledger:
            yield name, {"streams": _ledger_heads(path)}
        else:
            found = _journal_heads(path)
            if found is not None:
                yield name, {"streams": found}
        _sync_log(path)


def _sync_log(path: Path) -> None:
    """Put what was read on the disk: a killed writer's last commit can be visible before it is there."""
    log = path.with_name(f"{path.name}-wal")
    with suppress(FileNotFoundError):
        sync(log)


def _ledger_heads(path: Path) -> dict[str, Any]:
    from tracedesk.trading.ledger import Ledger
    from tracedesk.trading.schema import STREAM

    with Ledger.read_only(path) as ledger:
        seq, digest = ledger.head()
    return {STREAM: {"seq": seq, "hash": digest.hex()}}


def _journal_heads(path: Path) -> dict[str, Any] | None:
    """The heads of a journal's streams; None for another kind of file."""
    try:
        reader = Reader(path)
    except (JournalError, SQLiteError):
        return None
    with reader:
        connection = reader.connection
        connection.execute("BEGIN")
        found = {stream.name: _state(connection, stream) for stream in every(connection)}
        connection.execute("COMMIT")
    return found


def _state(connection: Connection, stream: Stream) -> dict[str, Any]:
    """Last seq of a stream and, where it has ended, the hashes of its end."""
    pruned = seals.is_pruned(connection, stream)
    if pruned:
        manifest = seals.manifest(connection, stream)
        head = Head(manifest["events"], bytes.fromhex(manifest["head"]))
    else:
        head = open_head(connection, stream)
    facts: dict[str, Any] = {"seq": head.seq, "hash": head.hash.hex()}
    ends = {table: _end(connection, table, stream) for table in ("seal", "tombstone")}
    return facts | {table: digest for table, digest in ends.items() if digest is not None}


def _end(connection: Connection, table: str, stream: Stream) -> str | None:
    rows = connection.execute(f"SELECT hash FROM {table} WHERE stream = ?", (stream.id,))
    return next((digest.hex() for (digest,) in rows), None)


# --- reading one -------------------------------------------------------------------------------


def read(path: Path) -> Anchor:
    """Read an anchor; raises `AnchorError` for one that was not written so."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        whole: Any = json.loads(path.read_bytes())
        facts, public = whole["anchor"], _bytes(whole["publicKey"])
        number = facts["format"]
        Ed25519PublicKey.from_public_bytes(public).verify(_bytes(whole["signature"]), _signed(facts))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise AnchorError(f"{path} is not an anchor, or is damaged. Use another copy of it") from None
    except InvalidSignature:
        raise AnchorError(f"{path} is not what was signed: it was changed. Use another copy of it") from None
    if number != FORMAT:
        raise AnchorError(
            f"{path} was written by tracedesk {facts.get('writtenBy')}. Update this one to read it"
        )
    return Anchor(facts, public)


def compare(home: Home, anchor: Anchor, source: str) -> Comparison:
    """Find everything that the anchor names and the home no longer has; `source` names the anchor."""
    known = read_format(home.path)
    if known is None or known.created_at != anchor.facts["home"]:
        raise AnchorError(
            f"{source} is an anchor of another home, made {anchor.facts['home']}. Name it with --home"
        )
    found = Comparison()
    if anchor.public_key not in public_keys(home.path):
        problem = "the key that signed the anchor is not among this home's"
        found.losses.append(rollback.Loss(PUBLIC, "", 0, problem, source))
    for name, facts in cast("dict[str, Any]", anchor.facts["files"]).items():
        _compare_file(home.path, name, facts["streams"], source, found)
    return found


def _compare_file(home: Path, name: str, streams: dict[str, Any], source: str, found: Comparison) -> None:
    wanted = {stream: Head(each["seq"], bytes.fromhex(each["hash"])) for stream, each in streams.items()}
    lost = rollback.missing(home / name, wanted, source, name)
    found.losses += lost
    gone = {loss.stream for loss in lost}
    if name == rollback.LEDGER or not (home / name).exists() or "" in gone:
        return
    with Reader(home / name) as reader:
        for stream in every(reader.connection):
            if stream.name in streams and stream.name not in gone:
                _compare_end(reader.connection, stream, streams[stream.name], name, source, found)


def _compare_end(
    connection: Connection, stream: Stream, then: dict[str, Any], name: str, source: str, found: Comparison
) -> None:
    for table, problem in (
        ("seal", "its seal is missing or another one"),
        ("tombstone", "its tombstone is missing or another one"),
    ):
        now = _end(connection, table, stream)
        if table in then and now != then[table]:
            found.losses.append(rollback.Loss(name, stream.name, then["seq"], problem, source))
        elif table == "tombstone" and now is not None and table not in then:
            found.pruned.append((name, stream.name))


# --- the key -----------------------------------------------------------------------------------


def public_keys(home: Path) -> list[bytes]:
    """The public halves of the keys that signed for this home; none before its first anchor."""
    path = home / PUBLIC
    try:
        return [bytes.fromhex(line) for line in path.read_text(encoding="ascii").split()]
    except FileNotFoundError:
        return []
    except ValueError:
        raise AnchorError(f"{path} is damaged. Restore it from a backup of this home") from None


def _signing_key(home: Path) -> Ed25519PrivateKey:
    """The home's key, made when it is first needed."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = home / KEY
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _keep(path, pem)
    key = _loaded(path)
    known, own = public_keys(home), key.public_key().public_bytes_raw()
    if own not in known:
        _keep(home / PUBLIC, "".join(f"{each.hex()}\n" for each in (*known, own)).encode())
    return key


def _keep(path: Path, content: bytes) -> None:
    """Put a file in its place whole, for its owner alone."""
    descriptor, fresh = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    sync(path.parent)


def _loaded(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    pem = path.read_bytes()
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise AnchorError(f"{path} is damaged. Restore it from a backup of this home")
    return key


# --- bytes -------------------------------------------------------------------------------------


def _signed(facts: Mapping[str, Any]) -> bytes:
    return _CONTEXT + json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as fault:
        raise ValueError(str(fault)) from None
