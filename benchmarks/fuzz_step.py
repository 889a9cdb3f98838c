"""What an EVM step costs in our campaign, and in a bare loop over pyrevm, on the same code."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.fuzz_ours import CONTRACT, SOURCE, campaign
from benchmarks.measure import best_ratio, paired_ratio
from tests.fuzz.cases import compiled, oracle
from tests.judges.install import PYREVM
from tracedesk.fuzz.keccak import keccak

RIVAL: Final = "bare revm 8.0 (pyrevm 0.3.7)"
_CALLER: Final = f"0x{0x10000:040x}"
_PLACE: Final = f"0x{0xABCDEF:040x}"
_LIMIT: Final = 12_500_000


def measure(calls: int, rounds: int) -> dict[str, Any] | None:
    """CPU nanoseconds per thousand gas of pure loops, on both; none without the rival."""
    if not PYREVM.home.joinpath("packages").exists():
        return None
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        ours.append(_ours(calls, number))
        theirs.append(_bare(calls, number))
    return {
        "ratio": round(best_ratio(ours, theirs), 3),
        "paired_ratio": round(paired_ratio(ours, theirs), 3),
        "ns_per_1000_gas": {"ours": _rounded(ours), "bare": _rounded(theirs)},
    }


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 1) for value in values]


def _ours(calls: int, seed: int) -> float:
    """A campaign that calls nothing but the loop, with coverage."""
    keys: Mapping[str, Any] = {
        "testMode": "exploration",
        "filterFunctions": [f"{CONTRACT}.spin(uint256)"],
        "filterBlacklist": False,
        "workers": 1,
        "seed": seed,
        "testLimit": calls,
    }
    began = time.process_time()
    status = campaign(compiled.project(SOURCE), CONTRACT, keys)
    return (time.process_time() - began) * 1e12 / status["gas"]


def _bare(calls: int, seed: int) -> float:
    """The same loop with arguments of all sizes, no coverage, no properties, nothing kept."""
    revm = oracle.pyrevm()
    contract = compiled.project(SOURCE).contract(CONTRACT)
    evm = revm.EVM(spec_id=oracle.FORK, gas_limit=2**40)
    evm.insert_account_info(_PLACE, revm.AccountInfo(nonce=1, code=contract.runtime.data))
    selector = keccak(b"spin(uint256)")[:4]
    chance = random.Random(seed)
    inputs = [selector + chance.randrange(2**64).to_bytes(32, "big") for _ in range(calls)]
    gas = 0
    began = time.process_time()
    for data in inputs:
        evm.message_call(caller=_CALLER, to=_PLACE, calldata=data, gas=_LIMIT)
        gas += evm.result.gas_used
    return (time.process_time() - began) * 1e12 / gas
