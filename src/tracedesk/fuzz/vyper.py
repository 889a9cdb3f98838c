"""Vyper: sources compiled by the `vyper` package, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from tracedesk.foreign import block
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.project import Code, CompileError, Contract, Source
from tracedesk.fuzz.reach import ANYWHERE, Reach
from tracedesk.fuzz.sourcemap import Places, Span
from tracedesk.hosts import confined

_CHILD: Final = "tracedesk.fuzz.vyper_child"


def compile_files(
    files: Sequence[Path],
    root: Path,
    evm_version: str | None = None,
    reach: Reach = ANYWHERE,
    budget: Budget | None = None,
) -> tuple[tuple[Contract, ...], dict[str, Source], tuple[str, ...], str]:
    """Compile files with the modules they import: contracts, sources, the files' names, and by what."""
    made = _answer(files, root, evm_version, reach, budget or Budget())
    reader = _Reader(root, reach, str(made["version"]))
    contracts: list[Contract] = []
    sources: dict[str, Source] = {}
    for file, output in zip(files, made["outputs"], strict=True):
        contract, used = reader.contract(file, output)
        contracts.append(contract)
        sources |= used
    names = tuple(contract.path for contract in contracts)
    return tuple(contracts), sources, names, f"vyper {reader.version}"


def _answer(
    files: Sequence[Path], root: Path, evm_version: str | None, reach: Reach, budget: Budget
) -> dict[str, Any]:
    """The outputs of the compiler, which runs in a process of its own: a source can take it down."""
    asked = {
        "files": [str(file) for file in files],
        "root": str(root),
        "evm_version": evm_version,
        "within": [str(folder) for folder in reach.folders],
    }
    try:
        done = confined.run(confined.python(_CHILD), budget.compiler(), given=orjson.dumps(asked))
    except confined.LimitReached as found:
        raise budget.compiler_stopped(f"vyper ({files[0].name})", found) from None
    if done.status != 0:
        said = done.errors.rpartition("\n")[2]
        raise CompileError("COMPILER_FAILED", f"vyper: ended with status {done.status}: {block(said)}")
    answer: dict[str, Any] = orjson.loads(done.output)
    if "refused" in answer:
        refused = answer["refused"]
        raise CompileError(refused["kind"], refused["message"], **refused["details"])
    return answer


class _Reader:
    """Makes contracts and sources of what the compiler answered."""

    def __init__(self, root: Path, reach: Reach, version: str) -> None:
        self._root = root
        self._reach = reach
        self.version = version

    def contract(self, file: Path, output: Mapping[str, Any]) -> tuple[Contract, dict[str, Source]]:
        modules = output["modules"]
        sources = {int(module["source_id"]): self._source(module) for module in modules}
        own = sources[int(modules[0]["source_id"])]
        runtime = bytes.fromhex(output["bytecode_runtime"].removeprefix("0x"))
        section = _immutables_size(output["layout"])
        # Deployment appends the values of immutables to the code.
        places = ((len(runtime), section),) if section else ()
        contract = Contract(
            name=file.stem,
            path=own.path,
            language="vyper",
            abi=output["abi"],
            init=Code(
                bytes.fromhex(output["bytecode"].removeprefix("0x")), _places(output["source_map"], sources)
            ),
            runtime=Code(
                runtime + bytes(section), _places(output["source_map_runtime"], sources), (), places
            ),
            source_ids={number: source.path for number, source in sources.items()},
            compiler=self.version,
        )
        return contract, {source.path: source for source in sources.values()}

    def _source(self, module: Mapping[str, Any]) -> Source:
        resolved = Path(module["resolved_path"])
        if not self._reach.has(resolved):
            return Source(str(module["path"]), b"", "vyper")
        is_below = resolved.is_relative_to(self._root)
        path = resolved.relative_to(self._root).as_posix() if is_below else resolved.as_posix()
        return Source(path, self._reach.read(resolved, path), "vyper", resolved)


def _immutables_size(layout: Mapping[str, Any]) -> int:
    return max(
        (int(item["offset"]) + int(item["length"]) for item in _leaves(layout.get("code_layout", {}))),
        default=0,
    )


def _leaves(layout: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The immutables of a contract and of its modules, which nest."""
    if "offset" in layout and "length" in layout:
        return [layout]
    return [leaf for inner in layout.values() if isinstance(inner, dict) for leaf in _leaves(inner)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _places(told: Mapping[str, Any], sources: Mapping[int, Source]) -> Places:
    """Vyper's map: lines and columns by place, with the module each belongs to."""
    jumps: Mapping[str, str] = told["pc_jump_map"]
    spans: dict[int, Span] = {}
    for pc, (line, column, end_line, end_column) in told["pc_pos_map"].items():
        number = int(told["pc_ast_map"][pc][0])
        source = sources.get(number)
        if source is not None:
            start = source.offset_of(line, column)
            spans[int(pc)] = Span(
                number, start, source.offset_of(end_line, end_column) - start, jumps.get(pc, "-")
            )
    return Places(spans)
