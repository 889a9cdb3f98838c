"""Vyper: sources compiled by the `vyper` package, in this process."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tracedesk.fuzz.project import Code, CompileError, Contract, Source
from tracedesk.fuzz.reach import ANYWHERE, Reach
from tracedesk.fuzz.sourcemap import Places, Span

_FORMATS: Final = (
    "abi",
    "bytecode",
    "bytecode_runtime",
    "source_map",
    "source_map_runtime",
    "layout",
    "annotated_ast_dict",
)
_WHERE: Final = re.compile(r'contract "([^"]*?)(?::(\d+))?"')


def compile_files(
    files: Sequence[Path], root: Path, evm_version: str | None = None, reach: Reach = ANYWHERE
) -> tuple[tuple[Contract, ...], dict[str, Source], tuple[str, ...], str]:
    """Compile files with the modules they import: contracts, sources, the files' names, and by what."""
    compiler = _Compiler(root, evm_version, reach)
    contracts: list[Contract] = []
    sources: dict[str, Source] = {}
    for file in files:
        contract, used = compiler.compile(file)
        contracts.append(contract)
        sources |= used
    names = tuple(contract.path for contract in contracts)
    return tuple(contracts), sources, names, f"vyper {compiler.version}"


class _Compiler:
    """The package, imported when the first Vyper file comes."""

    def __init__(self, root: Path, evm_version: str | None, reach: Reach) -> None:
        try:
            package: Any = importlib.import_module("vyper")
        except ImportError:
            raise CompileError(
                "NO_COMPILER",
                "Vyper sources need the package `vyper`; install it, for example with tracedesk[fuzz].",
            ) from None
        self._compiler: Any = importlib.import_module("vyper.compiler")
        bundle: Any = importlib.import_module("vyper.compiler.input_bundle")
        self._settings: Any = importlib.import_module("vyper.compiler.settings").Settings
        self._errors: Any = importlib.import_module("vyper.exceptions")
        self._bundle: type[Any] = _kept(
            bundle.FilesystemInputBundle, bundle.FileInput, self._read, reach.holds
        )
        self._root = root
        self._reach = reach
        self._refused: CompileError | None = None
        self._evm_version = evm_version
        self.version = str(package.__version__)

    def compile(self, file: Path) -> tuple[Contract, dict[str, Source]]:
        try:
            output = self._output(file)
        except (self._errors.VyperException, self._errors.VyperInternalException) as fault:
            if self._refused is not None:
                # Vyper makes an internal error of its own of it.
                raise self._refused from None
            raise self._explained(file, str(fault)) from None
        except (SyntaxError, UnicodeDecodeError, ValueError) as fault:
            raise self._explained(file, f"{type(fault).__name__}: {fault}") from None
        return self._contract(file, output)

    def _output(self, file: Path) -> Mapping[str, Any]:
        bundle = self._bundle([self._root, file.parent])
        settings = self._settings(evm_version=self._evm_version)
        return self._compiler.compile_from_file_input(
            bundle.load_file(file), input_bundle=bundle, settings=settings, output_formats=list(_FORMATS)
        )

    def _read(self, file: Path) -> str:
        try:
            return self._reach.read(file, file.name).decode("utf-8")
        except CompileError as refused:
            self._refused = refused
            raise

    def _contract(self, file: Path, output: Mapping[str, Any]) -> tuple[Contract, dict[str, Source]]:
        tree = output["annotated_ast_dict"]
        modules = [tree["ast"], *tree["imports"]]
        sources = {int(module["source_id"]): self._source(module) for module in modules}
        own = sources[int(tree["ast"]["source_id"])]
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

    def _explained(self, file: Path, text: str) -> CompileError:
        where = _WHERE.search(text)
        head = text.strip().split("\n")[0]
        name = Path(where[1]).name if where and where[1] else file.name
        place = f"{name}:{where[2]}" if where and where[2] else name
        message = f"{place}: {head}"
        return CompileError(
            "DOES_NOT_COMPILE",
            f"The source does not compile with vyper {self.version}: {message}",
            messages=[message],
        )


def _kept(
    base: type[Any], made: type[Any], read: Callable[[Path], str], kept: Callable[[Path], bool]
) -> type[Any]:
    """Vyper's way to its files, which ends at what may be read."""

    class Kept(base):
        def _normalize_path(self, path: Path) -> Path:
            # What is not there is looked for elsewhere; what lies outside is refused when it is read.
            return path.resolve() if not kept(path) else base._normalize_path(self, path)

        def _load_from_path(self, resolved_path: Path, original_path: Path) -> Any:
            text = read(resolved_path)
            return made(self._generate_source_id(resolved_path), original_path, resolved_path, text)

    return Kept


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
    jumps: Mapping[int, str] = told["pc_jump_map"]
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
