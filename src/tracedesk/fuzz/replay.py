"""Recorded sequences as the native core takes them, each with the name of the file it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.fuzz import native
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.native import Campaign, Engine
from tracedesk.fuzz.target import Target

Tx = dict[str, Any]
_LONGEST: Final = 200
"""Characters of a recorded type, name or fault that are shown."""
Named = tuple[str, Sequence[Mapping[str, Any]]]
"""A recorded sequence after its file's name."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What of some recorded sequences a campaign can be given."""

    sequences: tuple[tuple[str, list[Tx]], ...]
    skipped: tuple[str, ...]
    """Which files cannot be used, and why."""
    unknown: tuple[str, ...]
    """Signatures that no contract has; such calls are made by their bytes."""
    known: int
    """Calls of functions that a contract has."""

    @property
    def is_foreign(self) -> bool:
        """Whether no function that the sequences name is one of this target's."""
        return bool(self.unknown) and not self.known

    @property
    def remark(self) -> str | None:
        """A sentence about functions that no contract has."""
        if not self.unknown:
            return None
        some = ", ".join(map(_short, self.unknown[:3])) + (", …" if len(self.unknown) > 3 else "")
        return f"no contract has {some}; such calls are made as bare data"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a campaign took."""

    names: tuple[str, ...]
    sequences: int
    transactions: int
    skipped: tuple[str, ...]


def loadable(recorded: Iterable[Named], target: Target, engine: Engine) -> Fit:
    """Recorded sequences as the core takes them; one that cannot be is left out and told."""
    fit: list[tuple[str, list[Tx]]] = []
    skipped: list[str] = []
    unknown: dict[str, None] = {}
    recognised = 0
    for name, sequence in recorded:
        if any("create" in (tx.get("call") or {}) for tx in sequence):
            skipped.append(f"{name}: it deploys a contract, which a sequence cannot do here")
            continue
        try:
            calls = [known(tx, target, engine) for tx in sequence]
        except (ValueError, TypeError) as fault:
            skipped.append(f"{name}: {_short(str(fault))}")
            continue
        fit.append((name, calls))
        recognised += sum("function" in (tx.get("call") or {}) for tx in calls)
        for tx, call in zip(sequence, calls, strict=True):
            if "args" in (tx.get("call") or {}) and "data" in call["call"]:
                unknown[_signature(tx["call"])] = None
    return Fit(tuple(fit), tuple(skipped), tuple(unknown), recognised)


def known(tx: Mapping[str, Any], target: Target, engine: Engine) -> Tx:
    """A recorded transaction; a function that no contract has is called by its bytes."""
    for key, number in (("gas", tx["gas"]), *(("delay", part) for part in tx["delay"])):
        if number >= 2**64:
            raise ValueError(f"{key}: does not fit in 64 bits, which is as far as it goes here")
    call: Mapping[str, Any] | None = tx.get("call")
    if call is None or "args" not in call:
        return dict(tx)
    function = target.find(tx["to"], call["name"], call["types"])
    if function is not None:
        return {**tx, "call": {**call, "function": function.id}}
    encoded = engine.abi_encode(native.text(call["types"]), native.text(call["args"]))
    return {**tx, "call": {"data": "0x" + (keccak(_signature(call).encode())[:4] + encoded).hex()}}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _signature(call: Mapping[str, Any]) -> str:
    return f"{call['name']}({','.join(call['types'])})"


def load(campaign: Campaign, sequences: Iterable[tuple[str, Sequence[Tx]]]) -> Taken:
    """Give sequences to a campaign; one that it refuses is told by its name."""
    names: list[str] = []
    skipped: list[str] = []
    taken = transactions = 0
    for name, sequence in sequences:
        try:
            told = native.read(campaign.load(native.text([sequence])))
        except (ValueError, TypeError) as fault:
            skipped.append(f"{name}: {_short(str(fault))}")
            continue
        names.append(name)
        taken += told["sequences"]
        transactions += told["transactions"]
    return Taken(tuple(names), taken, transactions, tuple(skipped))
