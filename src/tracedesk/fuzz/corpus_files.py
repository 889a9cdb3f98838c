"""Corpora on disk, in Echidna's format both ways: a folder of files, each one sequence of transactions."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from tracedesk.foreign import named
from tracedesk.fuzz import abi_tags, haskell
from tracedesk.primitives import json

Tx = dict[str, Any]
"""A transaction as the native core writes it; `{"create": hex}` as its call is a deployment."""

FOLDERS: Final = ("coverage", "reproducers", "reproducers-unshrunk", "reproducers-optimizations")
LARGEST: Final = 16 << 20
"""Bytes of one file that are still read."""
_OLD: Final = {
    "call": "_call",
    "src": "_src",
    "dst": "_dst",
    "gas": "_gas'",
    "gasprice": "_gasprice'",
    "value": "_value",
    "delay": "_delay",
}


class BadFile(ValueError):
    """A file that holds no sequence, with what is wrong."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The sequences of a folder, and what could not be read."""

    sequences: tuple[tuple[Tx, ...], ...]
    files: tuple[str, ...]
    """Where each sequence came from, relative to the folder."""
    problems: tuple[str, ...] = ()

    @property
    def named(self) -> list[tuple[str, tuple[Tx, ...]]]:
        """Each sequence after its file's name."""
        return list(zip(self.files, self.sequences, strict=True))


# --- one file ----------------------------------------------------------------------------------


def read(text: bytes | str) -> list[Tx]:
    """The transactions of one file, in either spelling of their keys."""
    try:
        document: Any = json.loads(text, levels=json.DEEPEST)
    except ValueError as fault:
        raise BadFile(f"not JSON: {fault}") from None
    if not isinstance(document, list):
        raise BadFile("not a list of transactions")
    found: list[Tx] = []
    for number, item in enumerate(cast("list[Any]", document)):
        try:
            found.append(_read_tx(item))
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as fault:
            raise BadFile(f"transaction {number}: {_why(fault)}") from None
    return found


def _why(fault: Exception) -> str:
    return f"the key {fault} is missing" if isinstance(fault, KeyError) else str(fault)


def _read_tx(item: Mapping[str, Any]) -> Tx:
    old = "_call" in item
    field = {new: item[spelt if old else new] for new, spelt in _OLD.items()}
    seconds, blocks = field["delay"]
    return {
        "to": _address(field["dst"], "dst"),
        "from": _address(field["src"], "src"),
        "value": str(_word(field["value"], "value")),
        "gas": _word(field["gas"], "gas"),
        "gas_price": str(_word(field["gasprice"], "gasprice")),
        "delay": [_word(seconds, "delay"), _word(blocks, "delay")],
        "call": _read_call(field["call"]),
    }


def _read_call(call: Any) -> Any:
    tag, contents = (call, None) if isinstance(call, str) else (call["tag"], call.get("contents"))
    match tag, contents:
        case "SolCall", [str(name), [*args]]:
            values = [abi_tags.read(arg) for arg in args]
            return {
                "name": name,
                "types": [kind for kind, _ in values],
                "args": [value for _, value in values],
            }
        case "SolCalldata", str(literal):
            return {"data": "0x" + haskell.read(literal).hex()}
        case "SolCreate", str(literal):
            return {"create": "0x" + haskell.read(literal).hex()}
        case "NoCall", _:
            return None
        case _:
            raise ValueError(f"{named(str(tag)[:80])} is no call")


def _word(value: Any, key: str, bits: int = 256) -> int:
    word = int(value, 16) if isinstance(value, str) else int(value)
    if not 0 <= word < 2**bits:
        raise ValueError(f"{key}: does not fit in {bits} bits")
    return word


def _address(value: Any, key: str) -> str:
    return f"0x{_word(value, key, 160):040x}"


def write(sequence: Iterable[Tx]) -> bytes:
    """A file of these transactions, with the keys that Echidna writes today."""
    return json.dumps([_write_tx(tx) for tx in sequence])


def _write_tx(tx: Tx) -> dict[str, Any]:
    seconds, blocks = tx["delay"]
    return {
        "call": _write_call(tx.get("call")),
        "delay": [_hex(seconds), _hex(blocks)],
        "dst": tx["to"],
        "gas": tx["gas"],
        "gasprice": _hex(tx.get("gas_price", 0)),
        "src": tx["from"],
        "value": _hex(tx["value"]),
    }


def _write_call(call: Mapping[str, Any] | None) -> dict[str, Any]:
    if call is None:
        return {"tag": "NoCall"}
    for key, tag in (("data", "SolCalldata"), ("create", "SolCreate")):
        if key in call:
            data = bytes.fromhex(str(call[key]).removeprefix("0x"))
            return {"tag": tag, "contents": haskell.shown(data)}
    pairs = zip(call["types"], call["args"], strict=True)
    return {
        "tag": "SolCall",
        "contents": [call["name"], [abi_tags.write(kind, value) for kind, value in pairs]],
    }


def _hex(value: Any) -> str:
    return f"0x{int(value):064x}"


# --- a folder ----------------------------------------------------------------------------------


def load(folder: Path) -> Loaded:
    """Every sequence below a corpus folder, or of a single file; what is no sequence is told."""
    sequences: list[tuple[Tx, ...]] = []
    names: list[str] = []
    problems: list[str] = []
    for path in _files(folder):
        name = path.name if path == folder else path.relative_to(folder).as_posix()
        try:
            found = read(_bytes(path))
        except (BadFile, OSError) as fault:
            problems.append(f"{name}: {getattr(fault, 'strerror', None) or fault}")
            continue
        if found:
            sequences.append(tuple(found))
            names.append(name)
    return Loaded(tuple(sequences), tuple(names), tuple(problems))


def _files(folder: Path) -> list[Path]:
    """Reproducers before the rest: they are what a later campaign should look at first."""
    if folder.is_file():
        return [folder]
    places = [folder / name for name in (*FOLDERS[1:], FOLDERS[0])]
    found = [path for place in places if place.is_dir() for path in sorted(place.glob("*.txt"))]
    return found or sorted(folder.glob("*.txt"))


def _bytes(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise BadFile("not a regular file")
        if info.st_size > LARGEST:
            raise BadFile(f"larger than {LARGEST} bytes")
        return file.read()


def save(folder: Path, kind: str, sequence: Sequence[Tx]) -> Path | None:
    """Write a sequence into its part of a corpus folder, named by its content; None when it is there."""
    document = write(sequence)
    path = folder / kind / f"{_name(document)}.txt"
    if path.exists():
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, document)
    return path


def copy(source: Path, target: Path) -> int:
    """Copy the sequences of a corpus folder, part by part; returns how many were not there yet."""
    count = 0
    for kind in FOLDERS:
        for path in sorted((source / kind).glob("*.txt")):
            count += save(target, kind, read(_bytes(path))) is not None
    return count


def _name(document: bytes) -> str:
    return str(int.from_bytes(hashlib.sha256(document).digest()[:8], "big"))


def put(path: Path, document: bytes) -> None:
    """Replace a file whole, so that no reader ever sees half of it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.write_bytes(document)
    fresh.replace(path)
