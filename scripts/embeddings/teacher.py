"""The teacher: MiniLM (Apache-2.0) by torch, from the same weights that `make semantic` converts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracedesk.codegraph.embed.convert import HEADS, LAYERS, WIDTH, tensors
from tracedesk.codegraph.embed.wordpiece import WordPiece

# By name: torch is no dependency of this project.
torch: Any = import_module("torch")
F: Any = torch.nn.functional
Tensor = Any

LONGEST = 128
TOGETHER = 2048


class Teacher:
    """Mean-pooled, normalised vectors; the folder has model.safetensors and tokenizer.json."""

    def __init__(self, folder: Path, device: str) -> None:
        self.device = device
        kind = torch.float16 if device == "cuda" else torch.float32
        found = tensors((folder / "model.safetensors").read_bytes())
        self.weights: Mapping[str, Tensor] = {
            name: torch.from_numpy(values.copy()).to(device=device, dtype=kind)
            for name, values in found.items()
        }
        self.pieces = WordPiece(json.loads((folder / "tokenizer.json").read_bytes())["model"]["vocab"])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float16]:
        ids = [self.pieces.of(text, LONGEST) for text in texts]
        order = sorted(range(len(ids)), key=lambda n: len(ids[n]))
        found = np.zeros((len(texts), WIDTH), np.float16)
        for at in range(0, len(order), TOGETHER):
            some = order[at : at + TOGETHER]
            found[some] = self._batch([ids[n] for n in some])
        return found

    def _batch(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float16]:
        table = np.zeros((len(ids), len(ids[-1])), np.int64)
        mask = np.zeros(table.shape, bool)
        for row, places in enumerate(ids):
            table[row, : len(places)] = places
            mask[row, : len(places)] = True
        with torch.inference_mode():
            got = self._forward(
                torch.from_numpy(table).to(self.device), torch.from_numpy(mask).to(self.device)
            )
        return got.cpu().numpy().astype(np.float16)

    def _forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._norm(x, "embeddings.LayerNorm")
        for n in range(LAYERS):
            x = self._layer(x, mask, f"encoder.layer.{n}.")
        kept = mask.unsqueeze(-1).to(torch.float32)
        mean = (x.float() * kept).sum(1) / kept.sum(1)
        return F.normalize(mean, dim=-1)

    def _layer(self, x: Tensor, mask: Tensor, at: str) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (
            self._linear(x, f"{at}attention.self.{name}").view(rows, length, HEADS, -1).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        seen = seen.transpose(1, 2).reshape(rows, length, width)
        x = self._norm(
            x + self._linear(seen, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm"
        )
        inner = F.gelu(self._linear(x, f"{at}intermediate.dense"))
        return self._norm(x + self._linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (WIDTH,), self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-12)
