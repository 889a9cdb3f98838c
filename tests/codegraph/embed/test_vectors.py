"""Files of vectors: what is kept, who sees it, what a crash leaves, and that models never mix."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from tracedesk.codegraph.embed.vectors import Stopped, Vectors

DIM = 8
KEYS = [hashlib.sha256(str(n).encode()).digest()[:16] for n in range(40)]


class Dice:
    """An embedder whose vector of a text is drawn by the text."""

    def __init__(self, id: str = "dice-1", dim: int = DIM) -> None:
        self.id = id
        self.dim = dim

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([unit(text.encode(), self.dim) for text in texts])


def unit(key: bytes, dim: int = DIM) -> NDArray[np.float32]:
    drawn = np.random.default_rng(list(key)).normal(size=dim).astype(np.float32)
    return drawn / np.float32(np.linalg.norm(drawn))


def rows(keys: Sequence[bytes]) -> NDArray[np.float32]:
    return np.stack([unit(key) for key in keys])


def file_of(folder: Path) -> Path:
    return next(folder.glob("*.vectors"))


def test_scores_are_cosines_and_unknown_keys_are_not_a_number(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path, Dice())
    assert vectors.put(KEYS[:5], rows(KEYS[:5])) == 5
    found = vectors.scores(unit(b"q"), KEYS[:7])
    assert np.allclose(found[:5], rows(KEYS[:5]) @ unit(b"q"), atol=0.02)
    assert np.isnan(found[5:]).all()
    assert np.allclose(vectors.get(KEYS[:5]), rows(KEYS[:5]), atol=0.01)


def test_a_key_is_kept_once_and_missing_keys_come_in_order(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path, Dice())
    assert vectors.put([KEYS[0], KEYS[1], KEYS[0]], rows([KEYS[0], KEYS[1], KEYS[0]])) == 2
    assert vectors.put(KEYS[:3], rows(KEYS[:3])) == 1
    assert vectors.missing([KEYS[9], KEYS[1], KEYS[4], KEYS[9]]) == [KEYS[9], KEYS[4]]


def test_coverage_says_how_many_chunks_have_a_vector_of_this_model(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path, Dice())
    vectors.put(KEYS[:3], rows(KEYS[:3]))
    assert vectors.coverage(KEYS[:4]).document() == {
        "model": "dice-1",
        "embedded": 3,
        "chunks": 4,
        "share": 0.75,
    }
    assert vectors.coverage([]).share == 0


def test_vectors_of_two_models_lie_in_two_files(tmp_path: Path) -> None:
    one, other = Vectors(tmp_path, Dice("a/1")), Vectors(tmp_path, Dice("b", 4))
    one.put(KEYS[:1], rows(KEYS[:1]))
    assert other.missing(KEYS[:1]) == KEYS[:1]
    other.put(KEYS[:1], np.stack([unit(KEYS[0], 4)]))
    assert len(list(tmp_path.glob("*.vectors"))) == 2


def test_a_file_of_another_model_counts_as_none(tmp_path: Path) -> None:
    Vectors(tmp_path, Dice("one")).put(KEYS[:1], rows(KEYS[:1]))
    file_of(tmp_path).rename(tmp_path / "two.vectors")
    two = Vectors(tmp_path, Dice("two"))
    assert two.missing(KEYS) == KEYS
    assert "no whole vectors of two" in two.coverage(KEYS).document()["problem"]


def test_a_reader_sees_what_others_wrote_and_keeps_what_it_selected(tmp_path: Path) -> None:
    writer, reader = Vectors(tmp_path, Dice()), Vectors(tmp_path, Dice())
    assert reader.missing(KEYS[:1]) == KEYS[:1]
    writer.put(KEYS[:4], rows(KEYS[:4]))
    selected = reader.select(KEYS[:4])
    before = selected.scores(unit(b"q"))
    writer.put(KEYS[4:8], rows(KEYS[4:8]))
    assert writer.compact(set(KEYS[4:6])) == 6
    assert reader.missing(KEYS[:8]) == [*KEYS[:4], *KEYS[6:8]]
    assert (selected.scores(unit(b"q")) == before).all()


@pytest.mark.parametrize("left", [b"\x01", b"\xff" * 500])
def test_what_lies_behind_the_counted_records_is_dropped(tmp_path: Path, left: bytes) -> None:
    Vectors(tmp_path, Dice()).put(KEYS[:4], rows(KEYS[:4]))
    with file_of(tmp_path).open("ab") as file:
        file.write(left)
    vectors = Vectors(tmp_path, Dice())
    assert vectors.missing(KEYS[:6]) == KEYS[4:6]
    vectors.put(KEYS[4:6], rows(KEYS[4:6]))
    assert np.allclose(Vectors(tmp_path, Dice()).get(KEYS[:6]), rows(KEYS[:6]), atol=0.01)


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda whole: b"",
    lambda whole: whole[:-1],
    lambda whole: whole[:100],
    lambda whole: b"TDVECTS1" + bytes(400),
    lambda whole: b"not ours" * 100,
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("in_place", [True, False])
def test_a_damaged_file_counts_as_none_and_is_begun_anew(
    tmp_path: Path, damage: Callable[[bytes], bytes], in_place: bool, caplog: pytest.LogCaptureFixture
) -> None:
    openers = [Vectors(tmp_path, Dice()) for _ in range(2)]
    openers[0].put(KEYS[:4], rows(KEYS[:4]))
    if in_place:
        assert openers[1].missing(KEYS[:4]) == []
    damaged = damage(file_of(tmp_path).read_bytes())
    file_of(tmp_path).write_bytes(damaged)
    for opener in openers:
        assert opener.missing(KEYS[:4]) == KEYS[:4]
        assert np.isnan(opener.scores(unit(b"q"), KEYS[:4])).all()
        assert "no whole vectors" in opener.coverage(KEYS[:4]).document()["problem"]
    assert openers[1].put(KEYS[:2], rows(KEYS[:2])) == 2
    assert (tmp_path / "dice-1.broken").read_bytes() == damaged
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    for opener in openers:
        assert np.allclose(opener.get(KEYS[:2]), rows(KEYS[:2]), atol=0.01)
        assert opener.coverage(KEYS[:2]).problem is None


def test_a_file_that_cannot_be_read_is_told_of_and_left_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "dice-1.vectors").symlink_to("dice-1.vectors")
    vectors = Vectors(tmp_path, Dice())
    assert vectors.missing(KEYS[:1]) == KEYS[:1]
    assert "symbolic links" in vectors.coverage(KEYS[:1]).document()["problem"]
    with pytest.raises(OSError, match="symbolic links"):
        vectors.put(KEYS[:1], rows(KEYS[:1]))
    assert (tmp_path / "dice-1.vectors").is_symlink()


CUT_OFF = """
import os, sys
from pathlib import Path
from tests.codegraph.embed.test_vectors import KEYS, Dice, file_of, rows, unit
from tracedesk.codegraph.embed.vectors import Vectors
import numpy as np

folder = Path(sys.argv[1])
vectors = Vectors(folder, Dice())
vectors.put(KEYS, rows(KEYS))
selected = vectors.select(KEYS[::-1])
whole = selected.scores(unit(b"q"))
for size in (256 + 28 * 30 + 5, 256, 0):
    os.truncate(file_of(folder), size)
    left = selected.scores(unit(b"q"))
    there = max(0, (size - 256) // 28)
    assert np.isnan(left[: len(KEYS) - there]).all()
    assert (left[len(KEYS) - there :] == whole[len(KEYS) - there :]).all()
print("alive")
"""


def test_a_file_that_is_cut_off_under_a_reader_costs_vectors_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr


def test_keys_in_any_order_and_more_than_once_get_their_own_scores(tmp_path: Path) -> None:
    keys = [hashlib.sha256(str(n).encode()).digest()[:16] for n in range(5_000)]
    vectors = Vectors(tmp_path, Dice())
    drawn = np.random.default_rng(1).normal(size=(len(keys), DIM)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    vectors.put(keys, drawn)
    asked: list[int] = [7] * 3_000 + np.random.default_rng(2).integers(0, len(keys), 6_000).tolist()
    found = vectors.scores(unit(b"q"), [keys[n] for n in asked])
    assert np.allclose(found, drawn[asked] @ unit(b"q"), atol=0.02)


def test_what_is_kept_is_the_owners_alone(tmp_path: Path) -> None:
    Vectors(tmp_path / "vectors", Dice()).put(KEYS[:1], rows(KEYS[:1]))
    kept = [tmp_path / "vectors", *(tmp_path / "vectors").iterdir()]
    assert [path.name for path in kept if path.stat().st_mode & 0o077] == []


def test_one_vector_per_key_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one vector per key"):
        Vectors(tmp_path, Dice()).put(KEYS[:2], rows(KEYS[:1]))


@pytest.mark.parametrize(
    ("keys", "vectors", "said"),
    [
        (KEYS[:1], np.ones((1, 4), np.float32), "8 numbers each"),
        (KEYS[:1], np.ones(1, np.float32), "8 numbers each"),
        (KEYS[:1], np.full((1, DIM), np.nan, np.float32), "not finite"),
        (KEYS[:1], np.full((1, DIM), np.inf, np.float32), "not finite"),
        ([b"short"], rows(KEYS[:1]), "16 bytes"),
        ([KEYS[0] * 2], rows(KEYS[:1]), "16 bytes"),
    ],
)
def test_what_is_no_vector_of_the_model_is_refused_and_nothing_kept(
    tmp_path: Path, keys: list[bytes], vectors: NDArray[np.float32], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Vectors(tmp_path, Dice()).put(keys, vectors)
    assert list(tmp_path.glob("*.vectors")) == []


HOLDER = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another(lock: Path) -> Generator[None]:
    """A process that holds a lock for as long as this lasts."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.communicate()


def test_waiting_for_another_writer_can_be_given_up(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path, Dice())
    with held_by_another(tmp_path / "dice-1.lock"), pytest.raises(Stopped, match=r"dice-1\.lock"):
        vectors.put(KEYS[:1], rows(KEYS[:1]), cancelled=lambda: True)
    assert vectors.put(KEYS[:1], rows(KEYS[:1]), cancelled=lambda: True) == 1


WRITER = """
import sys
from pathlib import Path
from tests.codegraph.embed.test_vectors import Dice, rows, hashlib
from tracedesk.codegraph.embed.vectors import Vectors

vectors, name = Vectors(Path(sys.argv[1]), Dice()), sys.argv[2]
for n in range(int(sys.argv[3])):
    keys = [hashlib.sha256(f"{name} {n} {m}".encode()).digest()[:16] for m in range(3)]
    vectors.put(keys, rows(keys))
    print(n, flush=True)
"""


def writer(folder: Path, name: str, times: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), name, str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def written(name: str, times: int) -> list[bytes]:
    return [hashlib.sha256(f"{name} {n} {m}".encode()).digest()[:16] for n in range(times) for m in range(3)]


def test_two_processes_write_and_nothing_is_lost(tmp_path: Path) -> None:
    for process in [writer(tmp_path, name, 30) for name in "ab"]:
        process.communicate()
        assert process.returncode == 0
    keys = [*written("a", 30), *written("b", 30)]
    assert np.allclose(Vectors(tmp_path, Dice()).get(keys), rows(keys), atol=0.01)


def test_a_killed_writer_leaves_all_it_acknowledged_and_nothing_broken(tmp_path: Path) -> None:
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        process = writer(folder, "k", 10_000)
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(5 + 7 * attempt)][-1]
        process.kill()
        process.communicate()
        vectors = Vectors(folder, Dice())
        keys = written("k", acknowledged + 1)
        assert vectors.missing(keys) == []
        assert np.allclose(vectors.get(keys), rows(keys), atol=0.01)
        vectors.put(KEYS, rows(KEYS))
        assert np.allclose(vectors.get([*keys, *KEYS]), rows([*keys, *KEYS]), atol=0.01)


class Kept(RuleBasedStateMachine):
    """Two openers of one folder against a set of keys."""

    known: Bundle[bytes] = Bundle("known")

    @initialize()
    def open(self) -> None:
        self.folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"tracedesk-vectors-{os.getpid()}-{id(self)}"
        self.openers = [Vectors(self.folder, Dice()) for _ in range(2)]
        self.model: set[bytes] = set()

    @rule(who=st.integers(0, 1), keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=10))
    def put(self, who: int, keys: list[bytes]) -> None:
        assert self.openers[who].put(keys, rows(keys)) == len(set(keys) - self.model)
        self.model |= set(keys)

    @rule(who=st.integers(0, 1), keep=st.sets(st.sampled_from(KEYS)))
    def compact(self, who: int, keep: set[bytes]) -> None:
        assert self.openers[who].compact(keep) == len(self.model - keep)
        self.model &= keep

    @rule(who=st.integers(0, 1))
    def open_again(self, who: int) -> None:
        self.openers[who] = Vectors(self.folder, Dice())

    @rule(rubbish=st.binary(min_size=1, max_size=60))
    def tear(self, rubbish: bytes) -> None:
        for file in self.folder.glob("*.vectors"):
            with file.open("ab") as tail:
                tail.write(rubbish)

    @invariant()
    def every_opener_sees_the_same(self) -> None:
        for opener in getattr(self, "openers", ()):
            assert set(KEYS) - set(opener.missing(KEYS)) == self.model
            kept = sorted(self.model)
            if kept:
                assert np.allclose(opener.get(kept), rows(kept), atol=0.01)

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


Kept.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestKept = Kept.TestCase
