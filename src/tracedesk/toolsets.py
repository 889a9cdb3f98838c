"""The five toolsets by name: which are built, and how one is loaded."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracedesk.contract import Toolset

TOOLSETS: Final = ("backtest", "fuzz", "exchange", "codegraph", "trading")


class UnknownToolset(ValueError):
    """A toolset that does not exist, or that this version does not serve."""


def built() -> tuple[str, ...]:
    """The toolsets this version serves: those whose tools module is in the package."""
    return tuple(name for name in TOOLSETS if _has_tools(name))


def _has_tools(name: str) -> bool:
    """Look for the module without importing its package."""
    package = importlib.util.find_spec(f"tracedesk.{name}")
    places = None if package is None else package.submodule_search_locations
    return bool(places) and PathFinder.find_spec(f"tracedesk.{name}.tools", list(places)) is not None


def load(names: Iterable[str]) -> list[Toolset[Any]]:
    """The toolsets of those names, imported now; `desk` always comes first."""
    chosen = [name for name in names if name != "desk"]
    check(chosen)
    modules = [importlib.import_module(f"tracedesk.{name}.tools") for name in chosen]
    from tracedesk.desk_tools import desk

    return [desk, *(getattr(module, module.__name__.split(".")[1]) for module in modules)]


def check(names: Iterable[str]) -> None:
    """Refuse a name of no toolset, or of one that this version does not serve, with `UnknownToolset`."""
    for name in names:
        if name not in TOOLSETS:
            raise UnknownToolset(f"unknown toolset {name!r}; there are {', '.join(TOOLSETS)}")
        if name not in built():
            available = ", ".join(built()) or "only the always-on toolset desk"
            raise UnknownToolset(f"toolset {name!r} is not part of this version; it serves {available}")
