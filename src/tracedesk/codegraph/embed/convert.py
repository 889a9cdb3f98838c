"""MiniLM from its safetensors to an int8 ONNX file: our own graph, weights quantized by column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tracedesk.codegraph.embed.protobuf import Graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensors = Mapping[str, NDArray[np.float32]]

LAYERS: Final = 6
HEADS: Final = 12
WIDTH: Final = 384
_HEAD: Final = WIDTH // HEADS


def tensors(raw: bytes) -> Tensors:
    """The float32 tensors of a safetensors file: a length, a JSON header, the numbers."""
    import numpy as np

    length = int.from_bytes(raw[:8], "little")
    header: dict[str, dict[str, Any]] = json.loads(raw[8 : 8 + length])
    found: dict[str, NDArray[np.float32]] = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(raw, "<f4", offset=8 + length + begin, count=(end - begin) // 4)
            found[name] = flat.reshape(entry["shape"])
    return found


def convert(weights: Tensors) -> bytes:
    """The ONNX file: `ids` and `mask` (rows x length) in, unit vectors (rows x 384) out."""
    return _Encoder(Graph("minilm"), weights).file()


@dataclass(frozen=True, slots=True)
class _Encoder:
    graph: Graph
    weights: Tensors

    def file(self) -> bytes:
        x = self._embedded()
        unseen = self._unseen()
        for layer in range(LAYERS):
            x = self._layer(x, unseen, f"encoder.layer.{layer}.")
        self._pooled(x)
        return self.graph.model({"ids": "int64", "mask": "int64"}, "vectors", ("rows", WIDTH))

    def _embedded(self) -> str:
        """Words (int8, a scale per word) + places + the one segment, normalised."""
        import numpy as np

        g, w = self.graph, self.weights
        rows, scale = _eight_bits(w["embeddings.word_embeddings.weight"].T)
        table = g.constant("words", np.ascontiguousarray(rows.T))
        scales = g.constant("word_scales", scale[:, None])
        picked = g.node("Cast", g.node("Gather", table, "ids"), to=1)
        x = g.node("Mul", picked, g.node("Gather", scales, "ids"))
        segment = w["embeddings.token_type_embeddings.weight"][0]
        places = g.constant("places", w["embeddings.position_embeddings.weight"] + segment)
        length = g.node("Slice", g.node("Shape", "ids"), self._ints("one", 1), self._ints("two", 2))
        x = g.node("Add", x, g.node("Slice", places, self._ints("zero", 0), length, self._ints("axis0", 0)))
        return self._norm(x, "embeddings.LayerNorm")

    def _unseen(self) -> str:
        """What is added to the attention's scores: 0 for a word, a large negative number for padding."""
        import numpy as np

        g = self.graph
        mask = g.node("Unsqueeze", g.node("Cast", "mask", to=1), self._ints("axes12", 1, 2))
        hidden = g.node("Sub", g.constant("unit", np.float32(1).reshape(1)), mask)
        return g.node("Mul", hidden, g.constant("far", np.float32(-1e4).reshape(1)))

    def _layer(self, x: str, unseen: str, at: str) -> str:
        g = self.graph
        q, k, v = (self._heads(x, f"{at}attention.self.{name}") for name in ("query", "key", "value"))
        scores = g.node("MatMul", q, g.node("Transpose", k, perm=(0, 1, 3, 2)))
        scores = g.node("Mul", scores, self._float("root", _HEAD**-0.5))
        seen = g.node("MatMul", g.node("Softmax", g.node("Add", scores, unseen), axis=-1), v)
        seen = g.node(
            "Reshape", g.node("Transpose", seen, perm=(0, 2, 1, 3)), self._ints("flat", 0, 0, WIDTH)
        )
        mixed = self._linear(seen, f"{at}attention.output.dense")
        x = self._norm(g.node("Add", x, mixed), f"{at}attention.output.LayerNorm")
        inner = g.node("Gelu", self._linear(x, f"{at}intermediate.dense"), domain="com.microsoft")
        return self._norm(g.node("Add", x, self._linear(inner, f"{at}output.dense")), f"{at}output.LayerNorm")

    def _heads(self, x: str, name: str) -> str:
        g = self.graph
        shape = self._ints("heads", 0, 0, HEADS, _HEAD)
        return g.node("Transpose", g.node("Reshape", self._linear(x, name), shape), perm=(0, 2, 1, 3))

    def _linear(self, x: str, name: str) -> str:
        """x · weights + bias: the weights int8 with a scale per column, x quantized while it runs."""
        import numpy as np

        g = self.graph
        weight, scale = _eight_bits(self.weights[f"{name}.weight"].T)
        return g.node(
            "DynamicQuantizeMatMul",
            x,
            g.constant(f"{name}.int8", weight),
            g.constant(f"{name}.scale", scale),
            g.constant(f"{name}.zero", np.zeros(len(scale), np.int8)),
            g.constant(f"{name}.bias", self.weights[f"{name}.bias"]),
            domain="com.microsoft",
        )

    def _norm(self, x: str, name: str) -> str:
        g = self.graph
        scale = g.constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = g.constant(f"{name}.bias", self.weights[f"{name}.bias"])
        return g.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-12)

    def _pooled(self, x: str) -> None:
        """The mean over the words that are there, at unit length."""
        g = self.graph
        mask = g.node("Unsqueeze", g.node("Cast", "mask", to=1), self._ints("axes2", 2))
        summed = g.node("ReduceSum", g.node("Mul", x, mask), self._ints("axis1", 1), keepdims=0)
        norm = g.node("ReduceL2", summed, axes=(1,), keepdims=1)
        g.output("Div", "vectors", summed, g.node("Max", norm, self._float("tiny", 1e-12)))

    def _ints(self, name: str, *values: int) -> str:
        import numpy as np

        return self._once(name, np.array(values, np.int64))

    def _float(self, name: str, value: float) -> str:
        import numpy as np

        return self._once(name, np.array([value], np.float32))

    def _once(self, name: str, values: NDArray[Any]) -> str:
        return name if name in self.graph.named else self.graph.constant(name, values)


def _eight_bits(values: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Each column as whole numbers up to 127 and the factor that brings them back."""
    import numpy as np

    scale: NDArray[np.float32] = np.maximum(np.abs(values).max(axis=0), np.float32(1e-12)) / np.float32(127)
    whole: NDArray[np.float32] = np.round(values / scale)
    return whole.astype(np.int8), scale
