"""Which contracts a campaign calls, and which of their functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.fuzz import oracles
from tracedesk.fuzz.abi import Member, selector
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.oracles import SET_UP, Oracle
from tracedesk.fuzz.project import Contract
from tracedesk.fuzz.site import Named, Site

_FRESH: Final[Mapping[str, Any]] = {
    "stateless": True,
    "max_value": "0",
    "max_time_delay": 0,
    "max_block_delay": 0,
}
"""Foundry calls its tests on what `setUp()` left, at once, and pays nothing."""


@dataclass(frozen=True, slots=True)
class Aim:
    """An address that is called, the code there, and the ids of the functions to call."""

    address: str
    code: str
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aimed:
    """The aims of a campaign, the main contract first; what else they change; what is left out."""

    aims: tuple[Aim, ...]
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """The contracts of a project as a configuration sees them, by the ids of their codes."""

    config: Config
    codes: Mapping[str, Contract]
    members: Mapping[str, Sequence[Member]]
    left_out: Mapping[str, Sequence[str]]

    def called(self, code: str) -> tuple[str, ...]:
        """The functions of a contract that sequences may call."""
        name = self.codes[code].name
        return tuple(m.id for m in self.members[code] if self._is_called(name, m))

    def _is_called(self, contract: str, member: Member) -> bool:
        """Tests, what prepares them, and what was filtered out are not part of sequences."""
        config = self.config
        is_own = oracles.is_test(member, config) or oracles.is_fuzz_test(member, config)
        if is_own or member.signature in (SET_UP, *oracles.HOOKS):
            return False
        if member.view and (config.exclude_view or config.mode == "foundry"):
            return False
        return self._is_wanted(contract, member)

    def _is_wanted(self, contract: str, member: Member) -> bool:
        config = self.config
        if not config.filter_functions:
            return True
        spelt = (f"{contract}.{member.signature}", member.signature, member.name)
        is_listed = any(name in config.filter_functions for name in spelt)
        return is_listed != config.filter_is_blacklist

    def fuzz_tests(self, code: str) -> tuple[str, ...]:
        """Foundry's tests of a contract."""
        name = self.codes[code].name
        found = (m for m in self.members[code] if oracles.is_fuzz_test(m, self.config))
        return tuple(m.id for m in found if self._is_wanted(name, m))

    def tests(self, aims: Sequence[Aim]) -> list[Oracle]:
        """The tests of these contracts, the main one first."""
        config, main = self.config, aims[0]
        found = [
            oracle
            for aim in aims
            for oracle in oracles.find(config, self.codes[aim.code].name, aim.address, self.members[aim.code])
        ]
        called = {id for aim in aims for id in (*self.called(aim.code), *self.fuzz_tests(aim.code))}
        kept = [oracle for oracle in found if oracle.kind != "assertion" or oracle.function in called]
        return [*kept, *oracles.of_the_campaign(config, self.codes[main.code].name, main.address)]

    def warnings(self, codes: Iterable[str]) -> list[str]:
        """What of these contracts cannot be called."""
        return [f"{problem}. The function is left out." for code in codes for problem in self.left_out[code]]


def find(
    document: Mapping[str, Any], known: Known, named: Sequence[Aim], engine: Engine, budget: Budget
) -> Aimed:
    """The aims of a campaign; `named` are the contracts that the configuration places, the main one first."""
    if known.config.mode == "foundry":
        return _foundry(document, known, named[0], engine, budget)
    if not known.config.all_contracts:
        return Aimed((_all_of(named[0], known),))
    there = [
        Aim(address, code)
        for address, code in Site(document, engine, budget).contracts()
        if code in known.codes
    ]
    taken = {aim.address for aim in named}
    others = [aim for aim in there if aim.address not in taken]
    return Aimed(tuple(_all_of(aim, known) for aim in (*named, *others)))


def _all_of(aim: Aim, known: Known) -> Aim:
    return Aim(aim.address, aim.code, known.called(aim.code))


# --- Foundry -----------------------------------------------------------------------------------


def _foundry(document: Mapping[str, Any], known: Known, main: Aim, engine: Engine, budget: Budget) -> Aimed:
    """Invariants are tried against what `setUp()` left and the test contract names; tests against nothing.

    Where there are both, these are the invariants' aims: tests run in campaigns of their own.
    """
    own = known.members[main.code]
    tests = known.fuzz_tests(main.code)
    if not any(oracles.is_test(member, known.config) for member in own):
        return Aimed((Aim(main.address, main.code, tests),), _fresh(known.config, len(tests)))
    site = Site(document, engine, budget)
    named = site.named(main.address, {member.signature: member.id for member in own})
    there = {address: code for address, code in site.contracts() if code in known.codes}
    aims = [
        Aim(address, code, tuple(_selected(known, address, code, named)))
        for address, code in there.items()
        if address != main.address and named.aims_at(address)
    ]
    is_own_aim = not aims or main.address in named.contracts or main.address in named.selectors
    functions = tuple(_selected(known, main.address, main.code, named)) if is_own_aim else ()
    warnings = tuple(_unknown(named, there))
    return Aimed((Aim(main.address, main.code, functions), *aims), _senders(known, named), warnings)


def _fresh(config: Config, count: int) -> dict[str, Any]:
    """The call of a test: on what `setUp()` left, from the account that deployed it."""
    runs = {"test_limit": min(config.fuzz_runs * count, 2**53)} if config.fuzz_runs else {}
    return {**_FRESH, "senders": [config.property_sender], **runs}


def _selected(known: Known, address: str, code: str, named: Named) -> Iterator[str]:
    """The functions to call at an address: those chosen for it, else those that may change something."""
    plain = set(known.called(code))
    chosen = named.selectors.get(address)
    refused = named.not_selectors.get(address, frozenset())
    for member in known.members[code]:
        if chosen is not None and member.form == "abi":
            if selector(member) in chosen:
                yield member.id
        elif (
            member.id in plain
            and chosen is None
            and (member.form != "abi" or selector(member) not in refused)
        ):
            yield member.id


def _senders(known: Known, named: Named) -> dict[str, Any]:
    wanted = named.senders or known.config.senders
    senders = [sender for sender in wanted if sender not in named.not_senders]
    return {"senders": senders} if senders and senders != list(known.config.senders) else {}


def _unknown(named: Named, there: Mapping[str, str]) -> Iterator[str]:
    for address in sorted(named.contracts | set(named.selectors)):
        if address not in there:
            yield f"targetContracts(): no contract of the project stands at {address}; it is not called."
