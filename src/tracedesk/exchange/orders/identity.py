"""Which account at the venue it is, whatever it is called here: limits are an account's and not a name's.

An account is told by marks: a digest of its API key, and the number that the venue itself gives it. Marks
that were seen on one account are one account from then on. The mark of a key says nothing of the venue's
address: one venue has many, and no two venues give out the same key. Numbers are only a venue's own, so
their marks name it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

from tracedesk.journal.sqlite import Connection

TABLES: Final = """
CREATE TABLE IF NOT EXISTS exchange_mark(
  mark TEXT PRIMARY KEY, identity TEXT NOT NULL
) WITHOUT ROWID, STRICT;
"""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_HERE: Final = "this machine"
_ALIAS: Final = re.compile(r"^api(?:[0-9]|-gcp)\.")
"""How the further doors of one venue are called: api1, api2, api-gcp."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An account as it is called, and as it is told from others."""

    name: str
    marks: tuple[str, ...] = ()
    """The key's first; none where nothing but the name is known."""

    @property
    def venue(self) -> str:
        """The venue that its name begins with; other venues know nothing of its orders."""
        return self.name.partition("/")[0]

    def numbered(self, place: str, number: int | None) -> Identity:
        """The same account, with the number that its venue gives it."""
        if number is None:
            return self
        return Identity(self.name, (*self.marks, f"uid:{self.venue}/{place}/{number}"))


def of_key(api_key: str) -> str:
    """The mark of an API key, from which nobody gets back to the key."""
    return "key:" + hashlib.sha256(f"tracedesk account\0{api_key}".encode()).hexdigest()[:32]


def place_of(address: str) -> str:
    """Where a venue is: its host, the same for the doors that it has beside `api`, and for no other hosts."""
    host = urlsplit(address).hostname or ""
    return _HERE if host in _LOOPBACK else _ALIAS.sub("api.", host)


def number_of(told: Any) -> int | None:
    """The number that a venue's answer about an account gives it, where it does."""
    number = cast("dict[str, Any]", told).get("uid") if isinstance(told, dict) else None
    return number if isinstance(number, int) else None


# --- in the ledger's file -------------------------------------------------------------------------


def known(connection: Connection, identity: Identity) -> list[str]:
    """What the account's orders may be written down under; what was known before comes first, oldest first.

    So the first stays what it is, whichever name or key asks.
    """
    places = ",".join("?" * len(identity.marks))
    query = f"SELECT mark, identity FROM exchange_mark WHERE mark IN ({places})"
    joined = dict(connection.execute(query, identity.marks)) if identity.marks else {}
    fresh = [mark for mark in identity.marks if mark not in joined]
    return [*_oldest_first(connection, set(joined.values())), *fresh] or [identity.name]


def _oldest_first(connection: Connection, found: Iterable[str]) -> list[str]:
    """By their first orders; those that sent none come last."""
    first = "SELECT min(sent_ns) FROM exchange_order WHERE identity = ?"
    sent = {each: next(connection.execute(first, (each,)))[0] for each in found}
    return sorted(sent, key=lambda each: (sent[each] is None, sent[each] or 0, each))


def own(connection: Connection, identity: Identity) -> frozenset[str]:
    """What only the account's own orders are under; orders from before marks were kept have its name."""
    return frozenset((*known(connection, identity), identity.name))


def is_numbered(connection: Connection, identity: Identity) -> bool:
    """Whether its venue's number for the account is known."""
    found = known(connection, identity)
    places = ",".join("?" * len(found))
    query = f"SELECT 1 FROM exchange_mark WHERE identity IN ({places}) AND mark LIKE 'uid:%' LIMIT 1"
    return bool(list(connection.execute(query, found)))


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
