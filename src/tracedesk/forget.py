"""Forgetting: one call, event or payload goes for good; its hash and a record of the forgetting stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracedesk import sweep
from tracedesk.calls.log import drop_names
from tracedesk.calls.record import PAYLOADS, PREFIX
from tracedesk.home import Home, HomeError, alone
from tracedesk.journal import Journal, JournalError, OldFraming, Reader, forgetting
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS, key
from tracedesk.journal.sqlite import Connection, SQLiteError, connect
from tracedesk.journal.stream import find
from tracedesk.journal.transaction import Transaction
from tracedesk.primitives import json
from tracedesk.primitives.disk import sync
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.time import Clock, SystemClock

EVENTS: Final = "tracedesk://codegraph/"
_EVENT: Final = re.compile(r"tracedesk://codegraph/(etg-[0-9-]{7})/([1-9][0-9]{0,12})")
_PAYLOAD: Final = re.compile(r"tracedesk://payloads/([0-9a-f]{64})")
_LEDGERS: Final = ("tracedesk://trading/", "tracedesk://exchange/")
_CALLS: Final = "calls"
_BUSY_MS: Final = 5_000

Drop = Callable[[Connection, Sequence[int]], None]
"""Takes what a toolset has made of these events out of its tables."""
Tidy = Callable[[Connection], None]


class ForgetError(HomeError):
    """A reference that cannot be forgotten, with what to do."""


@dataclass(slots=True)
class Outcome:
    """Outcome of a forgetting."""

    ref: str
    refs: list[str] = field(default_factory=list[str])
    """All that lead nowhere now: with an event goes the call that logged it, and their payloads."""
    payloads: int = 0
    already: bool = False
    notes: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Target:
    """References that go together."""

    events: dict[int, tuple[str, int, str]] = field(default_factory=dict[int, tuple[str, int, str]])
    """The stream, seq and reference of each event, by its row."""
    payloads: set[str] = field(default_factory=set[str])
    own: set[str] = field(default_factory=set[str])
    """Payloads that were asked for by name: they go whatever else cites them."""


def forget(home: Home, ref: str, *, by: str, clock: Clock | None = None, drop: Drop, tidy: Tidy) -> Outcome:
    """Take out what a reference leads to. Killed, it can be repeated, which completes it.

    `by` is who asked. `drop` and `tidy` are the code graph's, which has made tables and an index of events.
    """
    _refuse_by_name(ref)
    clock = clock or SystemClock()
    with alone(home.path):
        if not home.trace.exists():
            raise ForgetError(f"Nothing is recorded in {home.path} yet.")
        with Journal(home.trace, clock) as journal:
            connection = journal.connection
            connection.execute("PRAGMA secure_delete = ON")
            known = _record_of(connection, ref)
            outcome = Outcome(ref, already=known is not None)
            target = _found(home, connection, ref) if known is None else _left_of(known, ref)
            # Also the second time: a record may cite by now what somebody has stored again.
            _refuse_ledger(home, target)
            _keep_cited(home, connection, target, outcome)
            outcome.refs = _refs(target) if known is None else list(known["refs"])
            if known is None:
                names = sorted(target.payloads)
                facts = {"ref": ref, "refs": outcome.refs, "payloads": names, "by": by}
                _take_out(journal, target, facts, drop)
            outcome.payloads = sum(_remove(home.payload(name)) for name in target.payloads)
            _write_out(connection, tidy, outcome)
    return outcome


def _record_of(connection: Connection, ref: str) -> Mapping[str, Any] | None:
    """Return the record of a forgetting that took this reference."""
    records = (record for _, record in reversed(forgetting.records(connection)))
    return next((one for one in records if ref in one["refs"] or PREFIX + ref in one["refs"]), None)


def _left_of(known: Mapping[str, Any], ref: str) -> _Target:
    """Return the payloads that a forgetting named; killed, it left them."""
    payloads = set(known["payloads"])
    return _Target(payloads=payloads, own={name for name in payloads if PAYLOADS + name == ref})


# --- what goes ---------------------------------------------------------------------------------


def _refuse_by_name(ref: str) -> None:
    if ref.startswith(_LEDGERS):
        raise ForgetError(
            f"{ref} is part of a ledger, and ledgers are never forgotten: the balances rest on them. "
            "A payload that it does not rest on can be forgotten by its own reference."
        )
    if _PAYLOAD.fullmatch(ref) or _EVENT.fullmatch(ref) or is_uuid(ref.removeprefix(PREFIX)):
        return
    raise ForgetError(
        f"{ref[:200]!r} cannot be forgotten alone. Name a call (tracedesk://calls/ID), an event "
        "(tracedesk://codegraph/etg-MONTH/SEQ) or a payload (tracedesk://payloads/SHA256); "
        "`tracedesk prune` removes a whole stream, such as a run, once it has ended."
    )


def _found(home: Home, connection: Connection, ref: str) -> _Target:
    target = _Target()
    payload = _PAYLOAD.fullmatch(ref)
    if payload is not None:
        if not home.payload(payload[1]).exists():
            raise ForgetError(f"There is no payload {ref}.")
        target.payloads.add(payload[1])
        target.own.add(payload[1])
        return target
    event = _EVENT.fullmatch(ref)
    row = _event_row(connection, event[1], int(event[2])) if event else _call_row(connection, ref)
    if row is None:
        _refuse_held(home, [ref.removeprefix(PREFIX)])  # the call's own record may still be on its way
        raise ForgetError(f"There is no call or event {ref}; `tracedesk trace tail` lists calls.")
    _take(connection, row, target)
    return target


def _event_row(connection: Connection, name: str, seq: int) -> int | None:
    stream = find(connection, name)
    if stream is None or seq > MAX_SEQ:
        return None
    row = key(stream.id, seq)
    return row if any(connection.execute("SELECT 1 FROM event WHERE id = ?", (row,))) else None


def _call_row(connection: Connection, ref: str) -> int | None:
    if not any(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'call_index'")):
        return None
    identity = bytes.fromhex(ref.removeprefix(PREFIX).replace("-", ""))
    found = connection.execute("SELECT event FROM call_index WHERE id = ?", (identity,))
    return next((event for (event,) in found), None)


def _take(connection: Connection, row: int, target: _Target) -> None:
    """Add an event, and what says the same: a call and the event that it logged, and their payloads."""
    if row in target.events:
        return
    query = "SELECT s.name, s.kind, e.body FROM event e JOIN stream s ON s.id = e.id >> ? WHERE e.id = ?"
    name, kind, body = next(connection.execute(query, (SEQ_BITS, row)))
    if forgetting.of(body) is not None:
        return
    facts = json.loads(body)
    seq = row & MAX_SEQ
    if kind == _CALLS:
        target.events[row] = (name, seq, PREFIX + facts["id"])
        target.payloads.update(_digest(facts.get("result")))
        for other in _logged_by(connection, PREFIX + facts["id"]):
            _take(connection, other, target)
    else:
        target.events[row] = (name, seq, f"{EVENTS}{name}/{seq}")
        target.payloads.update(_digest(facts.get("cut")))
        call = _call_row(connection, facts["by"]) if "by" in facts else None
        if call is not None:
            _take(connection, call, target)


def _digest(part: Mapping[str, Any] | None) -> Iterator[str]:
    digest = (part or {}).get("sha256")
    if isinstance(digest, str):
        yield digest


def _logged_by(connection: Connection, ref: str) -> list[int]:
    query = (
        "SELECT e.id FROM event e JOIN stream s ON s.id = e.id >> ? WHERE s.kind = 'etg' AND instr(e.body, ?)"
    )
    return [row for (row,) in connection.execute(query, (SEQ_BITS, f'"by":"{ref}"'.encode()))]


def _refs(target: _Target) -> list[str]:
    return [ref for _, _, ref in target.events.values()] + [
        PAYLOADS + name for name in sorted(target.payloads)
    ]


# --- what stays --------------------------------------------------------------------------------


def _refuse_ledger(home: Home, target: _Target) -> None:
    """Refuse what the ledgers rest on: the calls that changed them, and the evidence that they cite."""
    names = [ref.removeprefix(PREFIX) for _, _, ref in target.events.values() if ref.startswith(PREFIX)]
    _refuse_held(home, [*names, *target.own])


def _refuse_held(home: Home, names: Sequence[str]) -> None:
    held = next((name for name in names if is_in_ledger(home, name)), None)
    if held is not None:
        raise ForgetError(
            f"A ledger rests on {held}: what a trade was made from is never forgotten. "
            "Forget the other records that repeat it by their own references."
        )


def is_in_ledger(home: Home, name: str) -> bool:
    """True if a trade or an order of the home names it."""
    return _is_in_file(home.ledger, name) or _is_in_orders(home.trace, name)


def _is_in_file(file: Path, name: str) -> bool:
    if not file.exists():
        return False
    wanted = name.encode()
    with closing(connect(file, read_only=True)) as connection:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        return any(wanted in text for text in sweep.texts(connection))


def _is_in_orders(file: Path, name: str) -> bool:
    query = (
        "SELECT 1 FROM event e JOIN stream s ON s.id = e.id >> ? "
        "WHERE s.kind NOT IN ('calls', 'etg', 'forgotten') AND instr(e.body, ?) LIMIT 1"
    )
    if not file.exists():
        return False
    with Reader(file) as reader:
        return any(reader.connection.execute(query, (SEQ_BITS, name.encode())))


def _keep_cited(home: Home, connection: Connection, target: _Target, outcome: Outcome) -> None:
    """Leave payloads that other records cite, unless they were named; say so."""
    for name in sorted(target.payloads):
        citing = [row for row in _citing(connection, name) if row not in target.events]
        if name in target.own:
            if citing:
                outcome.notes.append(
                    f"{len(citing)} records cite the payload; those that repeat parts of it stay."
                )
        elif citing or is_in_ledger(home, name):
            target.payloads.discard(name)
            outcome.notes.append(f"{PAYLOADS}{name} stays, for other records cite it.")


def _citing(connection: Connection, name: str) -> list[int]:
    query = (
        "SELECT e.id FROM event e JOIN stream s ON s.id = e.id >> ? "
        "WHERE s.kind != 'forgotten' AND instr(e.body, ?)"
    )
    return [row for (row,) in connection.execute(query, (SEQ_BITS, name.encode()))]


# --- its going ---------------------------------------------------------------------------------


def _take_out(journal: Journal, target: _Target, facts: Mapping[str, Any], drop: Drop) -> None:
    """Take the bodies and what was made of them out, and record it: all of it or nothing."""
    try:
        with Transaction(journal.connection):
            journal.forget([(name, seq) for name, seq, _ in target.events.values()], facts)
            drop(journal.connection, list(target.events))
            for event in target.events:
                drop_names(journal.connection, event)
    except OldFraming as problem:
        raise ForgetError(f"Nothing was forgotten: {problem}.") from None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    sync(path.parent)
    return True


def _write_out(connection: Connection, tidy: Tidy, outcome: Outcome) -> None:
    """Rewrite the file and empty its log: both hold copies of what was taken out."""
    try:
        with Transaction(connection):
            tidy(connection)
        connection.execute("VACUUM")
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        busy, _, _ = next(iter(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
    except (JournalError, SQLiteError) as problem:
        busy, reason = True, f" ({problem})"
    else:
        reason = ""
    if busy:
        raise ForgetError(
            f"It is forgotten, but others use the journal{reason}, and its log may still hold the bytes. "
            "Run the same command again."
        )
