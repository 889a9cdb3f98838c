"""A Foundry project's settings as a campaign's configuration: `foundry.toml`, and comments in the sources."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tracedesk.foreign import named, quoted
from tracedesk.fuzz import foundry_toml
from tracedesk.fuzz.braces import hidden
from tracedesk.fuzz.compile import root_of
from tracedesk.fuzz.config import MAX_WORD, Config, Reading
from tracedesk.fuzz.foundry_toml import Profile, bad, whole
from tracedesk.fuzz.reach import ANYWHERE, Reach

SENDER: Final = "0x1804c8ab1f12e6bbf3894d4083f33e07309d1f38"
"""The account that deploys and calls test contracts, unless `sender` names another."""
TEST_CONTRACT: Final = "0x7fa9385be102ac3eac297483dd6233d62b3e1496"
"""The address that forge gives a test contract."""
BALANCE: Final = 2**96 - 1
"""Wei of a test contract and of its caller, unless `initial_balance` says otherwise."""
FACTORY: Final = "0x4e59b44847b379578588920ca78fbf26c0b4956c"
"""The CREATE2 factory that is on every chain of forge."""
FACTORY_CODE: Final = (
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe0"
    "3601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
)
_GAS: Final = 2**30
_MOST_GAS: Final = 2**63 - 1
_MOST_RUNS: Final = 2**32
MOST_CALLS: Final = 2**53
_DEEPEST: Final = 10_000
"""Calls of the longest sequence."""
_FORKS: Final = (
    *("homestead", "tangerinewhistle", "spuriousdragon", "byzantium", "constantinople", "petersburg"),
    *("istanbul", "berlin", "london", "paris", "shanghai", "cancun", "prague", "osaka"),
)
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
_WORD: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_NOT_DONE: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        *("isolate", "always_use_create_2_factory", "extends", "match_test", "match_contract", "match_path"),
        *("no_match_test", "no_match_contract", "no_match_path"),
    ),
    "fuzz": ("timeout",),
    "invariant": ("call_override", "timeout"),
}
"""Switches of Foundry that change how tests run and are not heeded here."""


def configured(path: Path, reach: Reach = ANYWHERE) -> Reading:
    """The defaults of forge with the `foundry.toml` of the project that a path belongs to over them."""
    folder = path.absolute() if path.is_dir() else path.absolute().parent
    return of(foundry_toml.read(root_of(folder, reach), reach))


def of(profile: Profile) -> Reading:
    """The configuration that a profile of `foundry.toml` spells."""
    fuzz, invariant = profile.section("fuzz"), profile.section("invariant")
    gas = profile.number("gas_limit", _GAS, 2**64 - 1)
    sender = _address(profile, "sender", SENDER)
    runs = invariant.number("runs", 256, _MOST_RUNS)
    depth = invariant.number("depth", 500, _MOST_RUNS)
    config = Config(
        mode="foundry",
        test_limit=min(max(1, runs * depth), MOST_CALLS),
        seq_len=min(max(1, depth), _DEEPEST),
        fuzz_runs=max(1, fuzz.number("runs", 256, _MOST_RUNS)),
        fail_on_revert=invariant.flag("fail_on_revert", False),
        internal_expect_revert=profile.flag("allow_internal_expect_revert", False),
        seed=_seed(fuzz),
        dict_freq=fuzz.number("dictionary_weight", 40, 100) / 100,
        contract_address=TEST_CONTRACT,
        deployer=sender,
        property_sender=sender,
        balance_contract=profile.number("initial_balance", BALANCE),
        max_time_delay=_delay(invariant, "max_time_delay"),
        max_block_delay=_delay(invariant, "max_block_delay"),
        max_value=0,
        tx_gas=min(gas, _MOST_GAS),
        property_gas=min(gas, _MOST_GAS),
        code_size=profile.number("code_size_limit", 2**32, 2**32),
        evm_version=_fork(profile),
        chain_id=profile.number("chain_id", 31_337, 2**64 - 1),
        block_number=profile.number("block_number", 1, 2**64 - 1),
        block_timestamp=profile.number("block_timestamp", 1, 2**64 - 1),
        block_gas_limit=min(profile.number("block_gas_limit", gas, 2**64 - 1), _MOST_GAS),
        base_fee=profile.number("block_base_fee_per_gas", 0, 2**64 - 1),
        coinbase=_address(profile, "block_coinbase", "0x" + "00" * 20),
        prevrandao=_word(profile, "block_prevrandao"),
    )
    return Reading(config, tuple(_ignored(profile)))


def _address(profile: Profile, key: str, default: str) -> str:
    value = profile.text(key, default)
    if not _ADDRESS.fullmatch(value):
        raise bad(key, "an address of 40 digits")
    return value.lower()


def _word(profile: Profile, key: str) -> str:
    value = profile.text(key, "0x0")
    if not _WORD.fullmatch(value):
        raise bad(key, "a word as hex")
    return f"0x{int(value, 16):064x}"


def _seed(fuzz: Profile) -> int | None:
    """The seed, of which forge's may be larger than ours."""
    return whole("seed", fuzz.values["seed"], MAX_WORD) % 2**64 if "seed" in fuzz.values else None


def _delay(invariant: Profile, key: str) -> int:
    return invariant.number(key, 0, 2**63)


def _fork(profile: Profile) -> str:
    name = profile.text("evm_version", "osaka").lower()
    if name not in _FORKS:
        raise bad("evm_version", f"a fork from {_FORKS[0]} to {_FORKS[-1]}")
    return name


def _ignored(profile: Profile) -> Iterator[str]:
    for section, keys in _NOT_DONE.items():
        values = profile.section(section).values if section else profile.values
        for key in keys:
            if values.get(key):
                shown = f"[{section}] {key}" if section else key
                yield f"foundry.toml: {shown} is not heeded; tests run without it."
    if profile.section("invariant").number("depth", 500, _MOST_RUNS) > _DEEPEST:
        yield f"foundry.toml: [invariant] depth is cut to {_DEEPEST:,}, the longest sequence there is."


# --- comments in the sources ---------------------------------------------------------------------

_MARK: Final = "forge-config:"
_SETTING: Final = re.compile(
    r"forge-config:[ \t]*([A-Za-z0-9_-]+)\.(?:(fuzz|invariant)\.)?([A-Za-z_-]+)[ \t]*=[ \t]*(\S+)"
)
_DECLARED: Final = re.compile(r"\s*(?:abstract\s+)?(function|contract)\s+([A-Za-z_$][\w$]*)")
_BLANK: Final = re.compile(r"\s*")
_CONTRACT: Final = re.compile(r"\b(?:contract|library|interface)\s+([A-Za-z_$][\w$]*)")
_KNOWN: Final[Mapping[tuple[str, str], str]] = {
    ("fuzz", "runs"): "fuzz_runs",
    ("invariant", "runs"): "invariant_runs",
    ("invariant", "depth"): "invariant_depth",
    ("invariant", "fail_on_revert"): "fail_on_revert",
    ("", "allow_internal_expect_revert"): "internal_expect_revert",
}


@dataclass(frozen=True, slots=True)
class Inline:
    """Values of `forge-config` comments by contract and function; "" is the contract itself."""

    settings: Mapping[tuple[str, str], Mapping[str, int | bool]] = field(
        default_factory=dict[tuple[str, str], Mapping[str, int | bool]]
    )
    warnings: tuple[str, ...] = ()

    def of(self, config: Config, contract: str, function: str = "") -> Config:
        """A configuration with what a contract and one of its functions set over it."""
        found = {**self.settings.get((contract, ""), {}), **self.settings.get((contract, function), {})}
        runs, depth = found.pop("invariant_runs", None), found.pop("invariant_depth", None)
        if runs is not None or depth is not None:
            length = int(depth) if depth is not None else config.seq_len
            count = int(runs) if runs is not None else max(1, config.test_limit // config.seq_len)
            found |= {
                "test_limit": min(max(1, count * length), MOST_CALLS),
                "seq_len": min(max(1, length), _DEEPEST),
            }
        return replace(config, **found) if found else config


def inline(text: str, path: str, profile: str = "default") -> Inline:
    """The `forge-config` comments of a source, in bytes as characters."""
    if _MARK not in text:
        return Inline()
    declarations = _Declarations(hidden(text))
    said: list[tuple[bool, tuple[str, str], str, int | bool]] = []
    warnings: list[str] = []
    for match in _SETTING.finditer(text):
        key = ((match[2] or "").replace("-", "_"), match[3].replace("-", "_"))
        if match[1] not in (profile, "default") or not declarations.is_comment(match):
            continue
        place = declarations.after(match.end())
        if key not in _KNOWN or place is None:
            warnings.append(
                f"{quoted(path)}: forge-config {quoted('.'.join(filter(None, key)))} is not heeded."
            )
        else:
            said.append((match[1] == profile, place, _KNOWN[key], _value(path, match)))
    found: dict[tuple[str, str], dict[str, int | bool]] = {}
    # What names the profile itself comes over what names the default one.
    for _, place, name, value in sorted(said, key=lambda each: each[0]):
        found.setdefault(place, {})[name] = value
    return Inline(found, tuple(dict.fromkeys(warnings)))


class _Declarations:
    """Contracts and functions of a source without its comments, asked for by growing places."""

    def __init__(self, plain: str) -> None:
        self._plain = plain
        found = list(_CONTRACT.finditer(plain))
        self._starts = [match.start() for match in found]
        self._names = [match[1] for match in found]
        self._next = -1
        self._found: tuple[str, str] | None = None

    def is_comment(self, match: re.Match[str]) -> bool:
        return not self._plain[match.start() : match.end()].strip()

    def after(self, start: int) -> tuple[str, str] | None:
        """The contract and function that a comment up to a place is about."""
        # A comment is passed over once, however many settings it has.
        if start > self._next:
            match = _DECLARED.match(self._plain, start)
            blank = _BLANK.match(self._plain, start)
            self._next = blank.end() if blank else start
            self._found = self._place(match) if match else None
        return self._found

    def _place(self, match: re.Match[str]) -> tuple[str, str] | None:
        if match[1] == "contract":
            return match[2], ""
        around = bisect_right(self._starts, match.start())
        return (self._names[around - 1], match[2]) if around else None


def _value(path: str, match: re.Match[str]) -> int | bool:
    text = match[4].strip("\"'*/;")
    key = f"{quoted(path)}: forge-config {match[3]}"
    if match[3].replace("-", "_") in ("fail_on_revert", "allow_internal_expect_revert"):
        if text not in ("true", "false"):
            raise bad(key, f"true or false, not {named(text[:40])}")
        return text == "true"
    return max(1, whole(key, text, _MOST_RUNS))
