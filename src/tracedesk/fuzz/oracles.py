"""The tests of a campaign: which functions they are in each mode, and when they fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracedesk.foreign import quoted
from tracedesk.fuzz.abi import Member
from tracedesk.fuzz.config import Config, Mode
from tracedesk.fuzz.refusals import invalid

Kind = Literal["property", "assertion", "optimization", "call", "overflow"]
_PREFIXES: Final[dict[Mode, tuple[str, ...]]] = {
    "property": ("echidna_",),
    "optimization": ("echidna_", "optimize_"),
    "foundry": ("invariant", "statefulFuzz", "test"),
}
_TEST: Final = "test"
FAIL_FORM: Final = "testFail"
GONE: Final = (
    "Foundry has removed testFail*. Name it test_RevertIf_… and expect the revert with vm.expectRevert."
)
OVERFLOW: Final = 0x11
EVENTS: Final = "AssertionFailed(..)"
FLOWS: Final = "Integer (over/under)flow"
SET_UP: Final = "setUp()"
PREPARES: Final = "beforeTestSetup(bytes4)"
HOOKS: Final = ("afterInvariant()", PREPARES)
"""Functions of a test contract that Foundry itself calls."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """One test."""

    id: str
    kind: Kind
    name: str
    contract: str
    address: str
    function: str | None = None
    expect: Literal["true", "revert", "success"] = "true"
    """When it holds: the prefix `…revert_` wants a revert, Foundry only that there is none."""
    panics: tuple[int, ...] = ()
    fail_on_revert: bool = False
    """True if any call of a sequence that reverts fails the test."""

    def document(self) -> dict[str, Any]:
        """As the native core takes it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "contract": self.contract,
            "address": self.address,
            "function": self.function,
            "expect": self.expect,
            "panics": list(self.panics),
            "fail_on_revert": self.fail_on_revert,
        }


def prefixes(config: Config) -> tuple[str, ...]:
    """What the names of test functions begin with."""
    return config.prefixes or _PREFIXES.get(config.mode, ("echidna_",))


def is_test(member: Member, config: Config) -> bool:
    """Whether a function is a test that is asked, and so is not called as part of a sequence."""
    asked = tuple(each for each in prefixes(config) if config.mode != "foundry" or not is_of_calls(each))
    return not member.types and member.form == "abi" and member.name.startswith(asked)


def is_fuzz_test(member: Member, config: Config) -> bool:
    """Whether a function is one of Foundry's tests, which are called, each time on what setUp() left."""
    if config.mode != "foundry" or member.form != "abi" or member.name.startswith(FAIL_FORM):
        return False
    return member.name.startswith(tuple(each for each in prefixes(config) if is_of_calls(each)))


def not_run(config: Config, members: Sequence[Member]) -> list[str]:
    """A sentence for each test in a form that Foundry refuses, and each function that only Foundry calls."""
    if config.mode != "foundry":
        return []
    names = [member.signature for member in members]
    gone = [f"{quoted(name)}: not run. {GONE}" for name in names if name.startswith(FAIL_FORM)]
    return [
        *gone,
        *(f"{hook}: Foundry calls it, and it is not called here." for hook in HOOKS if hook in names),
    ]


def is_of_calls(prefix: str) -> bool:
    """Whether a prefix names tests that are called, not asked."""
    return prefix.startswith(_TEST)


def find(config: Config, contract: str, address: str, members: Sequence[Member]) -> list[Oracle]:
    """The tests of one contract."""
    mode = config.mode

    def oracle(member: Member, kind: Kind, name: str, **more: Any) -> Oracle:
        return Oracle(f"{contract}.{name}", kind, name, contract, address, member.id, **more)

    if mode == "property":
        return [
            oracle(m, "property", m.name, expect="revert" if _wants_revert(m, config) else "true")
            for m in members
            if is_test(m, config) and m.outputs == ("bool",)
        ]
    if mode == "optimization":
        found = [m for m in members if is_test(m, config) and m.outputs == ("int256",)]
        return [oracle(m, "optimization", m.name) for m in found]
    if mode == "assertion":
        return [
            oracle(m, "assertion", m.signature, panics=config.panic_codes)
            for m in members
            if not is_test(m, config)
        ]
    if mode == "foundry":
        return _foundry(config, oracle, members)
    return []


def of_the_campaign(config: Config, contract: str, address: str) -> list[Oracle]:
    """Tests that belong to no function: any call may fail them."""
    if config.mode == "assertion":
        return [Oracle(EVENTS, "call", EVENTS, contract, address)]
    if config.mode == "overflow":
        return [Oracle(FLOWS, "overflow", FLOWS, contract, address, panics=(OVERFLOW,))]
    return []


def _foundry(config: Config, oracle: Any, members: Sequence[Member]) -> list[Oracle]:
    """Invariants; without any, the fuzz tests. Any revert fails them, as does saying false."""
    asked = [member for member in members if is_test(member, config)]
    if asked:
        return [
            oracle(m, "property", m.name, expect=_expected(m), fail_on_revert=config.fail_on_revert)
            for m in asked
        ]
    called = (member for member in members if is_fuzz_test(member, config))
    return [oracle(m, "assertion", m.signature, panics=config.panic_codes, expect="success") for m in called]


def _expected(invariant: Member) -> Literal["true", "success"]:
    return "true" if invariant.outputs == ("bool",) else "success"


def _wants_revert(member: Member, config: Config) -> bool:
    return member.name.startswith(tuple(f"{prefix}revert_" for prefix in prefixes(config)))


def require_some(config: Config, contract: str, found: Sequence[Oracle]) -> None:
    """Refuse a campaign that could find nothing."""
    if found or config.mode == "exploration":
        return
    wanted = {
        "property": f"functions like {prefixes(config)[0]}x() that return bool",
        "optimization": f"functions like {prefixes(config)[0]}x() that return int256",
        "foundry": "functions like invariant_x() or testFuzz_x(uint256)",
    }.get(config.mode, "functions to call")
    message = (
        f"contract: {quoted(contract)} has no tests for the mode {config.mode}: there are no {wanted}. "
        "Write some, set prefix, or choose another testMode."
    )
    raise invalid("NO_TESTS", message, contract=contract, mode=config.mode)
