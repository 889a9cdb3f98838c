"""The table: each project with its limits, and the words in which it must be refused or end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz.evil import code
from tests.fuzz.evil.code import (
    ADDRESS,
    CODECOPY,
    CODESIZE,
    COUNT,
    CREATE,
    CREATE2,
    GAS,
    JUMPDEST,
    KECCAK,
    LOG0,
    MCOPY,
    MSIZE,
    MSTORE,
    POP,
    PUSH0,
    RETURN,
    REVERT,
    STOP,
    TSTORE,
    call,
    constructing,
    forever,
    ops,
    push,
    running,
)

Build = Callable[[Path], None]
ENDLESS: Final = 1 << 62
"""Gas that never ends, so that another limit must."""
SMALL: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Evil:
    """One project: what it is made of, how it is tried, and how that must end."""

    name: str
    build: Build
    ends: str
    """A regular expression for the message of the refusal, or for the words of a campaign that ran."""
    path: str = "E.json"
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout: int = 20
    trusted: bool = False
    execute: tuple[Mapping[str, Any], ...] = ()
    """Calls that are executed with a trace, instead of a campaign."""

    @property
    def least_seconds(self) -> int:
        """Seconds after which the first limit of time ends it."""
        named = [self.limits[name] for name in ("deploy_seconds", "compile_seconds") if name in self.limits]
        return min([self.timeout, *named])


def _file(text: str | bytes, name: str = "E.json") -> Build:
    def build(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    return build


def _files(**texts: str) -> Build:
    def build(folder: Path) -> None:
        for name, text in texts.items():
            _file(text, name)(folder)

    return build


def _constructor(name: str, body: bytes, ends: str, **limits: int) -> Evil:
    return Evil(
        f"constructor: {name}", _file(constructing(body)), ends, limits={"deploy_gas": SMALL, **limits}
    )


_GAS: Final = r"the constructor of E was ended: it used its limit of 16777216 gas\. .* raise deploy_gas"
_JOURNAL: Final = r"the constructor of E was ended: it reached its limit of 4 MiB of state changes and logs"
_MEMORY: Final = r"the constructor of E was ended: it reached its limit of 64 MiB of memory"
_SECOND: Final = r"the constructor of E was ended: it did not end within 1 s\. .* raise deploy_seconds"
_MEGABYTE: Final = 1 << 20
_GROWING: Final = ops(push(1), MSIZE, MSTORE)
_CHILD: Final = ops(CODESIZE, PUSH0, PUSH0, CODECOPY, CODESIZE, PUSH0, PUSH0, CREATE, POP)
_SALTED: Final = ops(push(1), PUSH0, MSTORE, GAS, push(8), PUSH0, PUSH0, CREATE2, POP)
# A constructor that destroys itself: ADDRESS SELFDESTRUCT.
_DYING: Final = ops(push(0x30FF), PUSH0, MSTORE, push(2), push(30), PUSH0, CREATE, POP)

CONSTRUCTORS: Final = (
    _constructor("counts for ever", forever(COUNT), _GAS),
    _constructor(
        "counts for ever with gas for ever", forever(COUNT), _JOURNAL, deploy_gas=ENDLESS, journal_mb=4
    ),
    _constructor("grows its memory", forever(_GROWING), _GAS),
    _constructor("grows its memory with gas for ever", forever(_GROWING), _MEMORY, deploy_gas=ENDLESS),
    _constructor("writes logs", forever(push(4096), PUSH0, LOG0), _GAS),
    _constructor(
        "writes logs with gas for ever",
        forever(push(4096), PUSH0, LOG0),
        _JOURNAL,
        deploy_gas=ENDLESS,
        journal_mb=4,
    ),
    _constructor(
        "fills transient storage", forever(GAS, GAS, TSTORE), _JOURNAL, deploy_gas=ENDLESS, journal_mb=4
    ),
    _constructor("creates itself", forever(_CHILD), _GAS),
    _constructor("creates by salt", forever(_SALTED), _GAS),
    _constructor("creates what destroys itself", forever(_DYING), _GAS),
    _constructor("raises big numbers", forever(push(1024), PUSH0, MSTORE, call(5, size=96)), _GAS),
    _constructor("asks for pairings", forever(call(8, size=192 * 8)), _GAS),
    _constructor(
        "hashes four billion rounds",
        ops(push(0xFFFFFFFF << 224), PUSH0, MSTORE, call(9, size=213), STOP),
        r"the constructor of E was ended: one call of a precompile takes more than 33554432 gas",
        deploy_gas=ENDLESS,
    ),
    _constructor("hashes megabytes", forever(push(_MEGABYTE), PUSH0, KECCAK, POP), _GAS),
    _constructor("copies megabytes", forever(push(_MEGABYTE), PUSH0, push(32), MCOPY), _GAS),
    _constructor(
        "jumps for ever",
        forever(),
        _SECOND,
        deploy_gas=ENDLESS,
        deploy_seconds=1,
    ),
    _constructor(
        "hashes rounds for ever",
        forever(push((1 << 24) << 224), PUSH0, MSTORE, call(9, size=213)),
        _SECOND,
        deploy_gas=ENDLESS,
        deploy_seconds=1,
    ),
    _constructor(
        "hashes megabytes between calls",
        forever(push(60 * _MEGABYTE), PUSH0, KECCAK, POP, call(0xEE)),
        _SECOND,
        deploy_gas=ENDLESS,
        deploy_seconds=1,
    ),
    _constructor(
        "creates megabytes",
        forever(GAS, push(30 * _MEGABYTE), PUSH0, PUSH0, CREATE2, POP),
        _SECOND,
        deploy_gas=ENDLESS,
        deploy_seconds=1,
    ),
    Evil(
        "constructor: is two million bytes long",
        _file(code.document(bytes((JUMPDEST,)) * (2 << 20) + bytes((STOP,)))),
        r"echidna_holds: failed",
        config={"testLimit": 10},
    ),
)

_POKE: Final[dict[str, Any]] = {"call": {"function": "E.poke()", "args": []}}
_SELF_TWICE: Final = ops(call(ops(ADDRESS), kind=code.CALL), call(ops(ADDRESS), kind=code.CALL))


def _set_up(name: str, body: bytes, ends: str, **limits: int) -> Evil:
    build = _file(running(body, *code.SET_UP))
    return Evil(f"setUp: {name}", build, ends, limits={"deploy_gas": SMALL, **limits})


_REASON: Final = ops(
    # Error(string) of a megabyte.
    push(0x08C379A0 << 224), PUSH0, MSTORE, push(32), push(4), MSTORE, push(_MEGABYTE), push(36), MSTORE,
    push(_MEGABYTE + 68), PUSH0, REVERT,
)  # fmt: skip
_UNFOLDING: Final = (
    # An array of arrays of arrays, all of whose offsets lead to one place.
    {
        "type": "function",
        "name": "unfold",
        "inputs": [],
        "outputs": [{"type": "uint256[][][][][]", "name": ""}],
        "stateMutability": "view",
    }
)

CALLS: Final = (
    _set_up("counts for ever", forever(COUNT), r"setUp\(\) was ended: it used its limit of 16777216 gas"),
    _set_up(
        "calls itself twice",
        _SELF_TWICE,
        r"setUp\(\) was ended: it did not end within 1 s",
        deploy_gas=ENDLESS,
        deploy_seconds=1,
    ),
    Evil(
        "calls: all their gas, in every test too",
        _file(running(forever(COUNT))),
        r"echidna_holds: failed \(out of gas \(reentrancy sentry\)\)",
        config={"testLimit": 20, "testMaxGas": 1_000_000, "propMaxGas": 1_000_000, "shrinkLimit": 5},
    ),
    Evil(
        "calls: gas for ever, until the time is over",
        _file(running(forever())),
        r"the time was over",
        config={"testMaxGas": ENDLESS, "propMaxGas": ENDLESS},
        timeout=3,
    ),
    Evil(
        "calls: state for ever",
        _file(running(forever(COUNT))),
        r"echidna_holds: failed \(out of gas \(memory limit\)\)",
        limits={"journal_mb": 4},
        config={"testLimit": 20, "testMaxGas": ENDLESS, "propMaxGas": ENDLESS, "shrinkLimit": 5},
    ),
    Evil(
        "calls: reasons of a megabyte",
        _file(running(_REASON)),
        r"echidna_holds: failed \(«Error\(.{1024,2100}\(1048576 bytes\)",
        config={"testLimit": 50, "testMode": "property"},
    ),
    Evil(
        "calls: a program that sleeps",
        _file(running(code.ffi("sleep", "1000"))),
        r"the time was over",
        config={"allowFFI": True},
        timeout=2,
        trusted=True,
    ),
    Evil(
        "calls: a trace of gigabytes",
        _file(running(forever(call(0xEE, size=100_000, kind=code.CALL)))),
        r"more calls and events",
        execute=(_POKE,),
    ),
    Evil(
        "calls: a trace without a floor",
        _file(running(call(ops(ADDRESS), kind=code.CALL))),
        r"more calls and events",
        execute=(_POKE,),
    ),
    Evil(
        "calls: an answer that unfolds",
        _file(running(ops(push(32), PUSH0, MSTORE, push(_MEGABYTE), PUSH0, RETURN), _UNFOLDING)),
        r"unfold\(\)",
        execute=({"call": {"function": "E.unfold()", "args": []}},),
    ),
)

_LONG: Final = 30 * _MEGABYTE


def _cheat(name: str, ends: str, *body: bytes) -> Evil:
    """A project whose every function calls cheatcodes, with gas for ever."""
    gas = {"testMaxGas": ENDLESS, "propMaxGas": ENDLESS, "testLimit": 20, "shrinkLimit": 5}
    return Evil(f"cheatcode: {name}", _file(running(ops(*body))), ends, config=gas, timeout=3)


def _searching() -> Evil:
    """A text of megabytes is looked for in the complaint about a longer one."""
    # Both lie in memory together, each behind the words before it.
    short, long = 1 << 20, 3 << 20
    expects, expecting = code.cheat("_expectCheatcodeRevert(bytes)", 32, short, size=short)
    fills = ops(code.filled(b"a" * 32, 68, short), push(ord("b")), push(68 + short - 1), code.MSTORE8)
    start = (68 + short + 31) // 32 * 32
    parses, parsing = code.cheat("parseUint(string)", 32, long, size=long, place=start)
    return _cheat(
        "a text is looked for in a longer one",
        r"echidna_holds: (passed|failed)|the time was over",
        *(expects, fills, expecting, parses, code.filled(b"a" * 32, start + 68, long), parsing, code.TRUE),
    )


def _listing() -> Evil:
    size = 3 << 20
    sets, setting = code.cheat("setEnv(string,string)", 64, 128, 1, b"a".ljust(32, b"\0"), size, size=size)
    lists, listing = code.cheat("envString(string,string)", 64, 128, 1, b"a".ljust(32, b"\0"), 0)
    return _cheat(
        "a variable of three million letters is a list",
        r"echidna_holds: (passed|failed)|the time was over",
        *(sets, code.filled(b"a" * 32, 164, size), setting, lists, listing, code.TRUE),
    )


def _mocking() -> Evil:
    """Five hundred answers that all lie in one place."""
    count = 512
    mocks, mocking = code.cheat(
        "mockCalls(address,bytes,bytes[])", *(0xEE, 96, 128, 0, count), size=32 * count + 32 + _LONG
    )
    places = code.filled((32 * count).to_bytes(32, "big"), 164, 32 * count)
    length = ops(push(_LONG), push(164 + 32 * count), MSTORE)
    return _cheat(
        "answers that share a place",
        r"unsupported .*mockCalls|cannot|the time was over",
        *(mocks, places, length, mocking, code.TRUE),
    )


def _quoting() -> Evil:
    parses, parsing = code.cheat("parseUint(string)", 32, _LONG, size=_LONG)
    return _cheat(
        "a complaint quotes megabytes",
        r"unsupported .*parseUint|cannot|the time was over",
        *(parses, code.filled(b"\1" * 32, 68, _LONG), parsing, code.TRUE),
    )


CHEATCODES: Final = (_searching(), _listing(), _mocking(), _quoting())


def _function(name: str, *types: str) -> dict[str, Any]:
    inputs = [{"name": f"a{n}", "type": kind} for n, kind in enumerate(types)]
    return {
        "type": "function",
        "name": name,
        "inputs": inputs,
        "outputs": [],
        "stateMutability": "nonpayable",
    }


def _nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"name": "x", "type": "uint256"}
    for _ in range(depth):
        inner = {"name": "x", "type": "tuple", "components": [inner]}
    return {**_function("deep"), "inputs": [inner]}


def _abi(*entries: dict[str, Any]) -> Build:
    return _file(running(code.TRUE, *entries))


_RAN: Final = {"testLimit": 30}
ABIS: Final = (
    Evil("abi: tuples 200 deep", _abi(_nested(200)), r"deep|nest|levels", config=_RAN),
    Evil(
        "abi: 2,000 functions",
        _abi(*(_function(f"f{n}", "uint256") for n in range(2_000))),
        r"echidna_holds: passed",
        config=_RAN,
    ),
    Evil(
        "abi: an array of a billion numbers",
        _abi(_function("many", "uint256[1000000000]")),
        r"many",
        config=_RAN,
    ),
    Evil(
        "abi: 5,000 arguments",
        _abi(_function("wide", *("bytes[]" for _ in range(5_000)))),
        r"wide.*its values are larger than 16384 words",
        config=_RAN,
    ),
    Evil(
        "abi: names that turn the screen",
        _file(code.document(code.deploying(code.TRUE), code.TRUE, name="E\u202e\x1b[2J")),
        r"echidna_holds|name",
        config=_RAN,
    ),
)


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "E.sol")


def _device(folder: Path) -> None:
    (folder / "E.sol").symlink_to("/dev/zero")


def _loop(folder: Path) -> None:
    (folder / "E.sol").write_text('import "./again/again/E.sol";\nimport "./E.sol"; contract E {}')
    (folder / "again").symlink_to(".")


def _big(folder: Path) -> None:
    with (folder / "E.sol").open("wb") as file:
        file.truncate(50 << 20)


def _deep(folder: Path) -> None:
    (folder / "/".join("d" * 100)).mkdir(parents=True)


def _passwd(folder: Path) -> None:
    (folder / "E.sol").write_text('import "/etc/passwd"; contract E {}')


def _linked(folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "F.sol").symlink_to("/etc/passwd")
    (folder / "E.sol").write_text('import "lib/F.sol"; contract E {}')


def _dotted(folder: Path) -> None:
    (folder / "foundry.toml").write_text("[profile.default" + ".a" * 200_000 + "]\n")
    (folder / "E.sol").write_text("contract E {}")


FILES: Final = (
    Evil("file: a pipe that nobody fills", _fifo, r"E\.sol: is not a regular file", "E.sol"),
    Evil("file: a device without an end", _device, r"/dev/zero: leads out of the project", "."),
    Evil("file: a link to a device", _device, r"zero: is no contract|E\.sol is no contract", "E.sol"),
    Evil("file: 50 MB", _big, r"E\.sol: is larger than 4,096 KiB", "E.sol"),
    Evil("file: imports itself through a loop of links", _loop, r"which is neither in", "E.sol"),
    Evil("file: folders 100 deep", _deep, r"holds folders more than 64 deep; name one folder", "."),
    Evil("file: imports /etc/passwd", _passwd, r"/etc/passwd: leads out of the project", "E.sol"),
    Evil("file: a link to /etc/passwd", _linked, r"lib/F\.sol: leads out of the project", "E.sol"),
    Evil(
        "project: remappings that lead out",
        _files(**{"remappings.txt": "x/=/etc/\n", "E.sol": 'import "x/passwd"; contract E {}'}),
        r"/etc/passwd: leads out of the project",
        "E.sol",
    ),
    Evil(
        "project: remappings without number",
        _files(**{"remappings.txt": "a=b\n" * 20_000, "E.sol": "contract E {}"}),
        r"remappings: there are more than 1,000",
        "E.sol",
    ),
    Evil(
        "project: foundry.toml names the whole disk",
        _files(**{"foundry.toml": '[profile.default]\nsrc = "/"\n'}),
        r"foundry\.toml: src must be a folder of the project",
        ".",
    ),
    Evil(
        "project: foundry.toml with a key of 30,000 parts",
        _files(**{"foundry.toml": "a." * 30_000 + "b=1", "E.sol": "contract E {}"}),
        r"foundry\.toml: has a key of more than 16 parts",
        "E.sol",
    ),
    Evil(
        "project: foundry.toml with tables in each other",
        _files(**{"foundry.toml": "a=" + "{b=" * 9_000, "E.sol": "contract E {}"}),
        r"foundry\.toml: has more than",
        "E.sol",
    ),
    Evil(
        "project: foundry.toml skips a glob of gigabytes",
        _files(
            **{
                "foundry.toml": f'[profile.default]\nskip = ["{{{"," * 60_000}}}{"x" * 190_000}"]\n',
                "E.sol": "contract E {}",
            }
        ),
        r"foundry\.toml: skip must be a list of at most 256 globs",
        "E.sol",
    ),
    Evil(
        "project: foundry.toml of 200,000 dots", _dotted, r"foundry\.toml: is larger than 256 KiB", "E.sol"
    ),
    Evil(
        "source: imports without an end",
        _file("import " * 500_000, "E.sol"),
        r"no Solidity compiler",
        "E.sol",
    ),
    Evil(
        "source: a string without an end",
        _file('"' + '\\"' * ((2 << 20) - 1), "E.sol"),
        r"no Solidity compiler",
        "E.sol",
    ),
    Evil(
        "source: pragmas without an end",
        _file("pragma solidity " * (1 << 18), "E.sol"),
        r"no Solidity compiler",
        "E.sol",
    ),
    Evil("artifact: nests 100,000 deep", _file('{"a":' * 100_000), r"it nests too deeply"),
    Evil(
        "vyper: parentheses 20,000 deep",
        _file("x: uint256\n@external\ndef f():\n    self.x = " + "(" * 20_000 + "1" + ")" * 20_000, "E.vy"),
        r"does not compile|vyper",
        "E.vy",
    ),
    Evil(
        "vyper: compiles for a minute",
        _file(
            "\n".join(f"@external\ndef f{n}(a: DynArray[uint256, 9]) -> uint256:\n    return a[0] ** {n % 9}"
                      for n in range(5_000)),
            "E.vy",
        ),
        r"path: vyper \(E\.vy\) did not end within 1 s\. .* raise compile_seconds",
        "E.vy",
        limits={"compile_seconds": 1},
    ),
)  # fmt: skip


def _solc(script: str) -> Build:
    """A project with a program that says it is solc, and then does something else."""
    head = '#!/bin/sh\nif [ "$1" = --version ]; then echo "Version: 0.8.30"; exit; fi\n'

    def build(folder: Path) -> None:
        (folder / "E.sol").write_text("contract E {}")
        program = folder / "solc"
        program.write_text(head + script)
        program.chmod(0o755)

    return build


def _compiler(name: str, script: str, ends: str, **limits: int) -> Evil:
    return Evil(
        f"solc: {name}",
        _solc(script),
        ends,
        "E.sol",
        limits={"compile_seconds": 2, **limits},
        config={"cryticArgs": ["--solc", "solc"]},
        trusted=True,
    )


def _own_solc(folder: Path) -> None:
    package = folder / "node_modules" / "solc"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": "0.8.30"}))
    mark = json.dumps(str(folder / "taken"))
    (package / "soljson.js").write_text(f"require('fs').writeFileSync({mark}, 'x');")
    (folder / "package.json").write_text("{}")
    (folder / "E.sol").write_text("contract E {}")


_TIME: Final = r"path: solc 0\.8\.30 \(solc\) did not end within 2 s\. .* raise compile_seconds"
COMPILERS: Final = (
    _compiler("prints for ever", "exec yes", r"printed more than 128 MiB", compile_seconds=60),
    _compiler("sleeps", "exec sleep 1000", _TIME),
    _compiler("leaves others that sleep", "sleep 1000 & sleep 1000 & exec sleep 1000", _TIME),
    _compiler(
        "takes more memory than there is",
        f"exec {sys.executable} -c 'x = bytearray(1 << 33)'",
        r"path: solc 0\.8\.30 \(solc\) reached its limit of 512 MiB of memory\. .* raise compiler_memory_mb",
        compiler_memory_mb=512,
        compile_seconds=60,
    ),
    _compiler("writes a file of a gigabyte", "exec head -c 1000000000 /dev/zero > big", r"status|JSON"),
    _compiler("answers what nests", "head -c 300000 /dev/zero | tr '\\0' '['", r"did not answer in JSON"),
    _compiler(
        "prints its environment",
        "env >&2; exit 3",
        r"ended with status 3: (?!.*EVIL_SECRET)",
    ),
    Evil(
        "solc: named by a configuration that is not trusted",
        _solc("touch taken"),
        r"cryticArgs: --solc names a program to run\. .*--trust-project",
        "E.sol",
        config={"cryticArgs": ["--solc", "solc"]},
    ),
    Evil(
        "solc: in node_modules of a project that is not trusted",
        _own_solc,
        r"node_modules/solc/soljson\.js comes with the project.*--trust-project",
        "E.sol",
    ),
)

EVERY: Final = (*CONSTRUCTORS, *CALLS, *CHEATCODES, *ABIS, *FILES, *COMPILERS)
