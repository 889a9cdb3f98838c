"""Medusa, where a binary of it is on the PATH; it compiles by itself, through a solc that we give it."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.fuzz_forge import Ran, timed
from benchmarks.fuzz_ours import CONTRACT, SOURCE
from benchmarks.messages import Misbehaved
from tests.fuzz.cases import compiled
from tests.judges.install import FORGE
from tests.judges.support import node

_CALLS: Final = re.compile(r"calls: (\d+)")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
# Its engine is older than the compiler's default.
_EVM: Final = "cancun"

# It asks for the version, and for `FILE --combined-json ...`; WebAssembly answers only standard JSON.
_SOLC: Final = """
const fs = require('fs');
const solc = require(process.argv[2]);
const told = (name, ...more) => solc.cwrap(name, 'string', ...more);
if (process.argv.includes('--version')) {
  console.log(`Version: ${told('solidity_version', [])()}`);
  process.exitCode = 0;
} else {
  const file = process.argv.find((part) => part.endsWith('.sol'));
  const sources = { [file]: { content: fs.readFileSync(file, 'utf8') } };
  const outputSelection = { '*': { '*': ['abi', 'evm'], '': ['ast'] } };
  const input = { language: 'Solidity', sources, settings: { evmVersion: '@EVM@', outputSelection } };
  const compile = told('solidity_compile', ['string', 'number', 'number']);
  const answer = JSON.parse(compile(JSON.stringify(input), 0, 0));
  const contracts = {};
  for (const [name, made] of Object.entries(answer.contracts[file])) {
    const { bytecode, deployedBytecode, methodIdentifiers } = made.evm;
    contracts[`${file}:${name}`] = {
      abi: made.abi, bin: bytecode.object, 'bin-runtime': deployedBytecode.object, srcmap: bytecode.sourceMap,
      'srcmap-runtime': deployedBytecode.sourceMap, hashes: methodIdentifiers, userdoc: {}, devdoc: {},
    };
  }
  const asts = { [file]: { AST: answer.sources[file].ast } };
  fs.writeFileSync(1, JSON.stringify({ contracts, sourceList: [file], sources: asts, version: '@VERSION@' }));
}
"""


@dataclass(frozen=True, slots=True)
class Medusa:
    """A folder that Medusa fuzzes."""

    binary: str
    folder: Path

    def run(self, calls: int) -> Ran:
        """One campaign; it runs on for a while after so many calls."""
        (self.folder / "medusa.json").write_text(json.dumps(_settings(calls)), encoding="utf-8")
        path = f"PATH={self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        command = ("env", path, "GOMAXPROCS=1", self.binary, "fuzz", "--config", "medusa.json", "--no-color")
        out, cpu, wall = timed(command, self.folder)
        told = _CALLS.findall(out)
        if not told:
            raise Misbehaved(f"medusa told no calls: {out[-500:]}")
        return Ran(int(told[-1]), cpu, wall)


def version() -> str | None:
    """Of the binary on the PATH; none when there is none."""
    binary = shutil.which("medusa")
    if binary is None:
        return None
    out, _, _ = timed((binary, "--version"), Path.cwd())
    told = _VERSION.search(out)
    return told[0] if told else "unknown"


def ready(folder: Path) -> Medusa | None:
    """Everything in place for campaigns; none when it is not installed."""
    binary = shutil.which("medusa")
    if binary is None:
        return None
    folder.mkdir(parents=True)
    shutil.copyfile(compiled.CONTRACTS / SOURCE, folder / SOURCE)
    _compiler(folder)
    return Medusa(binary, folder)


def _compiler(folder: Path) -> None:
    script, command = folder / "solc.js", folder / "bin" / "solc"
    command.parent.mkdir()
    script.write_text(_SOLC.replace("@EVM@", _EVM).replace("@VERSION@", compiled.VERSION), encoding="utf-8")
    soljson = FORGE.require("node_modules", "solc", "soljson.js")
    command.write_text(
        f'#!/bin/sh\nexec "{node()}" --stack-size=8192 "{script}" "{soljson}" "$@"\n', encoding="utf-8"
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def _settings(calls: int) -> dict[str, Any]:
    testing = {
        "stopOnFailedTest": False,
        "assertionTesting": {"enabled": False},
        "optimizationTesting": {"enabled": False},
        "propertyTesting": {"enabled": True, "testPrefixes": ["echidna_"]},
        "testViewMethods": True,
        "excludeFunctionSignatures": [f"{CONTRACT}.spin(uint256)"],
    }
    fuzzing = {
        "workers": 1,
        "testLimit": calls,
        "callSequenceLength": 100,
        "coverageEnabled": True,
        "targetContracts": [CONTRACT],
        "testing": testing,
    }
    compilation = {"platform": "solc", "platformConfig": {"target": SOURCE}}
    return {"fuzzing": fuzzing, "compilation": compilation, "slither": {"useSlither": False}}
