"""The sample: a real run of a real strategy, recorded once and kept with the package; it needs no engine."""

from __future__ import annotations

from importlib import resources
from typing import Final

from tracedesk.backtest.importing import Imported, Progress, import_file
from tracedesk.home import Home
from tracedesk.primitives import json

EVENTS: Final = "sample.jsonl.gz"
FACTS: Final = "sample.json"


def bring_in(home: Home, *, progress: Progress | None = None) -> Imported:
    """The sample run in this home: imported now, or found as it is."""
    folder = resources.files("tracedesk.backtest") / "data"
    facts = json.loads((folder / FACTS).read_bytes())
    about = {"name": facts["name"], "engine": facts["engine"], "config": facts["config"]}
    with resources.as_file(folder / EVENTS) as path:
        return import_file(home, path, **about, progress=progress)[0]


def question(run: Imported) -> str:
    """What to ask an agent about it first."""
    return f"Why did my strategy lose money in backtest run {run.id}?"
