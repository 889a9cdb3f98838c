"""What other tools built: read alike whoever built it, and never when the sources have changed since."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import targets
from tests.fuzz.test_lines import ran
from tests.fuzz.test_solc import shim
from tests.judges.install import FORGE
from tracedesk.fuzz.compile import Options, compile_project
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.lines import ContractMap, coverage
from tracedesk.fuzz.linking import link
from tracedesk.fuzz.project import CompileError, Contract, Project
from tracedesk.fuzz.solidity import placeholder

Builder = Callable[[Path], Path]


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    """Nothing here may compile in place of reading."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TRACEDESK_SOLJSON", raising=False)


def renamed(folder: str) -> dict[str, Any]:
    """The committed answer of solc, as if the sources lay in a folder of the project."""
    text = json.dumps(targets.output("plain"))
    for name in targets.FILES:
        text = text.replace(f'"{name}"', f'"{folder}{name}"')
        for library in ("Halves", "Quarters"):
            text = text.replace(placeholder(f"{name}:{library}"), placeholder(f"{folder}{name}:{library}"))
    return json.loads(text)


def sources(root: Path, folder: str) -> dict[str, str]:
    (root / folder).mkdir(parents=True, exist_ok=True)
    found: dict[str, str] = {}
    for name in targets.FILES:
        found[f"{folder}{name}"] = (targets.HERE / name).read_text(encoding="utf-8")
        (root / folder / name).write_text(found[f"{folder}{name}"], encoding="utf-8")
    return found


def put(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def foundry(root: Path) -> Path:
    """What `forge build` leaves: an artifact per contract, and the numbers of sources in build-info."""
    texts, output = sources(root, "src/"), renamed("src/")
    (root / "foundry.toml").write_text("[profile.default]\n")
    ids = {told["id"]: path for path, told in output["sources"].items()}
    put(
        root / "out/build-info/b1.json",
        {"id": "b1", "source_id_to_path": {str(n): p for n, p in ids.items()}},
    )
    for path, contracts in output["contracts"].items():
        for name, told in contracts.items():
            metadata = {
                "compiler": {"version": "0.8.37+commit.x"},
                "settings": {"compilationTarget": {path: name}},
                "sources": {path: {"keccak256": f"0x{keccak(texts[path].encode()).hex()}"}},
            }
            evm = told["evm"]
            artifact = {"abi": told["abi"], "id": output["sources"][path]["id"], "metadata": metadata}
            codes = {"bytecode": evm["bytecode"], "deployedBytecode": evm["deployedBytecode"]}
            put(root / "out" / Path(path).name / f"{name}.json", {**artifact, **codes})
    return root


def hardhat(root: Path) -> Path:
    """What `hardhat compile` leaves: solc's input and output in one file."""
    texts = sources(root, "contracts/")
    (root / "hardhat.config.js").write_text("")
    given = {"sources": {name: {"content": text} for name, text in texts.items()}}
    build = {"solcVersion": "0.8.37", "input": given, "output": renamed("contracts/")}
    put(root / "artifacts/build-info/b.json", build)
    return root


def hardhat_split(root: Path) -> Path:
    """Hardhat's newer layout: the output in a file of its own, names below `project/`."""
    texts = sources(root, "contracts/")
    (root / "hardhat.config.js").write_text("")
    given = {"sources": {f"project/{name}": {"content": text} for name, text in texts.items()}}
    put(root / "artifacts/build-info/b.json", {"solcVersion": "0.8.37", "input": given})
    put(root / "artifacts/build-info/b.output.json", {"output": renamed("project/contracts/")})
    return root


def plain_rows(output: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{path}:{name}": {
            "abi": told["abi"],
            "bin": told["evm"]["bytecode"]["object"],
            "bin-runtime": told["evm"]["deployedBytecode"]["object"],
            "srcmap": told["evm"]["bytecode"]["sourceMap"],
            "srcmap-runtime": told["evm"]["deployedBytecode"]["sourceMap"],
        }
        for path, contracts in output["contracts"].items()
        for name, told in contracts.items()
    }


def combined(root: Path) -> Path:
    """solc's `--combined-json`, as crytic-compile exports it: absolute names, the ABI as text."""
    sources(root, "")
    rows = {
        f"{root}/{name}": {**row, "abi": json.dumps(row["abi"])}
        for name, row in plain_rows(renamed("")).items()
    }
    return put(
        root / "combined_solc.json", {"contracts": rows, "sourceList": [f"{root}/{n}" for n in targets.FILES]}
    )


def crytic(root: Path) -> Path:
    """crytic-compile's archive: units, with the sources inside."""
    output = renamed("")
    units: dict[str, Any] = {
        path: {"ast": {"src": f"0:1:{told['id']}"}, "contracts": {}}
        for path, told in output["sources"].items()
    }
    marks = {name: placeholder(f"Libraries.sol:{name}") for name in ("Halves", "Quarters")}
    for name, row in plain_rows(output).items():
        path, own = name.split(":")
        units[path]["contracts"][own] = {**row, "libraries": marks}
    files = [{"used": name, "absolute": f"/elsewhere/{name}"} for name in targets.FILES]
    contents = {
        f"/elsewhere/{name}": (targets.HERE / name).read_text(encoding="utf-8") for name in targets.FILES
    }
    unit = {"compiler": {"version": "0.8.37"}, "source_units": units, "filenames": files}
    return put(root / "x_export_archive.json", {"compilation_units": {"x": unit}, "source_content": contents})


def standard(root: Path) -> Path:
    sources(root, "")
    return put(root / "output.json", renamed(""))


BUILDERS: list[Builder] = [foundry, hardhat, hardhat_split, combined, crytic, standard]


def named(project: Project, name: str) -> Contract:
    return next(contract for contract in project.contracts if contract.name == name)


@pytest.mark.parametrize("builder", BUILDERS)
def test_whoever_built_it_the_code_and_its_coverage_are_the_same(tmp_path: Path, builder: Builder) -> None:
    project = compile_project(builder(tmp_path / "p"))
    ledger, expected = named(project, "Ledger"), targets.project().contract("Ledger")
    assert ledger.init.data == expected.init.data
    assert ledger.runtime.data == expected.runtime.data
    assert ledger.runtime.immutables == expected.runtime.immutables
    assert [entry.get("name") for entry in ledger.abi] == [entry.get("name") for entry in expected.abi]
    rows = ran(targets.project()).rows()
    found = coverage(project, {"Ledger": ContractMap.of(project, ledger)}, rows)
    own = targets.project()
    same = coverage(own, {"Ledger": ContractMap.of(own, expected)}, rows)
    assert [file.lines for file in found.files.values()] == [file.lines for file in same.files.values()]
    assert found.tally == same.tally


@pytest.mark.parametrize("builder", BUILDERS)
def test_whoever_built_it_libraries_are_linked(tmp_path: Path, builder: Builder) -> None:
    project = compile_project(builder(tmp_path / "p"))
    linked = link(project, named(project, "User"))
    assert len(linked.libraries) == 2
    assert b"\x73" + bytes(20) not in linked.runtime(named(project, "User"))


@pytest.mark.parametrize(
    ("builder", "folder"), [(foundry, "src"), (hardhat, "contracts"), (hardhat_split, "contracts")]
)
def test_one_file_of_a_built_project_can_be_named(tmp_path: Path, builder: Builder, folder: str) -> None:
    project = compile_project(builder(tmp_path / "p") / folder / "Libraries.sol")
    assert project.names() == ["Halves", "Quarters", "Spread", "User"]
    assert project.contract("Ledger").deployable


PLACED = [(foundry, "src"), (hardhat, "contracts"), (hardhat_split, "contracts")]


def changed(root: Path, folder: str) -> Path:
    """A project one of whose sources was edited after the build."""
    file = root / folder / "Ledger.sol"
    file.write_text(file.read_text().replace("= 7;", "= 8;"))
    os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns + 10**10))
    return file


@pytest.mark.parametrize(("builder", "folder"), PLACED)
def test_artifacts_of_a_source_that_changed_are_not_used(
    tmp_path: Path, builder: Builder, folder: str
) -> None:
    file = changed(builder(tmp_path / "p"), folder)
    with pytest.raises(CompileError, match=r"do not match .*Ledger\.sol, and no compiler fits") as caught:
        compile_project(file)
    assert caught.value.details is not None
    assert caught.value.details["kind"] == "STALE_ARTIFACTS"


def with_metadata(root: Path) -> Path:
    """A Hardhat project whose output says which sources each contract was made from."""
    path = hardhat(root) / "artifacts/build-info/b.json"
    build = json.loads(path.read_text())
    for name, contracts in build["output"]["contracts"].items():
        for told in contracts.values():
            told["metadata"] = json.dumps({"sources": {name: {}}})
    put(path, build)
    return root


@pytest.mark.parametrize(("builder", "folder"), [(foundry, "src"), (with_metadata, "contracts")])
def test_the_artifacts_of_other_files_are_still_used(tmp_path: Path, builder: Builder, folder: str) -> None:
    root = builder(tmp_path / "p")
    changed(root, folder)
    project = compile_project(root)
    assert project.unbuilt == (f"{folder}/Ledger.sol",)
    assert "Ledger.sol" in project.warnings[0]
    assert "Build the project again" in project.warnings[0]
    assert project.names() == ["Halves", "Quarters", "Spread", "User"]
    assert "Ledger" not in {contract.name for contract in project.contracts}


def test_artifacts_in_nested_folders_are_read(tmp_path: Path) -> None:
    root = foundry(tmp_path / "p")
    (root / "out" / "04-deep").mkdir()
    (root / "out" / "Ledger.sol").rename(root / "out" / "04-deep" / "Ledger.sol")
    project = compile_project(root)
    assert (project.origin, project.unbuilt) == ("Foundry artifacts in out/", ())
    assert named(project, "Ledger").deployable


def test_what_foundry_toml_skips_needs_no_artifact(tmp_path: Path) -> None:
    root = foundry(tmp_path / "p")
    (root / "src" / "New7702.sol").write_text("pragma solidity ^0.8.0; contract New {}")
    assert compile_project(root).unbuilt == ("src/New7702.sol",)
    (root / "foundry.toml").write_text('[profile.default]\nskip = ["*/*7702*"]\n')
    assert compile_project(root).unbuilt == ()


def test_a_source_that_was_touched_but_not_changed_is_up_to_date(tmp_path: Path) -> None:
    root = foundry(tmp_path / "p")
    for file in (root / "src").iterdir():
        os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns + 10**10))
    assert compile_project(root).origin == "Foundry artifacts in out/"


def test_a_source_is_hashed_once_however_many_contracts_are_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = foundry(tmp_path / "p")
    for file in (root / "src").iterdir():
        os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns + 10**10))
    hashed: list[bytes] = []

    def noted(data: bytes) -> bytes:
        hashed.append(data)
        return keccak(data)

    monkeypatch.setattr("tracedesk.fuzz.project.keccak", noted)
    assert len(compile_project(root).contracts) > len(targets.FILES)
    assert sorted(hashed) == sorted((targets.HERE / name).read_bytes() for name in targets.FILES)


def test_a_source_that_was_never_built_is_not_covered_by_artifacts(tmp_path: Path) -> None:
    root = foundry(tmp_path / "p")
    (root / "src" / "New.sol").write_text("pragma solidity ^0.8.0; contract New {}")
    with pytest.raises(CompileError, match=r"do not match src/New\.sol"):
        compile_project(root / "src" / "New.sol")
    assert compile_project(root).unbuilt == ("src/New.sol",)


def test_the_cache_says_which_of_several_builds_made_an_artifact(tmp_path: Path) -> None:
    root = foundry(tmp_path / "p")
    later = {"source_id_to_path": {"0": "src/Ledger.sol", "1": "src/Other.sol"}}
    path = put(root / "out/build-info/b2.json", later)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**10))
    made = {
        name: {"0.8.37": {"default": {"path": f"Ledger.sol/{name}.json", "build_id": "b1"}}}
        for name in ("Ledger", "Child", "Owned")
    }
    put(root / "cache/solidity-files-cache.json", {"files": {"src/Ledger.sol": {"artifacts": made}}})
    assert named(compile_project(root), "Ledger").source_ids[1] == "src/Libraries.sol"


def test_artifacts_can_be_left_aside(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no Solidity compiler is at hand"):
        compile_project(foundry(tmp_path / "p"), Options(use_artifacts=False))


def test_an_artifact_cannot_show_a_file_from_elsewhere(tmp_path: Path) -> None:
    root = foundry(tmp_path / "p")
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody shall see this\n")
    table = {"0": "src/Ledger.sol", "1": "src/Libraries.sol", "2": str(secret)}
    put(root / "out/build-info/b1.json", {"source_id_to_path": table})
    with pytest.raises(CompileError, match=r"secret\.txt: lies outside"):
        compile_project(root, Options(within=(root,)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "is no JSON object"),
        ("{}", "is neither an export"),
        ('{"input": {}}', "has no compiler output"),
        ('{"contracts": {"a.sol:A": {"bin": "zz"}}, "sourceList": []}', "bin must be code as hex"),
        ('{"errors": [{"severity": "error", "message": "broken"}]}', "broken"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "built.json").write_text(text)
    with pytest.raises(CompileError, match=message) as caught:
        compile_project(tmp_path / "built.json")
    assert caught.value.code == "INVALID_INPUT"


@pytest.mark.judge
@pytest.mark.timeout(180)
def test_what_forge_builds_is_what_we_compile(tmp_path: Path) -> None:
    root = tmp_path / "p"
    sources(root, "src/")
    (root / "foundry.toml").write_text("[profile.default]\noffline = true\n")
    binary = next(FORGE.require("node_modules", "@foundry-rs").glob("forge-*/bin/forge"))
    command = [binary, "build", "--root", root, "--use", shim(tmp_path / "bin" / "solc")]
    environment = {"HOME": str(tmp_path), "PATH": os.defpath}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150, env=environment)
    assert done.returncode == 0, done.stderr
    project = compile_project(root)
    assert project.origin == "Foundry artifacts in out/"
    ledger, own = project.contract("Ledger"), targets.project().contract("Ledger")
    # The metadata's digest names the path; everything that runs is the same.
    assert ledger.runtime.data[:-53] == own.runtime.data[:-53]
    assert ledger.runtime.immutables == own.runtime.immutables
    rows = ran(targets.project()).rows()
    found = coverage(project, {"Ledger": ContractMap.of(project, ledger)}, rows)
    same = coverage(targets.project(), {"Ledger": ContractMap.of(targets.project(), own)}, rows)
    assert found.tally == same.tally
