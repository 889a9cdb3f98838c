"""MiniLM by onnxruntime: vectors of whole sentences, a hundred times slower, installed on request."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.codegraph.embed.convert import WIDTH
from tracedesk.codegraph.embed.wordpiece import WordPiece
from tracedesk.primitives import json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ID: Final = "minilm-l6-v2-int8-1"
"""The trailing number goes up when the conversion gives other vectors."""
MODEL: Final = "model.onnx"
TOKENIZER: Final = "tokenizer.json"
LONGEST: Final = 128
"""Tokens of a text that are read: about 400 characters of code."""
_TOGETHER: Final = 16


class SemanticMissing(RuntimeError):
    """MiniLM or what runs it is not installed, or damaged."""


def folder(home: Path) -> Path:
    return home / "models" / ID


def available(home: Path) -> bool:
    """Whether the converted model is in the home and onnxruntime is installed; only `load` tries them."""
    return _installed() and all((folder(home) / name).is_file() for name in (MODEL, TOKENIZER))


def load(home: Path) -> MiniLM:
    """The model of a home, loaded once."""
    if not available(home):
        raise SemanticMissing(
            f"{ID} is not in {folder(home)}, or onnxruntime is not installed; run `make semantic`"
        )
    try:
        return _loaded(folder(home).resolve())
    except Exception as problem:  # whatever onnxruntime makes of a damaged file
        raise SemanticMissing(
            f"{ID} in {folder(home)} cannot be loaded ({problem}); run `make semantic` to install it anew"
        ) from problem


class MiniLM:
    """An embedder over the converted model. One thread of the processor; safe to share."""

    id = ID
    dim = WIDTH

    def __init__(self, source: Path) -> None:
        # By name: an extra brings it, and only this class needs it.
        onnxruntime: Any = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            str(source / MODEL), options, providers=["CPUExecutionProvider"]
        )
        self._pieces = WordPiece(json.loads((source / TOKENIZER).read_bytes())["model"]["vocab"])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts of like length run together, so that little is spent on padding."""
        import numpy as np

        words = [self._pieces.of(text, LONGEST) for text in texts]
        order = sorted(range(len(words)), key=lambda n: len(words[n]))
        found = np.zeros((len(texts), WIDTH), np.float32)
        for at in range(0, len(order), _TOGETHER):
            some = order[at : at + _TOGETHER]
            found[some] = self._run([words[n] for n in some])
        return found

    def _run(self, words: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import numpy as np

        ids = np.zeros((len(words), max(map(len, words))), np.int64)
        mask = np.zeros_like(ids)
        for n, row in enumerate(words):
            ids[n, : len(row)] = row
            mask[n, : len(row)] = 1
        return self._session.run(None, {"ids": ids, "mask": mask})[0]


@cache
def _loaded(source: Path) -> MiniLM:
    return MiniLM(source)


def _installed() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None
