"""Areas of judges and proofs: their tests and their minutes, as `budget.toml` has them."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

BUDGET: Final = tomllib.loads((Path(__file__).parent / "budget.toml").read_text(encoding="utf-8"))
MINUTES: Final[Mapping[str, float]] = BUDGET["minutes"]
PLACES: Final[Mapping[str, str]] = {
    place: area for area, places in BUDGET["tests"].items() for place in places
}
OVER: Final = " OVER BUDGET"
OLD_PROOFS: Final = "proofs older than the code that they are about"
"""Property of the test that finds them."""


def area_of(nodeid: str) -> str | None:
    """The area of a test by its id; nothing where the table has no place for its file."""
    path = Path(nodeid.split("::")[0])
    places = (each.as_posix() for each in (path, *path.parents))
    return next((PLACES[place] for place in places if place in PLACES), None)


def add(file: Path, seconds: Mapping[str, float]) -> None:
    """Add one session's seconds by area to a file that several sessions share."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(seconds) + "\n")


def total(file: Path) -> Counter[str]:
    """The seconds of all sessions together."""
    spent: Counter[str] = Counter()
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        spent.update(json.loads(line))
    return spent


def lines(spent: Mapping[str, float], only: str | None = None) -> list[str]:
    """The time of each area, or of one, against its minutes."""
    return [
        f"{area}: {spent.get(area, 0) / 60:.1f} of {minutes} min" + (OVER if is_over(area, spent) else "")
        for area, minutes in MINUTES.items()
        if only in (None, area)
    ]


def is_over(area: str, spent: Mapping[str, float]) -> bool:
    return spent.get(area, 0) > MINUTES[area] * 60


def over(spent: Mapping[str, float]) -> list[str]:
    """The areas that passed their minutes."""
    return [area for area in MINUTES if is_over(area, spent)]
