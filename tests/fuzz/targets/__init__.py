"""Small targets of our own, compiled in each of solc's ways: `python -m tests.fuzz.targets` writes them anew.

What solc made of them is committed, so that no test needs a compiler; the sources' digest goes with it.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from tracedesk.fuzz.imports import Settings
from tracedesk.fuzz.project import Project, Source
from tracedesk.fuzz.solidity import contracts_of, refuse_errors, standard_input

HERE: Final = Path(__file__).parent
COMPILED: Final = HERE / "compiled.json"
FILES: Final = ("Ledger.sol", "Libraries.sol")
VERSION: Final = "0.8.37"
WAYS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "optimized": {"optimizer": {"enabled": True, "runs": 200}},
    "yul": {"viaIR": True},
    "yul_optimized": {"viaIR": True, "optimizer": {"enabled": True, "runs": 200}},
}


def sources() -> dict[str, Source]:
    return {name: Source(name, (HERE / name).read_bytes(), "solidity", HERE / name) for name in FILES}


def digest() -> str:
    return hashlib.sha256(b"".join(source.data for source in sources().values())).hexdigest()


def compile_every() -> dict[str, Any]:
    """solc's answer for each way, by the pinned compiler."""
    from tests.fuzz.cases.compiled import compiler

    found: dict[str, Any] = {"sha256": digest()}
    for way, choices in WAYS.items():
        output = compiler().run(standard_input(sources(), Settings(), choices))
        refuse_errors(output, way)
        found[way] = {"sources": output["sources"], "contracts": output["contracts"]}
    return found


@cache
def output(way: str) -> dict[str, Any]:
    """solc's answer, as committed."""
    committed = json.loads(COMPILED.read_text(encoding="utf-8"))
    assert committed["sha256"] == digest(), "a target changed: run python -m tests.fuzz.targets"
    return committed[way]


@cache
def project(way: str = "plain") -> Project:
    """The targets, compiled one way."""
    return Project(HERE, contracts_of(output(way), VERSION), sources(), FILES, f"solc {VERSION}")
