"""The official Inspector's command line: its schema lint is clean, and its exit codes tell errors apart."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.judges.support import Ran, command, package, run_node, server

pytestmark = pytest.mark.judge

ERAS: Final = ("legacy", "modern")
DESKS: Final = {"plain": (), "conformance": ("conformance",)}
WAYS: Final = tuple((kind, way) for kind in DESKS for way in ("stdio", "http"))
REFUSED: Final = 5
"""The Inspector's exit code for a result with `isError`."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A desk as the Inspector reaches it: the part of its command line that names the target."""

    kind: str
    target: list[str]

    def run(self, era: str, *arguments: str) -> Ran:
        launcher = package("@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
        return run_node(launcher, ["--cli", *self.target, "--protocol-era", era, "--quiet", *arguments])


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Inspected]:
    kind, way = request.param
    home: Path = tmp_path_factory.mktemp(f"{kind}-{way}") / "home"
    if way == "stdio":
        yield Inspected(kind, command("stdio", home, *DESKS[kind]))
        return
    with server(home, *DESKS[kind]) as running:
        yield Inspected(kind, [running.mcp, "--transport", "http"])


@pytest.mark.parametrize("era", ERAS)
def test_the_schema_lint_finds_no_error_in_any_tool(desk: Inspected, era: str) -> None:
    ran = desk.run(era, "--method", "tools/list", "--strict")
    assert ran.code == 0, ran.err
    assert {"desk_status", "get_source", "trace"} <= {tool["name"] for tool in json.loads(ran.out)["tools"]}


@pytest.mark.parametrize("era", ERAS)
def test_an_answered_call_exits_clean(desk: Inspected, era: str) -> None:
    ran = desk.run(era, "--method", "tools/call", "--tool-name", "desk_status")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["structuredContent"]["version"]


@pytest.mark.parametrize("era", ERAS)
def test_a_refused_call_exits_as_a_tool_error_with_its_envelope(desk: Inspected, era: str) -> None:
    ran = desk.run(era, "--method", "tools/call", "--tool-name", "get_source", "--tool-arg", "ref=nothing")
    assert ran.code == REFUSED, ran.err
    assert "SOURCE_NOT_FOUND" in ran.out + ran.err
