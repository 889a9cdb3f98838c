"""Bodies taken out of streams: their hashes stay, the chain holds, and nobody can do it unseen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journal.samples import entries
from tests.journal.tamper import raw
from tests.support import ROOT
from tracedesk.journal import BadEntry, Entry, Journal, OldFraming, Reader, forgetting, verify
from tracedesk.journal.sqlite import ConstraintError
from tracedesk.journal.stream import FORGETTABLE

SECRET = b'{"note":"the one thing that must go"}'


def _filled(journal: Journal) -> None:
    journal.open("calls", "calls", framing=FORGETTABLE)
    journal.append("calls", entries(3))
    journal.append("calls", [Entry("call", 7, SECRET)])
    journal.append("calls", [*entries(2), Entry("call", 8, SECRET + b" ")])


def test_a_body_goes_its_hash_stays_and_the_chain_holds(journal: Journal, path: Path) -> None:
    _filled(journal)
    before = verify(path)
    journal.forget([("calls", 4), ("calls", 7)], {"ref": "r", "by": "me"})
    after = verify(path)
    assert after.is_sound
    assert (after.forgotten, before.forgotten) == (2, 0)
    assert after.heads["calls"] == before.heads["calls"]
    with Reader(path) as reader:
        bodies = [event.body for event in reader.events("calls")]
        ((_, record),) = forgetting.records(reader.connection)
    assert SECRET not in b"".join(bodies)
    assert [n for n, body in enumerate(bodies, 1) if forgetting.of(body)] == [4, 7]
    assert (record["ref"], record["by"]) == ("r", "me")
    assert [event[1] for event in record["events"]] == [4, 7]


def test_a_stream_goes_on_and_is_sealed_and_pruned_after_a_body_has_gone(
    journal: Journal, path: Path
) -> None:
    _filled(journal)
    journal.forget([("calls", 4)], {})
    journal.append("calls", entries(2))
    journal.seal("calls")
    assert verify(path).is_sound
    journal.forget([("calls", 7)], {})
    assert (verify(path).is_sound, verify(path).forgotten) == (True, 2)
    journal.prune("calls")
    assert verify(path).is_sound


def test_forgetting_twice_changes_nothing_but_is_recorded(journal: Journal, path: Path) -> None:
    _filled(journal)
    for _ in range(2):
        journal.forget([("calls", 4)], {})
    assert (verify(path).is_sound, verify(path).forgotten) == (True, 1)
    with Reader(path) as reader:
        first, second = forgetting.records(reader.connection)
    assert first[1]["events"] == second[1]["events"]


@pytest.mark.parametrize("framing", [1, 2])
def test_a_stream_of_an_older_framing_keeps_its_bodies(journal: Journal, path: Path, framing: int) -> None:
    journal.open("old", "calls", framing=framing)
    journal.append("old", [Entry("call", 7, SECRET)])
    _filled(journal)
    with pytest.raises(OldFraming, match="tracedesk prune"):
        journal.forget([("calls", 4), ("old", 1)], {})
    with Reader(path) as reader:
        assert SECRET in {event.body for event in reader.events("calls")}
        assert forgetting.records(reader.connection) == []
    assert verify(path).is_sound


def test_an_event_that_is_not_there_cannot_be_forgotten(journal: Journal) -> None:
    _filled(journal)
    with pytest.raises(BadEntry, match="no event 99"):
        journal.forget([("calls", 99)], {})


def test_other_programs_still_meet_the_guards(journal: Journal, path: Path) -> None:
    _filled(journal)
    journal.forget([("calls", 4)], {})
    with raw(path) as connection, pytest.raises(ConstraintError):
        connection.execute("UPDATE event SET body = x'00' WHERE kind = 'call'")


def test_a_body_taken_out_without_a_record_is_found(journal: Journal, path: Path) -> None:
    _filled(journal)
    journal.forget([("calls", 4)], {})
    with raw(path) as connection:
        connection.execute("DROP TRIGGER event_is_never_changed")
        copied = "SELECT body FROM event WHERE CAST(body AS TEXT) LIKE '{\"forgotten\":%' LIMIT 1"
        connection.execute(f"UPDATE event SET body = ({copied}) WHERE id & 1099511627775 = 7")
    assert "calls" in {fault.stream for fault in verify(path).faults}


def test_another_hash_in_the_place_of_a_forgotten_body_is_found(journal: Journal, path: Path) -> None:
    _filled(journal)
    journal.forget([("calls", 4)], {})
    with raw(path) as connection:
        connection.execute("DROP TRIGGER event_is_never_changed")
        changed = "CAST(replace(CAST(body AS TEXT), 'forgotten\":\"', 'forgotten\":\"0') AS BLOB)"
        connection.execute(
            f"UPDATE event SET body = {changed} WHERE CAST(body AS TEXT) LIKE '{{\"forgotten\":%'"
        )
    assert "calls" in {fault.stream for fault in verify(path).faults}


def test_a_body_that_only_looks_like_a_stand_in_is_a_body(journal: Journal, path: Path) -> None:
    journal.open("calls", "calls", framing=FORGETTABLE)
    looks = b'{"forgotten":"%s","at":5}' % (b"0" * 64)
    journal.append("calls", [Entry("call", 7, looks)])
    assert (verify(path).is_sound, verify(path).forgotten) == (True, 0)


_KILLED = """
import os, signal, sys
from pathlib import Path
from tracedesk.journal import Journal, forgetting
step = int(sys.argv[2])
kept = forgetting.bury
def bury(*given):
    global step
    step -= 1
    if step == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    kept(*given)
forgetting.bury = bury
with Journal(Path(sys.argv[1])) as journal:
    journal.forget([("calls", 4), ("calls", 7)], {})
"""


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_kill_in_the_middle_leaves_all_or_nothing_and_repeating_completes_it(
    journal: Journal, path: Path, step: int
) -> None:
    _filled(journal)
    journal.close()
    done = subprocess.run([sys.executable, "-c", _KILLED, path, str(step)], cwd=ROOT, env={**os.environ})
    assert done.returncode == (-signal.SIGKILL if step < 3 else 0)
    assert (verify(path).is_sound, verify(path).forgotten) == (True, 0 if step < 3 else 2)
    with Journal(path) as again:
        again.forget([("calls", 4), ("calls", 7)], {})
    assert (verify(path).is_sound, verify(path).forgotten) == (True, 2)
