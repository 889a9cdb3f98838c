"""Hooks: replaced methods of one object of an engine, which its copies and pickles do not have.

An engine copies and pickles its own objects, for example into the processes of an optimisation. Those copies
are plain objects of the engine: they neither carry a recorder along nor record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import new_class
from typing import Any, Final

_BASE: Final = "_tracedesk_base"

Replacement = Callable[..., Any]
"""Called with the object, its own method, and the arguments of the call."""


def hook(target: Any, **methods: Replacement) -> None:
    """Replace methods of an object until `unhook`; an object has one set of hooks, the latest."""
    unhook(target)
    base = _class_of(target)
    body: dict[str, Any] = {name: _method(target, name, each) for name, each in methods.items()}
    names = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    body |= {**names, "__reduce_ex__": _reduce, _BASE: base}
    target.__class__ = new_class(base.__name__, (base,), {}, lambda namespace: namespace.update(body))


def unhook(target: Any) -> None:
    """Give an object its own methods back."""
    base = getattr(_class_of(target), _BASE, None)
    if base is not None:
        target.__class__ = base


def plain(target: Any) -> Any:
    """A copy without hooks, which shares its attributes with the object."""
    base = getattr(_class_of(target), _BASE)
    twin = object.__new__(base)
    twin.__dict__.update(target.__dict__)
    return twin


def _class_of(target: Any) -> Any:
    return target.__class__


def drop(items: list[Any], one: object) -> None:
    """Take one object out of a list, by its identity: an engine's objects compare as they like."""
    items[:] = [each for each in items if each is not one]


def _method(target: Any, name: str, replacement: Replacement) -> Any:
    """A method of one object; its own method is bound once, because an engine calls some on each bar."""
    own = getattr(_class_of(target), name)
    bound = functools.partial(own, target)

    @functools.wraps(own)
    def replaced(self: Any, /, *given: Any, **named: Any) -> Any:
        return replacement(target, bound, *given, **named)

    return replaced


def _reduce(self: Any, protocol: Any) -> Any:
    """Copy, deepcopy and pickle a hooked object as the plain one that it is to its engine."""
    base = getattr(_class_of(self), _BASE)
    make, *rest = plain(self).__reduce_ex__(protocol)
    # Pickle compares what `__newobj__` makes with the class of the object, which is the hooked one.
    return (base.__new__ if make.__name__ == "__newobj__" else make, *rest)


class Watched:
    """A function of an engine's object whose calls are watched; it copies and pickles as that function."""

    def __init__(self, own: Callable[..., Any], watch: Callable[..., Any]) -> None:
        self._own, self._watch = own, watch

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        return self._watch(self._own, *given, **named)

    def __reduce__(self) -> Any:
        return _itself, (self._own,)


def _itself(function: Any) -> Any:
    return function
