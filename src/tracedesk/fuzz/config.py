"""Echidna's configuration: its keys, its defaults, and what each value must be."""

from __future__ import annotations

import os
import re
import reprlib
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from fnmatch import translate
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from tracedesk.errors import ToolError
from tracedesk.foreign import quoted
from tracedesk.fuzz.refusals import invalid

Mode = Literal["property", "assertion", "optimization", "overflow", "exploration", "foundry"]
Format = Literal["txt", "html", "lcov"]

MAX_WORD: Final = 2**256 - 1
MAX_WORKERS: Final = 64
_HEX: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_ADDRESS: Final = re.compile(r"(0x)?[0-9a-fA-F]{1,40}")
_POWER: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?[eE]\+?([0-9]{1,3})")


LARGEST: Final = 1 << 18
"""Bytes of a configuration file."""
_DEEPEST: Final = 16
_MOST: Final = 20_000
"""Values, keys, and beginnings and ends of lists."""
_TEXTS: Final = (None, "!", "tag:yaml.org,2002:str")
_BARE: Final = 4_000
"""Characters of a value without quotes, unless it is hex."""
_UNKNOWN: Final = 20
"""Unknown keys that are warned of one by one."""
_LONGEST: Final = 80
"""Characters of a value or a key that messages show."""


class _Short(reprlib.Repr):
    """The beginning of a value, at no more cost than that."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxdict = 2, 4, 4
        self.maxstring = self.maxlong = self.maxother = _LONGEST

    def repr_int(self, x: int, level: int) -> str:
        # Python writes no number of thousands of digits.
        return super().repr_int(x, level) if x.bit_length() < 10_000 else "a number of thousands of digits"


def _shown(value: Any) -> str:
    return quoted(_Short().repr(value))


class BadConfig(ToolError):
    """A key whose value cannot be used, with what fits."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__("INVALID_INPUT", f"{key}: {problem}", {"kind": "BAD_CONFIG", "key": key})


def address(number: int) -> str:
    """An address as the tools print it: lower case, 40 digits."""
    return f"0x{number:040x}"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that a campaign can be told, with Echidna's default."""

    mode: Mode = "property"
    prefixes: tuple[str, ...] = ()
    """Of the functions that are tests; empty takes the mode's own."""
    test_limit: int = 50_000
    seq_len: int = 100
    shrink_limit: int = 5_000
    seed: int | None = None
    workers: int | None = None
    timeout_s: int | None = None
    stop_on_fail: bool = False
    coverage: bool = True
    corpus_dir: str | None = None
    coverage_dir: str | None = None
    coverage_formats: tuple[Format, ...] = ("txt", "html", "lcov")
    coverage_excludes: tuple[str, ...] = ()
    contract_address: str = "0x00a329c0648769a73afac7f9381e08fb43dbea72"
    deployer: str = address(0x30000)
    senders: tuple[str, ...] = (address(0x10000), address(0x20000), address(0x30000))
    property_sender: str = address(0x10000)
    balance_address: int = 0xFFFFFFFF
    balance_contract: int = 0
    max_time_delay: int = 604_800
    max_block_delay: int = 60_480
    max_value: int = 100 * 10**18
    max_gas_price: int = 0
    tx_gas: int = 12_500_000
    property_gas: int = 12_500_000
    dict_freq: float = 0.40
    mutation_weights: tuple[int, ...] = (1, 1, 1, 1)
    filter_functions: tuple[str, ...] = ()
    filter_is_blacklist: bool = True
    exclude_view: bool = False
    all_contracts: bool = False
    deploy_contracts: tuple[tuple[str, str], ...] = ()
    deploy_bytecodes: tuple[tuple[str, str], ...] = ()
    code_size: int = 0xFFFFFFFF
    allow_ffi: bool = False
    crytic_args: tuple[str, ...] = ()
    solc_args: str = ""
    output: Literal["text", "json", "none"] | None = None
    constructor_args: str = ""
    """Text of the target's constructor arguments, as in a call."""
    panic_codes: tuple[int, ...] = (0x01,)
    """Panic codes that fail an assertion."""
    fuzz_runs: int | None = None
    """Calls of each of Foundry's fuzz tests; none leaves it to the limit of all calls."""
    fail_on_revert: bool = False
    """Whether a reverting call of a sequence fails Foundry's invariants."""
    internal_expect_revert: bool = False
    """Whether `vm.expectRevert` holds for a revert at its own depth too, as forge allows on request."""
    evm_version: str = "osaka"
    chain_id: int = 1
    block_number: int = 4_370_000
    block_timestamp: int = 1_524_785_992
    block_gas_limit: int = 2**63 - 1
    base_fee: int = 0
    coinbase: str = address(0)
    prevrandao: str = "0x" + "00" * 32

    @property
    def worker_count(self) -> int:
        """As configured, else one per core, at most four."""
        return self.workers or min(4, max(1, os.cpu_count() or 1))

    def excludes(self, path: str) -> bool:
        """Whether reports leave this source file out."""
        return any(re.fullmatch(translate(glob), path) for glob in self.coverage_excludes)


@dataclass(frozen=True, slots=True)
class Reading:
    """A configuration and what was strange about its file."""

    config: Config
    warnings: tuple[str, ...] = ()


# --- what each value must be -------------------------------------------------------------------

Parser = Callable[[str, Any], Any]


def _boolean(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadConfig(key, f"must be true or false, not {_shown(value)}.")
    return value


def _number(key: str, value: Any) -> int:
    """A whole number, also as hex text or with a power of ten, as people write wei."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise BadConfig(key, f"must be a whole number, not {_shown(value)}.")
    if isinstance(value, int):
        return value
    text = str(value).strip().replace("_", "")
    if _HEX.fullmatch(text):
        return int(text, 16)
    if power := _POWER.fullmatch(text):
        whole, fraction, exponent = power[1], power[2] or "", int(power[3])
        if len(fraction) <= exponent:
            return int(whole + fraction) * 10 ** (exponent - len(fraction))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return int(text)
    except ValueError:
        raise BadConfig(key, f"must be a whole number, not {_shown(value)}.") from None


def _between(least: int, most: int) -> Parser:
    def parse(key: str, value: Any) -> int:
        number = _number(key, value)
        if not least <= number <= most:
            raise BadConfig(key, f"must be from {least} to {most}, not {_shown(number)}.")
        return number

    return parse


def _or_none(parser: Parser) -> Parser:
    return lambda key, value: None if value is None else parser(key, value)


def _fraction(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise BadConfig(key, f"must be a number from 0 to 1, not {_shown(value)}.")
    return float(value)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadConfig(key, f"must be text, not {_shown(value)}; put it in quotes.")
    if "\0" in value or not _is_unicode(value):
        raise BadConfig(key, f"has a character that no text may hold: {_shown(value)}.")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _items(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadConfig(key, f"must be a list, not {_shown(value)}.")
    return cast("list[Any]", value)


def _each(parser: Parser) -> Parser:
    return lambda key, value: tuple(parser(key, item) for item in _items(key, value))


def _one_or_each(parser: Parser) -> Parser:
    many = _each(parser)
    return lambda key, value: many(key, value if isinstance(value, list) else [value])


def _address(key: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**160:
        return address(value)
    if isinstance(value, str) and _ADDRESS.fullmatch(value):
        return address(int(value, 16))
    raise BadConfig(key, f'must be an address such as "0x30000", not {_shown(value)}.')


def _callable_address(key: str, value: Any) -> str:
    found = _address(key, value)
    if 0 < int(found, 16) <= 0x11:
        raise BadConfig(key, f"{found} belongs to a precompile of the EVM; choose another address.")
    return found


def _senders(key: str, value: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_address(key, item) for item in _items(key, value)))
    if not found:
        raise BadConfig(key, "needs at least one address.")
    return found


def _choice(*known: str) -> Parser:
    def parse(key: str, value: Any) -> str:
        if value not in known:
            near = get_close_matches(value[:_LONGEST], known, n=1) if isinstance(value, str) else []
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise BadConfig(key, f"must be one of {', '.join(known)}, not {_shown(value)}.{hint}")
        return value

    return parse


def _pairs(second: Parser) -> Parser:
    def parse(key: str, value: Any) -> tuple[tuple[str, Any], ...]:
        return tuple(_pair(key, item, second) for item in _items(key, value))

    return parse


def _pair(key: str, item: Any, second: Parser) -> tuple[str, Any]:
    parts = cast("list[Any]", item) if isinstance(item, list) else []
    if len(parts) != 2:
        raise BadConfig(key, f'is a list of pairs such as ["0x42", "Token"], not {_shown(item)}.')
    return _callable_address(key, parts[0]), second(key, parts[1])


def _bytecode(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else f"{value:x}" if isinstance(value, int) else ""
    digits = text.removeprefix("0x")
    if not digits or len(digits) % 2 or not re.fullmatch(r"[0-9a-fA-F]+", digits):
        raise BadConfig(key, f"needs bytecode as hex text, not {_shown(value)}.")
    return digits.lower()


def _no_fork(key: str, value: Any) -> None:
    if value is not None:
        raise BadConfig(key, "a campaign runs on a chain of its own and fetches no state; remove this key.")


_KEYS: Final[Mapping[str, tuple[str, Parser]]] = {
    "testMode": ("mode", _choice(*get_args(Mode))),
    "prefix": ("prefixes", _one_or_each(_text)),
    "testLimit": ("test_limit", _between(1, 2**53)),
    "seqLen": ("seq_len", _between(1, 10_000)),
    "shrinkLimit": ("shrink_limit", _between(0, 10**9)),
    "seed": ("seed", _or_none(_between(0, 2**64 - 1))),
    "workers": ("workers", _or_none(_between(1, MAX_WORKERS))),
    "timeout": ("timeout_s", _or_none(_between(1, 10**9))),
    "stopOnFail": ("stop_on_fail", _boolean),
    "coverage": ("coverage", _boolean),
    "corpusDir": ("corpus_dir", _or_none(_text)),
    "coverageDir": ("coverage_dir", _or_none(_text)),
    "coverageFormats": ("coverage_formats", _each(_choice(*get_args(Format)))),
    "coverageExcludes": ("coverage_excludes", _each(_text)),
    "contractAddr": ("contract_address", _callable_address),
    "deployer": ("deployer", _address),
    "sender": ("senders", _senders),
    "psender": ("property_sender", _address),
    "balanceAddr": ("balance_address", _between(0, MAX_WORD)),
    "balanceContract": ("balance_contract", _between(0, MAX_WORD)),
    "maxTimeDelay": ("max_time_delay", _between(0, 2**63)),
    "maxBlockDelay": ("max_block_delay", _between(0, 2**63)),
    "maxValue": ("max_value", _between(0, MAX_WORD)),
    "maxGasprice": ("max_gas_price", _between(0, MAX_WORD)),
    "testMaxGas": ("tx_gas", _between(21_000, 2**63)),
    "propMaxGas": ("property_gas", _between(21_000, 2**63)),
    "dictFreq": ("dict_freq", _fraction),
    "mutConsts": ("mutation_weights", _each(_between(0, 10**6))),
    "filterFunctions": ("filter_functions", _each(_text)),
    "filterBlacklist": ("filter_is_blacklist", _boolean),
    "excludeViewPure": ("exclude_view", _boolean),
    "allContracts": ("all_contracts", _boolean),
    "multi-abi": ("all_contracts", _boolean),
    "deployContracts": ("deploy_contracts", _pairs(_text)),
    "deployBytecodes": ("deploy_bytecodes", _pairs(_bytecode)),
    "codeSize": ("code_size", _between(1, 2**63)),
    "allowFFI": ("allow_ffi", _boolean),
    "cryticArgs": ("crytic_args", _each(_text)),
    "solcArgs": ("solc_args", _text),
    "format": ("output", _or_none(_choice("text", "json", "none"))),
    "constructorArgs": ("constructor_args", _text),
    "panicCodes": ("panic_codes", _each(_between(0, 0xFF))),
    "fuzzRuns": ("fuzz_runs", _or_none(_between(1, 2**32))),
    "rpcUrl": ("", _no_fork),
    "rpcBlock": ("", _no_fork),
}
_IDLE: Final[Mapping[str, str]] = {
    "disableSlither": "Slither is never run: literals come from the sources themselves",
    "server": "watch a campaign over MCP instead: tracedesk serve, or fuzz run --serve",
    "quiet": "use --json, or the configuration's format",
    "testDestruction": "a self-destructed contract is not tested for",
    "estimateGas": "gas is in the trace of execute_sequence",
    "allEvents": "every event is in the trace of execute_sequence",
    "projectName": "a campaign is named after its contract",
    "solcLibs": "libraries are found and linked by themselves",
    "etherscanApiKey": "nothing is fetched from a block explorer",
    "disableOnchainSources": "nothing is fetched from a block explorer",
    "benchmarkMode": "it has no effect",
}
"""Keys of Echidna that change nothing here, with what is so instead."""

_IGNORED: Final[Mapping[str, str]] = {
    "mutConsts": "what is worth mutating is learnt while the campaign runs",
}
"""The same for keys whose values are checked nevertheless."""


# --- reading -----------------------------------------------------------------------------------


def read(path: Path, base: Config | None = None) -> Reading:
    """The configuration in a YAML file, over `base`; paths in it are relative to its folder."""
    try:
        # A pipe would let its reader wait, and a device has no end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise invalid("BAD_CONFIG", f"config: {quoted(path.name)} is not a regular file; name one.")
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            message = f"config: {quoted(path.name)} is larger than {LARGEST} bytes; name an echidna.yaml."
            raise invalid("BAD_CONFIG", message)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise invalid("BAD_CONFIG", f"config: {quoted(path.name)} cannot be read: {_why(fault)}.") from None
    reading = parse(text, quoted(path.name), base)
    here = path.absolute().parent
    return replace(reading, config=_anchored(reading.config, here))


def _why(fault: Exception) -> str:
    return str(getattr(fault, "strerror", None) or fault)


def _anchored(config: Config, folder: Path) -> Config:
    def full(path: str | None) -> str | None:
        return None if path is None else str((folder / path).absolute())

    return replace(config, corpus_dir=full(config.corpus_dir), coverage_dir=full(config.coverage_dir))


def parse(text: str, name: str = "echidna.yaml", base: Config | None = None) -> Reading:
    """The configuration that YAML text spells."""
    document = _document(text, name)
    return of(document, base)


def _document(text: str, name: str) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        message = f"config: {name} needs PyYAML; install it with pip install 'tracedesk[fuzz]'."
        raise ToolError("INTERNAL_ERROR", message, {"kind": "YAML_MISSING"}) from None
    try:
        _refuse_bombs(yaml, text, name)
        document: Any = yaml.load(text, Loader=_loader(yaml))
    except yaml.YAMLError as fault:
        place = getattr(fault, "problem_mark", None)
        where = f" at line {place.line + 1}" if place is not None else ""
        raise invalid("BAD_CONFIG", f"config: {name} is not YAML{where}. Correct it.") from None
    except (ValueError, OverflowError, RecursionError):
        message = f"config: {name} has a number or date that is none, or nests too deeply. Correct it."
        raise invalid("BAD_CONFIG", message) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise invalid("BAD_CONFIG", f"config: {name} must map keys to values, such as testLimit: 50000.")
    pairs = cast("dict[Any, Any]", document).items()
    return {key if isinstance(key, str) else _shown(key): value for key, value in pairs}


def _refuse_bombs(yaml: Any, text: str, name: str) -> None:
    """Refuse a short file that would take all memory or time: by aliases, depth, size or endless numbers."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_loader(yaml))):
        if count > _MOST:
            raise invalid("BAD_CONFIG", f"config: {name} has more than {_MOST:,} values; make it simpler.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        problem = _bomb(yaml, event, depth)
        if problem is not None:
            line = event.start_mark.line + 1
            raise invalid("BAD_CONFIG", f"config: {name} has {problem} at line {line}; write the value out.")


def _bomb(yaml: Any, event: Any, depth: int) -> str | None:
    if isinstance(event, yaml.AliasEvent):
        return f"the alias *{_brief(event.anchor)}"
    if depth > _DEEPEST:
        return f"more than {_DEEPEST} lists in each other"
    # A tag makes numbers of what stands in quotes too.
    is_bare = isinstance(event, yaml.ScalarEvent) and (event.implicit[0] or event.tag not in _TEXTS)
    if is_bare and len(event.value) > _BARE and not event.value.startswith("0x"):
        return f"more than {_BARE} characters without quotes"
    return None


def _loader(yaml: Any) -> Any:
    """The loader in C where PyYAML has it."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def of(document: Mapping[str, Any], base: Config | None = None) -> Reading:
    """The configuration that keys of Echidna spell, over `base`."""
    found: dict[str, Any] = {}
    warnings: list[str] = []
    strange: list[str] = []
    for key, value in document.items():
        if key in _KEYS:
            attribute, parser = _KEYS[key]
            parsed = _defaulted(key, value, parser)
            found |= {attribute: parsed} if attribute and parsed is not _UNSET else {}
            warnings += [f"{key}: has no effect; {_IGNORED[key]}."] if key in _IGNORED else []
        else:
            strange.append(key)
    if "test_limit" in found:
        # A limit of all calls is one of Foundry's fuzz tests too, unless their runs are given beside it.
        found = {"fuzz_runs": None, **found}
    config = replace(base or Config(), **found)
    _check(config)
    warnings += [_strange(key) for key in strange[:_UNKNOWN]]
    if len(strange) > _UNKNOWN:
        warnings.append(f"{len(strange) - _UNKNOWN} more unknown keys are ignored.")
    return Reading(config, tuple(warnings))


_UNSET: Final = object()


def _defaulted(key: str, value: Any, parser: Parser) -> Any:
    """A null leaves the default, except where it is a value of its own."""
    if value is None:
        attribute = _KEYS[key][0]
        optional = attribute and getattr(Config(), attribute) is None
        return None if optional else _UNSET
    return parser(key, value)


def _strange(key: str) -> str:
    if key in _IDLE:
        return f"{key}: has no effect; {_IDLE[key]}."
    if key.startswith("symExec"):
        return f"{_brief(key)}: has no effect; there is no symbolic worker."
    near = get_close_matches(key[:_LONGEST], _KEYS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{_brief(key)}: unknown key, ignored.{hint}"


def _brief(key: str) -> str:
    return quoted(key if len(key) <= _LONGEST else f"{key[:_LONGEST]}…")


def _check(config: Config) -> None:
    if config.mutation_weights and len(config.mutation_weights) != 4:
        raise BadConfig("mutConsts", "needs four weights.")
    if not any(config.mutation_weights):
        raise BadConfig("mutConsts", "needs at least one weight above 0.")
    if not all(re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", prefix) for prefix in config.prefixes):
        raise BadConfig("prefix", "must begin a function's name, such as echidna_.")


def document(config: Config) -> dict[str, Any]:
    """A configuration as JSON, which `restored` reads back."""
    return {field.name: getattr(config, field.name) for field in fields(config)}


def restored(document: Mapping[str, Any]) -> Config:
    """A configuration from its JSON."""
    known = {field.name for field in fields(Config)}
    found: dict[str, Any] = {name: _tupled(value) for name, value in document.items() if name in known}
    found["dict_freq"] = float(found["dict_freq"])
    return Config(**found)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in cast("list[Any]", value)) if isinstance(value, list) else value
