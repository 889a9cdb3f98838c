"""The table in the package: small, exact, the same everywhere, and near where meaning is near."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.proof.record import Recorder
from tests.judges.size import Size
from tracedesk.codegraph.embed import table
from tracedesk.codegraph.embed.static import FILE, MOST_WORDS, Static, static

CODE = """def save(self, path):
    with open(path, "w") as file:
        json.dump(self.rows, file)
"""
PAIRS = [
    ("write the rows to a JSON file", CODE),
    (
        "close idle database connections",
        "def close_old_connections(pool):\n    for c in pool.idle(): c.close()",
    ),
    ("parse command line arguments", "parser = ArgumentParser()\nargs = parser.parse_args(argv)"),
    ("retry failed HTTP requests", "for attempt in range(retries):\n    response = session.get(url)"),
    ("validate the user's e-mail address", "def is_valid_email(value): return EMAIL_RE.match(value)"),
]
DIGEST = "cb20bbfe"


def test_the_table_is_at_most_12_megabytes_and_says_where_it_comes_from() -> None:
    raw = FILE.read_bytes()
    assert len(raw) <= 12_000_000
    assert b"Apache-2.0" in raw[:20_000]


def test_each_saying_is_nearest_to_its_own_code() -> None:
    embedder = static()
    said = embedder.embed([said for said, _ in PAIRS])
    code = embedder.embed([code for _, code in PAIRS])
    assert (said @ code.T).argmax(axis=1).tolist() == list(range(len(PAIRS)))


def test_rows_are_of_unit_length_and_a_text_without_words_is_zeros() -> None:
    found = static().embed([CODE, "", "—", "x" * 5_000])
    assert np.allclose(np.linalg.norm(found[0]), 1, atol=1e-6)
    assert not found[1:3].any()


def test_vectors_are_the_ones_that_were_recorded_bit_for_bit() -> None:
    found = static().embed([text for pair in PAIRS for text in pair])
    assert hashlib.sha256(found.astype("<f4").tobytes()).hexdigest()[:8] == DIGEST


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="abcdefghij _ASTP(", max_size=200), min_size=1, max_size=12), st.randoms())
def test_a_text_has_the_same_bits_whatever_it_is_embedded_with(texts: list[str], dice: object) -> None:
    alone = np.concatenate([static().embed([text]) for text in texts])
    assert (static().embed(texts * 30)[: len(texts)] == alone).all()
    assert (static().embed(texts[::-1])[::-1] == alone).all()


def test_the_largest_sum_a_text_can_have_stays_exact() -> None:
    rows = np.full((1, 256), 127, np.int8)
    damped = tuple(round(4 * n**0.5) for n in range(1, 65))
    largest = Static(table.Table("t", ("aaa",), damped, np.array([127], np.uint8), rows))
    assert np.allclose(largest.embed(["aaa " * MOST_WORDS * 2]), 1 / 16)
    # Every word another one, each counted fully: the bound that the module states.
    assert (MOST_WORDS * 127 * 127 * 4) ** 2 * 256 < 2**63


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = table.Table("t", ("a", "ü"), (4, 6), np.array([1, 2], np.uint8), np.ones((2, 3), np.int8))
    table.write(tmp_path / "t", made, {"licence": "MIT"})
    read = table.read(tmp_path / "t")
    assert (read.id, read.words, read.damped) == (made.id, made.words, made.damped)
    assert (read.rows == made.rows).all()
    assert (read.weights == made.weights).all()


@pytest.mark.parametrize("cut", [4, 40, -1])
def test_a_table_that_is_not_whole_is_refused(tmp_path: Path, cut: int) -> None:
    made = table.Table("t", ("a",), (4,), np.array([1], np.uint8), np.ones((1, 3), np.int8))
    table.write(tmp_path / "t", made, {})
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:cut])
    with pytest.raises(ValueError, match="install tracedesk again"):
        table.read(tmp_path / "t")


def test_importing_the_embedders_imports_no_numpy() -> None:
    code = (
        "import sys, tracedesk.codegraph.embed.static, tracedesk.codegraph.embed.minilm, "
        "tracedesk.codegraph.embed.vectors, tracedesk.codegraph.embed.fill\n"
        "assert not {'numpy', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.judge
@pytest.mark.alone
def test_five_thousand_chunks_a_second_are_embedded_on_one_core(size: Size, prove: Recorder) -> None:
    texts = [f"{CODE[n % 40 :]} value_{n} {CODE}"[:333].ljust(333, "x") for n in range(20_000)]
    static().embed(texts[:500])
    began = time.process_time()
    static().embed(texts)
    rate = len(texts) / (time.process_time() - began)
    prove.record("codegraph-embed", round(rate), seeds=())
    size.at_least(5_000, rate, "chunks a second")


@pytest.mark.judge
def test_the_wheel_holds_the_table(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert wheel.read("tracedesk/codegraph/embed/words.table") == FILE.read_bytes()
