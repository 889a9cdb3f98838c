"""External libraries: an address for each, written into every code that calls it.

A library has no constructor and no state of its own, so it stands at its address from the start and needs no
order of deployment, even where two libraries call each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tracedesk.foreign import quoted
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.project import Code, CompileError, Contract, Link, Project


@dataclass(frozen=True, slots=True)
class Linked:
    """The codes of a project with the addresses of libraries in place."""

    libraries: Mapping[str, str]
    """By address: the runtime code, as hex, that must stand there; what a library calls comes before it."""
    _addresses: Mapping[Link, str]

    def init(self, contract: Contract) -> bytes:
        """A contract's init code, ready to deploy but for the constructor's arguments."""
        return _written(contract.init, self._addresses)

    def runtime(self, contract: Contract) -> bytes:
        """A contract's runtime code, with zeros for immutables."""
        return _written(contract.runtime, self._addresses)


def link(project: Project, contract: Contract) -> Linked:
    """Place the libraries of a project; raises when one that the contract needs is not there."""
    for needed in _needed(project, contract):
        if not needed.runtime.data:
            raise CompileError(
                "NO_LIBRARY", f"{quoted(contract.name)}: the library {quoted(needed.qualified)} has no code."
            )
    links = {link: found for each in project.contracts for link, found in _found(project, each).items()}
    addresses = {link: address_of(library) for link, library in links.items()}
    ordered = _ordered(project, dict.fromkeys(library.qualified for library in links.values()))
    return Linked({address_of(each): _placed(each, addresses).hex() for each in ordered}, addresses)


def address_of(library: Contract) -> str:
    """Where a library stands: always the same place for the same name."""
    return f"0x{keccak(b'tracedesk library ' + library.qualified.encode())[12:].hex()}"


def _placed(library: Contract, addresses: Mapping[Link, str]) -> bytes:
    """The runtime code as deployment leaves it: with the library's own address, by which it refuses calls."""
    code = bytearray(_written(library.runtime, addresses))
    for start, length in library.runtime.immutables:
        if length == 20:
            code[start : start + length] = bytes.fromhex(address_of(library)[2:])
    return bytes(code)


def _written(code: Code, addresses: Mapping[Link, str]) -> bytes:
    data = bytearray(code.data)
    for link in code.links:
        if link in addresses:
            data[link.offset : link.offset + 20] = bytes.fromhex(addresses[link][2:])
    return bytes(data)


def _found(project: Project, contract: Contract) -> dict[Link, Contract]:
    """The libraries behind a contract's links, as far as they are in the project."""
    links = dict.fromkeys((*contract.init.links, *contract.runtime.links))
    return {link: library for link in links if (library := _library(project, link)) is not None}


def _library(project: Project, link: Link) -> Contract | None:
    """By path and name; by name alone where the builder told no path."""
    fitting = (c for c in project.contracts if c.name == link.library and link.path in ("", c.path))
    return next(fitting, None)


def _needed(project: Project, contract: Contract) -> Iterator[Contract]:
    """Every library that a contract calls, directly or through another."""
    seen: set[str] = set()
    waiting = [contract]
    while waiting:
        current = waiting.pop()
        for link in dict.fromkeys((*current.init.links, *current.runtime.links)):
            library = _library(project, link)
            if library is None:
                raise CompileError(
                    "NO_LIBRARY",
                    f"{quoted(contract.name)}: needs the library {quoted(link.qualified)}, which is not "
                    "in the project. Compile the folder that holds it.",
                )
            if library.qualified not in seen:
                seen.add(library.qualified)
                waiting.append(library)
                yield library


def _ordered(project: Project, names: Mapping[str, None]) -> list[Contract]:
    """Libraries, each after those that it calls."""
    ordered: dict[str, Contract] = {}
    by_name = {contract.qualified: contract for contract in project.contracts}

    def place(name: str, above: frozenset[str]) -> None:
        if name in ordered or name in above:
            return
        for library in _found(project, by_name[name]).values():
            place(library.qualified, above | {name})
        ordered[name] = by_name[name]

    for name in names:
        place(name, frozenset())
    return list(ordered.values())
