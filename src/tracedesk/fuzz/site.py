"""What stands once everything is deployed: found by deploying it, and by asking what stands there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.fuzz import native
from tracedesk.fuzz.bench import campaign_of
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.native import Campaign, Engine

_ALONE: Final[Mapping[str, Any]] = {"workers": 1, "coverage": False, "all_contracts": True}
ADDRESSES: Final = "address[]"
SELECTORS: Final = "(address,bytes4[])[]"


@dataclass(frozen=True, slots=True)
class Named:
    """What Foundry's `target…()` and `exclude…()` of a test contract name."""

    contracts: frozenset[str] = frozenset()
    not_contracts: frozenset[str] = frozenset()
    selectors: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    not_selectors: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    senders: tuple[str, ...] = ()
    not_senders: frozenset[str] = frozenset()

    def aims_at(self, address: str) -> bool:
        """Whether a contract that `setUp()` left is a target."""
        if address in self.selectors:
            return True
        return (not self.contracts or address in self.contracts) and address not in self.not_contracts


class Site:
    """A deployment that was made to look at it; no campaign runs on it."""

    def __init__(self, document: Mapping[str, Any], engine: Engine, budget: Budget) -> None:
        self._engine = engine
        told: dict[str, Any] = {**document, **_ALONE, "targets": [], "tests": []}
        self._budget = budget
        self._campaign: Campaign = campaign_of(engine, native.text(told), budget)

    def contracts(self) -> Iterator[tuple[str, str]]:
        """The address of each contract whose code is known, and the id of that code."""
        for address in native.read(self._campaign.status())["targets"]:
            code = self._asked(address, {"data": "0x"})["trace"]["code"]
            if code is not None:
                yield address, code

    def named(self, address: str, functions: Mapping[str, str]) -> Named:
        """What a test contract names; `functions` are its own by signature."""

        def ask(name: str, kind: str) -> list[Any]:
            id = functions.get(f"{name}()")
            return self._answer(address, id, kind) if id is not None else []

        return Named(
            frozenset(ask("targetContracts", ADDRESSES)),
            frozenset(ask("excludeContracts", ADDRESSES)),
            _by_address(ask("targetSelectors", SELECTORS)),
            _by_address(ask("excludeSelectors", SELECTORS)),
            tuple(dict.fromkeys(ask("targetSenders", ADDRESSES))),
            frozenset(ask("excludeSenders", ADDRESSES)),
        )

    def _answer(self, address: str, function: str, kind: str) -> list[Any]:
        row = self._asked(address, {"function": function, "args": []})
        try:
            data = bytes.fromhex(str(row["return"]).removeprefix("0x"))
            [values] = native.read(self._engine.abi_decode(native.text([kind]), data))
        except ValueError:
            return []
        return values if row["status"] == "success" else []

    def _asked(self, address: str, call: Mapping[str, Any]) -> Mapping[str, Any]:
        sequence = native.text([{"to": address, "call": call}])
        seconds = self._budget.deployment()
        try:
            [row] = native.read(self._campaign.execute(sequence, True, seconds))["transactions"]
        except self._engine.LimitError as fault:
            raise self._budget.deployment_stopped("the choice of targets", *fault.args[1:]) from None
        return row


def _by_address(rows: list[Any]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for address, selectors in rows:
        found[address] = found.get(address, frozenset()) | frozenset(selectors)
    return found
