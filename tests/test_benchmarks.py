"""The benchmark runs and says what it should; what the figures are is not a test's business."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measure, messages
from benchmarks.loadgen import parse
from benchmarks.measure import best_ratio, paired_ratio, spent_us

ROOT = Path(__file__).parent.parent
ROWS = {
    "stdio modern",
    "stdio handshake",
    "cold start",
    "http modern c=1",
    "http modern c=100",
    "http handshake c=1",
    "http handshake c=100",
}


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    if not measure.supported():
        pytest.skip("needs Linux with schedstat")
    command = [sys.executable, "-m", "benchmarks.wire", "--quick", "--json", "--rounds", "1", "--no-rivals"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_row_is_a_claim_with_a_bar_a_ratio_and_a_verdict(figures: dict[str, Any]) -> None:
    claims = {claim["name"]: claim for claim in figures["claims"]}
    assert claims.keys() == ROWS | {"memory stdio", "memory http"}
    for name in ROWS:
        claim = claims[name]
        assert claim["ratio"] > 0
        assert claim["met"] is (claim["ratio"] <= claim["bar"])


def test_a_process_whose_threads_come_and_go_is_read_like_any_other() -> None:
    if not measure.supported():
        pytest.skip("needs Linux with schedstat")
    threads = "import threading\nwhile True:\n    threading.Thread(target=print).start()"
    with subprocess.Popen([sys.executable, "-c", threads], stdout=subprocess.PIPE) as restless:
        assert restless.stdout is not None
        try:
            restless.stdout.readline()
            for _ in range(300):
                assert restless.pid in measure.reading(restless.pid)
                os.read(restless.stdout.fileno(), 1 << 16)
            assert restless.pid in measure.children(os.getpid())
            assert measure.peak_kib(restless.pid) > 0
        finally:
            restless.kill()
    assert (measure.reading(restless.pid), measure.peak_kib(restless.pid)) == ({}, 0)


def test_memory_is_reported_without_a_bar(figures: dict[str, Any]) -> None:
    held = [claim for claim in figures["claims"] if claim["name"].startswith("memory")]
    assert [(claim["bar"], claim["met"]) for claim in held] == [(None, None)] * 2
    for place in ("stdio", "http"):
        assert all(0 < of["pss"] <= of["rss"] for of in figures["memory_kib"][place].values())


def test_every_row_carries_the_rounds_of_both_sides(figures: dict[str, Any]) -> None:
    assert figures["rows"].keys() == ROWS
    for row in figures["rows"].values():
        assert row.keys() == {"ours", "stock"}
        for side in row.values():
            assert len(side["cpu_us"]["rounds"]) == len(side["p50_us"]["rounds"]) == 1


def test_the_machine_and_the_method_are_told_without_naming_any_folder(figures: dict[str, Any]) -> None:
    assert {"cpus", "python", "packages", "load_average", "neighbours_cores"} <= figures["machine"].keys()
    assert {"cpu", "ratio", "stock"} <= figures["method"].keys()
    assert figures["seeds"] == []
    assert str(ROOT) not in json.dumps(figures)


def test_a_thread_that_ended_between_readings_takes_nothing_along() -> None:
    assert spent_us({1: 1000, 2: 9000}, {1: 4000, 3: 2000}) == 5.0


def test_a_busy_machine_moves_the_paired_ratio_but_not_the_ratio_of_the_best_rounds() -> None:
    ours, theirs = [10.0, 15.0, 15.0], [20.0, 60.0, 60.0]
    assert best_ratio(ours, theirs) == 0.5
    assert paired_ratio(ours, theirs) == 0.25


def test_a_response_is_whole_only_when_all_of_it_has_come() -> None:
    sized = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
    for whole in (sized, chunked):
        assert all(parse(whole[:end], 0) is None for end in range(len(whole)))
        answer = parse(whole, 0)
        assert answer is not None
        assert (answer.status, answer.body) == (200, b"{}")


@pytest.mark.parametrize(
    "answer",
    [
        b'{"id":2,"result":{"structuredContent":{"n":1},"content":[{"text":"{\\"n\\":1}"}]}}',
        b'{"id":1,"result":{"structuredContent":{"n":2},"content":[{"text":"{\\"n\\":1}"}]}}',
        b'{"id":1,"result":{"structuredContent":{"n":1},"content":[]}}',
        b'{"id":1,"error":{"code":-32603}}',
        b"not JSON",
    ],
)
def test_a_wrong_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(messages.Misbehaved):
        messages.check_echo(answer, 1)


def _quick(module: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-m", module, "--quick", "--json"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def _check_claims(figures: dict[str, Any], at_most: set[str]) -> set[str]:
    """Every claim has a rival, and the verdict that its ratio and its bar give; returns their names."""
    for claim in figures["claims"]:
        assert claim["ratio"] > 0, claim
        assert claim["against"], claim
        if claim["bar"] is None:
            assert claim["met"] is None, claim
        elif abs(claim["ratio"] - claim["bar"]) > 0.001:
            is_below = claim["ratio"] < claim["bar"]
            assert claim["met"] is (is_below if claim["name"] in at_most else not is_below), claim
    assert all(isinstance(seed, int) for seed in figures["seeds"])
    assert {"cpus", "python", "load_average", "neighbours_cores"} <= figures["machine"].keys()
    assert figures["method"]
    assert str(ROOT) not in json.dumps(figures)
    return {claim["name"] for claim in figures["claims"]}


def test_the_backtest_benchmark_compares_answers_ingest_disk_and_readers_with_the_seeds_table() -> None:
    figures = _quick("benchmarks.backtest")
    assert _check_claims(figures, {"disk"}) == {
        "by order",
        "snapshot",
        "snapshot, positions alone",
        "aggregate",
        "deep page by cursor",
        "deep page by pageIndex",
        "ingest",
        "ingest, rows ready for the rival",
        "commit per event",
        "disk",
        "100 readers, page",
        "100 readers, by order",
    }
    for sides in figures["questions"].values():
        assert all(sides[who]["cpu_ms"] > 0 for who in ("ours", "theirs"))


@pytest.mark.judge
def test_the_trading_benchmark_states_risk_and_simulation_and_names_a_rival_it_has_not() -> None:
    if not measure.supported():
        pytest.skip("needs Linux with schedstat")
    figures = _quick("benchmarks.trading")
    start = {"spawn to tools/list, CPU", "bytes of tools/list"}
    names = {"risk of 500 x 2,500", "the same, prices put together", "trade_simulate, 20 symbols, ms"}
    expected = names if figures["not_installed"] else names | start
    assert _check_claims(figures, expected) == expected
    assert figures["simulate"]["calls"] > 0
