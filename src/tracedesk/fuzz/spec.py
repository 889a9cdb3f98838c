"""From a compiled project and a configuration to what the native core is told."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.foreign import listed, quoted
from tracedesk.fuzz import aims, literals, native, oracles
from tracedesk.fuzz.abi import Member, canonical_type, members, selector, usable
from tracedesk.fuzz.aims import Aim, Known
from tracedesk.fuzz.config import MAX_WORD, Config
from tracedesk.fuzz.foundry_settings import FACTORY, FACTORY_CODE
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.limits import MIB, Budget
from tracedesk.fuzz.linking import Linked, link
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.oracles import SET_UP
from tracedesk.fuzz.project import Contract, Project
from tracedesk.fuzz.refusals import invalid

CHEATS: Final = "0x7109709ecfa91a80626ff3989d68f67f5b1dd12d"
"""Where Foundry's cheatcodes are."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A campaign as the native core takes it, and what it was made from."""

    document: Mapping[str, Any]
    contract: Contract
    contracts: Mapping[str, Contract]
    """By the ids of their codes."""
    deployed: tuple[str, ...]
    """Ids of the codes that stand before the campaign begins."""
    seed: int
    warnings: tuple[str, ...] = ()
    """What is left out of the campaign, and why."""

    @property
    def tests(self) -> list[str]:
        return [test["name"] for test in self.document["tests"]]


def build(
    project: Project, config: Config, name: str | None, engine: Engine, budget: Budget | None = None
) -> Spec:
    """The specification of a campaign against one contract of a project."""
    budget = budget or Budget()
    contract, chosen = choose(project, name, config)
    linked = link(project, contract)
    codes = {_id(each, project): each for each in project.contracts if each.deployable}
    own = _id(contract, project)
    known = Known(config, codes, *_known(codes, engine))
    deployments = _deployments(project, config)
    seed = secrets.randbits(63) if config.seed is None else config.seed
    document = {
        **_limits(config, seed),
        "deploy_gas": budget.limits.deploy_gas,
        "journal_bytes": budget.limits.journal_mb * MIB,
        **_accounts(config, contract),
        "codes": [*(_code(id, known, linked) for id in codes), *_raw_codes(config)],
        "deploy": [
            *_deploys(config, deployments, project),
            *_deploy_own(config, own, contract, engine),
            *_set_up(config, known.members[own]),
        ],
        "predeploy": [
            {"address": place, "runtime": code} for place, code in _predeployed(config, linked).items()
        ],
        "all_contracts": config.all_contracts,
        "dictionary": literals.find((s.language, s.data) for s in project.sources.values()).document(),
        "cheats": True,
    }
    named = [Aim(config.contract_address, own), *(Aim(place, _id(c, project)) for place, c in deployments)]
    tests = known.tests(named if config.all_contracts else named[:1])
    oracles.require_some(config, contract.name, tests)
    aimed = aims.find(document, known, named, engine, budget)
    document |= aimed.changes
    document |= {
        "targets": [
            {"address": a.address, "code": a.code, "functions": list(a.functions)} for a in aimed.aims
        ],
        "tests": [test.document() for test in tests],
    }
    deployed = dict.fromkeys((*(aim.code for aim in named), *(aim.code for aim in aimed.aims)))
    warnings = (
        *chosen,
        *oracles.not_run(config, known.members[own]),
        *known.warnings(deployed),
        *aimed.warnings,
    )
    return Spec(document, contract, codes, tuple(deployed), seed, warnings)


def choose(project: Project, name: str | None, config: Config) -> tuple[Contract, tuple[str, ...]]:
    """The contract to test, with a warning where it was chosen among several: as in Echidna, the first one.

    One that is named, the only one, or else the first with tests of the mode.
    """
    if name is not None:
        found = project.contract(name)
        if not found.deployable:
            raise invalid(
                "UNKNOWN_CONTRACT", f"contract: {name} has no code: it is abstract or an interface."
            )
        return found, ()
    there = project.candidates()
    if not there:
        raise invalid("UNKNOWN_CONTRACT", "path: no contract with code was found there.")
    tested = [c for c in there if any(_is_some_test(m, config) for m in members("", c))]
    if len(there) == 1 or len(tested) == 1:
        return (tested or list(there))[0], ()
    chosen = (tested or list(there))[0]
    names = listed(project.names())
    warning = f"contract: {quoted(chosen.qualified)} is tested, the first of several; name one of {names}."
    return chosen, (warning,)


def _is_some_test(member: Member, config: Config) -> bool:
    return oracles.is_test(member, config) or oracles.is_fuzz_test(member, config)


# --- parts of the document ---------------------------------------------------------------------


def _limits(config: Config, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "workers": config.worker_count,
        "seq_len": config.seq_len,
        "test_limit": config.test_limit,
        "shrink_limit": config.shrink_limit,
        "timeout_s": config.timeout_s,
        "stop_on_fail": config.stop_on_fail,
        "coverage": config.coverage,
        "mode": config.mode,
        "foundry": config.mode == "foundry",
        "internal_expect_revert": config.internal_expect_revert,
        "spec_id": config.evm_version,
        "max_time_delay": config.max_time_delay,
        "max_block_delay": config.max_block_delay,
        "max_value": str(config.max_value),
        "max_gas_price": str(config.max_gas_price),
        "tx_gas": config.tx_gas,
        "property_gas": config.property_gas,
        "dict_freq": config.dict_freq,
        "ffi": config.allow_ffi,
        "code_size": config.code_size,
        "block": {
            "timestamp": config.block_timestamp,
            "number": config.block_number,
            "gas_limit": config.block_gas_limit,
            "base_fee": config.base_fee,
            "coinbase": config.coinbase,
            "prevrandao": config.prevrandao,
            "chain_id": config.chain_id,
        },
    }


def _accounts(config: Config, contract: Contract) -> dict[str, Any]:
    rich = dict.fromkeys((*config.senders, config.deployer, config.property_sender), config.balance_address)
    if _is_paid(contract):
        rich[config.deployer] = min(config.balance_address + config.balance_contract, MAX_WORD)
    if config.mode == "foundry" and config.balance_contract:
        # As in forge, the contract and its caller have it before anything is deployed.
        rich |= dict.fromkeys((config.contract_address, config.deployer), config.balance_contract)
    return {
        "accounts": [{"address": each, "balance": str(balance)} for each, balance in rich.items()],
        "deployer": config.deployer,
        "senders": list(config.senders),
        "property_sender": config.property_sender,
    }


def _code(id: str, known: Known, linked: Linked) -> dict[str, Any]:
    contract = known.codes[id]
    return {
        "id": id,
        "name": contract.name,
        "path": contract.path,
        "init": linked.init(contract).hex(),
        "runtime": linked.runtime(contract).hex(),
        "immutables": [list(place) for place in contract.runtime.immutables],
        "functions": [_function(member) for member in known.members[id]],
        "callable": list(known.called(id)),
        "events": [_event(entry) for entry in contract.abi if entry.get("type") == "event"],
    }


def _raw_codes(config: Config) -> Iterable[dict[str, Any]]:
    for place, code in config.deploy_bytecodes:
        blank: dict[str, Any] = {"path": "", "immutables": [], "functions": [], "events": []}
        yield {"id": f"bytecode@{place}", "name": f"bytecode@{place}", "init": code, "runtime": "", **blank}


def _function(member: Member) -> dict[str, Any]:
    if member.form != "abi":
        return {"id": member.id, "name": member.name, member.form: True, "payable": member.payable}
    return {
        "id": member.id,
        "name": member.name,
        "types": list(member.types),
        "outputs": list(member.outputs),
        "selector": selector(member),
        "payable": member.payable,
        "view": member.view,
    }


def _event(entry: Mapping[str, Any]) -> dict[str, Any]:
    types = [canonical_type(item) for item in entry["inputs"]]
    return {
        "signature": f"{entry['name']}({','.join(types)})",
        "indexed": [bool(item.get("indexed")) for item in entry["inputs"]],
        "anonymous": bool(entry.get("anonymous")),
    }


def _predeployed(config: Config, linked: Linked) -> dict[str, str]:
    if config.mode != "foundry":
        return dict(linked.libraries)
    # As in forge, the address of the cheatcodes has code, which is never run.
    return {FACTORY: FACTORY_CODE, CHEATS: "00", **linked.libraries}


def _deployments(project: Project, config: Config) -> list[tuple[str, Contract]]:
    return [(place, project.contract(name)) for place, name in config.deploy_contracts]


def _deploys(
    config: Config, deployments: Iterable[tuple[str, Contract]], project: Project
) -> Iterable[dict[str, Any]]:
    for place, _ in config.deploy_bytecodes:
        yield {"code": f"bytecode@{place}", "address": place, "args": "", "value": "0"}
    for place, contract in deployments:
        yield {"code": _id(contract, project), "address": place, "args": "", "value": "0"}


def _deploy_own(config: Config, id: str, contract: Contract, engine: Engine) -> Iterable[dict[str, Any]]:
    """What the contract is to hold comes with its creation where the constructor takes it, else after it."""
    args = _constructor_args(config, contract, engine)
    held = 0 if config.mode == "foundry" else config.balance_contract
    paid = held if _is_paid(contract) else 0
    yield {"code": id, "address": config.contract_address, "args": args, "value": str(paid)}
    if held and not paid:
        data = keccak(b"deal(address,uint256)")[:4].hex() + config.contract_address[2:].rjust(64, "0")
        yield {"call": f"0x{data}{held:064x}", "to": CHEATS, "from": config.deployer}


def _is_paid(contract: Contract) -> bool:
    makers = (entry for entry in contract.abi if entry.get("type") == "constructor")
    return any(entry.get("stateMutability") == "payable" for entry in makers)


def _constructor_args(config: Config, contract: Contract, engine: Engine) -> str:
    entry = next((e for e in contract.abi if e.get("type") == "constructor"), None)
    types = [canonical_type(item) for item in entry["inputs"]] if entry else []
    if types and not config.constructor_args:
        message = (
            f"contract: the constructor of {quoted(contract.name)} takes ({listed(types)}). Give the values "
            "as constructorArgs, or test a contract that creates it."
        )
        raise invalid("CONSTRUCTOR_ARGUMENTS", message, types=types)
    described = native.text(types)
    try:
        values = engine.parse_args(described, config.constructor_args)
        return engine.abi_encode(described, values).hex()
    except engine.SpecError as fault:
        raise invalid("CONSTRUCTOR_ARGUMENTS", f"constructorArgs: {fault}.") from None


def _set_up(config: Config, members: Sequence[Member]) -> Iterable[dict[str, Any]]:
    """Foundry's `setUp()`, called once after everything is deployed."""
    if any(member.signature == SET_UP for member in members):
        data = "0x" + keccak(SET_UP.encode())[:4].hex()
        yield {"call": data, "to": config.contract_address, "from": config.deployer}


def _known(
    codes: Mapping[str, Contract], engine: Engine
) -> tuple[dict[str, list[Member]], dict[str, list[str]]]:
    """The functions of each code that can be called, and why others of it cannot."""
    kept: dict[str, list[Member]] = {}
    left: dict[str, list[str]] = {}
    for id, contract in codes.items():
        kept[id], left[id] = usable(members(id, contract), engine)
    return kept, left


def _id(contract: Contract, project: Project) -> str:
    """The name; with its path where two contracts of a project share it."""
    shared = sum(c.name == contract.name and c.deployable for c in project.contracts) > 1
    return contract.qualified if shared else contract.name
