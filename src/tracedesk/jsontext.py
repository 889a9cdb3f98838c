"""JSON files changed in place: one member or item set or removed, every other byte left as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//|/\*|,(?=[ \t\r\n]*[}\]])')


class Unreadable(ValueError):
    """A text that is not an object in strict JSON; `lenient` when comments or trailing commas make it so."""

    def __init__(self, problem: str, *, lenient: bool = False) -> None:
        super().__init__(problem)
        self.lenient = lenient


@dataclass(frozen=True, slots=True)
class _Member:
    """Where one key and its value lie; an item of a list has its place as its key."""

    key: str | int
    begin: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """Where an object or a list and its members lie; `end` is just after its closing brace or bracket."""

    begin: int
    end: int
    members: tuple[_Member, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the text is written: one step of indentation (None: all on one line) and its line ends."""

    step: str | None
    line_end: str

    def dump(self, value: Any, margin: str) -> str:
        if self.step is None:
            return json.dumps(value, ensure_ascii=False)
        text = json.dumps(value, indent=self.step, ensure_ascii=False)
        return text.replace("\n", self.line_end + margin)


def parse(text: str) -> dict[str, Any]:
    """The object that `text` is; a blank text is an empty one."""
    if not text.strip():
        return {}
    try:
        document: object = json.loads(text)
    except ValueError as fault:
        if _is_lenient(text):
            raise Unreadable("it has comments or trailing commas", lenient=True) from None
        raise Unreadable(f"it is not JSON: {fault}") from None
    except RecursionError:
        raise Unreadable("it nests too deeply") from None
    if not isinstance(document, dict):
        raise Unreadable("it is JSON, but not an object")
    return cast("dict[str, Any]", document)


def member(text: str, holder: str, name: str) -> object:
    """What stands under `holder` and `name`; None when nothing does."""
    held = parse(text).get(holder)
    return cast("dict[str, object]", held).get(name) if isinstance(held, dict) else None


def put(text: str, holder: str, name: str, value: Any) -> str:
    """`text` with `value` under `holder` and `name`; unchanged when it is there already."""
    document = parse(text)
    if not document and not text.strip():
        return json.dumps({holder: {name: value}}, indent=2, ensure_ascii=False) + "\n"
    held = document.get(holder)
    if holder in document and not isinstance(held, dict):
        raise Unreadable(f"its {holder!r} is not an object")
    if held is not None and name in held and held[name] == value:
        return text
    layout, root = _layout(text), _scan(text, _skip(text, 0))
    found = _find(root, holder)
    if found is None:
        return _append(text, root, holder, {name: value}, layout)
    inner = _scan(text, found.value)
    old = _find(inner, name)
    if old is None:
        return _append(text, inner, name, value, layout)
    return text[: old.value] + layout.dump(value, _margin(text, old.begin)) + text[old.end :]


def drop(text: str, holder: str, name: str) -> str:
    """`text` without what is under `holder` and `name`; unchanged when nothing is."""
    held: object = parse(text).get(holder)
    return cut(text, (holder, name)) if isinstance(held, dict) and name in held else text


def push(text: str, path: Sequence[str], value: Any) -> str:
    """`text` with `value` as the last item of the list at `path`; what is missing on the way is made."""
    parse(text)
    if not text.strip():
        return json.dumps(_nested(path, [value]), indent=2, ensure_ascii=False) + "\n"
    layout, held = _layout(text), _scan(text, _skip(text, 0))
    for depth, key in enumerate(path, 1):
        found = _find(held, key)
        if found is None:
            return _append(text, held, key, _nested(path[depth:], [value]), layout)
        kind, opening = ("a list", "[") if depth == len(path) else ("an object", "{")
        if text[found.value] != opening:
            raise Unreadable(f"its {'.'.join(path[:depth])!r} is not {kind}")
        held = _scan(text, found.value)
    return _append(text, held, None, value, layout)


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def cut(text: str, path: Sequence[str | int]) -> str:
    """`text` without the member or item that `path` leads to, which must be there."""
    held = _scan(text, _skip(text, 0))
    *way, last = path
    for key in way:
        found = _find(held, key)
        assert found is not None, f"there is no {key!r}"
        held = _scan(text, found.value)
    assert _find(held, last) is not None, f"there is no {last!r}"
    place = next(i for i, member in enumerate(held.members) if member.key == last)
    if len(held.members) == 1:
        return text[: held.begin + 1] + text[held.end - 1 :]
    if place == 0:
        return text[: held.members[0].begin] + text[held.members[1].begin :]
    return text[: held.members[place - 1].end] + text[held.members[place].end :]


def _find(held: _Object, key: str | int) -> _Member | None:
    found = [member for member in held.members if member.key == key]
    if len(found) > 1:
        raise Unreadable(f"it names {key!r} twice")
    return found[0] if found else None


def _append(text: str, held: _Object, key: str | None, value: Any, layout: _Layout) -> str:
    """`text` with a new last member in `held`, or a new last item where it has no key."""
    outer = _margin(text, held.begin)
    inner = _margin(text, held.members[0].begin) if held.members else outer + (layout.step or "")
    line = "" if layout.step is None else layout.line_end + inner
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    member = name + layout.dump(value, inner)
    if held.members:
        last = held.members[-1].end
        return f"{text[:last]},{line or ' '}{member}{text[last:]}"
    close = "" if layout.step is None else layout.line_end + outer
    return f"{text[: held.begin + 1]}{line}{member}{close}{text[held.end - 1 :]}"


def _layout(text: str) -> _Layout:
    line_end = "\r\n" if "\r\n" in text else "\n"
    root = _scan(text, _skip(text, 0))
    if not root.members:
        return _Layout("  ", line_end)
    if "\n" not in text[root.begin : root.members[0].begin]:
        return _Layout(None, line_end)
    return _Layout(_margin(text, root.members[0].begin) or "  ", line_end)


def _margin(text: str, place: int) -> str:
    """The white space that begins the line of `place`."""
    start = text.rfind("\n", 0, place) + 1
    return text[start : start + len(text[start:]) - len(text[start:].lstrip(" \t"))]


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    assert found is not None
    return found.end()


def _scan(text: str, begin: int) -> _Object:
    """Where the object or list that begins at `begin` has its members; the text is known to be valid."""
    members: list[_Member] = []
    is_object = text[begin] == "{"
    place = _skip(text, begin + 1)
    while text[place] not in "}]":
        start = value = place
        key: str | int = len(members)
        if is_object:
            key, place = _DECODER.raw_decode(text, start)
            value = _skip(text, _skip(text, place) + 1)
        _, end = _DECODER.raw_decode(text, value)
        members.append(_Member(key, start, value, end))
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return _Object(begin, place + 1, tuple(members))


def _is_lenient(text: str) -> bool:
    """Whether comments or trailing commas stand outside the strings."""
    return any(not found[0].startswith('"') for found in _TOKEN.finditer(text))
