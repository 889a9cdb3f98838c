"""The journal's benchmark runs and says what it should; what the figures are is not a test's business."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.journal import Plan, as_text, measure
from benchmarks.journal_rivals import samples

TINY = Plan(
    rounds=2,
    batches_a_round=1,
    single_commits_a_round=3,
    memory_events=100_000,
    reads=20,
    writers=2,
    appends_a_writer=3,
    recording_rounds=0,
)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return measure(tmp_path_factory.mktemp("bench"), TINY)


def test_every_claim_has_a_bar_a_ratio_a_verdict_and_a_rival(figures: dict[str, Any]) -> None:
    names = {claim["name"] for claim in figures["claims"]}
    assert {"append", "append with encoding", "commit per event"} < names
    for claim in figures["claims"]:
        at_most = claim["name"].startswith(("memory", "recording"))
        met = claim["ratio"] <= claim["bar"] if at_most else claim["ratio"] >= claim["bar"]
        assert claim["met"] is met or abs(claim["ratio"] - claim["bar"]) < 0.01
        assert claim["against"]


def test_rates_and_sizes_are_stated_and_the_journals_it_made_are_sound(figures: dict[str, Any]) -> None:
    for row in figures["rows"].values():
        assert row["events_per_second"] > 0
        assert row["bytes_per_event"] > figures["properties_bytes"]
    assert figures["growth"]["sound"]
    assert figures["writers"]["sound"]
    assert "commit per event" in as_text(figures)
    assert str(Path.home()) not in json.dumps(figures)


def test_recorded_events_are_those_of_a_backtest() -> None:
    made = samples(600)
    assert all(s.parent is None or s.parent < seq for seq, s in enumerate(made, 1))
    assert len({s.kind for s in made}) == 5
