"""The frozen tool contracts, and the listed places where they differ from the seed."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Schema = dict[str, Any]
Side = Literal["input", "output"]
Kind = Literal["optional-property", "enum-value", "nullable", "optional-output", "pattern-superset"]

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Contract:
    """What a tool takes and what it answers, as JSON Schema."""

    input: Schema
    output: Schema | None


@dataclass(frozen=True, slots=True)
class Deviation:
    """One difference between a contract and its seed; without `seed`, the place at `path` is new."""

    tool: str
    side: Side
    kind: Kind
    path: str
    reason: str
    seed: Any = None


def names(toolset: str) -> tuple[str, ...]:
    """Return the toolset's tools that have a contract, in alphabetical order."""
    return tuple(sorted(file.stem for file in (_HERE / toolset).iterdir() if file.suffix == ".json"))


def load(toolset: str, tool: str) -> Contract:
    """Read one contract; each call returns schemas of its own, free to be changed."""
    document = _read(f"{toolset}/{tool}.json")
    return Contract(document["input"], document.get("output"))


def deviations() -> tuple[Deviation, ...]:
    """Return every listed deviation, in the order of the file."""
    return tuple(Deviation(**entry) for entry in _read("deviations.json"))


def foreign() -> dict[str, dict[str, list[str]]]:
    """Return, by tool or resource, the answer's fields that strangers wrote, by the kind of their source."""
    return _read("foreign.json")


def restore(toolset: str, tool: str) -> Contract:
    """Return the seed's own schemas: the contract with its deviations undone."""
    return undo(tool, load(toolset, tool))


def undo(tool: str, contract: Contract) -> Contract:
    """Return a copy of the tool's contract without the deviations listed for it."""
    seed = deepcopy(contract)
    for deviation in deviations():
        if deviation.tool == tool:
            _undo(getattr(seed, deviation.side), deviation)
    return seed


def digest(schema: Schema) -> str:
    """Return the SHA-256 of the schema's canonical JSON, in hex."""
    canonical = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _read(name: str) -> Any:
    return json.loads((_HERE / name).read_bytes())


def _undo(schema: Schema, deviation: Deviation) -> None:
    *trail, key = deviation.path.removeprefix("/").split("/")
    holder = _follow(schema, trail)
    if deviation.seed is not None:
        holder[key] = deviation.seed
        return
    del holder[key]
    # No seed schema has an empty property map: an emptied one came with the property just removed.
    if not holder:
        del _follow(schema, trail[:-1])[trail[-1]]


def _follow(schema: Schema, trail: list[str]) -> Schema:
    for step in trail:
        schema = schema[step]
    return schema
