"""The process that compiles Vyper: one request as JSON on its input, one answer on its output."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tracedesk.foreign import block
from tracedesk.fuzz.project import CompileError
from tracedesk.fuzz.reach import Reach

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


class _Compiler:
    """The package `vyper`, with files read as the project allows it."""

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

    def compile(self, file: Path) -> dict[str, Any]:
        try:
            return _plain(self._output(file))
        except (self._errors.VyperException, self._errors.VyperInternalException) as fault:
            if self._refused is not None:
                # Vyper makes an internal error of its own of it.
                raise self._refused from None
            raise self._explained(file, str(fault)) from None
        except (SyntaxError, UnicodeDecodeError, ValueError, RecursionError) as fault:
            raise self._explained(file, f"{type(fault).__name__}: {fault}") from None

    def _output(self, file: Path) -> Mapping[str, Any]:
        bundle = self._bundle([self._root, file.parent])
        settings = self._settings(evm_version=self._evm_version)
        return self._compiler.compile_from_file_input(
            bundle.load_file(file), input_bundle=bundle, settings=settings, output_formats=list(_FORMATS)
        )

    def _read(self, file: Path) -> str:
        try:
            self._reach.keep_foreign(file, self._root, file.name)
            return self._reach.read(file, file.name).decode("utf-8")
        except CompileError as refused:
            self._refused = refused
            raise

    def _explained(self, file: Path, text: str) -> CompileError:
        where = _WHERE.search(text)
        head = text.strip().split("\n")[0]
        name = Path(where[1]).name if where and where[1] else file.name
        place = f"{name}:{where[2]}" if where and where[2] else name
        message = f"{place}: {head}"
        return CompileError(
            "DOES_NOT_COMPILE",
            f"The source does not compile with vyper {self.version}: {block(message)}",
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


def _plain(output: Mapping[str, Any]) -> dict[str, Any]:
    """Part of an output that the asking process reads; the tree of the sources stays here."""
    tree = output["annotated_ast_dict"]
    modules = [
        {key: str(module[key]) for key in ("source_id", "path", "resolved_path")}
        for module in (tree["ast"], *tree["imports"])
    ]
    return {**{key: output[key] for key in _FORMATS[:-1]}, "modules": modules}


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs for each file, or the refusal of the first that has none."""
    try:
        reach = Reach(Path(folder) for folder in asked["within"])
        compiler = _Compiler(Path(asked["root"]), asked["evm_version"], reach)
        return {
            "version": compiler.version,
            "outputs": [compiler.compile(Path(file)) for file in asked["files"]],
        }
    except CompileError as refused:
        details = dict(refused.details or {})
        return {"refused": {"kind": details.pop("kind"), "message": refused.message, "details": details}}


def main() -> None:
    # Whatever a library prints must not come before the answer.
    out = os.dup(1)
    os.dup2(2, 1)
    document = orjson.dumps(answer(orjson.loads(sys.stdin.buffer.read())), option=orjson.OPT_NON_STR_KEYS)
    with os.fdopen(out, "wb") as writer:
        writer.write(document)


if __name__ == "__main__":
    main()
