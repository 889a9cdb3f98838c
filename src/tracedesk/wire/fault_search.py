"""Search for a small part of long arguments that breaks a contract, so that the refusal can name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, cast

_MEMBERS: Final = 128
"""Members of an object or array that an outline keeps; no contract allows a number that is larger."""
_NODES: Final = 2_000
"""Values that an outline keeps in all."""
_LONGEST_TEXT: Final = 256
_CHUNK: Final = 8_192

Fits = Callable[[Any], bool]


def part_at_fault(arguments: Any, fits: Fits) -> tuple[Any, dict[str, int]]:
    """A short form of `arguments` that does not fit either, with the places where its lists begin.

    The short form is None where the fault shows only in the whole.
    """
    short = _outline(arguments, [_NODES])
    if not fits(short):
        return short, {}
    if isinstance(arguments, dict):
        given = cast("dict[str, Any]", arguments)
        for name, value in given.items():
            if isinstance(value, (dict, list)) and len(cast("list[Any]", value)) > _MEMBERS:
                found = _chunk_at_fault(short, name, cast("Any", value), fits)
                if found is not None:
                    return found
    return None, {}


def _chunk_at_fault(
    short: dict[str, Any], name: str, value: Any, fits: Fits
) -> tuple[dict[str, Any], dict[str, int]] | None:
    """The arguments with the one member or item of `value` that does not fit, and its place."""
    for begin, chunk in _chunks(value):
        if fits({**short, name: chunk}):
            continue
        while len(chunk) > 1:
            half = len(chunk) // 2
            head, tail = _part(chunk, 0, half), _part(chunk, half, len(chunk))
            if fits({**short, name: head}):
                begin, chunk = begin + half, tail
            else:
                chunk = head
        return {**short, name: _outline(chunk, [_NODES])}, {name: begin}
    return None


def _chunks(value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        yield from ((at, items[at : at + _CHUNK]) for at in range(0, len(items), _CHUNK))
        return
    members = iter(value.items())
    while chunk := dict(islice(members, _CHUNK)):
        yield 0, chunk


def _part(chunk: Any, begin: int, end: int) -> Any:
    if isinstance(chunk, list):
        return cast("list[Any]", chunk)[begin:end]
    return dict(islice(chunk.items(), begin, end))


def _outline(value: Any, room: list[int]) -> Any:
    """The first members of `value`, and theirs, while there is room; long texts are cut."""
    room[0] -= 1
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…"
    if isinstance(value, dict):
        members = islice(cast("dict[str, Any]", value).items(), _MEMBERS if room[0] > 0 else 0)
        return {_outline(name, room): _outline(member, room) for name, member in members}
    if isinstance(value, list):
        items = islice(cast("list[Any]", value), _MEMBERS)
        return [_outline(item, room) for item in items if room[0] > 0]
    return value
