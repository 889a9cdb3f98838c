"""What a compilation for an agent may read: nothing outside its folders, and not even whether it is there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.cases.compiled import compiler
from tests.fuzz.test_compile import write
from tests.judges.support import node
from tracedesk.fuzz.compile import Options, compile_project, root_of
from tracedesk.fuzz.imports import Sources, settings_of
from tracedesk.fuzz.project import CompileError
from tracedesk.fuzz.reach import Reach
from tracedesk.fuzz.solc import NativeSolc, Places

HEAD = "pragma solidity ^0.8.0;\n"
SECRET = "contract S { uint256 constant KEY = 90210; }"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that may be read, and beside it one that may not."""
    write(tmp_path, **{"out/S.sol": HEAD + SECRET, "out/secret.txt": "nobody shall see this"})
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def refusal(path: Path, home: Path, **options: Any) -> str:
    with pytest.raises(CompileError) as caught:
        compile_project(path, Options(within=(home,), **options))
    assert caught.value.code == "INVALID_INPUT"
    assert caught.value.details is not None
    assert caught.value.details["kind"] == "OUTSIDE", caught.value.message
    assert "lies outside the folders that may be read" in caught.value.message
    assert "nobody" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("name", ["S.sol", "secret.txt", "missing.sol"])
@pytest.mark.parametrize("way", ["relative", "absolute"])
def test_an_import_that_leads_outside_is_refused_whether_or_not_it_is_there(
    home: Path, name: str, way: str
) -> None:
    target = f"../out/{name}" if way == "relative" else str(home.parent / "out" / name)
    write(home, **{"A.sol": f'{HEAD}import "{target}"; contract A {{}}'})
    assert refusal(home / "A.sol", home).startswith("A.sol: imports ")


Setting = Callable[[Path], dict[str, str]]


def _remapping(home: Path) -> dict[str, str]:
    return {"foundry.toml": f'[profile.default]\nremappings = ["@x/={home.parent}/out/"]\n'}


def _listed(home: Path) -> dict[str, str]:
    return {"remappings.txt": "@x/=../out/\n"}


def _library(home: Path) -> dict[str, str]:
    return {"foundry.toml": f'[profile.default]\nlibs = ["{home.parent}"]\n'}


def _source(home: Path) -> dict[str, str]:
    return {"foundry.toml": '[profile.default]\nsrc = "../out"\n'}


def _built(home: Path) -> dict[str, str]:
    return {"foundry.toml": '[profile.default]\nout = "../out"\n'}


@pytest.mark.parametrize("setting", [_remapping, _listed, _library, _source, _built])
def test_a_setting_of_the_project_that_leads_outside_is_refused(home: Path, setting: Setting) -> None:
    write(home, **{**setting(home), "A.sol": HEAD + 'import "@x/S.sol"; contract A {}'})
    refusal(home / "A.sol", home)
    refusal(home, home)


def test_a_remapping_of_the_caller_that_leads_outside_is_refused(home: Path) -> None:
    write(home, **{"A.sol": HEAD + 'import "@x/S.sol"; contract A {}'})
    message = refusal(home / "A.sol", home, remappings=(f"@x/={home.parent}/out/",))
    assert message.startswith("remappings: «@x/=")


@pytest.mark.parametrize("file", ["A.sol", "foundry.toml", "remappings.txt", "B.sol", "lib"])
def test_a_link_that_leads_outside_is_refused(home: Path, file: str) -> None:
    write(home, **{"A.sol": HEAD + 'import "./B.sol"; import "S.sol"; contract A {}', "B.sol": HEAD})
    (home / file).unlink(missing_ok=True)
    target = home.parent / "out" if file == "lib" else home.parent / "out" / "secret.txt"
    (home / file).symlink_to(target)
    refusal(home / "A.sol", home)


def test_a_package_beside_the_folders_is_not_found_and_one_inside_is(home: Path) -> None:
    write(home.parent, **{"node_modules/pack/P.sol": "", "in/A.sol": 'import "pack/P.sol";'})
    free = Sources(home, settings_of(home))
    free.add(home / "A.sol")
    assert "pack/P.sol" in free.known
    with pytest.raises(CompileError, match="neither in in/ nor its node_modules"):
        Sources(home, settings_of(home), Reach([home])).add(home / "A.sol")
    write(home, **{"node_modules/pack/P.sol": ""})
    kept = Sources(home, settings_of(home), Reach([home]))
    kept.add(home / "A.sol")
    assert kept.known["pack/P.sol"].file == home / "node_modules" / "pack" / "P.sol"


def test_the_project_ends_where_reading_does(home: Path) -> None:
    write(home.parent, **{"foundry.toml": "not TOML", "in/deep/A.sol": HEAD})
    assert root_of(home / "deep") == home.parent
    assert root_of(home / "deep", Reach([home])) == home / "deep"


def test_a_module_of_vyper_that_leads_outside_is_refused_unread(home: Path) -> None:
    write(home.parent, **{"out/m.vy": "this is no module"})
    write(home, **{"a.vy": "import m\n@external\ndef f():\n    pass\n"})
    (home / "m.vy").symlink_to(home.parent / "out" / "m.vy")
    assert refusal(home / "a.vy", home).startswith("m.vy: ")


def test_a_json_interface_of_vyper_that_leads_outside_is_refused_unread(home: Path) -> None:
    write(home, **{"a.vy": "import i\n@external\ndef f():\n    pass\n"})
    (home / "i.json").symlink_to(home.parent / "out" / "secret.txt")
    refusal(home / "a.vy", home)


def test_the_path_itself_must_lie_inside(home: Path) -> None:
    refusal(home.parent / "out" / "S.sol", home)
    refusal(home.parent / "out" / "missing.sol", home)


def _artifact(home: Path, sources: list[str]) -> Path:
    told: dict[str, Any] = {"contracts": {"A.sol": {"A": {"abi": [], "evm": {}}}}}
    told["sources"] = {name: {"id": number} for number, name in enumerate(sources)}
    return Path(write(home, **{"output.json": json.dumps(told)}) / "output.json")


@pytest.mark.parametrize("name", ["secret.txt", "missing.txt"])
def test_an_artifact_whose_source_lies_outside_is_refused(home: Path, name: str) -> None:
    refusal(_artifact(home, [str(home.parent / "out" / name)]), home)
    refusal(_artifact(home, [f"../out/{name}"]), home)


def test_an_artifact_that_brings_its_sources_need_not_look_for_their_files(home: Path) -> None:
    given = {str(home.parent / "out" / "S.sol"): {"content": HEAD + SECRET.replace("90210", "1")}}
    output: dict[str, Any] = {"contracts": {next(iter(given)): {"S": {"abi": [], "evm": {}}}}}
    write(home, **{"b.json": json.dumps({"input": {"sources": given}, "output": output})})
    project = compile_project(home / "b.json", Options(within=(home,)))
    [source] = project.sources.values()
    assert source.file is None
    assert b"90210" not in source.data


def test_a_fifo_is_no_source(home: Path) -> None:
    os.mkfifo(home / "B.sol")
    write(home, **{"A.sol": HEAD + 'import "./B.sol";'})
    with pytest.raises(CompileError, match=r"imports 'B\.sol', which is neither"):
        compile_project(home / "A.sol", Options(within=(home,)))


def test_a_compiler_has_nothing_to_read_but_what_it_is_given(home: Path, tmp_path: Path) -> None:
    program = tmp_path / "solc"
    program.write_text(
        f"#!{sys.executable}\nimport json, os\nprint(json.dumps({{'there': os.listdir('.')}}))\n"
    )
    program.chmod(0o755)
    assert NativeSolc(program, (0, 8, 0)).run("{}") == {"there": []}


@pytest.mark.judge
def test_a_project_that_stays_inside_compiles(home: Path) -> None:
    write(
        home,
        **{
            "p/foundry.toml": '[profile.default]\nremappings = ["@q/=../q/"]\n',
            "p/src/A.sol": HEAD + 'import "@q/Q.sol"; import "kit/K.sol"; contract A is Q, K {}',
            "q/Q.sol": HEAD + "contract Q {}",
            "p/lib/kit/src/K.sol": HEAD + "contract K {}",
        },
    )
    places = Places(soljson=compiler().soljson, node=Path(node()))
    project = compile_project(home / "p", Options(places, within=(home,)))
    assert {contract.name for contract in project.contracts} == {"A", "Q", "K"}
