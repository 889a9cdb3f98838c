"""Recording figures: only `make prove` writes them, each with all it was measured with and a digest."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from scripts.proof import state
from scripts.proof.bars import FOLDER, Bar, named

DIGEST: Final = "digest"
Proof = dict[str, Any]


@dataclass(slots=True)
class Recorder:
    """Figures of one run. Without a folder, bars and figures are checked and nothing is written."""

    folder: Path | None = None
    commit: str = ""
    is_clean: bool = False
    load: float = field(default_factory=state.load)

    @classmethod
    def begun(cls, folder: Path = FOLDER) -> Recorder:
        """A recorder that writes, tied to the commit and the load of this moment."""
        return cls(folder, state.commit(), state.is_clean())

    def record(
        self,
        bar: str,
        figure: float,
        *,
        seeds: Sequence[int],
        rivals: Mapping[str, str] | None = None,
        checkouts: Mapping[str, Path] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Proof | None:
        """Write the proof of a bar; returns it, or nothing where this run does not prove.

        Raises `UnknownBar` or `ValueError` in every run, so that a wrong call fails long before it is proved.
        """
        known = named(bar)
        if not math.isfinite(figure):
            raise ValueError(f"{bar}: {figure} is no figure")
        if known.checkout is not None and known.checkout not in (checkouts or {}):
            raise ValueError(f"{bar}: the proof must name its checkout, {known.checkout}")
        if self.folder is None:
            return None
        found = self._proof(known, figure, seeds, rivals, checkouts, details)
        write(self.folder / known.proof.name, found)
        return found

    def _proof(
        self,
        bar: Bar,
        figure: float,
        seeds: Sequence[int],
        rivals: Mapping[str, str] | None,
        checkouts: Mapping[str, Path] | None,
        details: Mapping[str, Any] | None,
    ) -> Proof:
        at = {name: state.identity(path) for name, path in (checkouts or {}).items()}
        return sealed(
            {
                "bar": {"id": bar.id, "claim": bar.claim, "limit": bar.limit},
                "figure": figure,
                "command": bar.command,
                "seeds": list(seeds),
                "versions": state.versions(),
                "rivals": {**state.rivals(bar.rivals), **(rivals or {})},
                "checkouts": at,
                "load": {"before": self.load, "after": state.load()},
                "machine": state.machine(),
                "date": datetime.now(UTC).date().isoformat(),
                "commit": self.commit,
                "clean": self.is_clean,
                "rooms": state.room_digests(bar.rooms),
                "details": dict(details or {}),
            }
        )


def withdraw(bars: Iterable[Bar], since: float, folder: Path = FOLDER) -> list[str]:
    """Remove the proofs of bars whose measurement has failed, but for those written `since`.

    A bar that could not be shown again must not go on counting as met. Returns the bars' ids.
    """
    proofs = ((bar.id, folder / bar.proof.name) for bar in bars)
    gone = [(id, path) for id, path in proofs if path.exists() and path.stat().st_mtime < since]
    for _, path in gone:
        path.unlink()
    return [id for id, _ in gone]


def sealed(proof: Proof) -> Proof:
    """The same with a digest over all of it, which an edit by hand breaks."""
    content = {key: value for key, value in proof.items() if key != DIGEST}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return {**content, DIGEST: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}


def is_sealed(proof: Proof) -> bool:
    return proof.get(DIGEST) == sealed(proof)[DIGEST]


def write(path: Path, proof: Proof) -> None:
    """Replace a proof whole: two workers may record beside each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(proof, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)


def read(path: Path) -> Proof:
    """A proof as it was written; raises `ValueError` where it was changed by hand."""
    proof: Proof = json.loads(path.read_text(encoding="utf-8"))
    if not is_sealed(proof):
        raise ValueError(f"{path.name} does not match its digest. Measure it again with `make prove`.")
    return proof
