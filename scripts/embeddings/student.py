"""The student: one vector per word, trained so that what is said lies near the code it is said of.

Two wishes at once: a text's vector should point where the teacher's does, and of all code in a batch, its own
should be nearest to what is said. Half of a batch's rivals come from the same source, as they do in a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

# By name: torch is no dependency of this project.
torch: Any = import_module("torch")
F: Any = torch.nn.functional
Tensor = Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a table is trained; chosen on repositories that are not among the sources."""

    dim: int = 256
    steps: int = 1500
    sources: int = 64
    """Sources in one batch: pairs of the same source are the hard rivals."""
    each: int = 128
    """Pairs of each source in one batch."""
    temperature: float = 0.07
    contrast: float = 1.0
    distill: float = 2.0
    rate: float = 1e-3
    dropout: float = 0.3
    """Share of a text's words left out while training."""
    average: float = 0.995
    """The table that is kept is the running mean of the trained one."""
    seed: int = 7


@dataclass(slots=True)
class Texts:
    """Texts as padded rows of word places with one weight each (0: nothing there)."""

    places: Tensor
    weights: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], longest: int, device: str) -> Texts:
        """A word that occurs n times in a text counts the square root of n."""
        places = np.zeros((len(rows), longest), np.int32)
        weights = np.zeros((len(rows), longest), np.float32)
        for n, row in enumerate(rows):
            words, counts = np.unique(np.asarray(row, np.int32), return_counts=True)
            size = min(longest, len(words))
            places[n, :size] = words[:size]
            weights[n, :size] = counts[:size] ** 0.5
        return cls(torch.from_numpy(places).to(device), torch.from_numpy(weights).to(device))


@dataclass(slots=True)
class Lesson:
    """What is said and the code, as words and as the teacher sees them, by source, and where to begin."""

    said: Texts
    code: Texts
    taught_said: Tensor
    taught_code: Tensor
    members: list[Tensor]
    start: Tensor

    @classmethod
    def of(
        cls,
        taught: Sequence[Tensor],
        words: Sequence[Sequence[Sequence[int]]],
        sources: Sequence[str],
        frequent: NDArray[np.float32],
        recipe: Recipe,
    ) -> Lesson:
        """`taught`: the teacher's vectors of what is said, of the code and of each word of the vocabulary."""
        said, code, single = taught
        device = said.device.type
        sample = torch.cat([said[::4], code[::4]])
        axes = torch.linalg.svd(sample.T @ sample / len(sample))[0][:, : recipe.dim]
        share = torch.from_numpy(frequent / frequent.sum()).to(said.device)
        # Smooth inverse frequency: a word in every text says little.
        start = F.normalize(single @ axes, dim=-1) * (1e-3 / (1e-3 + share))[:, None]
        numbers = {name: n for n, name in enumerate(dict.fromkeys(sources))}
        source = torch.tensor([numbers[name] for name in sources], device=said.device)
        return cls(
            Texts.of(words[0], 64, device),
            Texts.of(words[1], 160, device),
            F.normalize(said @ axes, dim=-1),
            F.normalize(code @ axes, dim=-1),
            [torch.nonzero(source == n).flatten() for n in numbers.values()],
            start,
        )


def pooled(table: Tensor, texts: Texts, rows: Tensor, dropout: float = 0.0) -> Tensor:
    """The normalised, weighted sums of the rows' words."""
    weights = texts.weights[rows]
    if dropout:
        weights = weights * (torch.rand_like(weights) >= dropout)
    summed = F.embedding_bag(texts.places[rows].long(), table, per_sample_weights=weights, mode="sum")
    return F.normalize(summed, dim=-1)


def train(lesson: Lesson, recipe: Recipe) -> Tensor:
    """The running mean of the table while it is trained."""
    torch.manual_seed(recipe.seed)
    table = torch.nn.Parameter(lesson.start.clone())
    kept = lesson.start.clone()
    optimizer = torch.optim.Adam([table], lr=recipe.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, recipe.steps, pct_start=0.1)
    odds = torch.tensor([min(len(rows), 4000) ** 0.5 for rows in lesson.members])
    for _ in range(recipe.steps):
        loss = losses(table, lesson, batch(lesson.members, odds, recipe), recipe)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        kept.lerp_(table.detach(), 1 - recipe.average)
    return kept


def batch(members: Sequence[Tensor], odds: Tensor, recipe: Recipe) -> Tensor:
    chosen = [members[int(n)] for n in torch.multinomial(odds, recipe.sources)]
    drawn = [rows[torch.randint(len(rows), (recipe.each,), device=rows.device)] for rows in chosen]
    return torch.cat(drawn).unique()


def losses(table: Tensor, lesson: Lesson, rows: Tensor, recipe: Recipe) -> Tensor:
    said = pooled(table, lesson.said, rows, recipe.dropout)
    code = pooled(table, lesson.code, rows, recipe.dropout)
    taught_said, taught_code = lesson.taught_said[rows], lesson.taught_code[rows]
    apart = 2 - (said * taught_said).sum(-1).mean() - (code * taught_code).sum(-1).mean()
    scores = said @ code.T / recipe.temperature
    # What the teacher finds the same is no rival.
    alike = (taught_said @ taught_said.T > 0.9) | (taught_code @ taught_code.T > 0.97)
    scores = scores.masked_fill(alike.fill_diagonal_(False), -1e4)
    own = torch.arange(len(rows), device=scores.device)
    nearest = (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2
    return recipe.distill * apart + recipe.contrast * nearest


def quantized(table: Tensor) -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
    """Eight-bit rows, and a whole-number weight (1 to 127) per row: row ≈ rows * weight up to one factor."""
    values: NDArray[np.float32] = table.float().cpu().numpy()
    tops: NDArray[np.float32] = np.abs(values).max(axis=1)
    top = float(np.quantile(tops, 0.9999))
    weights: NDArray[np.float32] = np.clip(np.round(tops / top * 127), 1, 127)
    rows: NDArray[np.floating] = np.clip(np.round(values / (weights[:, None] * (top / 127 / 127))), -127, 127)
    return rows.astype(np.int8), weights.astype(np.uint8)
