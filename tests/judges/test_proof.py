"""Proofs: each file is as `make prove` wrote it, each bar is on the page, and each old proof is marked."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.proof import bars, benchmarks, page, record, state
from scripts.proof.bars import BENCHMARK, Bar, UnknownBar
from scripts.proof.record import Recorder
from tests.judges.areas import OLD_PROOFS
from tests.support import ROOT

PROOFS = sorted(bars.FOLDER.glob("*.json"))
BAR = Bar(
    "trading-bytes", "a claim", "trading", "python -m benchmarks.trading", ("src/tracedesk/market",), most=2
)


# --- the committed proofs -------------------------------------------------------------------------


def test_every_proof_is_as_it_was_written_and_of_a_bar_of_the_table() -> None:
    for path in PROOFS:
        proof = record.read(path)
        assert proof["bar"]["id"] == path.stem
        bar = bars.named(path.stem)
        assert proof["command"] == bar.command, path.name
        assert proof["rooms"].keys() == set(bar.rooms), path.name
        assert len(proof["commit"]) == 40
        assert proof["versions"]["python"]


def test_the_page_is_that_of_the_proofs_and_names_each_that_is_older_than_its_code(
    record_property: Callable[[str, object], None],
) -> None:
    old = [row.bar.id for row in page.rows() if row.is_old]
    record_property(OLD_PROOFS, " ".join(old))  # the end of the run names them
    written = page.PAGE.read_text(encoding="utf-8")
    assert written == page.current(), "docs/performance.md is stale: make docs"
    assert written.count(f"{page.OLD} |") == len(old)


def test_no_proof_names_a_folder_of_the_machine_that_measured_it() -> None:
    for path in PROOFS:
        assert str(Path.home()) not in path.read_text(encoding="utf-8")
        assert str(ROOT) not in path.read_text(encoding="utf-8")


# --- the table ------------------------------------------------------------------------------------


def test_every_room_command_and_checkout_of_the_table_is_there() -> None:
    for bar in bars.every().values():
        assert [room for room in bar.rooms if not (ROOT / room).exists()] == [], bar.id
        assert bar.checkout is None or bar.checkout in bars.checkouts(), bar.id
        assert (benchmarks.CHECKOUT in bar.command) <= (bar.checkout is not None), bar.id
        if bar.command.startswith(BENCHMARK):
            name = bar.command.removeprefix(BENCHMARK).split()[0]
            assert (ROOT / "benchmarks" / f"{name}.py").exists(), bar.id
            assert bar.at, bar.id
        else:
            file, _, function = bar.command.partition("::")
            assert function in _functions(ROOT / file), bar.id


def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_bar_of_a_test_is_recorded_by_that_test() -> None:
    for bar in bars.every().values():
        if not bar.command.startswith(BENCHMARK):
            text = (ROOT / bar.command.partition("::")[0]).read_text(encoding="utf-8")
            by_name = f'f"{bar.id.rpartition("-")[0]}-{{name}}"'
            assert f'"{bar.id}"' in text or by_name in text, bar.id


@pytest.mark.parametrize("given", ["", "most = 1\nleast = 1"])
def test_a_bar_without_one_limit_is_refused(tmp_path: Path, given: str) -> None:
    table = tmp_path / "bars.toml"
    head = '[[measurement]]\narea = "wire"\ncommand = "x"\nrooms = ["y"]\n[measurement.bars.a]\nclaim = "a"\n'
    table.write_text(head + given)
    with pytest.raises(ValueError, match="either most or least"):
        bars.read(table)


@pytest.mark.parametrize(
    "given", ['command = ""\nrooms = ["y"]\n', 'command = "x"\nrooms = []\n', 'command = "x"\n']
)
def test_a_bar_without_a_command_or_rooms_is_refused(tmp_path: Path, given: str) -> None:
    table = tmp_path / "bars.toml"
    table.write_text(f'[[measurement]]\narea = "wire"\n{given}[measurement.bars.a]\nclaim = "a"\nmost = 1\n')
    with pytest.raises(ValueError, match="needs a command, and rooms"):
        bars.read(table)


# --- recording ------------------------------------------------------------------------------------


def test_a_figure_is_written_with_all_it_was_measured_with(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "c" * 40, is_clean=True, load=0.25)
    recorder.record("trading-bytes", 0.24, seeds=[7], rivals={"alpaca": "1"}, details={"paired_ratio": 0.3})
    proof = record.read(tmp_path / "trading-bytes.json")
    assert (proof["figure"], proof["seeds"], proof["commit"], proof["clean"]) == (0.24, [7], "c" * 40, True)
    assert proof["bar"]["limit"] == "≤ 0.3"
    assert proof["rivals"] == {"alpaca": "1"}
    assert proof["load"]["before"] == 0.25
    assert proof["machine"]["cores"] > 0
    assert proof["rooms"] == state.room_digests(bars.named("trading-bytes").rooms)
    assert list(tmp_path.iterdir()) == [tmp_path / "trading-bytes.json"]


def test_a_proof_that_was_changed_by_hand_is_refused(tmp_path: Path) -> None:
    Recorder(tmp_path, "c" * 40, is_clean=True).record("trading-bytes", 0.5, seeds=[])
    path = tmp_path / "trading-bytes.json"
    changed: dict[str, Any] = {**json.loads(path.read_text(encoding="utf-8")), "figure": 0.1}
    path.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(ValueError, match="does not match its digest"):
        record.read(path)
    with pytest.raises(ValueError, match="does not match its digest"):
        page.rows({"trading-bytes": bars.named("trading-bytes")}, tmp_path)


@pytest.mark.parametrize("figure", [float("nan"), float("inf")])
def test_what_is_no_figure_is_refused(figure: float) -> None:
    with pytest.raises(ValueError, match="is no figure"):
        Recorder().record("trading-bytes", figure, seeds=[])


def test_a_proof_without_the_checkout_that_its_bar_is_measured_on_is_refused() -> None:
    with pytest.raises(ValueError, match="must name its checkout, django"):
        Recorder().record("codegraph-replay", 200, seeds=[])


def test_a_bar_whose_measurement_failed_loses_the_proof_of_an_earlier_run_alone(tmp_path: Path) -> None:
    other = bars.named("trading-start")
    for bar in (BAR, other):
        Recorder(tmp_path, "c" * 40, is_clean=True).record(bar.id, 0.1, seeds=[])
    os.utime(tmp_path / BAR.proof.name, (1_000, 1_000))
    assert record.withdraw([BAR, other, bars.named("trading-risk")], 2_000, tmp_path) == [BAR.id]
    assert [row.is_met for row in page.rows({BAR.id: BAR, other.id: other}, tmp_path)] == [False, True]


def test_a_run_that_does_not_prove_writes_nothing_and_still_checks_the_bars_name(prove: Recorder) -> None:
    before = {path: path.read_bytes() for path in PROOFS}
    assert Recorder().record("trading-bytes", 0.1, seeds=[]) is None
    assert {path: path.read_bytes() for path in sorted(bars.FOLDER.glob("*.json"))} == before
    with pytest.raises(UnknownBar, match=r"Add it to docs/proof/bars\.toml"):
        prove.record("no-such-bar", 1, seeds=[])


def test_a_checkout_is_named_by_its_commit_and_a_folder_by_its_files(tmp_path: Path) -> None:
    repository, folder = tmp_path / "repository", tmp_path / "folder"
    for place in (repository, folder):
        place.mkdir()
        (place / "a.txt").write_text("a")
    names = [
        "-c",
        "user.name=Somebody",
        "-c",
        "user.email=somebody@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    for words in (["init", "--quiet"], ["add", "."], [*names, "commit", "--quiet", "--message", "One"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    assert state.identity(repository) == state.commit(repository)
    assert state.is_clean(repository)
    (repository / "b.txt").write_text("b")
    assert state.identity(repository) == f"{state.commit(repository)}, with changes"
    bare = tmp_path / "bare"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repository), str(bare)], check=True)
    assert state.identity(bare) == state.commit(repository)
    first = state.identity(folder)
    assert first.startswith("sha256:")
    (folder / "a.txt").write_text("b")
    (repository / "a.txt").write_text("b")
    assert state.identity(folder) != first
    assert not state.is_clean(repository)


# --- the page -------------------------------------------------------------------------------------


def test_a_bar_without_a_proof_counts_as_not_met(tmp_path: Path) -> None:
    [row] = page.rows({BAR.id: BAR}, tmp_path)
    assert not row.is_met
    assert page.NO_PROOF in page.table([row])


def test_a_figure_beyond_its_bar_is_not_met_and_one_at_its_bar_is(tmp_path: Path) -> None:
    for figure, is_met in ((2.0, True), (2.01, False)):
        Recorder(tmp_path, "c" * 40, is_clean=True).record(BAR.id, figure, seeds=[])
        [row] = page.rows({BAR.id: BAR}, tmp_path)
        assert row.is_met is is_met
        assert (page.MISSED in page.table([row])) is not is_met


def test_a_proof_is_old_once_a_file_of_its_rooms_has_changed(tmp_path: Path) -> None:
    room = tmp_path / "src" / "room"
    (room / "__pycache__").mkdir(parents=True)
    (room / "code.py").write_text("x = 1\n")
    bar = Bar(BAR.id, "a claim", "trading", "python -m benchmarks.trading", ("src/room",), most=2)
    proof: dict[str, Any] = {"figure": 1, "rooms": state.room_digests(bar.rooms, tmp_path)}
    measured = {"load": {"before": 1, "after": 2}, "date": "2026-11-18", "clean": False}
    record.write(tmp_path / bar.proof.name, record.sealed({**proof, **measured}))
    (room / "__pycache__" / "code.pyc").write_text("made")
    [row] = page.rows({bar.id: bar}, tmp_path, tmp_path)
    assert not row.is_old
    assert "2026-11-18, load 1 to 2, uncommitted changes |" in page.table([row])
    (room / "code.py").write_text("x = 2\n")
    [row] = page.rows({bar.id: bar}, tmp_path, tmp_path)
    assert row.is_old
    assert row.is_met
    assert page.OLD in page.table([row])


def test_an_area_without_a_table_on_the_page_is_refused() -> None:
    with pytest.raises(ValueError, match="no table, or one too many, for"):
        page.text(page.rows(), "# Performance\n\n{{ bars wire }}\n")


# --- benchmarks -----------------------------------------------------------------------------------


def test_a_figure_is_found_by_its_claim_or_its_path() -> None:
    found: dict[str, Any] = {
        "claims": [{"name": "bytes", "ratio": 0.2, "paired_ratio": 0.3, "bar": 1}],
        "figures": {"subject": {"mrr": 0.7}},
    }

    def at(*path: str) -> Any:
        return benchmarks.figure_of(found, Bar("x", "x", "wire", "x", (), most=1, at=path))

    assert at("bytes") == (0.2, {"paired_ratio": 0.3})
    assert at("figures", "subject", "mrr") == (0.7, {})
    assert at("figures", "plain", "mrr") == (None, {})
    assert at("gone") == (None, {})


def test_a_bar_that_a_benchmark_misses_is_recorded_and_reported(tmp_path: Path) -> None:
    bar = bars.named("trading-bytes")
    outcome = benchmarks.Outcome()
    recorder = Recorder(tmp_path, "c" * 40, is_clean=True)
    found = {
        "claims": [{"name": bar.at[0], "ratio": 0.5}],
        "seeds": [3],
        "rivals": {"alpaca-mcp-server": "2"},
    }
    missing = bars.named("trading-start")
    benchmarks.keep({**found, "not_installed": ["a rival"]}, [bar, missing], recorder, {}, outcome)
    assert outcome.missed == ["trading-bytes: 0.5, and the bar is ≤ 0.3"]
    assert outcome.notes == ["trading-start: no figure (missing: a rival)"]
    proof = record.read(tmp_path / "trading-bytes.json")
    assert (proof["figure"], proof["seeds"], proof["rivals"]) == (0.5, [3], {"alpaca-mcp-server": "2"})


def test_a_benchmark_without_its_checkout_is_skipped_with_the_name_of_the_folder(tmp_path: Path) -> None:
    needed = {bar.id: bar for bar in bars.every().values() if bar.id == "fuzz-mazes"}
    for folder in (None, tmp_path):
        outcome = benchmarks.run(None, folder, needed)
        assert outcome.missed == []
        assert outcome.notes == [f"skipped {needed['fuzz-mazes'].command}: CHECKOUTS has no folder daedaluzz"]


def test_a_benchmark_of_several_checkouts_is_run_once_over_each() -> None:
    command = "python -m benchmarks.codegraph_functions CHECKOUT"
    made = {
        name: Bar(name, "a claim", "codegraph", command, ("src",), most=1, checkout=folder)
        for name, folder in (("one", "flask"), ("two", "hono"), ("three", "hono"))
    }
    found = benchmarks.commands("codegraph", made)
    assert [[bar.id for bar in together] for together in found] == [["one"], ["two", "three"]]


def test_the_folder_of_a_checkout_stands_in_its_place_of_the_command(tmp_path: Path) -> None:
    ran = benchmarks.measure("python -c print('{}') CHECKOUT", {"django": tmp_path})
    assert ran == {}
    assert benchmarks.measure("python -c exit(3)", {}) == "exit code 3, 0 characters of output"
