"""ONNX files, written by hand: the few protobuf messages that a graph of our own needs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

Attribute = int | float | Sequence[int]

_ELEMENT: Final = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}
_IR: Final = 8
OPSET: Final = 17


@dataclass(slots=True)
class Graph:
    """A graph under construction: `node` adds an operation and names its result, `constant` adds a tensor."""

    name: str
    nodes: list[bytes] = field(default_factory=list[bytes])
    constants: list[bytes] = field(default_factory=list[bytes])
    named: set[str] = field(default_factory=set[str])
    _made: int = 0

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.named.add(name)
        body = b"".join(_number(1, dim) for dim in values.shape) + _number(2, _ELEMENT[values.dtype.name])
        self.constants.append(_bytes(5, body + _bytes(8, name.encode()) + _bytes(9, values.tobytes())))
        return name

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        self._made += 1
        result = f"{op.lower()}_{self._made}"
        self._add(op, inputs, [result], domain, attributes)
        return result

    def output(self, op: str, result: str, *inputs: str) -> None:
        self._add(op, inputs, [result], "", {})

    def model(self, inputs: Mapping[str, str], output: str, shape: Sequence[str | int]) -> bytes:
        """The file: every input is an int64 matrix of the two named sizes."""
        graph = (
            b"".join(self.nodes)
            + _bytes(2, self.name.encode())
            + b"".join(self.constants)
            + b"".join(_bytes(11, _value(name, kind, ("rows", "length"))) for name, kind in inputs.items())
            + _bytes(12, _value(output, "float32", shape))
        )
        opsets = _bytes(8, _bytes(1, b"") + _number(2, OPSET)) + _bytes(
            8, _bytes(1, b"com.microsoft") + _number(2, 1)
        )
        return _number(1, _IR) + _bytes(2, b"tracedesk") + _bytes(7, graph) + opsets

    def _add(
        self,
        op: str,
        inputs: Iterable[str],
        outputs: Iterable[str],
        domain: str,
        attributes: Mapping[str, Attribute],
    ) -> None:
        body = b"".join(_bytes(1, name.encode()) for name in inputs)
        body += b"".join(_bytes(2, name.encode()) for name in outputs)
        body += _bytes(4, op.encode()) + b"".join(_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(_bytes(1, body + _bytes(7, domain.encode())))


def _attribute(name: str, value: Attribute) -> bytes:
    body = _bytes(1, name.encode())
    if isinstance(value, float):
        return _bytes(5, body + _key(2, 5) + struct.pack("<f", value) + _number(20, 1))
    if isinstance(value, int):
        return _bytes(5, body + _number(3, value) + _number(20, 2))
    return _bytes(5, body + b"".join(_number(8, item) for item in value) + _number(20, 7))


def _value(name: str, kind: str, shape: Sequence[str | int]) -> bytes:
    dims = b"".join(
        _bytes(1, _number(1, dim) if isinstance(dim, int) else _bytes(2, dim.encode())) for dim in shape
    )
    tensor = _number(1, _ELEMENT[kind]) + _bytes(2, dims)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, tensor))


def _key(place: int, wire: int) -> bytes:
    return _varint(place << 3 | wire)


def _number(place: int, value: int) -> bytes:
    return _key(place, 0) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _bytes(place: int, value: bytes) -> bytes:
    return _key(place, 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
