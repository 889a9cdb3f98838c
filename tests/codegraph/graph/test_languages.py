from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata, resources
from pathlib import Path

import pytest

from tests.codegraph.graph.sources import ONE_OF_EACH, read
from tests.support import ROOT
from tracedesk.codegraph.graph import languages
from tracedesk.codegraph.graph.languages import SUPPORTED, TEXT_ONLY, aliases, language_of
from tracedesk.codegraph.graph.syntax.grammars import grammar


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a/b.py", "python"),
        ("a/b.pyi", "python"),
        ("x.ts", "typescript"),
        ("x.d.ts", "typescript"),
        ("x.tsx", "tsx"),
        ("x.jsx", "javascript"),
        ("x.mjs", "javascript"),
        ("x.h", "c"),
        ("X.HPP", "cpp"),
        ("Gemfile", "ruby"),
        ("x.sol", "solidity"),
        ("x.vy", "vyper"),
        ("deploy.sh", "bash"),
        ("README.md", "markdown"),
        ("Makefile", "makefile"),
        ("package.json", "json"),
        ("a\\b.rs", "rust"),
        ("noextension", None),
        ("x.unknown", None),
        (".gitignore", None),
        ("", None),
    ],
)
def test_a_path_names_its_language(path: str, language: str | None) -> None:
    assert language_of(path) == language


@pytest.mark.parametrize(
    ("hint", "language"),
    [
        ("TypeScriptReact", "tsx"),
        (" py ", "python"),
        ("c++", "cpp"),
        ("c#", "csharp"),
        ("klingon", None),
        ("", None),
    ],
)
def test_a_hint_goes_before_the_path(hint: str, language: str | None) -> None:
    assert language_of("x.go", hint) == language


def test_every_alias_stands_for_a_known_language() -> None:
    assert set(aliases().values()) == {*SUPPORTED, *TEXT_ONLY}


def test_there_is_a_sample_of_every_supported_language() -> None:
    assert set(ONE_OF_EACH) == set(SUPPORTED)


@pytest.mark.parametrize("language", SUPPORTED)
def test_every_grammar_loads_and_finds_a_definition(language: str) -> None:
    assert grammar(language) is not None
    found = read(language, ONE_OF_EACH[language])
    assert found.problem is None
    assert found.symbols
    assert found.chunks


@pytest.mark.parametrize("language", ["cpp", "php", "ruby"])
def test_the_shipped_tags_are_read_from_the_wheel(language: str) -> None:
    assert "@definition" in languages.shipped_query(language)


def test_the_extractors_id_changes_with_a_query_and_with_a_grammar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity() -> str:
        languages._extractor.cache_clear()  # pyright: ignore[reportPrivateUsage]
        return languages.EXTRACTOR

    def other_version(distribution: str) -> str:
        return f"{distribution}-other"

    def other_folder(package: str) -> Path:
        return tmp_path

    first = identity()
    assert identity() == first
    monkeypatch.setattr(metadata, "version", other_version)
    grammars_changed = identity()
    monkeypatch.undo()
    for file in resources.files("tracedesk.codegraph.graph.queries").iterdir():
        if file.name.endswith(".scm"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "python.scm").write_text("; changed\n")
    monkeypatch.setattr(languages.resources, "files", other_folder)
    query_changed = identity()
    monkeypatch.undo()
    assert len({first, grammars_changed, query_changed}) == 3
    assert identity() == first


def test_a_language_without_its_wheel_is_kept_as_text_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(languages.WHEELS, "go", languages.Wheel("tree-sitter-none", "tree_sitter_none"))
    grammar.cache_clear()
    try:
        found = read("go", ONE_OF_EACH["go"])
    finally:
        grammar.cache_clear()
    assert (found.problem, found.symbols) == ("no_grammar", ())
    assert found.chunks[0].text.startswith("package a")


def test_importing_the_extractor_loads_no_grammar() -> None:
    code = (
        "import sys, tracedesk.codegraph.graph.extract, tracedesk.codegraph.graph.outline;"
        "sys.exit(any(name.startswith('tree_sitter') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_queries_travel_in_the_wheel(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel")
    (built,) = builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as wheel:
        packed = {name for name in wheel.namelist() if name.endswith(".scm")}
    queries = ROOT / "src" / "tracedesk" / "codegraph" / "graph" / "queries"
    assert packed == {f"tracedesk/codegraph/graph/queries/{file.name}" for file in queries.glob("*.scm")}
