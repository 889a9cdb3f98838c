"""An exported graph as live Jac nodes, under a `Project` node that nothing else leads to.

Needs jaclang, and so Python 3.12. Nothing of Tracedesk is imported here: a walker's process loads this file
alone. A graph that hangs from Jac's own root would be written to disk and found there by the next run; this
one is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from importlib import import_module
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class Projection:
    """The classes by name, as the module that walkers import, and the node they begin at."""

    module: ModuleType
    project: Any


def project(document: Mapping[str, Any], module_name: str = "graph") -> Projection:
    """Make classes of the document's types, then its nodes, then its edges."""
    connect = import_module("jaclang.lib").connect
    module = classes(document["types"], module_name)
    nodes = {
        name: [_made(module, name, shape, fields) for fields in document["nodes"].get(name, ())]
        for name, shape in document["types"]["nodes"].items()
    }
    for name, (source, target) in document["types"]["edges"].items():
        kind, sources, targets = getattr(module, name), nodes[source], nodes[target]
        for start, end in document["edges"].get(name, ()):
            connect(sources[start], targets[end], edge=kind())
    root = nodes["Project"][0]
    vars(module)["build"] = lambda: root  # exported source has a function of this name
    return Projection(module, root)


def classes(types: Mapping[str, Any], module_name: str) -> ModuleType:
    """A module with a dataclass for every type: values, nodes and edges."""
    jac = import_module("jaclang.lib")
    module = ModuleType(module_name, "The types of a graph that Tracedesk exported.")
    for name, shape in types["values"].items():
        _declare(module, name, shape, ())
    for name, shape in types["nodes"].items():
        _declare(module, name, shape, (jac.Node,))
    for name in types["edges"]:
        _declare(module, name, {}, (jac.Edge,))
    return module


def _declare(module: ModuleType, name: str, shape: Mapping[str, str], bases: tuple[Any, ...]) -> None:
    # Nodes are compared by who they are: two files may well have equal fields.
    made = make_dataclass(name, list(shape.items()), bases=bases, eq=not bases)
    made.__module__ = module.__name__
    setattr(module, name, made)


def _made(module: ModuleType, name: str, shape: Mapping[str, str], fields: Mapping[str, Any]) -> Any:
    given = {field: _value(module, kind, fields[field]) for field, kind in shape.items()}
    return getattr(module, name)(**given)


def _value(module: ModuleType, kind: str, value: Any) -> Any:
    if kind == "datetime":
        return datetime.fromisoformat(value)
    return getattr(module, kind)(**value) if kind in vars(module) else value
