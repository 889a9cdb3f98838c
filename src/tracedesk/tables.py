"""A toolset's own table of tracedesk.toml, read into the dataclass that tells its settings and defaults."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from decimal import Decimal
from math import inf
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from tracedesk.config import FILE, BadSetting
from tracedesk.primitives import money

T = TypeVar("T")


class BadTable(BadSetting):
    """A value of a toolset's table that cannot be used, with what fits."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"in {FILE}, {problem}")


def read(kind: type[T], table: Mapping[str, Any], path: str, error: type[BadTable] = BadTable) -> T:
    """The settings of a table; raises the error for a name that is none, or a value that does not fit.

    A field that is a dataclass is a table within. What a value must be is told by its default and, where only
    some words fit, by the field's `Literal`; what a list is of, by `list_of`. Numbers are not negative.
    """
    defaults, hints = kind(), get_type_hints(kind)
    known = {f.name: f for f in fields(cast("Any", kind))}
    for name in table:
        if name not in known:
            raise error(f"{path}.{name} is not a setting; there are {', '.join(known)}")
    made: dict[str, Any] = {}
    for name, value in table.items():
        nature = _Nature(
            getattr(defaults, name), _words(hints[name]), known[name].metadata.get("list", "names")
        )
        made[name] = _fit(nature, value, f"{path}.{name}", error)
    return kind(**made)


def read_toolset(toolset: str, table: Mapping[str, Any]) -> Any:
    """The settings of a toolset's own table; a toolset without settings has None, and refuses every name."""
    if importlib.util.find_spec(f"tracedesk.{toolset}.settings") is not None:
        return importlib.import_module(f"tracedesk.{toolset}.settings").read(table)
    for name in table:
        raise BadTable(f"{toolset}.{name} is not a setting; [{toolset}] has none")
    return None


def list_of(what: str, *default: str) -> Any:
    """A field that is a list of texts, and what they are."""
    return field(default=default, metadata={"list": what})


def inner(value: Any, path: str, error: type[BadTable] = BadTable) -> dict[str, Any]:
    """A value that must be a table itself."""
    if not isinstance(value, dict):
        raise error(f"{path} must be a table")
    return cast("dict[str, Any]", value)


class _Nature(NamedTuple):
    """What a value must be."""

    like: Any
    words: tuple[str, ...]
    items: str

    def told(self) -> str:
        if self.words:
            return "one of " + ", ".join(self.words)
        if isinstance(self.like, bool):
            return "true or false"
        if isinstance(self.like, tuple):
            return f"a list of {self.items}"
        if isinstance(self.like, str):
            return "text"
        return f"a {'whole ' if isinstance(self.like, int) else ''}number that is not negative"


def _words(hint: Any) -> tuple[str, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def _fit(nature: _Nature, value: Any, path: str, error: type[BadTable]) -> Any:
    if is_dataclass(nature.like):
        return read(type(nature.like), inner(value, path, error), path, error)
    try:
        return _checked(nature.words, _converted(nature.like, value))
    except (TypeError, ValueError):
        raise error(f"{path} must be {nature.told()}, not {value!r}") from None


def _converted(like: Any, value: Any) -> Any:
    if isinstance(like, (bool, str)):
        return _of(type(like), value)
    if isinstance(like, tuple):
        return _names(value)
    if isinstance(like, int):
        return _of(int, value)
    if isinstance(like, float):
        return float(_of(float, value) if isinstance(value, float) else _of(int, value))
    # TOML has binary floats only; what the user typed is what `repr` prints.
    return money.parse(repr(value) if isinstance(value, float) else value)


def _of(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _names(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, (list, tuple)) else [None]
    return tuple(_of(str, item) for item in items)


def _checked(words: tuple[str, ...], value: Any) -> Any:
    if words and value not in words:
        raise ValueError
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and not 0 <= value < inf:
        raise ValueError
    return value
