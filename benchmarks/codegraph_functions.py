"""Which function? `python -m benchmarks.codegraph_functions FOLDER... [--functions N] [--json]`.

Each FOLDER is a checkout; it is only read. Random functions are looked for by their documentation, their own
names taken out: among the graph's symbols, and by a plain BM25 over functions. Prints figures; it judges
nothing by its exit code.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.command import Claim, Found, claim_lines, parser, run, say
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.store import Store, project_at
from tracedesk.codegraph.rank.files import Question, Ranker
from tracedesk.primitives.paths import Jail

SEED: Final = 11
FUNCTIONS: Final = 80
SEEN: Final = 20
FEWEST_WORDS: Final = 5
RIVAL: Final = "Okapi BM25 over functions"
METHOD: Final = {
    "functions": "every function and method of the graph; asked: random ones whose documentation (docstring "
    f"or comment above) begins with a paragraph of at least {FEWEST_WORDS} words besides the name",
    "question": "the paragraph without the function's name",
    "hit@1": "share of questions whose first answer is that very definition, by file and line",
    "mrr": f"mean of 1 / its place, 0 beyond place {SEEN}",
    "ours": "the symbols of a search of the whole project, of any kind, in their order",
    "rival": "k1 1.5, b 0.75, over the lines of each function and the comment above it; words in lower case, "
    "identifiers in one piece and in parts; only functions are candidates",
}

_WORD: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DOCSTRING: Final = re.compile(r'^\s*[rRuUbB]{0,2}("""|\'\'\'|"|\')(.*?)\1', re.DOTALL)
_COMMENT: Final = re.compile(r"^\s*(//|/\*|\*|#(?!\[))")
_ATTRIBUTE: Final = re.compile(r"^\s*(#\[|@\w)")
_MARKS: Final = re.compile(r"^\s*(?:/\*+!?|\*+/|\*+|//+!?|#+)[ \t]?|\*+/\s*$", re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n\s*(?:\n|@)")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a project: where it is, all its text, and what its documentation says."""

    path: str
    line: int
    name: str
    text: str
    doc: str

    @property
    def place(self) -> tuple[str, int]:
        return self.path, self.line

    def question(self) -> str:
        """What the documentation says first, without the name."""
        first = " ".join(_PARAGRAPH.split(self.doc.strip(), maxsplit=1)[0].split())
        return re.sub(rf"(?<!\w){re.escape(self.name)}(?!\w)", " ", first, flags=re.IGNORECASE)


def functions(store: Store, root: Path) -> list[Function]:
    """Every function and method of a project's graph, with its text as it is on the disk."""
    query = """
        SELECT file.path, symbol.name, symbol.start, symbol."end" FROM symbol
        JOIN file ON file.id = symbol.id >> 20 WHERE symbol.kind IN ('function', 'method')
        ORDER BY file.path, symbol.start
    """
    with store.reading() as connection:
        rows = list(connection.execute(query))
    lines: dict[str, list[str]] = {}
    for path in {row[0] for row in rows}:
        lines[path] = (root / path).read_text(encoding="utf-8", errors="replace").split("\n")
    return [_function(lines[path], path, name, start, end) for path, name, start, end in rows]


def _function(lines: list[str], path: str, name: str, start: int, end: int) -> Function:
    above = start - 1
    while above > 0 and (_COMMENT.match(lines[above - 1]) or _ATTRIBUTE.match(lines[above - 1])):
        above -= 1
    body = "\n".join(lines[start - 1 : end])
    comment = "\n".join(line for line in lines[above : start - 1] if not _ATTRIBUTE.match(line))
    doc = _docstring(body) if path.endswith(".py") else _MARKS.sub("", comment)
    return Function(path, start, name, "\n".join(lines[above:end]), doc)


def _docstring(body: str) -> str:
    _, _, inside = body.partition(":\n")
    found = _DOCSTRING.match(inside)
    return found[2] if found else ""


def asked(every: Sequence[Function], count: int) -> list[Function]:
    """Random functions that say enough about themselves."""
    telling = [each for each in every if len(_WORD.findall(each.question())) >= FEWEST_WORDS]
    return random.Random(SEED).sample(telling, min(count, len(telling)))


# --- the rival --------------------------------------------------------------------------------------


class Okapi:
    """A plain BM25 over texts."""

    def __init__(self, texts: Sequence[str], k1: float = 1.5, b: float = 0.75) -> None:
        counted = [Counter(words(text)) for text in texts]
        sizes = [sum(counts.values()) for counts in counted]
        usual = mean(sizes) if sizes else 1.0
        holding: Counter[str] = Counter(word for counts in counted for word in counts)
        self._worth: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, counts in enumerate(counted):
            norm = k1 * (1 - b + b * sizes[number] / usual)
            for word, times in counts.items():
                rarity = math.log(1 + (len(texts) - holding[word] + 0.5) / (holding[word] + 0.5))
                self._worth[word].append((number, rarity * times * (k1 + 1) / (times + norm)))

    def ranked(self, query: str) -> list[int]:
        """The best texts for a question."""
        scores: dict[int, float] = defaultdict(float)
        for word in words(query):
            for number, worth in self._worth.get(word, ()):
                scores[number] += worth
        return sorted(scores, key=lambda number: -scores[number])[:SEEN]


def words(text: str) -> list[str]:
    """The words of a text in lower case; an identifier, and its parts behind it."""
    found: list[str] = []
    for word in _WORD.findall(text):
        parts = _PART.findall(word)
        found.append(word.lower())
        if len(parts) > 1:
            found += [part.lower() for part in parts]
    return found


# --- the run ----------------------------------------------------------------------------------------


def figures(places: Sequence[int | None]) -> dict[str, float]:
    """How well one way of ranking did: the places of what was wanted, from 0, None beyond the last."""
    return {
        "hit@1": round(mean(place == 0 for place in places), 4),
        "mrr": round(mean(0.0 if place is None else 1 / (place + 1) for place in places), 4),
    }


def measure(root: Path, folder: Path, count: int) -> dict[str, Any]:
    """Both ways on one checkout."""
    with Store(folder / f"{root.name}.db") as store:
        index_project(store, Jail([root]), str(root), [])
        every = functions(store, root)
        wanted = asked(every, count)
        ours = _ours(store, root)
        okapi = Okapi([each.text for each in every])
        rival = [_place([every[n].place for n in okapi.ranked(each.question())], each) for each in wanted]
        found = [_place(ours(each.question()), each) for each in wanted]
    return {
        "functions": len(every),
        "questions": len(wanted),
        "ours": figures(found),
        "rival": figures(rival),
        "missed": [
            f"{each.path}:{each.line} {each.name}" for each, at in zip(wanted, found, strict=True) if at != 0
        ],
    }


def _ours(store: Store, root: Path) -> Callable[[str], list[tuple[str, int]]]:
    ranker = Ranker()

    def ask(question: str) -> list[tuple[str, int]]:
        with store.reading() as graph:
            project = project_at(graph, str(root))
            assert project is not None
            found = ranker.search(graph, None, project, Question(question), 10)
        return [(hit.path, hit.symbol.start) for hit in found.symbols[:SEEN]]

    return ask


def _place(ranked: Sequence[tuple[str, int]], wanted: Function) -> int | None:
    return ranked.index(wanted.place) if wanted.place in ranked else None


def measured(roots: Sequence[Path], folder: Path, count: int) -> Found:
    """Every checkout, one after the other."""
    rows: dict[str, Any] = {}
    for root in roots:
        say(root.name)
        rows[root.name] = measure(root.resolve(), folder, count)
    return {
        "claims": [_claim(name, row) for name, row in rows.items()],
        "rows": rows,
        "seeds": [SEED],
        "rivals": {RIVAL: "in this run"},
        "method": METHOD,
    }


def _claim(name: str, row: dict[str, Any]) -> Claim:
    ours, rival = row["ours"]["hit@1"], row["rival"]["hit@1"]
    ratio = round(ours / rival, 3) if rival else math.inf
    return {"name": f"{name}, hit@1", "bar": 1.0, "ratio": ratio, "met": ratio >= 1.0, "against": RIVAL}


def as_text(found: Found) -> str:
    lines = [*claim_lines(found["claims"]), ""]
    for name, row in found["rows"].items():
        for way in ("ours", "rival"):
            lines.append(f"{name:24}{way:8}hit@1 {row[way]['hit@1']:<8} MRR {row[way]['mrr']}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    options = parser("codegraph_functions", __doc__)
    options.add_argument("folders", metavar="FOLDER", nargs="+", help="a checkout of any repository")
    options.add_argument("--functions", type=int, default=FUNCTIONS, help="functions that are looked for")
    chosen = options.parse_args(argv)
    roots = [Path(folder) for folder in chosen.folders]
    if missing := next((root for root in roots if not root.is_dir()), None):
        options.error(f"{missing} is not a folder")
    return run(lambda folder: measured(roots, folder, chosen.functions), as_text, as_json=chosen.json)


if __name__ == "__main__":
    sys.exit(main())
