"""Artifacts of a wrong shape: refused by file and place, whatever is wrong with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.test_artifacts import foundry, plain_rows, put, renamed
from tracedesk.fuzz.compile import Options, compile_project
from tracedesk.fuzz.project import CompileError

ENTRY: dict[str, Any] = {
    "type": "function",
    "name": "f",
    "inputs": [],
    "outputs": [],
    "stateMutability": "view",
}


def refusal(path: Path) -> str:
    with pytest.raises(CompileError) as caught:
        compile_project(path)
    assert caught.value.code == "INVALID_INPUT"
    return caught.value.message


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        (5, "contracts.A.sol.A must be an object, and is 5"),
        ({"abi": "[]"}, "contracts.A.sol.A.abi must be a list"),
        ({"abi": [7]}, "contracts.A.sol.A.abi.0 must be an object"),
        ({"abi": [{**ENTRY, "name": 3}]}, "abi.0.name must be text"),
        ({"abi": [{**ENTRY, "name": "f\x1b[2J"}]}, "abi.0.name must be the name of a function"),
        ({"abi": [{"type": "function", "name": "f"}]}, "abi.0.inputs must be a list of parameters"),
        ({"abi": [{**ENTRY, "outputs": None}]}, "abi.0.outputs must be a list of parameters"),
        ({"abi": [{**ENTRY, "inputs": [{"type": 1}]}]}, "abi.0.inputs.0.type must be text"),
        ({"abi": [{**ENTRY, "inputs": [{"type": "tuple[]"}]}]}, "inputs.0.components must be a list"),
        ({"evm": []}, "contracts.A.sol.A.evm must be an object"),
        ({"evm": {"bytecode": {"object": "0xzz"}}}, "evm.bytecode.object must be code as hex"),
        ({"evm": {"bytecode": {"object": "00", "sourceMap": "a:b"}}}, "sourceMap must be a source map"),
        (
            {"evm": {"bytecode": {"object": "00", "linkReferences": {"L.sol": {"L": [{"start": 9}]}}}}},
            "a place within the 1 bytes of the code",
        ),
        (
            {"evm": {"deployedBytecode": {"object": "00", "immutableReferences": {"1": [{"start": 0}]}}}},
            "length must be a whole number from 0, and is missing",
        ),
    ],
)
def test_a_contract_of_a_wrong_shape_is_refused_by_file_and_place(
    tmp_path: Path, contract: object, message: str
) -> None:
    told = refusal(put(tmp_path / "std.json", {"contracts": {"A.sol": {"A": contract}}}))
    assert told.startswith("std.json: ")
    assert message in told


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"contracts": 5}, "contracts must be an object"),
        ({"contracts": {"A.sol": []}}, "contracts.A.sol must be an object"),
        ({"contracts": {"A.sol": {}}, "sources": {"A.sol": {"id": "x"}}}, "sources.A.sol.id must be a whole"),
        ({"errors": "broken"}, "errors must be a list"),
        ({"output": 5}, "output must be an object"),
        ({"compilation_units": []}, "compilation_units must be an object"),
        ({"contracts": {"a:A": {"abi": "[["}}}, "contracts.a:A.abi must be a list of functions"),
        ({"contracts": {"a:A": {}}, "sourceList": {}}, "sourceList must be a list"),
        ({"contracts": {"a:A": {"bin": f"60__${'0' * 34}$__"}}}, "bin must be code of libraries"),
    ],
)
def test_a_file_of_a_wrong_shape_is_refused_by_name_and_place(
    tmp_path: Path, document: object, message: str
) -> None:
    told = refusal(put(tmp_path / "built.json", document))
    assert told.startswith("built.json: ")
    assert message in told


def test_json_that_nests_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text('{"contracts":' + '{"a":' * 100_000)
    assert refusal(tmp_path / "deep.json").startswith("deep.json: is not JSON")
    struct: dict[str, Any] = {"type": "uint8"}
    for _ in range(200):
        struct = {"type": "tuple", "components": [struct]}
    abi = [{**ENTRY, "inputs": [struct]}]
    told = refusal(put(tmp_path / "struct.json", {"contracts": {"A.sol": {"A": {"abi": abi}}}}))
    assert "must be a struct of fewer levels" in told


def test_a_broken_file_of_foundry_is_named_with_its_folder(tmp_path: Path) -> None:
    root = foundry(tmp_path / "p")
    artifact = next((root / "out" / "Ledger.sol").glob("Ledger.json"))
    put(artifact, {**json.loads(artifact.read_text()), "id": "zero"})
    assert refusal(root).startswith("«Ledger.sol/Ledger.json»: id must be a whole number")
    put(root / "out/build-info/b1.json", {"source_id_to_path": {"x": "src/Ledger.sol"}})
    assert refusal(root).startswith("build-info/b1.json: source_id_to_path.x must be listed under the number")


# --- any file with anything in any place --------------------------------------------------------------

PLACE = tuple[str | int, ...]
WRONG = st.sampled_from(
    [None, True, 5, -1, 2**70, 1.5, "", "text", "\ud800", "..", "a\0b", [], [5], {}, {"a": 5}]
)


def places(value: Any, here: PLACE = ()) -> Iterator[PLACE]:
    yield here
    inner: Any = ()
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        inner = enumerate(cast("list[Any]", value))
    for key, part in inner:
        yield from places(part, (*here, key))


def broken(document: Any, place: PLACE, wrong: Any) -> Any:
    if not place:
        return wrong
    found = copy.deepcopy(document)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = wrong
    return found


def small(output: dict[str, Any]) -> dict[str, Any]:
    """The answer of solc for the contracts with libraries alone, which have a bit of everything."""
    path = "Libraries.sol"
    return {"sources": output["sources"], "contracts": {path: output["contracts"][path]}}


def documents() -> dict[str, Any]:
    output = small(renamed(""))
    rows = {**plain_rows(output)}
    unit: dict[str, Any] = {
        "source_units": {"Libraries.sol": {"ast": {"src": "0:1:1"}, "contracts": {"User": {"abi": []}}}}
    }
    return {
        "standard": output,
        "build": {
            "solcVersion": "0.8.37",
            "input": {"sources": {"A.sol": {"content": "x"}}},
            "output": output,
        },
        "combined": {"contracts": rows, "sourceList": ["Libraries.sol"], "version": "0.8.37"},
        "crytic": {
            "compilation_units": {"x": {**unit, "filenames": [{"used": "a", "absolute": "/a"}]}},
            "source_content": {"/a": "text"},
        },
    }


DOCUMENTS = documents()


@pytest.mark.parametrize("kind", DOCUMENTS)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_anything_in_any_place_is_read_or_refused(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    document = DOCUMENTS[kind]
    place = data.draw(st.sampled_from(sorted(places(document), key=str)))
    file = put(tmp_path / "built.json", broken(document, place, data.draw(WRONG)))
    for options in (Options(), Options(within=(tmp_path,))):
        try:
            compile_project(file, options)
        except CompileError:
            continue
