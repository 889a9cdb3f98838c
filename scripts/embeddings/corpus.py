"""The sources that the table learns from, as their registries have them, and the pairs in them.

`sources.tsv` names every one with its version and licence; all are permissive. Repositories on which
retrieval is tried (Django, qwen-code and its origin gemini-cli, pytest, flask, celery, scrapy, aiohttp, vite,
trpc, tokio, prometheus) are not among them, nor is a copy of them inside another package.
"""

from __future__ import annotations

import json
import lzma
import random
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.embeddings.pairs import Pair, pairs
from tracedesk.codegraph.embed.words import parts

SOURCES: Final = Path(__file__).with_name("sources.tsv")
_CODE: Final = (".py", ".ts", ".tsx", ".js", ".mjs", ".rs", ".go", ".java", ".sol", ".c", ".h", ".cpp", ".cc")
_ELSEWHERE: Final = re.compile(
    r"(^|/)(_vendor|vendored|vendor|node_modules|site-packages|testdata|lib2to3)/|\.min\.|\.d\.ts$"
    r"|django|qwen|gemini.cli|_pytest|flask|celery|scrapy|aiohttp|trpc|tokio-\d|prometheus",
    re.I,
)
_MOST: Final = 6000
"""Pairs of one source; a quarter as many of code that nothing is said of."""
_BYTES: Final = 12_000_000
_FILE: Final = range(200, 400_000)
_LONG_LINE: Final = 1500
_SAID: Final = 15
_NAME: Final = re.compile(
    r"\b(?:def|class|func|fn|function|struct|interface|type|enum|trait)\s+(?:\([^)]*\)\s*)?(\w{6,})"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A package of a registry, or the standard library of a language on this machine."""

    kind: str
    name: str
    version: str
    licence: str

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}-{self.version}"


def sources() -> list[Source]:
    return [Source(*line.split("\t")) for line in SOURCES.read_text(encoding="utf-8").splitlines()]


def collect(folder: Path, out: Path) -> None:
    """Fetch every source into the folder and write its pairs: source, what is said, code."""
    with lzma.open(out, "wt", encoding="utf-8") as file:
        for source in sources():
            for pair in _chosen(source.id, files(source, folder)):
                file.write(json.dumps([source.id, pair.said, pair.code], ensure_ascii=False) + "\n")


def _chosen(source: str, found: Iterator[tuple[str, bytes]]) -> Iterator[Pair]:
    """A fair draw of a source's pairs; where nothing is said, the name is, and the code goes without it."""
    dice = random.Random(source)
    some = sorted(found)
    dice.shuffle(some)
    said: dict[str, Pair] = {}
    unsaid: dict[str, Pair] = {}
    total = 0
    for path, raw in some:
        text = raw.decode("utf-8", "ignore")
        if total > _BYTES or max(map(len, text[:20_000].split("\n"))) > _LONG_LINE:
            continue
        total += len(raw)
        for pair in pairs(path, text):
            if len(pair.code) >= 60:
                (said if len(pair.said) >= _SAID else unsaid)[pair.code[:300]] = pair
    yield from _draw(dice, said, _MOST)
    yield from filter(None, map(_named, _draw(dice, unsaid, _MOST // 4)))


def _draw(dice: random.Random, found: dict[str, Pair], most: int) -> list[Pair]:
    return dice.sample(list(found.values()), min(most, len(found)))


def _named(pair: Pair) -> Pair | None:
    match = _NAME.search(pair.code)
    if match is None:
        return None
    return Pair(" ".join(parts(match[1])), pair.code[: match.start(1)] + pair.code[match.end(1) :])


# --- where a source's files are ---------------------------------------------------------------------


def files(source: Source, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The source's files of code, by path."""
    found = {"pypi": _wheel, "npm": _package, "crate": _crate, "go": _go, "python": _python}[source.kind]
    for path, raw in found(source, folder):
        if path.endswith(_CODE) and len(raw) in _FILE and not _ELSEWHERE.search(path):
            yield path, raw


def _wheel(source: Source, folder: Path) -> Iterator[tuple[str, bytes]]:
    to = folder / source.id
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    if not to.exists():
        subprocess.run([*command, "-d", str(to), f"{source.name}=={source.version}"], check=True)
    with zipfile.ZipFile(next(to.glob("*.whl"))) as archive:
        yield from ((name, archive.read(name)) for name in archive.namelist() if name.endswith(_CODE))


def _package(source: Source, folder: Path) -> Iterator[tuple[str, bytes]]:
    to = folder / source.id.replace("/", "+")
    if not to.exists():
        to.mkdir()
        subprocess.run(["npm", "pack", "--silent", f"{source.name}@{source.version}"], cwd=to, check=True)
    with tarfile.open(next(to.glob("*.tgz"))) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(_CODE) else None
            if file is not None:
                yield member.name, file.read()


def _crate(source: Source, folder: Path) -> Iterator[tuple[str, bytes]]:
    """From cargo's own store, which any build of the fuzzer's core fills."""
    store = Path.home() / ".cargo" / "registry" / "src"
    yield from _tree(next(store.glob(f"*/{source.name}-{source.version}")))


def _go(source: Source, folder: Path) -> Iterator[tuple[str, bytes]]:
    """One folder of Go's standard library."""
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    yield from _tree(Path(root, "src", source.name))


def _python(source: Source, folder: Path) -> Iterator[tuple[str, bytes]]:
    yield from _tree(Path(random.__file__).parent)


def _tree(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in root.rglob("*"):
        if path.suffix in _CODE and path.is_file():
            yield str(path.relative_to(root)), path.read_bytes()
