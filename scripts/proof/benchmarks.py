"""The adapter from a benchmark's JSON to proofs: runs each benchmark of an area and records its figures."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from scripts.proof.bars import BENCHMARK, ROOT, Bar, every
from scripts.proof.record import Recorder, withdraw

CHECKOUT: Final = "CHECKOUT"
"""Word of a command in whose place the folder of the checkout is put."""
_KEPT: Final = ("paired_ratio", "cpu_ratio", "wall_ratio", "p50_ratio", "against", "pairs")
"""Parts of a claim that its proof keeps beside the figure."""


@dataclass(slots=True)
class Outcome:
    """Missed bars, and notes about bars without a figure."""

    missed: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def commands(area: str | None, bars: Mapping[str, Bar]) -> list[list[Bar]]:
    """The bars of an area's benchmarks, together those that one run over one checkout measures."""
    found: dict[tuple[str, str | None], list[Bar]] = {}
    for bar in bars.values():
        if bar.command.startswith(BENCHMARK) and area in (None, bar.area):
            found.setdefault((bar.command, bar.checkout), []).append(bar)
    return list(found.values())


def run(area: str | None, checkouts: Path | None, bars: Mapping[str, Bar] | None = None) -> Outcome:
    """Run them one after the other, with nothing of ours beside."""
    outcome = Outcome()
    for measured in commands(area, every() if bars is None else bars):
        command = measured[0].command
        given = _given(measured[0], checkouts)
        if measured[0].checkout is not None and not given:
            outcome.notes.append(f"skipped {command}: CHECKOUTS has no folder {measured[0].checkout}")
            continue
        recorder = Recorder.begun()
        print(f"proving with {command}", flush=True)
        found = measure(command, given)
        if isinstance(found, str):
            outcome.missed.append(f"{command} failed: {found}")
            withdraw(measured, time.time())
            continue
        keep(found, measured, recorder, given, outcome)
    return outcome


def _given(bar: Bar, checkouts: Path | None) -> dict[str, Path]:
    place = None if checkouts is None or bar.checkout is None else checkouts / bar.checkout
    return {} if place is None or bar.checkout is None or not place.is_dir() else {bar.checkout: place}


def measure(command: str, given: Mapping[str, Path]) -> dict[str, Any] | str:
    """The benchmark's JSON, or the end of its complaint."""
    places = [str(path.resolve()) for path in given.values()]
    words = [word for part in shlex.split(command)[1:] for word in (places if part == CHECKOUT else [part])]
    ran = subprocess.run(
        [sys.executable, *words, "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
        check=False,
    )
    if ran.returncode or not ran.stdout:
        return f"exit code {ran.returncode}, {len(ran.stdout)} characters of output"
    return json.loads(ran.stdout)


def keep(
    found: Mapping[str, Any],
    measured: list[Bar],
    recorder: Recorder,
    given: Mapping[str, Path],
    outcome: Outcome,
) -> None:
    """Record each bar whose figure the benchmark gave."""
    seeds = [int(seed) for seed in found["seeds"]]
    shared = {"neighbours_cores": found.get("machine", {}).get("neighbours_cores")}
    for bar in measured:
        figure, details = figure_of(found, bar)
        if figure is None:
            missing = ", ".join([*found.get("not_installed", ()), *found.get("not_measured", ())])
            outcome.notes.append(f"{bar.id}: no figure" + (f" (missing: {missing})" if missing else ""))
            continue
        recorder.record(
            bar.id,
            figure,
            seeds=seeds,
            rivals=found.get("rivals"),
            checkouts=given,
            details={**shared, **details},
        )
        if not bar.is_met(figure):
            outcome.missed.append(f"{bar.id}: {figure:g}, and the bar is {bar.limit}")


def figure_of(found: Mapping[str, Any], bar: Bar) -> tuple[float | None, dict[str, Any]]:
    """The figure of a bar: of the claim of one name, or at a path of the document."""
    if len(bar.at) == 1:
        claim = next((claim for claim in _claims(found) if claim["name"] == bar.at[0]), None)
        return (None, {}) if claim is None else (claim["ratio"], {k: claim[k] for k in _KEPT if k in claim})
    value: Any = found
    for part in bar.at:
        value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
    is_figure = isinstance(value, int | float) and not isinstance(value, bool)
    return (float(value), {}) if is_figure else (None, {})


def _claims(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from found.get("claims", ())
