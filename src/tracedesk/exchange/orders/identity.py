"""Which account at the venue it is, whatever it is called here: limits are an account's and not a name's.

An account is told by marks: a digest of its API key, and the number that the venue itself gives it. Marks
that were seen on one account are one account from then on. The mark of a key says nothing of the venue's
address: one venue has many, and no two venues give out the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tracedesk.journal.sqlite import Connection

TABLES: Final = """
CREATE TABLE IF NOT EXISTS exchange_mark(
  mark TEXT PRIMARY KEY, identity TEXT NOT NULL
) WITHOUT ROWID, STRICT;
"""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_HERE: Final = "this machine"


@dataclass(frozen=True, slots=True)
class Identity:
    """An account as it is called, and as it is told from others."""

    name: str
    marks: tuple[str, ...] = ()
    """The key's first; none where nothing but the name is known."""

    def numbered(self, place: str, number: int | None) -> Identity:
        """The same account, with the number that its venue gives it."""
        if number is None:
            return self
        return Identity(self.name, (*self.marks, f"uid:{place}/{number}"))


def of_key(api_key: str) -> str:
    """The mark of an API key, from which nobody gets back to the key."""
    return "key:" + hashlib.sha256(f"tracedesk account\0{api_key}".encode()).hexdigest()[:32]


def place_of(address: str) -> str:
    """Where a venue is, the same for all its addresses: the last two parts of its name."""
    host = urlsplit(address).hostname or ""
    return _HERE if host in _LOOPBACK else ".".join(host.split(".")[-2:])


# --- in the ledger's file -------------------------------------------------------------------------


def known(connection: Connection, identity: Identity) -> list[str]:
    """What the account's orders may be written down under; what was known before comes first."""
    places = ",".join("?" * len(identity.marks))
    query = f"SELECT mark, identity FROM exchange_mark WHERE mark IN ({places})"
    joined = dict(connection.execute(query, identity.marks)) if identity.marks else {}
    fresh = [mark for mark in identity.marks if mark not in joined]
    found = [joined[mark] for mark in identity.marks if mark in joined]
    return list(dict.fromkeys((*found, *fresh))) or [identity.name]


def join(connection: Connection, identity: Identity) -> str:
    """Make one account of what turned out to be one, in a transaction of the caller's; what it is now.

    Orders from before marks were kept are under their account's name, and go along.
    """
    [target, *others] = known(connection, identity)
    if identity.marks:
        old = (*others, identity.name)
        _rename(connection, "exchange_mark", target, old)
        _rename(connection, "exchange_order", target, old)
        rows = [(mark, target) for mark in identity.marks]
        connection.executemany("INSERT OR REPLACE INTO exchange_mark VALUES(?,?)", rows)
    return target


def is_joined(connection: Connection, identity: Identity) -> bool:
    """Whether joining would change nothing."""
    if not identity.marks:
        return True
    places = ",".join("?" * len(identity.marks))
    query = f"SELECT count(*), count(DISTINCT identity) FROM exchange_mark WHERE mark IN ({places})"
    marked = next(connection.execute(query, identity.marks))
    left = "SELECT 1 FROM exchange_order WHERE identity = ? LIMIT 1"
    return marked == (len(identity.marks), 1) and not list(connection.execute(left, (identity.name,)))


def _rename(connection: Connection, table: str, target: str, old: Sequence[str]) -> None:
    places = ",".join("?" * len(old))
    connection.execute(f"UPDATE {table} SET identity = ? WHERE identity IN ({places})", (target, *old))
