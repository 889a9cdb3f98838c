"""Mazes: that every label can be reached, and how many a campaign reaches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fuzz_maze, fuzz_mazes
from benchmarks.fuzz_maze import GUIDED, OURS, PLAIN
from tests.fuzz.cases import compiled
from tests.judges.size import Size
from tracedesk.fuzz import config, native, spec

MAZE = fuzz_mazes.make(1)
REACHED = re.compile(r'AssertionFailed\("(\d+)"\)')


def test_a_seed_always_makes_the_same_maze_and_another_seed_another() -> None:
    committed = (compiled.CONTRACTS / "maze.sol").read_text(encoding="utf-8")
    assert fuzz_mazes.make(1).source() == committed
    assert fuzz_mazes.make(2).source() != committed


def test_every_label_of_a_maze_is_reached_by_its_solution_and_by_no_earlier_call() -> None:
    engine = native.engine()
    told = config.of({"testMode": "assertion", "seed": 1, "workers": 1}).config
    built = spec.build(compiled.project("maze.sol"), told, "Maze", engine)
    campaign = engine.Campaign(json.dumps(built.document, default=str))
    for label, moves in MAZE.solutions().items():
        checked = json.loads(
            campaign.check(json.dumps([_transaction(move, built.document) for move in moves]))
        )
        found = [(f["position"], REACHED.search(f["reason"])) for f in checked["failures"]]
        assert {(position, match and match[1]) for position, match in found} == {(len(moves) - 1, label)}, (
            moves
        )


def _transaction(move: fuzz_mazes.Move, document: Any) -> dict[str, Any]:
    name, arguments = move
    functions = {f["name"]: f["id"] for f in document["codes"][0]["functions"]}
    return {
        "to": document["targets"][0]["address"],
        "from": document["senders"][0],
        "value": "0",
        "gas": document["tx_gas"],
        "gas_price": "0",
        "delay": [0, 0],
        "call": {"function": functions[name], "args": [str(value) for value in arguments]},
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_campaign_reaches_a_third_of_the_labels_in_20_000_calls(seed: int) -> None:
    found = fuzz_maze.ours(compiled.project("maze.sol"), 20_000, seed)
    assert found.calls == 20_000
    assert found.labels <= MAZE.labels
    assert len(found.labels) >= len(MAZE.labels) // 3


def test_what_forge_is_given_writes_down_every_label_and_asserts_nothing() -> None:
    copy = fuzz_maze.forge_copy(MAZE.source())
    assert set(re.findall(r'writeLine\("labels.txt", "(\d+)"\)', copy)) == MAZE.labels
    assert "assert(" not in copy


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_our_campaigns_reach_more_labels_of_our_mazes_than_forge_does(tmp_path: Path, size: Size) -> None:
    """The small sibling of the benchmark over a checkout; the mazes have the same places as there."""
    folder = tmp_path / "generated-mazes"
    folder.mkdir()
    for number in range(fuzz_maze.MAZES):
        maze = fuzz_mazes.make(number + 1).source()
        (folder / f"maze-{number}.sol").write_text(maze, encoding="utf-8")
    calls, seeds = size.of(judge=(30_000, (1,)), prove=(150_000, (1, 2, 3)))
    figures = fuzz_maze.measure(fuzz_maze.sources(tmp_path), calls, seeds, tmp_path, None)
    assert figures["found"].keys() == {OURS, PLAIN, GUIDED}
    assert [claim for claim in figures["claims"] if not claim["met"]] == []
