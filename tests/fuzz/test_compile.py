"""From a path to a project: imports, remappings, folders, and targets that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import targets
from tests.fuzz.cases.compiled import compiler
from tests.judges.support import node
from tracedesk.errors import ToolError
from tracedesk.fuzz.compile import Options, compile_project, root_of
from tracedesk.fuzz.imports import Remapping, Sources, imports, settings_of
from tracedesk.fuzz.project import CompileError
from tracedesk.fuzz.solc import Places

HEAD = "// SPDX-License-Identifier: MIT\npragma solidity ^0.8.20;\n"


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def sources(root: Path, file: str) -> list[str]:
    found = Sources(root, settings_of(root))
    return sorted(found.closure(found.add(root / file)))


# --- imports -----------------------------------------------------------------------------------------


def test_imports_are_read_from_code_only() -> None:
    text = """
        import "./a.sol"; import * as B from 'b.sol';
        import {C as D, // "no4.sol"
                E} from "c/é.sol";
        // import "no.sol";
        /* import "no2.sol"; */
        string constant s = 'import "no3.sol";';
    """
    assert imports(text.encode().decode("latin-1")) == ("./a.sol", "b.sol", "c/é.sol")


def test_imports_are_followed_through_relative_paths_remappings_and_packages(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        **{
            "remappings.txt": "@deep/=vendor/deep/\nctx/:same/=vendor/one/\n\n",
            "foundry.toml": '[profile.default]\nremappings = ["same/=vendor/two/"]\n',
            "src/A.sol": 'import "./sub/B.sol";import "@deep/D.sol";import "pack/P.sol";import "same/S.sol";',
            "src/sub/B.sol": 'import "../C.sol"; import "kit/K.sol";',
            "src/C.sol": 'import "./A.sol";',
            "vendor/deep/D.sol": "",
            "vendor/one/S.sol": "",
            "vendor/two/S.sol": "",
            "node_modules/pack/P.sol": 'import "./Q.sol";',
            "node_modules/pack/Q.sol": "",
            "lib/kit/src/K.sol": "",
        },
    )
    assert sources(root, "src/A.sol") == [
        "lib/kit/src/K.sol",
        "pack/P.sol",
        "pack/Q.sol",
        "src/A.sol",
        "src/C.sol",
        "src/sub/B.sol",
        "vendor/deep/D.sol",
        "vendor/two/S.sol",
    ]


@pytest.mark.parametrize("lines", ["a/=one/\na/b/=two/\n", "a/b/=two/\na/=one/\n"])
def test_the_longest_remapping_that_fits_wins(tmp_path: Path, lines: str) -> None:
    root = write(
        tmp_path,
        **{
            "remappings.txt": lines,
            "A.sol": 'import "a/b/C.sol";',
            "one/b/C.sol": "",
            "two/C.sol": "",
        },
    )
    assert sources(root, "A.sol") == ["A.sol", "two/C.sol"]


def test_an_import_that_is_not_there_names_the_file_that_asks(tmp_path: Path) -> None:
    root = write(tmp_path, **{"A.sol": 'import "./B.sol";', "B.sol": 'import "@oz/T.sol";'})
    with pytest.raises(CompileError, match=r"B\.sol: imports '@oz/T\.sol'") as caught:
        sources(root, "A.sol")
    assert caught.value.details is not None
    assert caught.value.details["imported"] == "@oz/T.sol"


@pytest.mark.parametrize("text", ["nonsense", "=b", ""])
def test_a_remapping_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match="remappings"):
        Remapping.of(text)


def test_a_remapping_reads_as_it_was_written() -> None:
    for text in ("a/=b/", "ctx:a/=b/c/"):
        assert str(Remapping.of(text)) == text


def test_the_settings_of_foundry_reach_the_compiler(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        **{
            "foundry.toml": '[profile.default]\nsrc = "contracts"\nout = "made"\nevm_version = "Paris"\n'
            "optimizer = true\noptimizer_runs = 9\nvia_ir = true\n",
            "contracts/A.sol": "",
        },
    )
    found = settings_of(root)
    assert found.compiler == {
        "evmVersion": "paris",
        "optimizer": {"enabled": True, "runs": 9},
        "viaIR": True,
    }
    assert (found.folders, found.out) == (("contracts",), "made")


# --- targets that cannot be used -------------------------------------------------------------------


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"path: .* does not exist"):
        compile_project(tmp_path / "no.sol")


def test_a_file_that_is_no_contract_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"path: a\.txt is no contract"):
        compile_project(write(tmp_path, **{"a.txt": ""}) / "a.txt")


def test_a_folder_without_contracts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"holds no \.sol or \.vy file"):
        compile_project(tmp_path)


def test_a_source_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "A.sol").write_bytes(b"contract A { /* \xff */ }")
    with pytest.raises(CompileError, match=r"A\.sol: is not UTF-8"):
        compile_project(tmp_path / "A.sol")


def test_a_broken_foundry_toml_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, **{"foundry.toml": "[profile", "A.sol": HEAD})
    with pytest.raises(CompileError, match=r"foundry\.toml: is not TOML"):
        compile_project(root / "A.sol")


def test_a_folder_of_vyper_contracts_is_compiled_whole(tmp_path: Path) -> None:
    module = "@external\ndef f() -> uint256:\n    return {n}\n"
    root = write(tmp_path, **{"a.vy": module.format(n=1), "deep/b.vy": module.format(n=2), "out/c.vy": "bad"})
    project = compile_project(root)
    assert [c.qualified for c in project.contracts] == ["a.vy:a", "deep/b.vy:b"]
    assert project.origin == "vyper 0.4.3"


def test_a_contract_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    module = "@external\ndef f() -> uint256:\n    return 1\n"
    project = compile_project(write(tmp_path, **{"a.vy": module, "deep/a.vy": module, "b.vy": module}))
    assert project.contract("b").path == "b.vy"
    assert project.contract("deep/a.vy:a").path == "deep/a.vy"
    with pytest.raises(ToolError, match=r"'a' is in several files; name one of a\.vy:a, deep/a\.vy:a"):
        project.contract("a")
    with pytest.raises(ToolError, match=r"there is no 'x'\. There are: a\.vy:a, b, deep/a\.vy:a"):
        project.contract("x")


def test_the_root_is_where_the_builders_files_are(tmp_path: Path) -> None:
    write(tmp_path, **{"p/foundry.toml": "", "p/src/deep/A.sol": "", "q/A.sol": ""})
    assert root_of(tmp_path / "p" / "src" / "deep") == tmp_path / "p"
    assert root_of(tmp_path / "q") == tmp_path / "q"


def test_a_module_outside_the_folders_that_may_be_read_is_refused(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        **{
            "in/a.vy": "import m\ninitializes: m\n@external\ndef f():\n    m.g()\n",
            "out/m.vy": "x: uint256\n@internal\ndef g():\n    self.x = 1\n",
        },
    )
    (root / "in" / "m.vy").symlink_to(root / "out" / "m.vy")
    assert compile_project(root / "in" / "a.vy", Options(within=(root,))).contract("a").deployable
    with pytest.raises(CompileError, match="lies outside the folders"):
        compile_project(root / "in" / "a.vy", Options(within=(root / "in",)))


# --- the real compiler --------------------------------------------------------------------------------


def options() -> Options:
    return Options(Places(soljson=compiler().soljson, node=Path(node())))


@pytest.mark.judge
def test_the_targets_are_what_the_pinned_compiler_makes_of_them() -> None:
    assert targets.compile_every() == {
        "sha256": targets.digest(),
        **{way: targets.output(way) for way in targets.WAYS},
    }


@pytest.mark.judge
def test_a_folder_with_imports_and_remappings_compiles(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        **{
            "foundry.toml": '[profile.default]\nremappings = ["@deep/=vendor/deep/"]\n',
            "src/A.sol": HEAD + 'import "./sub/B.sol"; import {D} from "@deep/D.sol"; contract A is B, D {}',
            "src/sub/B.sol": HEAD + 'import "pack/P.sol"; contract B is P { string public s = unicode"€"; }',
            "vendor/deep/D.sol": HEAD + "contract D { uint256 public d = 1; }",
            "node_modules/pack/P.sol": HEAD + "abstract contract P { function p() external {} }",
        },
    )
    project = compile_project(root, options())
    assert {c.name for c in project.contracts} == {"A", "B", "D", "P"}
    assert project.targets == ("src/A.sol", "src/sub/B.sol")
    assert project.names() == ["A", "B"]
    assert project.sources["pack/P.sol"].relative_to(root) == "node_modules/pack/P.sol"
    own = project.contract("A")
    assert (
        own.source_ids[next(n for n, path in own.source_ids.items() if path == "pack/P.sol")] == "pack/P.sol"
    )


@pytest.mark.judge
def test_a_source_that_does_not_compile_is_told_with_file_and_line(tmp_path: Path) -> None:
    root = write(
        tmp_path, **{"src/A.sol": HEAD + "contract A {\n  function f() public { undefined_thing(); }\n}"}
    )
    with pytest.raises(CompileError) as caught:
        compile_project(root / "src" / "A.sol", options())
    assert caught.value.code == "INVALID_INPUT"
    assert "A.sol:4: Undeclared identifier." in caught.value.message


@pytest.mark.judge
def test_what_the_caller_decides_reaches_the_compiler(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        **{"A.sol": HEAD + "contract A { function f() external pure returns (uint256) { return 0; } }"},
    )
    places = options().places
    paris = compile_project(root / "A.sol", Options(places, evm_version="paris"))
    plain = compile_project(root / "A.sol", Options(places))
    small = compile_project(root / "A.sol", Options(places, optimizer_runs=1))
    assert len(small.contract("A").runtime.data) < len(plain.contract("A").runtime.data)
    assert len(plain.contract("A").runtime.data) < len(paris.contract("A").runtime.data)
