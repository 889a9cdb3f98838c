"""forge, as npm brings it: a project in a folder of its own, one campaign, and what it cost."""

from __future__ import annotations

import json
import os
import platform
import resource
import stat
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.messages import Misbehaved
from tests.judges.install import FORGE
from tests.judges.support import node

VERSION: Final = "1.7.1"
TEST: Final = "test/Campaign.t.sol"
_BUILDS: Final = {("Linux", "x86_64"): "linux-amd64", ("Darwin", "arm64"): "darwin-arm64"}
_EVM: Final = "osaka"

# forge asks a compiler for its version and for standard JSON, which is all that this one can do.
_SOLC: Final = """
const fs = require('fs');
const solc = require(process.argv[2]);
const told = (name, ...more) => solc.cwrap(name, 'string', ...more);
const answer = process.argv.includes('--version')
  ? `solc, in node\\nVersion: ${told('solidity_version', [])()}\\n`
  : told('solidity_compile', ['string', 'number', 'number'])(fs.readFileSync(0, 'utf8'), 0, 0);
const out = Buffer.from(answer);
let sent = 0;
while (sent < out.length) {
  try { sent += fs.writeSync(1, out, sent); } catch (fault) { if (fault.code !== 'EAGAIN') throw fault; }
}
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a fuzzer as a process of its own."""

    calls: int
    cpu_s: float
    wall_s: float


def binary() -> Path | None:
    """forge's own binary for this machine; none when it is not installed."""
    build = _BUILDS.get((platform.system(), platform.machine()))
    if build is None:
        return None
    path = FORGE.home / "node_modules" / "@foundry-rs" / f"forge-{build}" / "bin" / "forge"
    return path if path.exists() else None


def timed(command: Iterable[str | Path], cwd: Path) -> tuple[str, float, float]:
    """Run to the end: what it printed, its CPU seconds with those of its children, and the wall clock."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    ran = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 0:
        raise Misbehaved(f"{command}: ended with {ran.returncode}: {(ran.stderr or ran.stdout)[-2000:]}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ran.stdout, spent, wall


@dataclass(frozen=True, slots=True)
class Project:
    """A folder that forge tests."""

    folder: Path
    forge: Path

    @classmethod
    def make(cls, folder: Path, forge: Path, files: Mapping[str, str]) -> Project:
        """Write the sources and build them, so that no later run pays for the compiler."""
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        _compiler(folder)
        made = cls(folder, forge)
        made.configure(1, 1, is_guided=False, seed=1)
        timed((forge, "build"), folder)
        return made

    def configure(self, runs: int, depth: int, *, is_guided: bool, seed: int) -> None:
        corpus = 'corpus_dir = "corpus"\n' if is_guided else ""
        (self.folder / "foundry.toml").write_text(
            "[profile.default]\n"
            f'src = "src"\ntest = "test"\nlibs = []\noffline = true\nsolc = "{self.folder / "solc"}"\n'
            f'evm_version = "{_EVM}"\nfs_permissions = [{{ access = "read-write", path = "./" }}]\n'
            f'[fuzz]\nseed = "0x{seed:x}"\n'
            f"[invariant]\nruns = {runs}\ndepth = {depth}\nfail_on_revert = false\n{corpus}",
            encoding="utf-8",
        )

    def campaign(self, runs: int, depth: int, *, is_guided: bool, seed: int) -> Ran:
        """One invariant campaign on one thread, from an empty corpus."""
        self.configure(runs, depth, is_guided=is_guided, seed=seed)
        _remove(self.folder / "corpus")
        _remove(self.folder / "cache" / "invariant")
        out, cpu, wall = timed((self.forge, "test", "--threads", "1", "--json"), self.folder)
        return Ran(_calls(out), cpu, wall)


def _compiler(folder: Path) -> None:
    script, command = folder / "solc.js", folder / "solc"
    script.write_text(_SOLC, encoding="utf-8")
    soljson = FORGE.require("node_modules", "solc", "soljson.js")
    command.write_text(
        f'#!/bin/sh\nexec "{node()}" --stack-size=8192 "{script}" "{soljson}" "$@"\n', encoding="utf-8"
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else os.unlink(path)


def _calls(out: str) -> int:
    """Of the only test; the last line that names it, since progress may come before."""
    for line in reversed(out.splitlines()):
        if line.startswith("{") and '"test_results"' in line:
            (suite,) = json.loads(line).values()
            (result,) = suite["test_results"].values()
            return int(result["kind"]["Invariant"]["calls"])
    raise Misbehaved(f"forge told no calls: {out[-500:]}")
