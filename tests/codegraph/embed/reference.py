"""MiniLM in plain numpy, 32 bits, one text at a time: what the converted model is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_erf = np.vectorize(math.erf, otypes=[np.float32])


def vector(weights: Mapping[str, Floats], ids: Sequence[int]) -> Floats:
    """The unit vector of a text's tokens."""
    x = weights["embeddings.word_embeddings.weight"][list(ids)]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = _norm(x + weights["embeddings.token_type_embeddings.weight"][0], weights, "embeddings.LayerNorm")
    for layer in range(6):
        x = _layer(x, weights, f"encoder.layer.{layer}.")
    mean: Floats = x.mean(axis=0)
    return mean / np.float32(np.linalg.norm(mean))


def _layer(x: Floats, weights: Mapping[str, Floats], at: str) -> Floats:
    heads = [
        _linear(x, weights, f"{at}attention.self.{name}").reshape(len(x), 12, 32).transpose(1, 0, 2)
        for name in ("query", "key", "value")
    ]
    scores = heads[0] @ heads[1].transpose(0, 2, 1) / np.float32(math.sqrt(32))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    seen = (powers / powers.sum(axis=-1, keepdims=True)) @ heads[2]
    mixed = _linear(seen.transpose(1, 0, 2).reshape(len(x), 384), weights, f"{at}attention.output.dense")
    x = _norm(x + mixed, weights, f"{at}attention.output.LayerNorm")
    inner = _linear(x, weights, f"{at}intermediate.dense")
    inner = inner * (1 + _erf(inner / math.sqrt(2))) / 2
    return _norm(x + _linear(inner, weights, f"{at}output.dense"), weights, f"{at}output.LayerNorm")


def _linear(x: Floats, weights: Mapping[str, Floats], name: str) -> Floats:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _norm(x: Floats, weights: Mapping[str, Floats], name: str) -> Floats:
    centred = x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
    return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]
