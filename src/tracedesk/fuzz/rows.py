"""The corpus as the tools show it: one row a transaction, by a running number that never changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tracedesk.fuzz import corpus_files, native
from tracedesk.fuzz.amounts import wei
from tracedesk.fuzz.corpus_files import Tx
from tracedesk.fuzz.native import Campaign, Engine
from tracedesk.fuzz.target import Target, canonical
from tracedesk.primitives import json

Row = dict[str, Any]
PAGE: Final = 500
MOST_MATCHES: Final = 500
"""Matches that one answer shows; all are counted."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `find_transaction_in_corpus` looks for."""

    signature: str | None = None
    sender: str | None = None
    least: int | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Wanted:
        signature, sender, least = (params.get(key) for key in ("functionSignature", "sender", "minValue"))
        return cls(
            None if signature is None else canonical(signature, "functionSignature"),
            None if sender is None else str(sender).lower(),
            None if least is None else wei(least, "minValue"),
        )


def row(found: Mapping[str, Any], target: Target, engine: Engine) -> Row:
    """A transaction of the corpus as it is answered."""
    tx: Tx = found["tx"]
    shown: Row = {
        "index": found["index"],
        "call": target.text(tx, engine),
        "sender": tx["from"],
        "value": str(tx["value"]),
    }
    if found.get("gas_used") is not None:
        shown["gasUsed"] = found["gas_used"]
    shown |= {"sequence": found["sequence"], "position": found["position"]}
    if any(tx.get("delay", ())):
        shown["delay"] = tx["delay"]
    if found.get("injected"):
        shown["injected"] = True
    return shown


def function_of(tx: Tx) -> str | None:
    """The id of the function that a transaction calls."""
    call: Mapping[str, Any] | None = tx.get("call")
    return call.get("function") if call else None


class CorpusKeeper:
    """Writes what is new in a campaign's corpus: rows for the tools, and files in Echidna's format."""

    def __init__(self, campaign: Campaign, rows: Path, folder: Path, target: Target, engine: Engine) -> None:
        self._campaign = campaign
        self._folder = folder
        self._target = target
        self._engine = engine
        self._done = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(rows, flags, 0o600), "wb")

    def keep(self) -> int:
        """Write the transactions that came since the last time; returns how many there are now."""
        fresh = list(self._fresh())
        for found in fresh:
            self._file.write(json.dumps(self._line(found)) + b"\n")
        for _, sequence in groupby(fresh, key=lambda found: found["sequence"]):
            corpus_files.save(self._folder, "coverage", [found["tx"] for found in sequence])
        if fresh:
            self._file.flush()
            self._done = fresh[-1]["index"] + 1
        return self._done

    def _fresh(self) -> Iterator[Mapping[str, Any]]:
        """New transactions, whole sequences only: a page may end within one, the next continues it."""
        start = self._done
        while True:
            page = native.read(self._campaign.corpus(start, PAGE))
            yield from page["transactions"]
            start += len(page["transactions"])
            if not page["transactions"] or start >= page["total"]:
                return

    def _line(self, found: Mapping[str, Any]) -> Row:
        return {**row(found, self._target, self._engine), "function": function_of(found["tx"])}

    def close(self) -> None:
        self._file.close()


# --- of a campaign that has ended --------------------------------------------------------------


def read(path: Path) -> list[Row]:
    """The rows of an ended campaign; a last line that was cut off is left out."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [native.read(line) for line in lines if line.endswith(b"\n")]


def page(rows: Sequence[Row], offset: int, limit: int) -> dict[str, Any]:
    """What `inspect_corpus_transactions` says of an ended campaign."""
    return {"transactions": [_shown(found) for found in rows[offset : offset + limit]], "total": len(rows)}


def find(rows: Iterable[Row], target: Target, wanted: Wanted) -> dict[str, Any]:
    """What `find_transaction_in_corpus` says of an ended campaign."""
    functions = {f.id for f in target.matching(wanted.signature)} if wanted.signature is not None else None
    found = [
        _shown(each)
        for each in rows
        if (functions is None or each.get("function") in functions)
        and (wanted.sender is None or each["sender"] == wanted.sender)
        and (wanted.least is None or int(each["value"]) >= wanted.least)
    ]
    return matches(found, len(found))


def matches(found: Sequence[Row], count: int) -> dict[str, Any]:
    """Matches with their number; the first ones only when there are too many to show."""
    answer: dict[str, Any] = {"matches": list(found[:MOST_MATCHES]), "count": count}
    return {**answer, "truncated": True} if count > len(answer["matches"]) else answer


def _shown(found: Row) -> Row:
    return {key: value for key, value in found.items() if key != "function"}
