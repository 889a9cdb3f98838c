"""`tracedesk prune`: says what would go, and removes it only when told."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell
from tests.home.filling import Filled
from tracedesk.home import Home
from tracedesk.journal import Reader, verify


@pytest.fixture
def filled(shell: Shell) -> Filled:
    filled = Filled(Home.open(shell.home))
    filled.run("old", days=60)
    filled.run("young", days=5)
    filled.stream(filled.home.trace, "calls-1", [b"{}"] * 9, status="ended", days=40)
    filled.payload(b"lonely body")
    return filled


def _gone(filled: Filled) -> set[str]:
    files = {"old": filled.home.run_file("old"), "young": filled.home.run_file("young")}
    files["calls-1"] = filled.home.trace
    gone: set[str] = set()
    for name, file in files.items():
        with Reader(file) as reader:
            gone |= {name} if reader.is_pruned(name) else set()
    return gone


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_without_yes_nothing_is_removed_and_everything_is_named(
    shell: Shell, filled: Filled, words: tuple[str, ...]
) -> None:
    done = shell("prune", "--older-than", "30d", *words)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["FILE", "STREAM", "KIND", "ENDED", "EVENTS", "SIZE"]
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["runs/old.db", "old", "backtest"],
        ["trace.db", "calls-1", "calls"],
    ]
    assert lines[3].startswith("2 streams and 1 payload would go, about ")
    assert lines[3].endswith("Nothing was removed; add --yes.")
    assert _gone(filled) == set()
    document = shell("prune", "--older-than", "30d", "--json").json
    assert (document["dryRun"], len(document["streams"]), document["payloads"]) == (True, 2, 1)


def test_with_yes_it_goes_and_the_bytes_are_told(shell: Shell, filled: Filled) -> None:
    done = shell("prune", "--older-than", "30d", "--yes", "--json")
    assert done.code == 0
    assert (done.json["dryRun"], done.json["payloads"], done.json["notes"]) == (False, 1, [])
    assert done.json["bytesFreed"] >= len(b"lonely body")
    assert done.json["streams"][0]["file"] == "runs/old.db"
    assert _gone(filled) == {"old", "calls-1"}
    assert verify(filled.home.trace).is_sound
    assert shell("prune", "--older-than", "30d", "--yes").out == "Nothing to prune.\n"


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (("--older-than", "50d"), {"old"}),
        (("--older-than", "30d", "--kind", "calls"), {"calls-1"}),
        (("--older-than", "90m"), {"old", "young", "calls-1"}),
        (("--older-than", "9w"), set[str]()),
        (("--older-than", "2020-01-01"), set[str]()),
        (("--older-than", "2100-01-01T00:00:00Z"), {"old", "young", "calls-1"}),
        (("--down-to", "0"), {"old", "young", "calls-1"}),
        (("--down-to", "1GB"), set[str]()),
    ],
)
def test_what_is_old_enough_can_be_said_in_many_ways(
    shell: Shell, filled: Filled, words: tuple[str, ...], gone: set[str]
) -> None:
    assert shell("prune", *words, "--yes").code == 0
    assert _gone(filled) == gone


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "Say what is old enough"),
        (("--older-than", "soon"), "An age is 30d, 12h, 90m or 2w."),
        (("--older-than", "-1d"), "An age is 30d, 12h, 90m or 2w."),
        (("--down-to", "much"), "takes a size like 500MB or 20GB"),
        (("--older-than", "1d", "--yes", "--dry-run"), "exclude each other"),
    ],
)
def test_an_unclear_wish_is_refused_with_exit_code_2(
    shell: Shell, words: tuple[str, ...], problem: str
) -> None:
    done = shell("prune", *words)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err


def test_pruning_makes_no_home(shell: Shell) -> None:
    done = shell("prune", "--older-than", "1d")
    assert (done.code, "There is no home" in done.err) == (1, True)
    assert not shell.home.exists()
