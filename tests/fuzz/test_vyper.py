"""Vyper contracts: compiled in process, with modules, immutables and errors by place."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.fuzz import targets
from tests.fuzz.machine import Machine
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.project import CompileError, Project
from tracedesk.fuzz.vyper_child import answer


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return compile_project(Path(shutil.copytree(targets.HERE / "vyper", tmp_path / "vyper"), "ledger.vy"))


def test_a_contract_and_its_modules_are_one_project(project: Project) -> None:
    contract = project.contract("ledger")
    assert (contract.path, contract.language, contract.compiler) == ("ledger.vy", "vyper", "0.4.3")
    assert sorted(project.sources) == ["ledger.vy", "steps.vy"]
    assert set(contract.source_ids.values()) == {"ledger.vy", "steps.vy"}
    names = {entry.get("name") for entry in contract.abi if entry["type"] == "function"}
    assert {"add", "repeat", "owner", "total"} <= names


def test_the_runtime_code_is_what_is_deployed_but_for_its_immutables(project: Project) -> None:
    contract = project.contract("ledger")
    machine = Machine.deploy("ledger", contract.init.data, (0x1234).to_bytes(32, "big"))
    [(start, length)] = contract.runtime.immutables
    assert len(machine.code) == len(contract.runtime.data) == start + length
    assert machine.code[:start] == contract.runtime.data[:start]
    assert int.from_bytes(machine.code[start:], "big") == 0x1234


def test_spans_lie_in_the_bytes_of_the_source(project: Project) -> None:
    contract = project.contract("ledger")
    found: set[str] = set()
    for pc in range(len(contract.runtime.data)):
        span = contract.runtime.map.at(0, pc)
        if span is not None:
            found.add(project.sources[contract.source_ids[span.source]].text[span.start : span.end])
    assert "amount // 2" in found
    assert 'assert amount < LIMIT, "too much"' in found
    assert "amount > 3" in found


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("@external\ndef f():\n    x: uint256 = 1 + y\n", "bad.vy:3", "'y' has not been declared"),
        ("@external\ndef f(:\n    pass\n", "bad.vy:", ""),
        ("# pragma version 0.3.10\nx: uint256\n", "bad.vy", "0.3.10"),
        ("import nowhere\n", "bad.vy:1", "nowhere"),
    ],
)
def test_a_source_that_does_not_compile_is_told_by_its_place(
    tmp_path: Path, text: str, place: str, message: str
) -> None:
    (tmp_path / "bad.vy").write_text(text)
    with pytest.raises(CompileError) as caught:
        compile_project(tmp_path / "bad.vy")
    assert caught.value.code == "INVALID_INPUT"
    assert place in caught.value.message
    assert message in caught.value.message
    assert str(tmp_path) not in caught.value.message


def test_an_interface_is_not_a_contract_to_test(tmp_path: Path) -> None:
    (tmp_path / "i.vyi").write_text("@external\ndef f(): ...\n")
    with pytest.raises(CompileError, match="is no contract"):
        compile_project(tmp_path / "i.vyi")


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vyper", None)
    (tmp_path / "a.vy").write_text("x: uint256\n")
    asked = {"files": [str(tmp_path / "a.vy")], "root": str(tmp_path), "evm_version": None, "within": []}
    assert "need the package `vyper`" in answer(asked)["refused"]["message"]
