"""A failure as a Foundry test: one file that needs no library and does again what the campaign did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tracedesk.fuzz import native
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.oracles import SET_UP
from tracedesk.fuzz.target import WAIT, Target

Tx = Mapping[str, Any]
_SCALAR: Final = re.compile(r"(u?int|bytes)[0-9]+|address|bool|string|bytes")
_PANIC: Final = re.compile(r"Panic\((0x[0-9a-fA-F]+|[0-9]+)")
_DEAL: Final = "0x" + keccak(b"deal(address,uint256)")[:4].hex()
_CHEATS: Final = "0x7109709ecfa91a80626ff3989d68f67f5b1dd12d"
_GAS: Final = 12_500_000
_NOTHING: Final[Mapping[str, Any]] = {}

_VM: Final = """
interface Vm {
    struct Log { bytes32[] topics; bytes data; address emitter; }
    function warp(uint256) external;
    function roll(uint256) external;
    function fee(uint256) external;
    function chainId(uint256) external;
    function coinbase(address) external;
    function prevrandao(bytes32) external;
    function txGasPrice(uint256) external;
    function getBlockTimestamp() external view returns (uint256);
    function getBlockNumber() external view returns (uint256);
    function deal(address, uint256) external;
    function etch(address, bytes calldata) external;
    function setNonce(address, uint64) external;
    function prank(address, address) external;
    function getCode(string calldata) external view returns (bytes memory);
    function load(address, bytes32) external view returns (bytes32);
    function store(address, bytes32, bytes32) external;
    function recordLogs() external;
    function getRecordedLogs() external returns (Vm.Log[] memory);
}
"""

_HELPERS: Final = """
    /// Creates a contract at the address that it had, so that what it creates has its address too.
    function place(address where, bytes memory init, address from, uint256 value) internal {
        vm.setNonce(where, 1);
        vm.etch(where, init);
        fund(from, value);
        vm.prank(from, from);
        (bool ok, bytes memory code) = where.call{value: value}("");
        require(ok, "the constructor reverts");
        vm.etch(where, code);
    }

    function pass(uint256 secs, uint256 blocks) internal {
        vm.warp(vm.getBlockTimestamp() + secs);
        vm.roll(vm.getBlockNumber() + blocks);
    }

    function send(address from, address to, uint256 value, uint256 gas_, bytes memory data)
        internal
        returns (bool ok, bytes memory said)
    {
        fund(from, value);
        vm.prank(from, from);
        (ok, said) = to.call{value: value, gas: gas_}(data);
    }

    /// A sender gets what it lacks.
    function fund(address who, uint256 value) internal {
        if (who.balance < value) vm.deal(who, value);
    }

    /// Whether DSTest's failed flag is set; clears it, since forge would take it for this test's own.
    function flagged() internal returns (bool set) {
        set = vm.load(address(vm), "failed") != 0;
        vm.store(address(vm), "failed", 0);
    }

    function panicked(bool ok, bytes memory said, uint256 code) internal pure returns (bool) {
        return !ok && keccak256(said) == keccak256(abi.encodeWithSignature("Panic(uint256)", code));
    }

    /// Whether an event was emitted whose first topic is one of these.
    function logged(bytes memory topics) internal returns (bool) {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; i++) {
            for (uint256 end = 32; end <= topics.length; end += 32) {
                bytes32 topic;
                assembly { topic := mload(add(topics, end)) }
                if (logs[i].topics.length > 0 && logs[i].topics[0] == topic) return true;
            }
        }
        return false;
    }
"""


def foundry(
    test: Mapping[str, Any],
    sequence: Sequence[Tx],
    target: Target,
    engine: Engine,
    source: str,
    deployer: str,
) -> str:
    """A Foundry test that passes for as long as the bug is there."""
    name = re.sub(r"\W+", "_", str(test["name"])).strip("_")
    writer = _Writer(test, target, engine, source, deployer)
    file = source.rpartition("/")[2]
    lines = [
        "// SPDX-License-Identifier: UNLICENSED",
        "pragma solidity >=0.8.0;",
        "",
        f"// Makes the calls that break {_one_line(str(test['name']))}, and PASSES while the bug is there.",
        "// When the bug is mended it FAILS, in its last line; to keep it then, turn that condition round.",
        f"// {_one_line(file)} must be among the sources that forge compiles (src/ or test/).",
        *_VM.splitlines(),
        "",
        f"contract Replay_{target.main.contract}_{name} {{",
        f"    Vm constant vm = Vm({_address(_CHEATS)});",
        f"    address constant target = {_address(target.main.address)};",
        "",
        "    function setUp() public {",
        *(f"        {line}" for line in writer.stage()),
        "    }",
        "",
        f"    function test_{name}() public {{",
        *(f"        {line}" for line in (*writer.calls(sequence), *writer.verdict())),
        "    }",
        *_HELPERS.rstrip().splitlines(),
        "}",
        "",
    ]
    return "\n".join(lines)


class _Writer:
    """Writes the parts of one test."""

    def __init__(
        self, test: Mapping[str, Any], target: Target, engine: Engine, source: str, deployer: str
    ) -> None:
        self._test = test
        self._target = target
        self._engine = engine
        self._source = source
        self._deployer = deployer
        self._spec = target.spec
        self._codes = {code["id"]: code for code in self._spec.get("codes", ())}
        known: Sequence[Mapping[str, Any]] = self._spec.get("tests", ())
        self._oracle: Mapping[str, Any] = next((t for t in known if t["id"] == test.get("id")), _NOTHING)

    # --- what stands before the first call

    def stage(self) -> Iterator[str]:
        """The block, the accounts and the contracts that the campaign began with."""
        block: Mapping[str, Any] = self._spec.get("block", {})
        if block:
            yield f"vm.warp({block['timestamp']});"
            yield f"vm.roll({block['number']});"
            yield f"vm.fee({block['base_fee']});"
            yield f"vm.chainId({block['chain_id']});"
            yield f"vm.coinbase({_address(block['coinbase'])});"
            yield f"vm.prevrandao(bytes32({block['prevrandao']}));"
        for account in self._spec.get("accounts", ()):
            yield f"vm.deal({_address(account['address'])}, {account['balance']});"
        for library in self._spec.get("predeploy", ()):
            yield f'vm.etch({_address(library["address"])}, hex"{library["runtime"]}");'
        for step in self._spec.get("deploy") or [self._only()]:
            yield from self._step(step)

    def _only(self) -> dict[str, Any]:
        """A deployment of the main contract, where nothing else is known."""
        return {"code": None, "address": self._target.main.address, "args": "", "value": "0"}

    def _step(self, step: Mapping[str, Any]) -> Iterator[str]:
        if "call" not in step:
            if step["code"] in self._codes and self._is_linked(self._codes[step["code"]]):
                yield "// It calls libraries, so its code is the campaign's; forge's own would not be linked."
            init = self._init(step)
            place = f"{_address(step['address'])}, {init}, {_address(self._deployer)}, {step['value']}"
            yield f"place({place});"
        elif step["call"].startswith(_DEAL):
            words = step["call"][len(_DEAL) :]
            yield f"vm.deal({_address('0x' + words[24:64])}, {int(words[64:], 16)});"
        else:
            what = f'"{SET_UP}"' if step["call"] == _selector(SET_UP) else f'"{step["call"]}"'
            sent = (
                f"send({_address(step['from'])}, {_address(step['to'])}, 0, gasleft(), {_hex(step['call'])})"
            )
            yield f"{{ (bool ok, ) = {sent}; require(ok, {what}); }}"

    def _init(self, step: Mapping[str, Any]) -> str:
        """Init code as forge compiles it; as it was where forge could not link or find it."""
        code = self._codes.get(step["code"])
        if code is not None and (not code["path"] or self._is_linked(code)):
            return _hex(code["init"] + step["args"])
        path = code["path"] if code is not None else self._source
        name = code["name"] if code is not None else self._target.main.contract
        file = path.rpartition("/")[2]
        artifact = f"{file}:{name}" if file.endswith(".sol") else file
        made = f"vm.getCode({_quoted(artifact)})"
        return f"bytes.concat({made}, {_hex(step['args'])})" if step["args"] else made

    def _is_linked(self, code: Mapping[str, Any]) -> bool:
        libraries: Sequence[Mapping[str, Any]] = self._spec.get("predeploy", ())
        return any(library["address"][2:] in code["init"] for library in libraries)

    # --- the calls

    def calls(self, sequence: Sequence[Tx]) -> Iterator[str]:
        """The calls in order; what a test that no function states says is what the last one did."""
        yield "bool ok;"
        yield "bytes memory said;"
        last = len(sequence) - 1
        for number, tx in enumerate(sequence):
            seconds, blocks = tx.get("delay", (0, 0))
            if seconds or blocks:
                yield f"pass({seconds}, {blocks});"
            text = self._target.text(tx, self._engine)
            if text == WAIT:
                continue
            yield f"// {_one_line(text)}"
            if int(tx.get("gas_price", 0)):
                yield f"vm.txGasPrice({tx['gas_price']});"
            if number == last and self._kind not in ("property", "optimization"):
                yield "vm.recordLogs();"
            yield f"(ok, said) = send({self._sent(tx)});"

    def _sent(self, tx: Tx) -> str:
        place = "target" if tx["to"] == self._target.main.address else _address(tx["to"])
        data = _calldata(tx["call"], self._engine)
        # What a transaction pays before its first instruction.
        gas = int(tx.get("gas", _GAS)) - 21_000 - sum(16 if byte else 4 for byte in data)
        return f"{_address(tx['from'])}, {place}, {tx['value']}, {max(gas, 0)}, {_data(tx['call'], data)}"

    # --- what must be seen

    @property
    def _kind(self) -> str:
        return str(self._test.get("kind"))

    def verdict(self) -> list[str]:
        """The last line holds exactly when the bug is there."""
        reason = str(self._test.get("reason"))
        message = _quoted(f"{self._test['name']} no longer fails: {reason}")
        if self._kind not in ("property", "optimization"):
            return [f"require({self._seen(reason)}, {message});"]
        asker = _address(self._spec.get("property_sender", self._deployer))
        gas = self._spec.get("property_gas", _GAS)
        data = f'abi.encodeWithSignature("{self._test["name"]}()")'
        asked = f"(ok, said) = send({asker}, {self._place()}, 0, {gas}, {data});"
        return [asked, f"require({self._said(reason)}, {message});"]

    def _place(self) -> str:
        address = self._oracle.get("address") or self._target.main.address
        return "target" if address == self._target.main.address else _address(address)

    def _said(self, reason: str) -> str:
        if self._kind == "optimization":
            return f"ok && abi.decode(said, (int256)) >= {self._test.get('value')}"
        if reason == "false":
            return "ok && (said.length < 32 || uint256(bytes32(said)) == 0)"
        if reason == "did not revert":
            return "ok"
        return "flagged() || !ok"

    def _seen(self, reason: str) -> str:
        panic = _PANIC.match(reason)
        if panic is not None:
            return f"panicked(ok, said, {int(panic[1], 0)})"
        if reason.startswith("AssertionFailed"):
            return f"logged({self._topics()})"
        return "flagged()" if reason == "failed flag set" else "!ok"

    def _topics(self) -> str:
        declared = (e["signature"] for code in self._codes.values() for e in code["events"])
        found = [each for each in declared if each.startswith("AssertionFailed(")]
        known = dict.fromkeys((*_ASSERTIONS, *found))
        return _hex("".join(keccak(signature.encode()).hex() for signature in known))


_ASSERTIONS: Final = (
    "AssertionFailed()",
    "AssertionFailed(string)",
    "AssertionFailed(bytes)",
    "AssertionFailed(bytes32)",
    "AssertionFailed(uint256)",
    "AssertionFailed(int256)",
    "AssertionFailed(address)",
    "AssertionFailed(bool)",
    "AssertionFailed(string,uint256)",
)


# --- Solidity text -----------------------------------------------------------------------------


def _calldata(call: Mapping[str, Any], engine: Engine) -> bytes:
    if "args" not in call:
        return bytes.fromhex(str(call["data"]).removeprefix("0x"))
    signature = f"{call['name']}({','.join(call['types'])})"
    encoded = engine.abi_encode(native.text(call["types"]), native.text(call["args"]))
    return keccak(signature.encode())[:4] + encoded


def _data(call: Mapping[str, Any], data: bytes) -> str:
    """The call's data: readable where every argument is simple, else as bytes."""
    if "args" not in call or any(isinstance(value, dict) for value in call["args"]):
        return _hex(data.hex())
    if not all(_SCALAR.fullmatch(kind) for kind in call["types"]):
        return _hex(data.hex())
    signature = f"{call['name']}({','.join(call['types'])})"
    literals = (_literal(kind, value) for kind, value in zip(call["types"], call["args"], strict=True))
    return f"abi.encodeWithSignature({', '.join((_quoted(signature), *literals))})"


def _literal(kind: str, value: Any) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind == "address":
        return _address(value)
    if kind == "string":
        return _quoted(value)
    if kind == "bytes":
        return _hex(value)
    if kind.startswith("bytes"):
        return f"{kind}({_hex(value)})"
    return f"{kind}({value})"


def _selector(signature: str) -> str:
    return "0x" + keccak(signature.encode())[:4].hex()


def _hex(digits: str) -> str:
    return f'hex"{digits.removeprefix("0x")}"'


def _address(value: str) -> str:
    # 42 digits: with 40, Solidity would demand a checksum.
    return f"address(uint160(0x00{value.removeprefix('0x')}))"


def _quoted(text: str) -> str:
    plain = "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else _escape(c) for c in text)
    return f'"{plain}"'


def _escape(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def _one_line(text: str) -> str:
    """Text that cannot leave a comment: Solidity ends one at any of these, and refuses others."""
    return "".join(c if c.isprintable() and ord(c) < 127 else " " for c in text)
