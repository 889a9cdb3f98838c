"""JSON that someone else wrote: each value knows its place, so that a wrong shape is told with it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from tracedesk.foreign import closed, quoted
from tracedesk.fuzz.project import CompileError

_LARGEST: Final = 2**53
_SHOWN: Final = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxlist, _SHOWN.maxdict, _SHOWN.maxstring = 1, 2, 2, 40
_PLACE: Final = 160


@dataclass(frozen=True, slots=True)
class Told:
    """A value of a JSON file, or the absence of one, which reads as the empty value of any kind."""

    value: Any
    file: str
    place: str = ""

    def __bool__(self) -> bool:
        return bool(self.value)

    def __contains__(self, key: str) -> bool:
        return key in self.object()

    def at(self, key: str) -> Told:
        """A member of an object."""
        return self._inner(key, self.object().get(key))

    def items(self) -> Iterator[tuple[str, Told]]:
        """The members of an object."""
        return ((key, self._inner(quoted(key), value)) for key, value in self.object().items())

    def each(self) -> Iterator[Told]:
        """The items of a list."""
        items = cast("list[Any]", [] if self.value is None else self.value)
        if type(items) is not list:
            raise self.refusal("a list")
        return (self._inner(str(number), item) for number, item in enumerate(items))

    def text(self) -> str:
        if self.value is not None and not isinstance(self.value, str):
            raise self.refusal("text")
        return self.value or ""

    def number(self) -> int:
        """A whole number from 0; unlike the other kinds, it must be there."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not 0 <= self.value < _LARGEST:
            raise self.refusal("a whole number from 0")
        return self.value

    def refusal(self, expected: str) -> CompileError:
        """That something else belongs here."""
        found = "missing" if self.value is None else quoted(_SHOWN.repr(self.value))
        where = f"{closed(self.place[:_PLACE])} must be" if self.place else "must be"
        return CompileError(
            "BAD_ARTIFACT",
            f"{quoted(self.file)}: {where} {expected}, and is {found}. Build the project again.",
        )

    def object(self) -> dict[str, Any]:
        """What must be an object, as it is."""
        members = cast("dict[str, Any]", {} if self.value is None else self.value)
        if type(members) is not dict:
            raise self.refusal("an object")
        return members

    def _inner(self, key: str, value: Any) -> Told:
        return Told(value, self.file, f"{self.place}.{key}" if self.place else key)
