"""ABI values between Echidna's tagged JSON and ours; a value of theirs carries its type with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from tracedesk.foreign import named
from tracedesk.fuzz import haskell

Json = Any
_ARRAY: Final = re.compile(r"(.*)\[([0-9]*)\]", re.S)
_SIZED: Final = re.compile(r"(uint|int|bytes)([0-9]+)")


class BadValue(ValueError):
    """A tagged value that says nothing we know."""


# --- from Echidna ------------------------------------------------------------------------------


def read(value: Json) -> tuple[str, Json]:
    """The canonical type and the value of one tagged argument."""
    tag, contents = _tagged(value)
    match tag, contents:
        case "AbiUInt" | "AbiInt", [int(bits), digits]:
            return f"{'u' if tag == 'AbiUInt' else ''}int{bits}", str(int(str(digits)))
        case "AbiAddress", str(text):
            return "address", f"0x{int(text, 16):040x}"
        case "AbiBool", bool(flag):
            return "bool", flag
        case "AbiBytes", [int(size), str(text)]:
            return f"bytes{size}", "0x" + haskell.read(text)[:size].ljust(size, b"\0").hex()
        case "AbiBytesDynamic", str(text):
            return "bytes", "0x" + haskell.read(text).hex()
        case "AbiString", str(text):
            return "string", _text(haskell.read(text))
        case "AbiFunction", str(text):
            return "function", "0x" + haskell.read(text).hex()
        case _:
            return _read_many(tag, contents)


def _read_many(tag: str, contents: Json) -> tuple[str, Json]:
    match tag, contents:
        case "AbiArrayDynamic", [kind, [*items]]:
            return f"{read_type(kind)}[]", [read(item)[1] for item in items]
        case "AbiArray", [int(size), kind, [*items]]:
            return f"{read_type(kind)}[{size}]", [read(item)[1] for item in items]
        case "AbiTuple", [*items]:
            parts = [read(item) for item in items]
            return f"({','.join(kind for kind, _ in parts)})", [value for _, value in parts]
        case _:
            raise BadValue(f"{tag} is no ABI value with these contents")


def read_type(kind: Json) -> str:
    """The canonical text of a tagged type."""
    tag, contents = _tagged(kind)
    match tag, contents:
        case "AbiUIntType" | "AbiIntType" | "AbiBytesType", int(size):
            return f"{_SIZES[tag]}{size}"
        case "AbiArrayDynamicType", inner if inner is not None:
            return f"{read_type(inner)}[]"
        case "AbiArrayType", [int(size), inner]:
            return f"{read_type(inner)}[{size}]"
        case "AbiTupleType", [*parts]:
            return f"({','.join(read_type(part) for part in parts)})"
        case _ if tag in _PLAIN:
            return _PLAIN[tag]
        case _:
            raise BadValue(f"{tag} is no ABI type")


_SIZES: Final = {"AbiUIntType": "uint", "AbiIntType": "int", "AbiBytesType": "bytes"}
_PLAIN: Final = {
    "AbiAddressType": "address",
    "AbiBoolType": "bool",
    "AbiBytesDynamicType": "bytes",
    "AbiStringType": "string",
    "AbiFunctionType": "function",
}
_TAGS: Final = {name: tag for tag, name in _PLAIN.items()}


def _tagged(value: Json) -> tuple[str, Json]:
    match value:
        case {"tag": str(tag), **rest}:
            return tag, rest.get("contents")
        case _:
            raise BadValue("an ABI value is an object with a tag")


# --- to Echidna --------------------------------------------------------------------------------


def write(kind: str, value: Json) -> Json:
    """One argument of a canonical type as Echidna writes it."""
    if array := _ARRAY.fullmatch(kind):
        inner, size = array[1], array[2]
        items = [write(inner, item) for item in cast("list[Json]", value)]
        if size:
            return _tag("AbiArray", [int(size), write_type(inner), items])
        return _tag("AbiArrayDynamic", [write_type(inner), items])
    if kind.startswith("("):
        return _tag("AbiTuple", [write(k, v) for k, v in zip(members(kind), value, strict=True)])
    if sized := _SIZED.fullmatch(kind):
        return _write_sized(sized[1], int(sized[2]), value)
    match kind:
        case "address":
            return _tag("AbiAddress", value)
        case "bool":
            return _tag("AbiBool", value)
        case "string":
            return _tag("AbiString", haskell.shown(_utf8(value)))
        case "bytes":
            return _tag("AbiBytesDynamic", haskell.shown(_bytes(value)))
        case "function":
            return _tag("AbiFunction", haskell.shown(_bytes(value)))
        case _:
            raise BadValue(f"{named(str(kind)[:80])} is no ABI type")


def _write_sized(name: str, size: int, value: Json) -> Json:
    if name == "bytes":
        return _tag("AbiBytes", [size, haskell.shown(_bytes(value))])
    return _tag("AbiUInt" if name == "uint" else "AbiInt", [size, str(value)])


def write_type(kind: str) -> Json:
    """A canonical type as Echidna writes it."""
    if array := _ARRAY.fullmatch(kind):
        inner = write_type(array[1])
        return (
            _tag("AbiArrayType", [int(array[2]), inner]) if array[2] else _tag("AbiArrayDynamicType", inner)
        )
    if kind.startswith("("):
        return _tag("AbiTupleType", [write_type(member) for member in members(kind)])
    if sized := _SIZED.fullmatch(kind):
        return _tag({name: tag for tag, name in _SIZES.items()}[sized[1]], int(sized[2]))
    if kind not in _TAGS:
        raise BadValue(f"{named(str(kind)[:80])} is no ABI type")
    return {"tag": _TAGS[kind]}


def members(kind: str) -> Sequence[str]:
    """The types inside a tuple's parentheses."""
    found: list[str] = []
    depth = start = 0
    inner = kind[1:-1]
    for place, char in enumerate(inner):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            found.append(inner[start:place])
            start = place + 1
    return [*found, inner[start:]] if inner else []


def _tag(tag: str, contents: Json) -> Json:
    return {"tag": tag, "contents": contents}


def _text(data: bytes) -> Json:
    """A string; as hex where it is not UTF-8, since JSON cannot hold it as text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": "0x" + data.hex()}


def _utf8(value: Json) -> bytes:
    return _bytes(value["hex"]) if isinstance(value, dict) else str(value).encode("utf-8")


def _bytes(value: Json) -> bytes:
    return bytes.fromhex(str(value).removeprefix("0x"))
