"""The contracts of the cases, compiled once; `python -m tests.fuzz.cases.compiled` compiles them again.

`compiled.json` is committed, so that no test needs a compiler; each entry has the digest of its source.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.judges.install import FORGE
from tests.judges.support import node
from tracedesk.fuzz.imports import Settings
from tracedesk.fuzz.project import Project, Source
from tracedesk.fuzz.solc import NodeSolc
from tracedesk.fuzz.solidity import contracts_of, refuse_errors, standard_input

HERE: Final = Path(__file__).parent
CONTRACTS: Final = HERE / "contracts"
COMPILED: Final = HERE / "compiled.json"
VERSION: Final = "0.8.37"
CHOICES: Final = {"metadata": {"appendCBOR": False, "bytecodeHash": "none"}}


def sources() -> list[Path]:
    """Every contract: the table's, `purse.sol` of the benchmark, and `maze.sol`, which was generated."""
    return sorted(CONTRACTS.glob("*.sol"))


def digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


def compiler() -> NodeSolc:
    """The pinned solc, in the node of the development extra."""
    soljson = FORGE.require("node_modules", "solc", "soljson.js")
    major, minor, patch = map(int, VERSION.split("."))
    return NodeSolc(Path(node()), soljson, (major, minor, patch))


def compile_source(name: str, text: bytes) -> dict[str, Any]:
    """solc's standard output for one source."""
    document = standard_input({name: Source(name, text, "solidity")}, Settings(), CHOICES)
    output = compiler().run(document)
    refuse_errors(output, name)
    return {"sources": output["sources"], "contracts": output["contracts"]}


def compile_every() -> dict[str, Any]:
    """Every contract of the cases, as `compiled.json` holds it."""
    return {
        file.name: {"sha256": digest(file), **compile_source(file.name, file.read_bytes())}
        for file in sources()
    }


@cache
def _committed() -> dict[str, Any]:
    return json.loads(COMPILED.read_text(encoding="utf-8"))


def project(name: str) -> Project:
    """The compiled project of one source file of the cases."""
    file = CONTRACTS / name
    entry = _committed()[name]
    assert entry["sha256"] == digest(file), f"{name} changed: run python -m tests.fuzz.cases.compiled"
    return project_of(name, file.read_bytes(), entry)


def project_of(name: str, text: bytes, output: dict[str, Any]) -> Project:
    """A project of one source and what solc said about it."""
    source = Source(name, text, "solidity")
    return Project(CONTRACTS, contracts_of(output, VERSION), {name: source}, (name,), f"solc {VERSION}")


def main() -> None:
    text = json.dumps(compile_every(), indent=1, sort_keys=True)
    COMPILED.write_text(text + "\n", encoding="utf-8")
    print(f"compiled {len(sources())} sources")


if __name__ == "__main__":
    main()
