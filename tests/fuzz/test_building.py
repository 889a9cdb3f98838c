"""What `solcArgs`, `cryticArgs` and the operator's settings mean for compiling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tracedesk.config import BadSetting
from tracedesk.errors import ToolError
from tracedesk.fuzz.building import options
from tracedesk.fuzz.config import Config, parse
from tracedesk.fuzz.settings import Fuzz, read


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("solcArgs: --optimize", "optimizer_runs", 200),
        ("solcArgs: --optimize --optimize-runs 9", "optimizer_runs", 9),
        ("solcArgs: --optimize-runs=9", "optimizer_runs", 9),
        ("solcArgs: --via-ir", "via_ir", True),
        ("solcArgs: --evm-version cancun", "evm_version", "cancun"),
        ("solcArgs: '@oz/=lib/oz/'", "remappings", ("@oz/=lib/oz/",)),
        ('cryticArgs: ["--solc-remaps", "a=b c=d"]', "remappings", ("a=b", "c=d")),
        ('cryticArgs: ["--solc-args=--via-ir"]', "via_ir", True),
    ],
)
def test_arguments_of_the_compiler_are_heeded(text: str, attribute: str, value: Any) -> None:
    found, warnings = options(parse(text).config, trusted=True)
    assert getattr(found, attribute) == value
    assert warnings == ()


def test_what_changes_nothing_is_told() -> None:
    _, warnings = options(parse('cryticArgs: ["--foundry-compile-all"]').config, trusted=True)
    assert warnings == ("cryticArgs: --foundry-compile-all has no effect.",)


@pytest.mark.parametrize(
    ("text", "key"), [("solcArgs: --optimize-runs many", "solcArgs"), ('solcArgs: "\'"', "solcArgs")]
)
def test_arguments_that_cannot_be_read_are_refused(text: str, key: str) -> None:
    with pytest.raises(ToolError, match=f"^{key}: "):
        options(parse(text).config, trusted=True)


def test_a_program_to_run_is_named_only_by_whom_is_trusted() -> None:
    config = parse('cryticArgs: ["--solc", "/opt/solc"]').config
    assert options(config, trusted=True)[0].places.solc == Path("/opt/solc")
    with pytest.raises(ToolError, match="names a program"):
        options(config, trusted=False)
    assert options(Config(), trusted=False)[0].places.trusts_project is False


def test_the_operators_table_is_read_and_checked() -> None:
    assert read({}) == Fuzz()
    found = read({"roots": ["/a"], "ffi": True, "project_compilers": True, "max_workers": 2})
    assert found == Fuzz(("/a",), True, True, 2)
    assert found.folders() == (Path("/a"),)
    assert Fuzz().folders() == (Path.cwd(),)


@pytest.mark.parametrize(
    "table",
    [{"roots": "/a"}, {"roots": [1]}, {"ffi": 1}, {"project_compilers": "no"}, {"max_workers": 0}, {"x": 1}],
)
def test_a_bad_setting_is_refused_by_name(table: dict[str, Any]) -> None:
    with pytest.raises(BadSetting, match=rf"tracedesk\.toml.*{next(iter(table))}"):
        read(table)
