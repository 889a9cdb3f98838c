"""Contracts that another tool compiled: Foundry, Hardhat, crytic-compile, or solc itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracedesk.foreign import named, quoted
from tracedesk.fuzz.bytecode import PUSH32, instructions, library_address
from tracedesk.fuzz.project import Abi, Code, CompileError, Contract, Link, Source
from tracedesk.fuzz.reach import ANYWHERE, LARGEST_OUTPUT, Reach
from tracedesk.fuzz.solidity import (
    abi_of,
    bytes_of,
    code_of,
    contracts_of,
    map_of,
    placeholder,
    refuse_errors,
)
from tracedesk.fuzz.told import Told

_PLACEHOLDER: Final = re.compile(r"__.{36}__")
_HARDHAT_PROJECT: Final = "project/"
_SURROGATE: Final = b"\\ud"
"""How half a character may be spelt, which no name and no text can hold."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What artifacts hold, and the sources that changed since they were made."""

    contracts: tuple[Contract, ...]
    """Those whose sources are as they were."""
    sources: Mapping[str, Source]
    origin: str
    stale: tuple[str, ...] = ()


def _load(path: Path, reach: Reach, name: str = "") -> Told:
    shown = name or path.name
    data = reach.read(path, shown, LARGEST_OUTPUT)
    try:
        found: Any = json.loads(data)
        if _SURROGATE in data.lower():
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as fault:
        why = "it nests too deeply" if isinstance(fault, RecursionError) else fault
        raise CompileError("BAD_ARTIFACT", f"{shown}: is not JSON: {why}. Build the project again.") from None
    if not isinstance(found, dict):
        raise CompileError(
            "BAD_ARTIFACT", f"{shown}: is no JSON object; name an output of solc or a builder."
        )
    return Told(found, shown)


# --- Foundry -----------------------------------------------------------------------------------------


def foundry(root: Path, out: str, reach: Reach = ANYWHERE) -> Reading | None:
    """What `forge build` left in its output folder; none when there is nothing."""
    folder = reach.keep(root / out, f"foundry.toml: out: {named(out[:120])}")
    tables = _id_tables(folder / "build-info", reach)
    if not tables:
        return None
    builds = _builds(root, reach)
    sources: dict[str, Source] = {}
    contracts: dict[str, Contract] = {}
    stale: dict[str, None] = {}
    for path in _oldest_first(folder, "**/*.json"):
        if path.parent.name == "build-info":
            continue
        described = _load(path, reach, f"{path.parent.name}/{path.name}")
        contract = _foundry_contract(path, described, tables, builds.get(path.relative_to(folder).as_posix()))
        if contract is None:
            continue
        unknown = [path for path in (*contract.source_ids.values(), *contract.needs) if path not in sources]
        sources |= {path: source for path in unknown for source in _on_disk(root, path, reach)}
        changed = tuple(_changed(described, path, sources))
        stale |= dict.fromkeys(changed)
        if changed:
            contracts.pop(contract.qualified, None)
        else:
            contracts[contract.qualified] = contract
    if not contracts and not stale:
        return None
    ordered = tuple(contracts[name] for name in sorted(contracts))
    return Reading(ordered, sources, f"Foundry artifacts in {out}/", tuple(stale))


def _oldest_first(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda path: path.lstat().st_mtime_ns)


def _id_tables(folder: Path, reach: Reach) -> dict[str, dict[int, str]]:
    """The numbers of sources by build, the newest build first."""
    tables: dict[str, dict[int, str]] = {}
    for path in reversed(_oldest_first(folder, "*.json")):
        table = _load(path, reach, f"build-info/{path.name}").at("source_id_to_path")
        tables[path.stem] = {_id(number, name): name.text() for number, name in table.items()}
    return tables


def _id(number: str, told: Told) -> int:
    """The number of a source, which JSON must have as text."""
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise told.refusal("listed under the number of a source")
    return int(number)


def _builds(root: Path, reach: Reach) -> dict[str, str]:
    """Which build made an artifact, from Foundry's cache."""
    path = root / "cache" / "solidity-files-cache.json"
    files = _load(path, reach).at("files").items() if reach.has(path) else ()
    made = [
        build
        for _, file in files
        for _, versions in file.at("artifacts").items()
        for _, profiles in versions.items()
        for _, build in profiles.items()
    ]
    return {build.at("path").text(): build.at("build_id").text() for build in made if "build_id" in build}


def _foundry_contract(
    path: Path, described: Told, tables: Mapping[str, Mapping[int, str]], build: str | None
) -> Contract | None:
    """The contract of one artifact; none for files that hold no contract, or one of Vyper."""
    if "abi" not in described or "bytecode" not in described or "id" not in described:
        return None
    number = described.at("id").number()
    fitting = (table for table in tables.values() if table.get(number, "").endswith(path.parent.name))
    table = tables.get(build or "") or next(fitting, None)
    if table is None or number not in table:
        raise CompileError(
            "BAD_ARTIFACT",
            f"{quoted(f'{path.parent.name}/{path.name}')}: no build-info has its source id; "
            "run `forge build --force`.",
        )
    if table[number].endswith((".vy", ".vyi")):
        return None
    metadata = described.at("metadata")
    targets = [name.text() for _, name in metadata.at("settings").at("compilationTarget").items()]
    name = targets[0] if targets else path.name.split(".")[0]
    version = metadata.at("compiler").at("version").text()
    init, runtime = code_of(described.at("bytecode")), code_of(described.at("deployedBytecode"))
    abi = abi_of(described.at("abi"))
    needs = tuple(name for name, _ in metadata.at("sources").items())
    return Contract(name, table[number], "solidity", abi, init, runtime, table, version, needs)


def _on_disk(root: Path, path: str, reach: Reach) -> Iterator[Source]:
    file = reach.keep(root / path, f"{path}:")
    if reach.has(file):
        yield Source(path, reach.read(file, path), "solidity", file.resolve())


def _changed(described: Told, artifact: Path, sources: Mapping[str, Source]) -> Iterator[str]:
    """Sources that are not what the artifact was made from; hashed only when their file is newer."""
    made = artifact.stat().st_mtime_ns
    for path, told in described.at("metadata").at("sources").items():
        source = sources.get(path)
        if source is None or source.file is None:
            yield path
        elif source.file.stat().st_mtime_ns > made:
            digest = told.at("keccak256").text()
            if digest != source.digest:
                yield path


# --- Hardhat and standard JSON ----------------------------------------------------------------------


def hardhat(root: Path, reach: Reach = ANYWHERE) -> Reading | None:
    """What `hardhat compile` left in artifacts/build-info; none when there is nothing."""
    folder = reach.keep(root / "artifacts" / "build-info", "artifacts/build-info")
    contracts: dict[str, Contract] = {}
    sources: dict[str, Source] = {}
    stale: dict[str, None] = {}
    for path in _oldest_first(folder, "*.json"):
        if path.name.endswith(".output.json"):
            continue
        reading = build_info(path, root, reach)
        # A later build replaces an earlier one of the same source.
        stale = {name: None for name in stale if name not in reading.sources} | dict.fromkeys(reading.stale)
        contracts = {name: each for name, each in contracts.items() if each.path not in reading.sources}
        current = (each for each in reading.contracts if not _is_stale(each, reading.stale))
        contracts |= {contract.qualified: contract for contract in current}
        sources |= reading.sources
    if not contracts and not stale:
        return None
    return Reading(tuple(contracts.values()), sources, "Hardhat artifacts in artifacts/", tuple(stale))


def _is_stale(contract: Contract, stale: tuple[str, ...]) -> bool:
    """Whether a source of the contract changed; any source where the build does not list them by contract."""
    return bool(set(contract.needs or stale) & set(stale))


def build_info(path: Path, root: Path, reach: Reach = ANYWHERE) -> Reading:
    """A build-info file, with its output beside it or in it."""
    build = _load(path, reach)
    beside = path.with_name(f"{path.stem}.output.json")
    output = build.at("output")
    if not output and reach.has(beside):
        output = _load(beside, reach).at("output")
    if not output:
        raise CompileError(
            "BAD_ARTIFACT",
            f"{quoted(path.name)}: has no compiler output; build again "
            "(Foundry: `forge build --build-info`).",
        )
    refuse_errors(output.object(), path.name)
    given = build.at("input").at("sources").items()
    sources = {name: source for name, told in given for source in _given(root, name, told, reach)}
    stale = tuple(name for name, source in sources.items() if _differs(source, reach))
    contracts = contracts_of(output.object(), build.at("solcVersion").text(), path.name)
    return Reading(contracts, sources, path.name, stale)


def _given(root: Path, name: str, told: Told, reach: Reach) -> Iterator[Source]:
    """A source as the compiler was given it, with its file where one can be found."""
    trials = (root / name, root / "node_modules" / name, root / name.removeprefix(_HARDHAT_PROJECT))
    yield from _source(name, told.at("content"), trials, reach)


def _source(name: str, content: Told, trials: tuple[Path, ...], reach: Reach) -> Iterator[Source]:
    """A source whose text is told, else read from the first file there is."""
    file = next((path.resolve() for path in trials if reach.has(path)), None)
    if content.value is not None:
        yield Source(name, content.text().encode("utf-8", "replace"), "solidity", file)
    elif file is not None:
        yield Source(name, reach.read(file, name), "solidity", file)
    else:
        reach.keep(trials[0], f"{name}:")


def _differs(source: Source, reach: Reach) -> bool:
    return source.file is not None and reach.read(source.file, source.path) != source.data


# --- one JSON file ------------------------------------------------------------------------------------


def document(path: Path, root: Path, reach: Reach = ANYWHERE) -> Reading:
    """A single file: an export of crytic-compile, or solc's standard or combined output."""
    told = _load(path, reach)
    if "compilation_units" in told:
        return _crytic(told, path, root, reach)
    if "input" in told or "output" in told:
        return build_info(path, root, reach)
    contracts = dict(told.at("contracts").items())
    if contracts and all(":" in name for name in contracts):
        return _combined(told, path, root, reach)
    refuse_errors(told.object(), path.name)
    if contracts:
        names = [name for name, _ in told.at("sources").items()]
        sources = {name: source for name in names for source in _on_disk(root, name, reach)}
        return Reading(contracts_of(told.object(), "", path.name), sources, path.name)
    raise CompileError(
        "BAD_ARTIFACT",
        f"{quoted(path.name)}: is neither an export of crytic-compile nor a build-info or JSON output "
        "of solc.",
    )


def _combined(told: Told, path: Path, root: Path, reach: Reach) -> Reading:
    names = [_below(name.text(), root) for name in told.at("sourceList").each()]
    ids = dict(enumerate(names))
    rows = [(*key.rsplit(":", 1), row) for key, row in told.at("contracts").items()]
    known = _placeholders([(where, name) for where, name, _ in rows], root)
    version = told.at("version").text()
    contracts = tuple(
        _plain_contract(name, _below(where, root), row, ids, known, version) for where, name, row in rows
    )
    sources = {name: source for name in names for source in _on_disk(root, name, reach)}
    return Reading(contracts, sources, path.name)


def _crytic(told: Told, path: Path, root: Path, reach: Reach) -> Reading:
    contents = told.at("source_content")
    contracts: list[Contract] = []
    sources: dict[str, Source] = {}
    for _, unit in told.at("compilation_units").items():
        units = {_below(name, root): part for name, part in unit.at("source_units").items()}
        ids = {_ast_id(part): name for name, part in units.items()}
        files = {
            _below(file.at("used").text(), root): file.at("absolute").text()
            for file in unit.at("filenames").each()
        }
        version = unit.at("compiler").at("version").text()
        for name, part in units.items():
            absolute = files.get(name, name)
            trials = (root / name, Path(absolute))
            found = _source(name, contents.at(absolute), trials, reach)
            sources |= {source.path: source for source in found}
            for own, row in part.at("contracts").items():
                marks = row.at("libraries").items()
                known = {mark.text(): ("", library) for library, mark in marks}
                contracts.append(_plain_contract(own, name, row, ids, known, version))
    return Reading(tuple(contracts), sources, path.name)


def _ast_id(part: Told) -> int:
    place = part.at("ast").at("src")
    fields = place.text().split(":")
    if place.text() and (len(fields) != 3 or not fields[2].isascii() or not fields[2].isdigit()):
        raise place.refusal("a place such as 0:120:3")
    return int(fields[2][:9]) if place.text() else 0


def _below(name: str, root: Path) -> str:
    path = Path(name)
    is_below = path.is_absolute() and path.is_relative_to(root)
    return path.relative_to(root).as_posix() if is_below else path.as_posix()


def _placeholders(names: list[tuple[str, str]], root: Path) -> dict[str, tuple[str, str]]:
    """What stands in a code for each contract of a build, were it a library, by all names of its file."""
    found: dict[str, tuple[str, str]] = {}
    for where, name in names:
        short = _below(where, root)
        for path in {where, short, Path(where).name}:
            found[placeholder(f"{path}:{name}")] = (short, name)
    return found


def _plain_contract(
    name: str,
    path: str,
    row: Told,
    ids: Mapping[int, str],
    libraries: Mapping[str, tuple[str, str]],
    compiler: str,
) -> Contract:
    """A contract told as `bin`, `bin-runtime`, `srcmap` and `srcmap-runtime`."""
    init = _plain_code(row.at("bin"), row.at("srcmap"), libraries)
    runtime = _plain_code(row.at("bin-runtime"), row.at("srcmap-runtime"), libraries)
    immutables = (*library_address(runtime.data), *_blank_pushes(runtime))
    runtime = Code(runtime.data, runtime.map, runtime.links, immutables)
    return Contract(name, path, "solidity", _plain_abi(row.at("abi")), init, runtime, ids, compiler)


def _plain_abi(told: Told) -> Abi:
    """An interface, which old versions of solc wrote as JSON in JSON."""
    if not isinstance(told.value, str):
        return abi_of(told)
    try:
        return abi_of(Told(json.loads(told.value), told.file, told.place))
    except (ValueError, RecursionError):
        raise told.refusal("a list of functions, or JSON of one") from None


def _plain_code(told: Told, srcmap: Told, libraries: Mapping[str, tuple[str, str]]) -> Code:
    text = told.text().removeprefix("0x")
    links: list[Link] = []
    for match in _PLACEHOLDER.finditer(text):
        where, library = libraries.get(match[0], ("", ""))
        if not library:
            raise told.refusal(f"code of libraries that are in the file ({match[0]} is not)")
        links.append(Link(where, library, match.start() // 2))
    return Code(bytes_of(told, _PLACEHOLDER.sub("0" * 40, text)), map_of(srcmap), tuple(links))


def _blank_pushes(code: Code) -> Iterator[tuple[int, int]]:
    """Immutables where no list names them: solc pushes 32 zero bytes for nothing else."""
    for instruction in instructions(code.data, code.map.instructions):
        if instruction.opcode == PUSH32 and instruction.operand == 0:
            yield instruction.pc + 1, 32
