"""A barrier inside the parsers of an index: they stop before their second chunk, until it is lifted."""

from __future__ import annotations

import os
import select
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CUSTOM: Final = """
import os, select, sys

if "tracedesk.codegraph.indexer" in sys.orig_argv:
    from tracedesk.codegraph.graph import pool

    # A parser gets a bare environment: what it is to load comes with its command.
    pool.COMMAND = ["env", "PYTHONPATH={folder}", *pool.COMMAND]
elif "tracedesk.codegraph.graph.worker" in sys.orig_argv:
    from tracedesk.codegraph.graph import parse

    answers, asked = parse.answers, []

    def held(*given):
        asked.append(given)
        if len(asked) == 2:
            os.write(os.open("{reached}", os.O_WRONLY | os.O_NONBLOCK), b".")
            select.select([os.open("{lifted}", os.O_RDONLY | os.O_NONBLOCK)], [], [])
        return answers(*given)

    parse.answers = held
"""
"""Python imports it at the start of a process whose path of modules has its folder."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """The barrier of the indexes that are started with its variables."""

    variables: Mapping[str, str]
    _reached: int

    def is_reached(self, seconds: float = 0) -> bool:
        """Whether a parser has come to it, or comes in so many seconds."""
        return bool(select.select([self._reached], [], [], seconds)[0])


@contextmanager
def barrier(folder: Path) -> Generator[Barrier]:
    """A barrier that is lifted at the end of the block."""
    place = folder / "barrier"
    place.mkdir()
    reached, lifted = _fifo(place / "reached"), _fifo(place / "lifted")
    files = {"folder": place, "reached": place / "reached", "lifted": place / "lifted"}
    (place / "sitecustomize.py").write_text(_CUSTOM.format(**files), encoding="utf-8")
    try:
        yield Barrier({"PYTHONPATH": str(place)}, reached)
    finally:
        os.write(lifted, b".")
        os.close(reached)
        os.close(lifted)


def _fifo(path: Path) -> int:
    """A pipe with a name, open at both ends, so that opening it never waits."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)
