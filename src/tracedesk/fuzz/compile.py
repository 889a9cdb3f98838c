"""From a path to a compiled project: a Vyper file, Solidity files, a folder, or what another tool built."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tracedesk.foreign import listed
from tracedesk.fuzz import artifacts, braces, solidity, vyper
from tracedesk.fuzz.artifacts import Reading
from tracedesk.fuzz.imports import Settings, settings_of
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.project import CompileError, Contract, Project, Source
from tracedesk.fuzz.reach import ANYWHERE, Reach
from tracedesk.fuzz.solc import Places, compilers, withheld

_MARKS: Final = ("foundry.toml", "remappings.txt", "package.json", ".git")
_SKIPPED: Final = frozenset(
    ("node_modules", "lib", "out", "artifacts", "cache", "broadcast", "typechain-types")
)
_MOST: Final = 2_000
"""Files of a folder that are compiled at once."""
_DEEPEST: Final = 64
"""Folders inside each other that are searched for sources."""
_SOME: Final = 6
"""Files that a warning names."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile; what is not given, the project's own settings and the compiler decide."""

    places: Places = field(default_factory=Places)
    remappings: tuple[str, ...] = ()
    evm_version: str | None = None
    optimizer_runs: int | None = None
    """Switches solc's optimizer on."""
    via_ir: bool = False
    use_artifacts: bool = True
    """Take what Foundry or Hardhat built, when it is up to date."""
    within: tuple[Path, ...] = ()
    """Folders that everything read must lie in: sources, imports, settings, artifacts; empty allows any."""
    budget: Budget = field(default_factory=Budget)
    """Limits of the compilers."""

    @property
    def choices(self) -> dict[str, Any]:
        """Of solc's settings, those that the caller decides."""
        found: dict[str, Any] = {}
        if self.evm_version is not None:
            found["evmVersion"] = self.evm_version
        if self.optimizer_runs is not None:
            found["optimizer"] = {"enabled": True, "runs": self.optimizer_runs}
        if self.via_ir:
            found["viaIR"] = True
        return found


def compile_project(path: Path, options: Options | None = None) -> Project:
    """Compile a target, or read what was compiled; raises `CompileError` naming the file and the remedy."""
    chosen = options or Options()
    reach = Reach(chosen.within)
    project = _compiled(path, chosen, reach)
    for source in project.sources.values():
        if source.file is not None:
            reach.keep(source.file, f"{source.path}:")
    return project


def _compiled(path: Path, options: Options, reach: Reach) -> Project:
    target = reach.keep(path.absolute(), f"path: {path}")
    if not target.exists():
        raise CompileError(
            "NO_SOURCE", f"path: {path} does not exist; name a .sol, .vy or .json file or a folder."
        )
    target = target.resolve()
    if target.is_dir():
        return _folder(target, options, reach)
    root = root_of(target.parent, reach)
    match target.suffix:
        case ".vy":
            return _project(root, _vyper((target,), root, options, reach))
        case ".sol":
            settings = settings_of(root, options.remappings, reach)
            return _project(root, _solidity((target,), root, settings, options, reach))
        case ".json":
            return _document(target, root, reach)
        case _:
            raise CompileError(
                "NO_SOURCE", f"path: {path.name} is no contract; name a .sol, .vy or .json file."
            )


def root_of(folder: Path, reach: Reach = ANYWHERE) -> Path:
    """The project that a folder belongs to: the nearest with a builder's files, else the folder itself."""
    home = Path.home()
    for candidate in (folder, *folder.parents):
        if candidate in (home, Path(candidate.anchor)) or not reach.holds(candidate):
            break
        if any((candidate / mark).exists() for mark in _MARKS) or any(candidate.glob("hardhat.config.*")):
            return candidate
    return folder


@dataclass(frozen=True, slots=True)
class _Compiled:
    contracts: tuple[Contract, ...]
    sources: Mapping[str, Source]
    targets: tuple[str, ...]
    origin: str
    unbuilt: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def _project(root: Path, *parts: _Compiled) -> Project:
    sources = {path: source for part in parts for path, source in part.sources.items()}
    return Project(
        root,
        tuple(contract for part in parts for contract in part.contracts),
        sources,
        tuple(target for part in parts for target in part.targets),
        ", ".join(part.origin for part in parts),
        tuple(name for part in parts for name in part.unbuilt),
        tuple(warning for part in parts for warning in part.warnings),
    )


def _vyper(files: tuple[Path, ...], root: Path, options: Options, reach: Reach) -> _Compiled:
    return _Compiled(*vyper.compile_files(files, root, options.evm_version, reach, options.budget))


def _folder(folder: Path, options: Options, reach: Reach) -> Project:
    root = root_of(folder, reach)
    settings = settings_of(root, options.remappings, reach)
    bases = [root / name for name in settings.folders] if folder == root and settings.folders else [folder]
    # A folder of tests may lie in the folder of sources.
    found = dict.fromkeys(file for base in bases for file in _files(base))
    files = [file for file in found if not settings.skips.match(_below(file, root))]
    if len(files) > _MOST:
        raise CompileError(
            "NO_SOURCE", f"path: {folder.name} holds more than {_MOST} contracts; name one folder or file."
        )
    sols = tuple(file for file in files if file.suffix == ".sol")
    vys = tuple(file for file in files if file.suffix == ".vy")
    if not files:
        reading = _built(root, settings, reach) if options.use_artifacts else None
        if reading is None:
            raise CompileError(
                "NO_SOURCE", f"path: {folder.name} holds no .sol or .vy file; name a folder that does."
            )
        return _project(root, _read(reading, ()))
    parts = [_solidity(sols, root, settings, options, reach)] if sols else []
    return _project(root, *parts, *([_vyper(vys, root, options, reach)] if vys else []))


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        if where.count(os.sep) - str(folder).count(os.sep) > _DEEPEST:
            message = f"path: {folder.name} holds folders more than {_DEEPEST} deep; name one folder or file."
            raise CompileError("NO_SOURCE", message)
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        yield from (Path(where) / name for name in sorted(names) if name.endswith((".sol", ".vy")))


def _solidity(
    files: tuple[Path, ...], root: Path, settings: Settings, options: Options, reach: Reach
) -> _Compiled:
    """Artifacts file by file where they are up to date, and a compiler for the other files."""
    # What the caller decides about the compiler, artifacts cannot answer.
    reading = _built(root, settings, reach) if options.use_artifacts and not options.choices else None
    if reading is None:
        return _with_solc(files, root, settings, options, reach)
    named = {file: _below(file, root) for file in files}
    lacking = _lacking(reading, named, reach)
    if not lacking:
        return _read(reading, tuple(named.values()))
    try:
        made = _with_solc(lacking, root, settings, options, reach)
    except CompileError as fault:
        return _partly(reading, named, lacking, fault)
    return _joined(_read(reading, tuple(named.values())), made)


def _with_solc(
    files: tuple[Path, ...], root: Path, settings: Settings, options: Options, reach: Reach
) -> _Compiled:
    at_hand = compilers(options.places, root, options.budget)
    held = withheld(options.places, root)
    return _Compiled(*solidity.compile_files(files, root, settings, at_hand, options.choices, reach, held))


def _partly(
    reading: Reading, named: Mapping[Path, str], lacking: tuple[Path, ...], fault: CompileError
) -> _Compiled:
    """The files with current artifacts, when the others do not compile; refuses when there are none."""
    unbuilt = tuple(named[file] for file in lacking)
    if len(unbuilt) == len(named):
        if fault.details and fault.details["kind"] == "NO_COMPILER":
            raise CompileError(
                "STALE_ARTIFACTS",
                f"{reading.origin} do not match {unbuilt[0]}, and no compiler fits. Build the project again "
                f"(forge build or hardhat compile). {fault.message}",
                stale=list(unbuilt),
            )
        raise fault
    some = listed(list(unbuilt[:_SOME])) + (f" and {len(unbuilt) - _SOME} more" if unbuilt[_SOME:] else "")
    warning = (
        f"{some}: left out, for {reading.origin} do not match and it does not compile. Build the project "
        f"again (forge build or hardhat compile). {fault.message}"
    )
    return replace(_read(reading, tuple(named.values())), unbuilt=unbuilt, warnings=(warning,))


def _joined(read: _Compiled, made: _Compiled) -> _Compiled:
    """Artifacts with what was compiled beside them, which comes first."""
    fresh = {contract.qualified: contract for contract in made.contracts}
    kept = {contract.qualified: contract for contract in read.contracts if contract.path not in made.targets}
    sources = {**read.sources, **made.sources}
    targets = tuple(dict.fromkeys((*read.targets, *made.targets)))
    origin = f"{read.origin}, {made.origin}"
    return _Compiled(tuple({**kept, **fresh}.values()), sources, targets, origin)


def _below(file: Path, root: Path) -> str:
    return Path(os.path.relpath(file, root)).as_posix()


def _built(root: Path, settings: Settings, reach: Reach) -> Reading | None:
    return artifacts.foundry(root, settings.out, reach) or artifacts.hardhat(root, reach)


def _lacking(reading: Reading, named: Mapping[Path, str], reach: Reach) -> tuple[Path, ...]:
    """The files with contracts of which the artifacts hold none, or none that is up to date."""
    covered = {path for contract in reading.contracts for path in _names(reading, contract)}
    return tuple(
        file for file, name in named.items() if name not in covered and _has_contract(reach.read(file, name))
    )


def _names(reading: Reading, contract: Contract) -> Iterator[str]:
    yield contract.path
    source = reading.sources.get(contract.path)
    if source is not None and source.file is not None:
        yield source.file.as_posix()
        yield contract.path.removeprefix("project/")


def _has_contract(data: bytes) -> bool:
    return braces.has_contract(braces.hidden(data.decode("latin-1")))


def _read(reading: Reading, names: tuple[str, ...]) -> _Compiled:
    known = {name: path for path in reading.sources for name in (path, path.removeprefix("project/"))}
    targets = tuple(known[name] for name in names if name in known)
    return _Compiled(reading.contracts, reading.sources, targets, reading.origin)


def _document(file: Path, root: Path, reach: Reach) -> Project:
    reading = artifacts.document(file, root, reach)
    if not reading.contracts:
        raise CompileError("BAD_ARTIFACT", f"{file.name}: holds no contract; build the project again.")
    return _project(root, _read(reading, ()))
