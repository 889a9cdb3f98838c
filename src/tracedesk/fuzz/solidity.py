"""Solidity: sources into standard JSON, and solc's answer into contracts."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tracedesk.foreign import block
from tracedesk.fuzz.bytecode import library_address
from tracedesk.fuzz.imports import Settings, Sources
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.pragma import shown
from tracedesk.fuzz.project import Abi, Code, CompileError, Contract, Link, Source
from tracedesk.fuzz.reach import ANYWHERE, Reach
from tracedesk.fuzz.solc import Compiler, choose
from tracedesk.fuzz.sourcemap import Compressed
from tracedesk.fuzz.told import Told

_CODE: Final = ("object", "sourceMap", "linkReferences")
_WANTED: Final = (
    "abi",
    *(f"evm.bytecode.{part}" for part in _CODE),
    *(f"evm.deployedBytecode.{part}" for part in (*_CODE, "immutableReferences")),
)
_MESSAGES: Final = 3
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_CALLED: Final = ("function", "event", "constructor")
_DEEPEST: Final = 32
"""Levels of structs within structs."""


def compile_files(
    files: Sequence[Path],
    root: Path,
    settings: Settings,
    at_hand: Iterable[Compiler],
    choices: Mapping[str, Any],
    reach: Reach = ANYWHERE,
    withheld: str | None = None,
) -> tuple[tuple[Contract, ...], dict[str, Source], tuple[str, ...], str]:
    """Compile files with what they import: contracts, sources, the files' names, and by what."""
    sources = Sources(root, settings, reach)
    names = tuple(sources.add(file) for file in files)
    met = _Met(at_hand)
    groups: dict[Compiler, list[str]] = defaultdict(list)
    for name in names:
        groups[choose(met, sources.pragmas(name), name, withheld)].append(name)
    contracts: list[Contract] = []
    for compiler, members in groups.items():
        wanted = {part: sources.known[part] for name in members for part in sources.closure(name)}
        made = _compiled(compiler, wanted, settings, choices)
        contracts += [replace(each, needs=sources.closure(each.path)) for each in made]
    unique = {contract.qualified: contract for contract in contracts}
    labels = ", ".join(compiler.label for compiler in groups)
    return tuple(unique.values()), sources.known, names, labels


class _Met:
    """The compilers at hand, looked for once and only as far as needed."""

    def __init__(self, coming: Iterable[Compiler]) -> None:
        self._coming = iter(coming)
        self._met: list[Compiler] = []

    def __iter__(self) -> Iterator[Compiler]:
        yield from self._met
        for compiler in self._coming:
            self._met.append(compiler)
            yield compiler


def _compiled(
    compiler: Compiler, sources: Mapping[str, Source], settings: Settings, choices: Mapping[str, Any]
) -> tuple[Contract, ...]:
    output = compiler.run(standard_input(sources, settings, choices))
    refuse_errors(output, compiler.label)
    return contracts_of(output, shown(compiler.version), compiler.label)


def standard_input(sources: Mapping[str, Source], settings: Settings, choices: Mapping[str, Any]) -> str:
    """solc's standard JSON input, with every source in it."""
    contents = {name: {"content": source.data.decode("utf-8", "replace")} for name, source in sources.items()}
    document = {
        "language": "Solidity",
        "sources": contents,
        "settings": {
            **settings.compiler,
            **choices,
            "remappings": [str(remapping) for remapping in settings.remappings],
            "outputSelection": {"*": {"*": list(_WANTED)}},
        },
    }
    return json.dumps(document, ensure_ascii=False)


def refuse_errors(output: Mapping[str, Any], label: str) -> None:
    """Raise with the compiler's first messages when it could not compile."""
    told = Told(output, label).at("errors").each()
    errors = [error for error in told if error.at("severity").text() == "error"]
    if not errors:
        return
    messages = [_message(error) for error in errors[:_MESSAGES]]
    more = f" ({len(errors) - _MESSAGES} more)" if len(errors) > _MESSAGES else ""
    raise CompileError(
        "DOES_NOT_COMPILE",
        f"The source does not compile with {label}: {block('; '.join(messages))}{more}",
        messages=messages,
    )


def _message(error: Told) -> str:
    """`file:line: message`, the line from solc's formatted text."""
    head = error.at("message").text().strip().split("\n")[0]
    where = error.at("sourceLocation").at("file").text()
    arrow = error.at("formattedMessage").text().partition(f"{where}:")[2] if where else ""
    line = arrow.split(":")[0]
    if where and line.isdigit():
        return f"{where}:{line}: {head}"
    return f"{where}: {head}" if where else head


# --- solc's answer ----------------------------------------------------------------------------------


def contracts_of(output: Mapping[str, Any], compiler: str, name: str = "solc") -> tuple[Contract, ...]:
    """The contracts of a standard JSON output, in the order of the sources; `name` is whose output it is."""
    told = Told(output, name)
    ids = {source.at("id").number(): path for path, source in told.at("sources").items()}
    return tuple(
        _contract(own, path, described, ids, compiler)
        for path, named in told.at("contracts").items()
        for own, described in named.items()
    )


def _contract(name: str, path: str, told: Told, ids: Mapping[int, str], compiler: str) -> Contract:
    """One contract as standard JSON describes it."""
    evm = told.at("evm")
    init, runtime = code_of(evm.at("bytecode")), code_of(evm.at("deployedBytecode"))
    abi = abi_of(told.at("abi"))
    return Contract(name, path, "solidity", abi, init, runtime, ids, compiler, _needs(told.at("metadata")))


def _needs(told: Told) -> tuple[str, ...]:
    """The sources that a contract's metadata lists; none where the output has no metadata."""
    if not told:
        return ()
    try:
        return tuple(json.loads(told.text())["sources"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise told.refusal("the metadata of a contract") from None


def abi_of(told: Told) -> Abi:
    """An interface in which everything that is called has a name and typed parameters."""
    for entry in told.each():
        kind = entry.at("type").text()
        name = entry.at("name")
        if kind in ("function", "event") and not _NAME.fullmatch(name.text()):
            raise name.refusal(f"the name of {'a function' if kind == 'function' else 'an event'}")
        if kind in _CALLED or "inputs" in entry:
            _check_types(entry.at("inputs"))
        if "outputs" in entry:
            _check_types(entry.at("outputs"))
    return told.value or []


def _check_types(told: Told, depth: int = 0) -> None:
    if told.value is None or depth > _DEEPEST:
        raise told.refusal("a list of parameters" if depth <= _DEEPEST else "a struct of fewer levels")
    for item in told.each():
        kind = item.at("type")
        if not kind.text():
            raise kind.refusal("a type such as uint256")
        if kind.text().startswith("tuple"):
            _check_types(item.at("components"), depth + 1)


def code_of(told: Told) -> Code:
    """A code as standard JSON and the artifacts of builders describe it."""
    text = told.at("object").text().removeprefix("0x")
    links = tuple(_links(told.at("linkReferences"), len(text) // 2))
    data = bytes_of(told.at("object"), _unlinked(text, links))
    immutables = _immutables(told.at("immutableReferences"), len(data))
    return Code(data, map_of(told.at("sourceMap")), links, (*library_address(data), *immutables))


def map_of(told: Told) -> Compressed:
    """A source map as solc compresses it."""
    try:
        return Compressed(told.text())
    except ValueError:
        raise told.refusal("a source map such as 25:410:0:-:0") from None


def _links(told: Told, size: int) -> Iterator[Link]:
    for path, libraries in told.items():
        for library, places in libraries.items():
            for place in places.each():
                yield Link(path, library, _start(place, 20, size))


def _immutables(told: Told, size: int) -> tuple[tuple[int, int], ...]:
    places = [place for _, group in told.items() for place in group.each()]
    sized = [(place, place.at("length").number()) for place in places]
    return tuple(sorted((_start(place, length, size), length) for place, length in sized))


def _start(place: Told, length: int, size: int) -> int:
    start = place.at("start").number()
    if start + length > size:
        raise place.refusal(f"a place within the {size} bytes of the code")
    return start


def _unlinked(text: str, links: Iterable[Link]) -> str:
    """Code text with zeros where solc wrote the placeholders of libraries."""
    characters = list(text)
    for link in links:
        characters[2 * link.offset : 2 * link.offset + 40] = "0" * 40
    return "".join(characters)


def bytes_of(told: Told, text: str) -> bytes:
    """The bytes of a code's hex text."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise told.refusal("code as hex, in which only listed libraries have places") from None


def placeholder(qualified: str) -> str:
    """The 40 characters that stand in a code for the address of a library."""
    return f"__${keccak(qualified.encode()).hex()[:34]}$__"
