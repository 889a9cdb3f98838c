"""The static table: a text's vector is the weighted sum of its words' vectors. No model, no network.

Sums are of whole numbers and never leave their exact range, and the roundings that follow (a square root and
a division of binary64) are the same everywhere: a text has the same vector, bit for bit, on every platform
and whatever texts it is embedded with.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracedesk.codegraph.embed import table
from tracedesk.codegraph.embed.words import Words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE: Final = Path(__file__).with_name("words.table")
MOST_WORDS: Final = 1024
"""Of one text; with 8-bit rows and weights the sum's squares then stay below 2**63."""
_TOGETHER: Final = 256
"""Texts in one step: their rows fit the processor's cache."""


class Static:
    """An embedder over a table of words."""

    def __init__(self, source: table.Table) -> None:
        import numpy as np

        self._table = source
        self._words = Words(source.words)
        self._weights = source.weights.astype(np.int32)
        self._damped = np.array(source.damped, np.int32)

    @property
    def id(self) -> str:
        return self._table.id

    @property
    def dim(self) -> int:
        return self._table.rows.shape[1]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        found = np.zeros((len(texts), self.dim), np.float32)
        for at in range(0, len(texts), _TOGETHER):
            some = texts[at : at + _TOGETHER]
            found[at : at + len(some)] = _unit(self._sums(some))
        return found

    def _sums(self, texts: Sequence[str]) -> NDArray[np.int64]:
        import numpy as np

        words = [self._words.of(text)[:MOST_WORDS] for text in texts]
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        places = np.fromiter((place for row in words for place in row), np.int64, int(lengths.sum()))
        size = len(self._weights)
        # One number per (text, word), so that sorting groups a text's equal words.
        keys, counts = np.unique(
            np.repeat(np.arange(len(words)), lengths) * size + places, return_counts=True
        )
        text, word = np.divmod(keys, size)
        factors = self._weights[word] * self._damped[np.minimum(counts, len(self._damped)) - 1]
        weighted = self._table.rows[word] * factors[:, None]
        sums = np.zeros((len(words), self.dim), np.int64)
        if len(text):
            starts = np.flatnonzero(np.diff(text, prepend=-1))
            sums[text[starts]] = np.add.reduceat(weighted, starts, axis=0)
        return sums


def _unit(sums: NDArray[np.int64]) -> NDArray[np.float32]:
    import numpy as np

    squares = (sums * sums).sum(axis=1)
    lengths = np.sqrt(np.maximum(squares, 1).astype(np.float64))
    return (sums / lengths[:, None]).astype(np.float32)


@cache
def static() -> Static:
    """The embedder of the table in the package, read once."""
    return Static(table.read(FILE))
