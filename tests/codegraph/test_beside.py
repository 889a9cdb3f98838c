"""Processes beside the desk: everyone else is served before them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.codegraph.giving_way import MODULE, scheduling
from tracedesk.codegraph.beside import Beside

ROOT = Path(__file__).parents[2]


def nothing() -> None:
    return None


@pytest.mark.skipif(sys.platform != "linux", reason="policies are Linux's")
def test_a_process_beside_and_those_it_starts_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with Beside(MODULE, {}) as child:
        told: dict[str, Any] = dict(next(iter(child.said(nothing))))
    mine = scheduling()
    for process in (told["beside"], told["started"]):
        assert process["policy"] == os.SCHED_BATCH
        assert process["nice"] == min(19, mine["nice"] + 5)
        assert process["cores"] == (mine["cores"][1:] or mine["cores"]), "a core stays for those who ask"


@pytest.mark.skipif(sys.platform != "linux", reason="cores are asked for on Linux")
def test_who_serves_nobody_has_it_done_on_every_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with Beside(MODULE, {}, everywhere=True) as child:
        told: dict[str, Any] = dict(next(iter(child.said(nothing))))
    assert told["started"]["cores"] == told["beside"]["cores"] == scheduling()["cores"]
