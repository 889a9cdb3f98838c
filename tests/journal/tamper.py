"""Changes that no journal makes: one bit of one cell, or of the file, with the guards asleep."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import apsw

from tests.journal.samples import TABLES, raw
from tracedesk.journal.sqlite import Connection

_INT64: Final = 64


@contextmanager
def unguarded(path: Path) -> Generator[Connection]:
    """A connection that triggers and checks do not hold back; the schema stays as it is."""
    with raw(path) as connection:
        cast("apsw.Connection", connection).config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF")
        yield connection


def flip_a_cell(path: Path, dice: random.Random) -> str:
    """Change one bit of one column of one row of one table; says what was changed."""
    with unguarded(path) as connection:
        while True:
            table = dice.choice(TABLES)
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            column = dice.choice(columns)
            rowid, value = dice.choice(list(connection.execute(f"SELECT rowid, {column} FROM {table}")))
            changed, bit = flipped(value, dice)
            expression = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
            try:
                connection.execute(
                    f"UPDATE {table} SET {column} = {expression} WHERE rowid = ?", (changed, rowid)
                )
            except apsw.ConstraintError:
                continue  # another row has that key already
            return f"{table}.{column} of row {rowid}: bit {bit} of {value!r}"


def flipped(value: Any, dice: random.Random) -> tuple[Any, int]:
    """The value with one bit changed; nothing becomes a number."""
    if value is None:
        return dice.choice((0, 1, 1 << dice.randrange(40))), 0
    if isinstance(value, int):
        bit = dice.randrange(_INT64)
        unsigned = (value % (1 << _INT64)) ^ (1 << bit)
        return unsigned - (1 << _INT64) if unsigned >> (_INT64 - 1) else unsigned, bit
    data = bytearray(value.encode() if isinstance(value, str) else value)
    bit = dice.randrange(len(data) * 8)
    data[bit // 8] ^= 1 << (bit % 8)
    return bytes(data), bit


def flip_the_file(path: Path, dice: random.Random) -> int:
    """Change one bit of one byte of the file; says which byte."""
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data))
    data[at] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    return at


def visible(path: Path) -> object:
    """All that a program can read in the journal, in order and by key; or that it cannot."""
    try:
        with raw(path) as connection:
            return [_table(connection, table) for table in TABLES]
    except (apsw.Error, ValueError):
        return "unreadable"


def _table(connection: Connection, table: str) -> list[Any]:
    found = list(connection.execute(f"SELECT * FROM {table} ORDER BY rowid"))
    by_key = [list(connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row[0],))) for row in found]
    by_name = [list(connection.execute("SELECT id FROM stream WHERE name = ?", (r[1],))) for r in found]
    return [found, by_key, by_name if table == "stream" else []]
