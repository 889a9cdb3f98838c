"""The store that the desks of one home share: found by all, bounded, and gone with its time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, run, until
from tracedesk.journal.sqlite import connect
from tracedesk.primitives.time import ManualClock, SystemClock
from tracedesk.shared import LARGEST, Bounds, Quotas, SharedStore, boot

OWNER = "subject:owner"


def store(folder: Path, clock: ManualClock | None = None, quotas: Quotas | None = None) -> SharedStore:
    return SharedStore(folder, clock or ManualClock(), quotas)


def test_an_item_of_one_desk_is_found_changed_and_removed_by_the_other(tmp_path: Path) -> None:
    one, two = store(tmp_path), store(tmp_path)
    one.put(OWNER, "preview", "a", b"1", 60)
    assert two.get(OWNER, "preview", "a") == b"1"
    assert two.replace(OWNER, "preview", "a", b"2", 60)
    assert one.get(OWNER, "preview", "a") == b"2"
    two.remove(OWNER, "preview", "a")
    assert one.get(OWNER, "preview", "a") is None
    assert not one.replace(OWNER, "preview", "a", b"3", 60)
    assert two.get(OWNER, "preview", "a") is None


def test_an_item_is_its_holders_alone_and_of_its_kind_alone(tmp_path: Path) -> None:
    one = store(tmp_path)
    one.put(OWNER, "preview", "a", b"1", 60)
    assert one.get("subject:ci", "preview", "a") is None
    assert one.get("owner", "preview", "a") is None
    assert one.get(OWNER, "simulation", "a") is None


def test_an_item_is_gone_when_its_time_is_over_and_its_place_with_it(tmp_path: Path) -> None:
    clock = ManualClock()
    one = store(tmp_path, clock)
    one.put(OWNER, "preview", "a", b"1", 60)
    clock.advance(60)
    assert one.get(OWNER, "preview", "a") == b"1"
    clock.advance(0.1)
    assert one.get(OWNER, "preview", "a") is None
    for number in range(64):
        one.put(OWNER, "preview", f"b{number}", b"1", 60)
    assert _count(one) == 64


def test_a_claim_is_won_once_by_many_desks_at_once_and_again_when_it_has_expired(tmp_path: Path) -> None:
    clock = ManualClock()
    desks = [store(tmp_path, clock) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for round_ in range(20):
            won = list(threads.map(partial(_claim, name=f"n{round_}"), desks))
            assert won.count(True) == 1
    clock.advance(61)
    assert desks[3].claim(OWNER, "consent", "n0", 60)


def test_the_oldest_items_of_a_holder_make_room_and_no_other_holders(tmp_path: Path) -> None:
    clock = ManualClock()
    one = store(tmp_path, clock, Quotas(holder=Bounds(10, 1 << 20)))
    one.put("subject:ci", "preview", "kept", b"1", 60)
    for number in range(25):
        clock.advance(0.01)
        one.put(OWNER, "preview", f"{number}", b"1", 60)
    found = [number for number in range(25) if one.get(OWNER, "preview", f"{number}") is not None]
    assert found == list(range(25 - len(found), 25))
    assert 9 <= len(found) <= 10
    assert one.get("subject:ci", "preview", "kept") == b"1"


def test_many_strangers_are_bounded_together_in_items_and_bytes_and_take_nothing_of_the_owners(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    quotas = Quotas(scopes=Bounds(50, 20_000))
    one = store(tmp_path, clock, quotas)
    one.put(OWNER, "preview", "kept", b"1", 600)
    for number in range(300):
        clock.advance(0.01)
        one.put(f"session:{number}", "simulation", "a", b"x" * 100, 600)
        assert _count(one) <= 51
    for number in range(50):
        clock.advance(0.01)
        one.put(f"large:{number}", "simulation", "a", b"x" * 5_000, 600)
        assert _bytes(one) <= 20_001
    assert one.get("large:49", "simulation", "a") is not None
    assert one.get(OWNER, "preview", "kept") == b"1"


def test_an_item_too_large_to_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too large to share"):
        store(tmp_path).put(OWNER, "simulation", "a", b"x" * (LARGEST + 1), 60)


def test_the_items_of_a_scope_go_with_it_and_those_of_a_subject_stay(tmp_path: Path) -> None:
    async def main() -> None:
        one, two = store(tmp_path), store(tmp_path)
        await one.run(lambda shared: shared.put("session:1", "simulation", "a", b"1", 60))
        await one.run(lambda shared: shared.put(OWNER, "simulation", "a", b"1", 60))
        one.ended("session:1")
        one.ended(OWNER)
        await until(lambda: two.get("session:1", "simulation", "a") is None)
        assert two.get(OWNER, "simulation", "a") == b"1"
        one.close()
        two.close()

    run(main())


def test_the_file_is_its_owners_alone_and_of_this_run_of_the_system(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    stale = [folder / name for name in ("shared-0000.db", "shared-0000.db-wal")]
    for file in stale:
        file.write_bytes(b"old")
        os.utime(file, (time.time() - 100_000, time.time() - 100_000))
    recent = folder / "shared-1111.db"
    recent.write_bytes(b"of another system")
    one = store(folder)
    one.put(OWNER, "preview", "a", b"1", 60)
    assert boot() in one.path.name
    assert one.path.stat().st_mode & 0o777 == 0o600
    assert recent.exists()
    assert not any(file.exists() for file in stale)


KILLED = """
import os, signal, sys
from pathlib import Path
from tracedesk.journal.sqlite import connect
from tracedesk.primitives.time import SystemClock
from tracedesk.shared import SharedStore
store = SharedStore(Path(sys.argv[1]), SystemClock())
for number in range(int(sys.argv[2])):
    store.put("subject:owner", "preview", str(number), b"x" * 200, 600)
    store.remove("subject:owner", "preview", str(number - 1))
    print(number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_desk_has_answered_is_there_and_the_file_is_whole(tmp_path: Path) -> None:
    counts = random.Random(7)
    for _ in range(4):
        count = counts.randrange(1, 120)
        words = [sys.executable, "-c", KILLED, str(tmp_path), str(count)]
        killed = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
        last = int(killed.stdout.split()[-1])
        one = SharedStore(tmp_path, SystemClock())
        assert one.get(OWNER, "preview", str(last)) == b"x" * 200
        assert one.get(OWNER, "preview", str(last - 1)) is None
        assert _rows(one, "PRAGMA integrity_check") == [("ok",)]
        one.remove(OWNER, "preview", str(last))
        one.close()


def _claim(desk: SharedStore, name: str) -> bool:
    return desk.claim(OWNER, "consent", name, 60)


def _rows(shared: SharedStore, query: str) -> list[tuple[Any, ...]]:
    with closing(connect(shared.path)) as connection:
        return list(connection.execute(query))


def _count(shared: SharedStore) -> int:
    query = "SELECT (SELECT count(*) FROM item), (SELECT coalesce(sum(items), 0) FROM held)"
    ((there, counted),) = _rows(shared, query)
    assert there == counted
    return there


def _bytes(shared: SharedStore) -> int:
    ((there, counted),) = _rows(shared, "SELECT sum(length(body)), (SELECT sum(bytes) FROM held) FROM item")
    assert there == counted
    return there
