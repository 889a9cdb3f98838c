"""All databases of a process share one bound of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import BOUND

_READERS = """
import sys
from pathlib import Path

import apsw

from tracedesk.journal.sqlite import bound_memory, connect

MB = 1 << 20
writer = connect(Path(sys.argv[1]))
writer.execute("PRAGMA journal_mode = WAL")
writer.execute("CREATE TABLE row(id INTEGER PRIMARY KEY, text BLOB)")
writer.executemany("INSERT INTO row(text) VALUES (zeroblob(?))", [(3_000,)] * 4_000)
readers = [connect(Path(sys.argv[1])) for _ in range(4)]

def read():
    for reader in readers:
        reader.execute("PRAGMA cache_size = -8192")
        assert reader.execute("SELECT sum(length(text)) FROM row").fetchone() == (12_000_000,)
    return apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)[0] // MB

if sys.argv[2] == "bound":
    bound_memory(8 * MB)
print(read())
"""


def test_many_open_databases_keep_no_more_in_memory_than_the_bound_of_all(tmp_path: Path) -> None:
    def kept(how: str) -> int:
        words = [sys.executable, "-c", _READERS, str(tmp_path / how), how]
        return int(subprocess.run(words, capture_output=True, text=True, timeout=BOUND, check=True).stdout)

    assert kept("free") >= 30
    assert kept("bound") <= 10
