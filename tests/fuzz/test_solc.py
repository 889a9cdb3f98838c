"""Compilers of Solidity: which version fits, where they are found, and what is said when none is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.fuzz.cases.compiled import compiler
from tests.judges.support import node
from tracedesk.fuzz import solc
from tracedesk.fuzz.compile import Options, compile_project
from tracedesk.fuzz.imports import Settings
from tracedesk.fuzz.pragma import Pragma, pragmas, version_of
from tracedesk.fuzz.project import CompileError, Source
from tracedesk.fuzz.solc import NodeSolc, Places, RacerSolc, choose, compilers
from tracedesk.fuzz.solidity import standard_input

SOURCE = (
    "// SPDX-License-Identifier: MIT\npragma solidity {pragma};\ncontract C {{ uint256 public x = 1; }}\n"
)


@pytest.mark.parametrize(
    ("pragma", "fitting", "unfitting"),
    [
        ("^0.8.20", "0.8.20 0.8.37", "0.8.19 0.9.0 1.8.20"),
        ("^0.0.3", "0.0.3", "0.0.4"),
        ("^1.2.3", "1.9.0", "2.0.0"),
        ("~0.8.3", "0.8.3 0.8.9", "0.9.0"),
        (">=0.4.22 <0.9.0", "0.4.22 0.8.37", "0.4.21 0.9.0"),
        ("0.8.19", "0.8.19", "0.8.20 0.8.18"),
        ("=0.8.19", "0.8.19", "0.8.20"),
        ("0.8", "0.8.0 0.8.37", "0.7.6"),
        ("0.8.x", "0.8.0 0.8.37", "0.9.0"),
        ("*", "0.4.0 9.9.9", ""),
        ("0.7.0 - 0.8.2", "0.7.0 0.8.2", "0.8.3 0.6.9"),
        ("^0.6.0 || ^0.8.0", "0.6.1 0.8.1", "0.7.0"),
        (">0.8.1", "0.8.2", "0.8.1"),
        ("<=0.8.1", "0.8.1 0.1.0", "0.8.2"),
        (">= 0.8.4", "0.8.4", "0.8.3"),
    ],
)
def test_a_pragma_allows_what_solc_allows(pragma: str, fitting: str, unfitting: str) -> None:
    read = Pragma.of(pragma)
    for text in fitting.split():
        assert read.allows(version_of(text) or (0, 0, 0)), text
    for text in unfitting.split():
        assert not read.allows(version_of(text) or (0, 0, 0)), text


def test_other_pragmas_are_no_versions() -> None:
    assert [
        p.text for p in pragmas("pragma abicoder v2;\npragma solidity 0.8.1;pragma  solidity\n^0.8.0 ;")
    ] == ["0.8.1", "^0.8.0"]


def test_no_compiler_that_fits_is_an_error_with_the_versions_at_hand() -> None:
    there = [NodeSolc(Path("node"), Path("soljson.js"), version) for version in ((0, 8, 37), (0, 7, 6))]
    assert choose(there, [Pragma.of("^0.7.0")], "C.sol").version == (0, 7, 6)
    with pytest.raises(CompileError) as caught:
        choose(there, [Pragma.of("^0.8.0"), Pragma.of("0.8.19")], "C.sol")
    assert "C.sol: needs solidity ^0.8.0 and 0.8.19" in caught.value.message
    assert "solc 0.8.37" in caught.value.message
    assert "solc 0.7.6" in caught.value.message
    assert caught.value.code == "INVALID_INPUT"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any compiler of Solidity."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv(solc.SOLJSON, raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_without_any_compiler_the_error_says_how_to_get_one(bare: Path) -> None:
    source = bare / "C.sol"
    source.write_text(SOURCE.format(pragma="^0.8.0"))
    with pytest.raises(CompileError, match="no Solidity compiler is at hand") as caught:
        compile_project(source)
    assert caught.value.details is not None
    assert caught.value.details["kind"] == "NO_COMPILER"


def native(path: Path, version: str) -> Path:
    """A program that tells a version the way solc does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable}\nprint('solc, the solidity compiler\\nVersion: {version}+commit.x.Linux')\n"
    )
    path.chmod(0o755)
    return path


def test_a_named_solc_comes_before_the_path_and_the_caches_newest_first(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = native(bare / "own" / "solc-x", "0.8.1")
    native(bare.parent / "bin" / "solc", "0.8.2")
    for version in ("0.7.6", "0.8.30", "0.8.9"):
        native(Path(os.environ["HOME"]) / ".svm" / version / f"solc-{version}", version)
    monkeypatch.setenv("PATH", str(bare.parent / "bin"))
    found = [compiler.version for compiler in compilers(Places(solc=own), bare)]
    assert found == [(0, 8, 1), (0, 8, 2), (0, 8, 30), (0, 8, 9), (0, 7, 6)]


def test_a_program_of_the_project_on_the_path_is_run_only_where_the_project_is_trusted(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native(bare / "node_modules" / ".bin" / "solc", "0.8.2")
    monkeypatch.setenv("PATH", str(bare / "node_modules" / ".bin"))
    assert list(compilers(Places(), bare)) == []
    assert [found.version for found in compilers(Places(trusts_project=True), bare)] == [(0, 8, 2)]


def packaged(folder: Path, version: str) -> None:
    """npm's package of solc in a folder."""
    package = folder / "node_modules" / "solc"
    package.mkdir(parents=True)
    (package / "package.json").write_text(f'{{"version": "{version}"}}')
    (package / "soljson.js").write_text("")


def at_hand(source: Path) -> str:
    """What is said to be there for a source that nothing fits."""
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(SOURCE.format(pragma="0.1.2"))
    with pytest.raises(CompileError) as caught:
        compile_project(source, Options(Places(node=Path(node()), trusts_project=True)))
    return caught.value.message


@pytest.mark.parametrize("mark", ["foundry.toml", "package.json", ".git", "hardhat.config.ts"])
def test_the_package_of_the_project_is_found_from_below(bare: Path, mark: str) -> None:
    packaged(bare, "0.8.4")
    (bare / mark).touch()
    assert "at hand are solc 0.8.4 (soljson in node)" in at_hand(bare / "src" / "deep" / "C.sol")


def test_a_package_above_the_project_is_never_run(bare: Path) -> None:
    packaged(bare.parent, "0.8.4")
    assert "no Solidity compiler is at hand" in at_hand(bare / "C.sol")
    packaged(bare, "0.8.9")
    (bare / "package.json").write_text("{}")
    assert "at hand are solc 0.8.9 (soljson in node)." in at_hand(bare / "src" / "C.sol")
    assert list(compilers(Places(node=Path(node())), bare)) == []
    with pytest.raises(
        CompileError, match=r"node_modules/solc/soljson\.js comes with the project.*--trust-project"
    ):
        compile_project(bare / "src" / "C.sol", Options(Places(node=Path(node()))))


def test_a_package_that_is_broken_is_refused_by_name(bare: Path) -> None:
    packaged(bare, "0.8.4")
    (bare / "node_modules" / "solc" / "package.json").write_text("{")
    with pytest.raises(CompileError, match=r"package\.json: is not JSON; install"):
        list(compilers(Places(node=Path(node()), trusts_project=True), bare))


def test_a_folder_of_soljson_files_offers_each_the_newest_first(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bare / "soljson"
    folder.mkdir()
    for version in ("0.5.17", "0.8.10", "0.8.9"):
        (folder / f"soljson-v{version}+commit.aa.js").write_text("")
    monkeypatch.setenv(solc.SOLJSON, str(folder))
    found = [compiler.version for compiler in compilers(Places(node=Path(node())), bare)]
    assert found == [(0, 8, 10), (0, 8, 9), (0, 5, 17)]


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_soljson_setting_that_leads_nowhere_is_refused(
    bare: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (bare / "empty").mkdir()
    monkeypatch.setenv(solc.SOLJSON, str(bare / name))
    with pytest.raises(CompileError, match=solc.SOLJSON):
        list(compilers(Places(node=Path(node())), bare))


def test_a_solc_that_is_no_program_is_refused_by_name(bare: Path) -> None:
    (bare / "solc").write_text("not a program")
    with pytest.raises(CompileError, match="cannot be run"):
        list(compilers(Places(solc=bare / "solc"), bare))


# --- the real compiler --------------------------------------------------------------------------------


def soljson() -> Path:
    return compiler().soljson


@pytest.mark.judge
def test_solc_runs_in_node_and_honours_the_pragma(bare: Path) -> None:
    options = Options(Places(soljson=soljson(), node=Path(node())))
    source = bare / "C.sol"
    source.write_text(SOURCE.format(pragma="^0.8.20"))
    project = compile_project(source, options)
    assert project.contract("C").compiler == "0.8.37"
    assert project.contract("C").runtime.data
    source.write_text(SOURCE.format(pragma="0.8.19"))
    with pytest.raises(CompileError, match=r"needs solidity 0\.8\.19; at hand are solc 0\.8\.37"):
        compile_project(source, options)


@pytest.mark.judge
def test_a_soljson_file_of_any_name_tells_its_version(bare: Path) -> None:
    shutil.copy(soljson(), bare / "compiler.js")
    found = list(compilers(Places(soljson=bare / "compiler.js", node=Path(node())), bare))
    assert [compiler.version for compiler in found] == [(0, 8, 37)]


@pytest.mark.judge
def test_a_solc_on_the_path_compiles_over_standard_json(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim(bare.parent / "bin" / "solc")
    monkeypatch.setenv("PATH", str(bare.parent / "bin"))
    (bare / "C.sol").write_text(SOURCE.format(pragma="^0.8.0"))
    project = compile_project(bare / "C.sol")
    assert project.origin == "solc 0.8.37 (solc)"
    assert project.contract("C").runtime.data


def test_a_solc_on_the_path_that_lies_in_the_project_is_not_run(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = bare / "bin" / "solc"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho ran > {bare}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    (bare / "C.sol").write_text(SOURCE.format(pragma="^0.8.0"))
    with pytest.raises(CompileError, match="solc on the PATH comes with the project"):
        compile_project(bare / "C.sol")
    assert not (bare / "ran").exists()


def shim(path: Path) -> Path:
    """The pinned soljson as a program that speaks like solc."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{node()}\n"
        "const fs = require('fs');\n"
        f"const solc = require({str(soljson())!r});\n"
        "const version = solc.cwrap('solidity_version', 'string', [])();\n"
        "const asked = process.argv.includes('--version');\n"
        "const compile = solc.cwrap('solidity_compile', 'string', ['string', 'number', 'number']);\n"
        "const said = asked ? `solc\\nVersion: ${version}\\n` : compile(fs.readFileSync(0, 'utf8'), 0, 0);\n"
        "fs.writeFileSync(1, said);\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.judge
def test_solc_runs_in_mini_racer_too(bare: Path) -> None:
    if importlib.util.find_spec("py_mini_racer") is None:
        pytest.skip("the package mini-racer is not installed")
    (bare / "C.sol").write_text(SOURCE.format(pragma="^0.8.0"))
    source = Source("C.sol", (bare / "C.sol").read_bytes(), "solidity")
    document = standard_input({"C.sol": source}, Settings(), {})
    there = RacerSolc(soljson(), (0, 8, 37)).run(document)
    assert there["contracts"] == compiler().run(document)["contracts"]


@pytest.mark.judge
def test_the_compiler_in_node_reads_more_than_a_pipe_holds(bare: Path) -> None:
    body = "\n".join(
        f"    function f{n}() external pure returns (uint256) {{ return {n}; }}" for n in range(400)
    )
    source = f"pragma solidity ^0.8.0;\ncontract C {{\n{body}\n}}\n"
    (bare / "C.sol").write_text(source)
    project = compile_project(bare / "C.sol", Options(Places(soljson=soljson(), node=Path(node()))))
    assert len(project.contract("C").abi) == 400
