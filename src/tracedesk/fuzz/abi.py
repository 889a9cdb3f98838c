"""The functions of a contract's ABI in canonical form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from tracedesk.foreign import quoted
from tracedesk.fuzz import native
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.project import Contract

Form = Literal["abi", "receive", "raw"]
"""How a function is called: by selector and arguments, without any data, or with bytes as they are."""
_FORMS: Final[Mapping[str, Form]] = {"function": "abi", "receive": "receive", "fallback": "raw"}


@dataclass(frozen=True, slots=True)
class Member:
    """A function of a contract's ABI, in canonical form."""

    id: str
    name: str
    types: tuple[str, ...]
    outputs: tuple[str, ...]
    payable: bool
    view: bool
    form: Form = "abi"

    @property
    def signature(self) -> str:
        return f"{self.name}({','.join(self.types)})"


def members(code: str, contract: Contract) -> list[Member]:
    """Everything that can be called: functions, and what takes calls that name none."""
    found = [entry for entry in contract.abi if entry.get("type") in _FORMS]
    return [_member(code, entry, contract) for entry in found]


def _member(code: str, entry: Mapping[str, Any], contract: Contract) -> Member:
    form = _FORMS[entry["type"]]
    types = tuple(canonical_type(item) for item in entry.get("inputs", ())) if form == "abi" else ()
    outputs = tuple(canonical_type(item) for item in entry.get("outputs", ())) if form == "abi" else ()
    mutability = entry.get("stateMutability", "nonpayable")
    name = _name(entry, contract)
    is_view = mutability in ("view", "pure")
    id = f"{code}.{name}({','.join(types)})"
    return Member(id, name, types, outputs, mutability == "payable", is_view, form)


def _name(entry: Mapping[str, Any], contract: Contract) -> str:
    if entry["type"] == "fallback" and contract.language == "vyper":
        return "__default__"
    return str(entry["name"] if entry["type"] == "function" else entry["type"])


def usable(found: Sequence[Member], engine: Engine) -> tuple[list[Member], list[str]]:
    """The functions whose types the core can make values of, and why others are left out."""
    kept: list[Member] = []
    left: list[str] = []
    for member in found:
        problem = _problem(member.types, engine)
        if problem is not None:
            left.append(f"{quoted(member.id)}: {quoted(problem)}")
        elif _problem(member.outputs, engine) is not None:
            # What it returns cannot be read, but it can be called.
            kept.append(replace(member, outputs=()))
        else:
            kept.append(member)
    return kept, left


def _problem(types: Sequence[str], engine: Engine) -> str | None:
    try:
        engine.parse_args(native.text(list(types)), ", ".join("?" for _ in types))
    except engine.SpecError as fault:
        return str(fault)
    return None


def selector(member: Member) -> str:
    """The four bytes by which a function is called."""
    return "0x" + keccak(member.signature.encode())[:4].hex()


def canonical_type(item: Mapping[str, Any]) -> str:
    """The canonical text of a type of the ABI; a struct is the tuple of its members."""
    kind = str(item["type"])
    if not kind.startswith("tuple"):
        return kind
    inner = ",".join(canonical_type(part) for part in item["components"])
    return f"({inner}){kind.removeprefix('tuple')}"
