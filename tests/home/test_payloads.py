"""Bodies by their digest: how they are stored, what the caps allow, and who else reads the files."""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.home.filling import NOW, Filled
from tracedesk import backup, disk, prune, sweep
from tracedesk.payloads import LARGEST, Payloads

BODY = b'{"close":10.25}' * 1_000
NAME = hashlib.sha256(BODY).hexdigest()
NOISE = random.Random(1).randbytes(1_000)


def _file(folder: Path, body: bytes) -> Path:
    name = hashlib.sha256(body).hexdigest()
    return folder / name[:2] / name


def _stored(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("??/*"))


# --- how a body is stored ----------------------------------------------------------------------


def test_a_body_is_stored_small_under_the_digest_of_its_own_bytes(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path)
    assert payloads.put(BODY) == NAME
    assert _file(tmp_path, BODY).stat().st_size < len(BODY) // 20
    assert payloads.get(NAME) == BODY


def test_a_body_that_gets_no_smaller_is_stored_as_it_is(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path)
    name = payloads.put(NOISE)
    assert name is not None
    assert (_file(tmp_path, NOISE).read_bytes(), payloads.get(name)) == (NOISE, NOISE)


def test_a_plain_file_of_an_older_home_is_read_and_not_written_again(filled: Filled) -> None:
    path = filled.payload(BODY)
    payloads = Payloads(filled.home.payloads)
    assert payloads.get(NAME) == BODY
    assert payloads.put(BODY) == NAME
    assert path.read_bytes() == BODY


def test_a_body_that_looks_compressed_is_given_as_it_was(tmp_path: Path) -> None:
    payloads, body = Payloads(tmp_path), zlib.compress(BODY)
    name = payloads.put(body)
    assert name is not None
    assert payloads.get(name) == body


@pytest.mark.parametrize(
    "damaged",
    [b"", zlib.compress(BODY)[:-1], zlib.compress(BODY[1:]), zlib.compress(b"\0" * (64 * LARGEST)), b"x\x9c"],
)
def test_a_damaged_file_gives_nothing(tmp_path: Path, damaged: bytes) -> None:
    payloads = Payloads(tmp_path)
    payloads.put(BODY)
    _file(tmp_path, BODY).write_bytes(damaged)
    assert payloads.get(NAME) is None


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(st.binary(max_size=40).map(lambda b: b * 9), max_size=6))
def test_every_body_comes_back_and_the_count_is_what_the_files_take(bodies: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payloads = Payloads(Path(folder))
        names = [payloads.put(body) for body in bodies]
        assert [payloads.get(name or "") for name in names] == bodies
        assert payloads.used() == Payloads(Path(folder)).used() == _stored(Path(folder))


# --- caps --------------------------------------------------------------------------------------


def test_the_cap_of_all_counts_bytes_as_stored(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path, all=2_000)
    assert payloads.put(BODY) is not None
    assert payloads.put(NOISE) is not None
    assert payloads.put(NOISE[1:]) is None
    assert payloads.used() == _stored(tmp_path) <= 2_000


def test_a_body_that_is_there_has_its_name_however_full_the_folder_is(filled: Filled) -> None:
    filled.payload(BODY)
    full = Payloads(filled.home.payloads, largest=10, all=0)
    assert full.put(BODY) == NAME
    assert full.put(NOISE) is None
    assert sweep.unreferenced(filled.home, NOW) == []


def test_what_must_be_kept_is_kept_in_a_full_folder_up_to_four_times_its_cap(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path, all=1_000)
    noise = [random.Random(n).randbytes(1_000) for n in range(6)]
    assert payloads.put(noise[0]) is not None
    assert payloads.put(noise[1]) is None
    assert [payloads.put(body, must=True) is not None for body in noise[1:]] == [True] * 3 + [False] * 2
    assert payloads.used() == _stored(tmp_path) == 4_000


def test_no_body_is_larger_than_the_largest_even_if_it_must_be_kept(tmp_path: Path) -> None:
    assert Payloads(tmp_path, largest=len(BODY) - 1).put(BODY, must=True) is None
    assert Payloads(tmp_path, largest=len(BODY)).put(BODY) == NAME


def test_a_full_folder_that_others_pruned_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = Payloads(tmp_path, all=1_500)
    payloads.put(NOISE)
    _file(tmp_path, NOISE).unlink()
    other = NOISE[1:]
    assert payloads.put(other) is None
    monkeypatch.setattr("tracedesk.payloads.RECOUNT_S", 0.0)
    assert payloads.put(other) is not None
    assert payloads.used() == len(other)


def test_a_body_that_could_not_be_written_takes_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    payloads = Payloads(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            payloads.put(BODY)
    assert (payloads.used(), payloads.get(NAME)) == (0, None)
    assert payloads.put(BODY) == NAME


# --- who else looks at the files ---------------------------------------------------------------


def test_a_compressed_payload_is_swept_by_its_name_and_gives_back_what_it_took(filled: Filled) -> None:
    payloads = Payloads(filled.home.payloads)
    cited, lonely = BODY, BODY[1:]
    for body in (cited, lonely):
        payloads.put(body)
        filled.touch(_file(filled.home.payloads, body), 2)
    filled.stream(filled.home.trace, "calls", [b'"tracedesk://payloads/%s"' % NAME.encode()])
    size = _file(filled.home.payloads, lonely).stat().st_size
    outcome = prune.prune(
        filled.home, prune.plan(filled.home, before_ns=0, clock=filled.clock), clock=filled.clock
    )
    assert (outcome.payloads, outcome.freed) == (1, size)
    assert payloads.get(NAME) == cited
    assert not _file(filled.home.payloads, lonely).exists()


def test_disk_figures_count_compressed_payloads_as_stored(filled: Filled) -> None:
    payloads = Payloads(filled.home.payloads)
    payloads.put(BODY)
    assert disk.sizes(filled.home.path).kinds["payloads"] == payloads.used() < len(BODY)


def test_a_backup_of_compressed_payloads_verifies_and_gives_them_back(filled: Filled, tmp_path: Path) -> None:
    Payloads(filled.home.payloads).put(BODY)
    filled.payload(NOISE)
    backup.back_up(filled.home.path, tmp_path / "copy")
    assert backup.check(tmp_path / "copy").is_sound
    restored = Payloads(tmp_path / "copy" / "payloads")
    assert restored.get(NAME) == BODY
    assert restored.get(hashlib.sha256(NOISE).hexdigest()) == NOISE
