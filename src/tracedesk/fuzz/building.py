"""How a target is compiled: what `solcArgs` and `cryticArgs` mean for our own way to the compilers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracedesk.foreign import named, quoted
from tracedesk.fuzz.compile import Options
from tracedesk.fuzz.config import BadConfig, Config
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.solc import Places

_VALUED: Final = (
    "--optimize-runs",
    "--evm-version",
    "--solc",
    "--solc-remaps",
    "--solc-args",
    "--allow-paths",
)
"""Arguments that take a value, joined with = or as the next word."""


def options(
    config: Config, *, trusted: bool, budget: Budget | None = None
) -> tuple[Options, tuple[str, ...]]:
    """The compiler's options, and what of the configuration changes nothing.

    What is not trusted names no program to run, and brings none in its `node_modules`.
    """
    found = Options(places=Places(trusts_project=trusted), budget=budget or Budget())
    warnings: list[str] = []
    try:
        words = [("solcArgs", word) for word in _pairs(shlex.split(config.solc_args))]
    except ValueError:
        raise BadConfig("solcArgs", "has a quote that is not closed.") from None
    words += [("cryticArgs", word) for word in _pairs(config.crytic_args)]
    for key, (name, value) in words:
        chosen = _chosen(found, key, name, value)
        if chosen is None:
            warnings.append(f"{key}: {quoted(name[:120])} has no effect.")
        found = chosen or found
    return found, tuple(warnings)


def _pairs(words: list[str] | tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each argument with its value, however it was written."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            yield "remapping", word
        elif equals or name not in _VALUED:
            yield name, value
        else:
            yield name, next(rest, "")


def _chosen(found: Options, key: str, name: str, value: str) -> Options | None:
    match name:
        case "--optimize":
            return replace(found, optimizer_runs=found.optimizer_runs or 200)
        case "--optimize-runs":
            if not value.isdigit():
                raise BadConfig(key, f"--optimize-runs needs a number, not {named(value[:120])}.")
            return replace(found, optimizer_runs=int(value))
        case "--via-ir":
            return replace(found, via_ir=True)
        case "--evm-version":
            return replace(found, evm_version=value)
        case "--solc":
            if not found.places.trusts_project:
                problem = "--solc names a program to run. Put solc on the PATH, or trust the project"
                raise BadConfig(key, f"{problem} with --trust-project (agents: project_compilers in [fuzz]).")
            return replace(found, places=replace(found.places, solc=Path(value)))
        case "--solc-remaps":
            return replace(found, remappings=(*found.remappings, *value.split()))
        case "--solc-args":
            inner, _ = options(Config(solc_args=value), trusted=found.places.trusts_project)
            return replace(inner, budget=found.budget, remappings=(*found.remappings, *inner.remappings))
        case "remapping" if "=" in value:
            return replace(found, remappings=(*found.remappings, value))
        case _:
            return None
