"""What is committed: every contract, seed hash and seed example, as the tests walk them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.contracts.seeds import Example
from tracedesk import contracts

Schema = dict[str, Any]

FOLDER = Path(contracts.__file__).parent


def toolsets() -> list[str]:
    """Return the folders that hold at least one contract."""
    return sorted({file.parent.name for file in FOLDER.glob("*/*.json")})


def tools() -> list[tuple[str, str]]:
    """Return every (toolset, tool) that has a contract, of the seed or added."""
    return [(toolset, tool) for toolset in toolsets() for tool in contracts.names(toolset)]


def sides(toolset: str, tool: str, contract: contracts.Contract) -> Iterator[tuple[str, Schema]]:
    """Yield a contract's schemas under the names that the hash file uses."""
    yield f"{toolset}/{tool}.input", contract.input
    if contract.output is not None:
        yield f"{toolset}/{tool}.output", contract.output


def seed_hashes() -> dict[str, str]:
    """Return the committed hash of each seed schema by its name."""
    lines = (FOLDER / "seed.sha256").read_text("utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def seed_tools() -> list[tuple[str, str]]:
    """Return every (toolset, tool) that comes from a seed."""
    pairs = (name.rpartition(".")[0].split("/") for name in seed_hashes() if name.endswith(".input"))
    return [(toolset, tool) for toolset, tool in pairs]


def mismatches(toolset: str, tool: str, contract: contracts.Contract) -> list[str]:
    """Return the names of the schemas that, restored, are not the seed's."""
    committed = seed_hashes()
    restored = contracts.undo(tool, contract)
    return [
        name
        for name, schema in sides(toolset, tool, restored)
        if contracts.digest(schema) != committed.get(name)
    ]


def examples() -> list[Example]:
    """Return the committed examples of the seeds, in the order in which the seeds print them."""
    text = Path(__file__).with_name("examples.json").read_text("utf-8")
    return [Example(**entry) for entry in json.loads(text)]


def at(schema: Any, path: str) -> Any:
    """Return what a JSON pointer names, or fail."""
    for step in path.removeprefix("/").split("/"):
        schema = schema[step]
    return schema
