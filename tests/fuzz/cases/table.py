"""What a good fuzzer finds, and what it must not: a row per contract, with its budget of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Config = Mapping[str, Any]
Sequence = list[dict[str, Any]]
"""The transactions of a reproducer."""

SEEDS: Final = (1, 2, 3, 4, 5)
CALLS: Final = 10_000
SHRINKS: Final = 4_000
OVERFLOW: Final = "Integer (over/under)flow"
ASSERTION: Final = {"testMode": "assertion"}


@dataclass(frozen=True, slots=True)
class Original:
    """A file of another fuzzer's own tests that asks for the same skill, in a checkout of its repository."""

    repository: str
    file: str
    contract: str
    falsified: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    config: Config = field(default_factory=dict[str, Any])
    at_least: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Case:
    """A contract, what is asked about it, and the answer that every seed must give."""

    source: str
    contract: str
    skill: str
    """What a fuzzer must be able to do."""
    falsified: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    config: Config = field(default_factory=dict[str, Any])
    calls: int = CALLS
    at_least: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tests of the mode `optimization`, and the value each must reach."""
    reproducer: Mapping[str, Callable[[Sequence], bool]] = field(
        default_factory=dict[str, Callable[[Sequence], bool]]
    )
    """Tests whose shrunk sequence must be of a form."""
    name: str = ""
    original: Original | None = None

    @property
    def id(self) -> str:
        return self.name or self.source.removesuffix(".sol")


# --- forms of reproducers -------------------------------------------------------------------------


def calls(*names: str) -> Callable[[Sequence], bool]:
    """Exactly these functions, in this order."""
    return lambda sequence: [_name(tx) for tx in sequence] == list(names)


def no_waiting(sequence: Sequence) -> bool:
    """Every transaction calls something."""
    return bool(sequence) and all(tx["call"] is not None for tx in sequence)


def _name(tx: Mapping[str, Any]) -> str | None:
    return tx["call"]["name"] if tx["call"] else None


def _least_dive(sequence: Sequence) -> bool:
    """One call, with the least values that fail the property: -1, no address, any address."""
    if not calls("dive")(sequence):
        return False
    to, nobody, guide = sequence[0]["call"]["args"]
    return to == "-1" and int(nobody, 16) == 0 and int(guide, 16) != 0


# --- the table --------------------------------------------------------------------------------------


def _echidna(file: str, contract: str, **more: Any) -> Original:
    return Original("crytic/echidna", f"tests/solidity/{file}", contract, **more)


def _medusa(file: str, **more: Any) -> Original:
    return Original("crytic/medusa", f"fuzzing/testdata/contracts/{file}", "TestContract", **more)


CASES: Final = (
    Case(
        "latch.sol",
        "Latch",
        "two steps in order, shrunk to two calls",
        falsified=("echidna_stays_shut",),
        holds=("echidna_nothing_to_see", "echidna_revert_refuses"),
        reproducer={"echidna_stays_shut": calls("arm", "release")},
        original=_echidna(
            "basic/flags.sol",
            "Test",
            falsified=("echidna_sometimesfalse",),
            holds=("echidna_alwaystrue", "echidna_revert_always"),
        ),
    ),
    Case(
        "steady.sol",
        "Steady",
        "no false alarm",
        holds=("echidna_steady",),
        original=_echidna("basic/true.sol", "True", holds=("echidna_true",)),
    ),
    Case(
        "latch.sol",
        "Latch",
        "a function that is not on the list is never called",
        holds=("echidna_stays_shut", "echidna_nothing_to_see", "echidna_revert_refuses"),
        config={"filterBlacklist": False, "filterFunctions": ["Latch.arm(int256)"]},
        name="latch_listed",
        original=_echidna(
            "basic/flags.sol",
            "Test",
            holds=("echidna_sometimesfalse",),
            config={"filterBlacklist": False, "filterFunctions": ["Test.set0(int256)"]},
        ),
    ),
    Case(
        "throws.sol",
        "Throws",
        "a property that reverts; arguments shrink to the least that fail",
        falsified=("echidna_answers",),
        reproducer={"echidna_answers": _least_dive},
        original=_echidna("basic/revert.sol", "C", falsified=("echidna_fails_on_revert",)),
    ),
    Case(
        "clocks.sol",
        "Clocks",
        "delays of blocks and seconds, with values of the code",
        falsified=("echidna_blocks", "echidna_seconds"),
        original=_echidna("basic/delay.sol", "C", falsified=("echidna_block_number", "echidna_timestamp")),
    ),
    Case(
        "carved.sol",
        "Carved",
        "code with immutables",
        falsified=("echidna_intact",),
        original=_echidna("basic/immutable.sol", "C", falsified=("echidna_test",)),
    ),
    Case(
        "prefix.sol",
        "Prefix",
        "mutate a word of the code",
        falsified=("echidna_not_fooled",),
        original=_echidna("basic/array-mutation.sol", "C", falsified=("echidna_mutated",)),
    ),
    Case(
        "magic.sol",
        "Magic",
        "constants of the code",
        falsified=("echidna_small", "echidna_large"),
        original=_echidna(
            "values/constants.sol", "Constants", falsified=("echidna_found", "echidna_found_large")
        ),
    ),
    Case(
        "between.sol",
        "Between",
        "neighbours of constants",
        falsified=("echidna_never_between",),
        original=_echidna("values/nearbyMining.sol", "nearbyMining", falsified=("echidna_findNearby",)),
    ),
    Case(
        "offspring.sol",
        "Offspring",
        "addresses of contracts created on the way",
        falsified=("echidna_has_not_met_both",),
        original=_echidna("values/create.sol", "C", falsified=("echidna_state",)),
    ),
    Case(
        "toll.sol",
        "Toll",
        "an exact amount sent along",
        falsified=("echidna_unpaid",),
        original=_echidna("values/payable.sol", "C", falsified=("echidna_payable",)),
    ),
    Case(
        "about_now.sol",
        "AboutNow",
        "the time of a block as an argument",
        falsified=("echidna_unguessed",),
        original=_echidna("values/now.sol", "C", falsified=("echidna_now",)),
    ),
    Case(
        "members.sol",
        "Members",
        "structs",
        falsified=("echidna_complete",),
        original=_echidna("abiv2/Ballot.sol", "Ballot", falsified=("echidna_test",)),
    ),
    Case(
        "password.sol",
        "Password",
        "a text of the source, inside a struct",
        falsified=("echidna_locked",),
        original=_echidna("abiv2/Dynamic.sol", "Dynamic", falsified=("echidna_test",)),
    ),
    Case(
        "undone.sol",
        "Undone",
        "an event of a call that reverts",
        falsified=("regret(uint256)", "AssertionFailed(..)"),
        holds=("never(uint256)",),
        config=ASSERTION,
        original=_echidna(
            "assert/revert.sol",
            "Test",
            falsified=("assert_revert(uint256)",),
            holds=("assert_unreachable()",),
            config=ASSERTION,
        ),
    ),
    Case(
        "slope.sol",
        "Slope",
        "climb towards a maximum, here 5150",
        config={"testMode": "optimization"},
        at_least={"echidna_height": 4_900},
        original=_echidna(
            "optimize/linear.sol",
            "Test",
            config={"testMode": "optimization"},
            at_least={"echidna_opt_linear": 4_000},
        ),
    ),
    Case(
        "brimful.sol",
        "Brimful",
        "an overflow",
        falsified=(OVERFLOW,),
        config={"testMode": "overflow"},
        original=_echidna(
            "overflow/overflow.sol", "Test", falsified=(OVERFLOW,), config={"testMode": "overflow"}
        ),
    ),
    Case(
        "wrap.sol",
        "Wrap",
        "a panic that was asked for",
        falsified=("step()",),
        holds=("AssertionFailed(..)",),
        config={**ASSERTION, "panicCodes": [0x01, 0x11]},
        original=_medusa(
            "assertions/assert_arithmetic_underflow.sol",
            falsified=("arithmeticOverflow()",),
            config={**ASSERTION, "panicCodes": [0x01, 0x11]},
        ),
    ),
    Case(
        "polite.sol",
        "Polite",
        "refusals are no assertions",
        holds=("refuse(uint256)", "explain(uint256)", "decline(uint256)", "AssertionFailed(..)"),
        config=ASSERTION,
        calls=500,
        original=_medusa(
            "assertions/assert_not_require.sol",
            holds=("failRequire(uint256)", "failRevert(uint256)"),
            config=ASSERTION,
        ),
    ),
    Case(
        "hint.sol",
        "Hint",
        "a value that is computed, and returned by another function",
        falsified=("echidna_unsolved",),
        original=_echidna("values/rconstants.sol", "Constants", falsified=("echidna_found",)),
    ),
    Case(
        "relay.sol",
        "Relay",
        "a value set by one call, moved by another, seen by a third",
        falsified=("echidna_unmatched",),
        original=_echidna("research/harvey_foo.sol", "Foo", falsified=("echidna_assert",)),
    ),
    Case(
        "nested.sol",
        "House",
        "calls of contracts created on the way",
        falsified=("echidna_lit",),
        config={"allContracts": True},
        original=_echidna(
            "basic/allContracts.sol", "B", falsified=("echidna_test",), config={"allContracts": True}
        ),
    ),
    Case(
        "fleeting.sol",
        "Fleeting",
        "transient storage, cleared between transactions",
        falsified=("echidna_not_inspected",),
        original=_echidna("tstore/tstore.sol", "Test", falsified=("echidna_foo",)),
    ),
    Case(
        "errand.sol",
        "Errand",
        "bytes that are an encoded call",
        falsified=("echidna_stayed",),
        config={"seqLen": 1, "filterFunctions": ["Errand.deliver(address,uint256)"]},
        original=_echidna(
            "values/callback.sol",
            "Test",
            falsified=("echidna_callback_executed",),
            config={"seqLen": 1, "filterFunctions": ["Test.transfer(address,uint256)"]},
        ),
    ),
    Case(
        "tags.sol",
        "Tags",
        "two arguments that differ in a part",
        falsified=("compare(bytes32,bytes32)",),
        config=ASSERTION,
    ),
    Case(
        "queue.sol",
        "Queue",
        "one function five times, a switch, a check; no empty calls in the reproducer",
        falsified=("check()",),
        config=ASSERTION,
        reproducer={"check()": no_waiting},
        original=_echidna("basic/push_long.sol", "TEST", falsified=("test_long_5()",), config=ASSERTION),
    ),
    Case(
        "idle.sol",
        "Idle",
        "properties of time alone, while no call changes anything",
        falsified=("echidna_young", "echidna_early"),
    ),
    Case(
        "callers.sol",
        "Callers",
        "every sender is needed, shrunk to one call each",
        falsified=("echidna_someone_is_missing",),
        reproducer={"echidna_someone_is_missing": calls("sign", "sign", "sign")},
    ),
)
