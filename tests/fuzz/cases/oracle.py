"""The same transactions on pyrevm, another build of an EVM: what they returned, logged and stored."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.judges.install import PYREVM

FORK: Final = "CANCUN"
_OUTPUT: Final = re.compile(r"output: (0x[0-9a-f]*)")

Slot = tuple[str, int]
"""An address and a place in its storage."""


def pyrevm() -> Any:
    """The module, from its own folder."""
    packages = str(PYREVM.require("packages"))
    if packages not in sys.path:
        sys.path.append(packages)
    return importlib.import_module("pyrevm")


@dataclass(frozen=True, slots=True)
class Answer:
    """How a transaction ended."""

    status: str
    """success, revert or halt."""
    output: str
    logs: tuple[tuple[str, tuple[str, ...], str], ...] = ()


class Oracle:
    """A chain with one contract on it.

    pyrevm knows no end of a transaction: what is warm, transient or just created would stay so. Each
    transaction therefore gets an engine of its own, filled with what the one before left.
    """

    def __init__(self, document: Mapping[str, Any], runtime: bytes) -> None:
        self._revm = pyrevm()
        self._block = dict(document["block"])
        self._slots: dict[Slot, int] = {}
        self._accounts: dict[str, Any] = {
            account["address"]: self._revm.AccountInfo(balance=int(account["balance"]))
            for account in document["accounts"]
        }
        place = document["targets"][0]["address"]
        self._accounts[place] = self._revm.AccountInfo(nonce=1, code=runtime)

    def send(self, tx: Mapping[str, Any], data: bytes, touched: Iterable[Slot]) -> Answer:
        """Run a transaction in the block of its time; `touched` are slots that it may have changed."""
        seconds, blocks = tx["delay"]
        self._block["timestamp"] += seconds
        self._block["number"] += blocks
        evm = self._engine()
        output, failure = b"", ""
        call = {"caller": tx["from"], "to": tx["to"], "calldata": data, "value": int(tx["value"])}
        try:
            output = evm.message_call(**call, gas=tx["gas"], gas_price=0)
        except RuntimeError as fault:
            failure = str(fault)
        self._keep(evm, touched)
        return _answer(output, failure, evm.result)

    def _engine(self) -> Any:
        chain = self._revm.CfgEnv(chain_id=self._block["chain_id"])
        now = self._revm.BlockEnv(
            number=self._block["number"],
            timestamp=self._block["timestamp"],
            coinbase=self._block["coinbase"],
            prevrandao=bytes.fromhex(self._block["prevrandao"][2:]),
            basefee=self._block["base_fee"],
            excess_blob_gas=0,
        )
        environment = self._revm.Env(cfg=chain, block=now)
        evm = self._revm.EVM(env=environment, gas_limit=self._block["gas_limit"], spec_id=FORK)
        for address, info in self._accounts.items():
            evm.insert_account_info(address, info)
        for (address, slot), value in self._slots.items():
            evm.insert_account_storage(address, slot, value)
        return evm

    def _keep(self, evm: Any, touched: Iterable[Slot]) -> None:
        known = {*self._slots, *touched}
        self._slots = {key: value for key in known if (value := evm.storage(*key))}
        changed = ((address.lower(), info) for address, info in evm.journal_state.items())
        self._accounts |= {address: info for address, info in changed if _exists(info)}

    def slot(self, slot: Slot) -> int:
        return self._slots.get(slot, 0)

    def balance(self, address: str) -> int:
        return self._accounts[address].balance if address in self._accounts else 0


def _exists(info: Any) -> bool:
    return bool(info.balance or info.nonce or info.code)


def _answer(output: bytes, failure: str, result: Any) -> Answer:
    if result.is_success:
        logs = tuple((log.address.lower(), tuple(log.topics), log.data[1].hex()) for log in result.logs)
        return Answer("success", "0x" + output.hex(), logs)
    said = _OUTPUT.search(failure)
    return Answer("halt" if result.is_halt else "revert", said[1] if said else "0x")
