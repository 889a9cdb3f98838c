"""Anchors: written outside the home, signed, and compared with the home later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.home.filling import Filled
from tests.home.test_rollback import FILES, keep, trade
from tracedesk.anchor import AnchorError, compare, document, read, write
from tracedesk.backup import back_up
from tracedesk.home import Home
from tracedesk.journal import Journal
from tracedesk.journal.sqlite import connect


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


@pytest.fixture
def anchored(filled: Filled, tmp_path: Path) -> Path:
    """An anchor of a home with two runs, one of them sealed, and a sealed month of calls."""
    filled.run("ended")
    filled.run("open", status=None)
    filled.stream(filled.home.trace, "calls-2020-01", [b"{}"] * 3, status="ended", days=90)
    file = tmp_path / "anchor.json"
    write(document(filled.home), file, filled.home.path)
    return file


def losses(home: Home, anchor: Path) -> list[tuple[str, str]]:
    found = compare(home, read(anchor), anchor.name)
    return [(loss.file, loss.problem) for loss in found.losses]


def test_both_files_put_back_together_are_found_by_the_anchor(shell: Shell) -> None:
    trade(shell.home, 2)
    put_back = keep(shell.home, shell.user / "kept")
    trade(shell.home, 3, first=3)
    anchor = shell.user / "anchor.json"
    assert shell("anchor", anchor).code == 0
    assert shell("verify", "--since", anchor).code == 0
    for file in FILES:
        put_back(file)
    assert shell("verify").code == 0
    done = shell("--json", "verify", "--since", anchor)
    document = json.loads(done.out.splitlines()[0])
    assert done.code == 1
    assert {"ledger.db", "trace.db"} <= {loss["file"] for loss in document["since"]["losses"]}


def test_a_home_that_goes_on_has_lost_nothing(filled: Filled, anchored: Path) -> None:
    filled.stream(filled.home.run_file("open"), "open", [b"{}"] * 4, kind="backtest", status="ended")
    filled.run("new")
    assert losses(filled.home, anchored) == []


def test_a_deleted_run_is_found(filled: Filled, anchored: Path) -> None:
    filled.home.run_file("ended").unlink()
    assert losses(filled.home, anchored) == [("runs/ended.db", "the file is missing")]


def test_a_shorter_run_and_one_written_anew_are_found(filled: Filled, anchored: Path) -> None:
    for name, events in (("ended", 2), ("open", 3)):
        filled.home.run_file(name).unlink()
        filled.run(name, events=events, days=1)
    found = dict(losses(filled.home, anchored))
    assert found["runs/ended.db"] == "it ends at 2, and 3 were written"
    assert found["runs/open.db"] == "number 3 is not the one that was written"


def test_a_removed_seal_is_found(filled: Filled, anchored: Path) -> None:
    connection = connect(filled.home.run_file("ended"))
    connection.execute("DROP TRIGGER seal_is_never_removed; DELETE FROM seal")
    connection.close()
    assert losses(filled.home, anchored) == [("runs/ended.db", "its seal is missing or another one")]


def test_pruning_is_named_and_is_no_loss(filled: Filled, anchored: Path) -> None:
    with Journal(filled.home.trace) as journal:
        journal.prune("calls-2020-01")
    found = compare(filled.home, read(anchored), "anchor")
    assert (found.losses, found.pruned) == ([], [("trace.db", "calls-2020-01")])


def test_a_stream_deleted_without_its_tombstone_is_found(filled: Filled, anchored: Path) -> None:
    connection = connect(filled.home.trace)
    for table in ("event", "batch", "seal", "stream"):
        connection.execute(f"DROP TRIGGER {table}_is_never_removed; DELETE FROM {table}")
    connection.close()
    assert losses(filled.home, anchored) == [
        ("trace.db", "the stream is missing; 3 events of it were written")
    ]


def test_a_changed_anchor_is_refused(filled: Filled, anchored: Path) -> None:
    whole = json.loads(anchored.read_bytes())
    del whole["anchor"]["files"]["runs/ended.db"]
    anchored.write_text(json.dumps(whole))
    with pytest.raises(AnchorError, match="it was changed"):
        read(anchored)


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"anchor":' * 5_000, b"null", b"\xff"])
def test_a_file_of_any_other_content_is_refused_as_no_anchor(
    filled: Filled, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(AnchorError, match="is not an anchor"):
        read(file)
    with pytest.raises(AnchorError, match="no anchor"):
        write(document(filled.home), file, filled.home.path)


def test_an_anchor_signed_by_another_key_does_not_pass_for_the_homes(
    filled: Filled, anchored: Path, tmp_path: Path
) -> None:
    forger = Home.open(tmp_path / "forger")
    shutil.copy(filled.home.path / "format.json", forger.path / "format.json")
    write(document(forger), anchored, forger.path)
    problem = "the key that signed the anchor is not among this home's"
    assert losses(filled.home, anchored) == [("anchor.pub", problem)]


def test_a_restored_backup_holds_against_its_anchor_and_goes_on_with_a_key_of_its_own(
    filled: Filled, anchored: Path, tmp_path: Path
) -> None:
    back_up(filled.home.path, tmp_path / "backup")
    restored = Home.open(tmp_path / "backup")
    assert not (restored.path / "anchor.key").exists()
    assert losses(restored, anchored) == []
    second = tmp_path / "second.json"
    write(document(restored), second, restored.path)
    assert read(second).public_key != read(anchored).public_key
    assert losses(restored, anchored) == losses(restored, second) == []


def test_an_anchor_of_another_home_is_refused(anchored: Path, tmp_path: Path) -> None:
    other = Home.open(tmp_path / "other")
    with pytest.raises(AnchorError, match="another home"):
        compare(other, read(anchored), "anchor")


@pytest.mark.parametrize("where", ["home/anchor.json", "home/runs/../anchor.json", "link/anchor.json"])
def test_an_anchor_inside_the_home_is_refused(filled: Filled, tmp_path: Path, where: str) -> None:
    (tmp_path / "link").symlink_to(filled.home.path)
    with pytest.raises(AnchorError, match="in the home itself"):
        write(document(filled.home), tmp_path / where, filled.home.path)
    assert not (filled.home.path / "anchor.json").exists()


def test_a_file_that_is_no_anchor_is_not_replaced(filled: Filled, tmp_path: Path) -> None:
    target = tmp_path / "notes.txt"
    target.write_text("mine")
    with pytest.raises(AnchorError, match="no anchor"):
        write(document(filled.home), target, filled.home.path)
    assert target.read_text() == "mine"


def test_the_key_is_for_its_owner_alone_and_stays_the_same(filled: Filled, tmp_path: Path) -> None:
    first, second = document(filled.home), document(filled.home)
    assert (filled.home.path / "anchor.key").stat().st_mode & 0o777 == 0o600
    assert first["publicKey"] == second["publicKey"]


def test_the_commands_answer_in_json_and_refuse_with_their_exit_codes(shell: Shell, tmp_path: Path) -> None:
    Home.open(shell.home)
    anchor = tmp_path / "anchor.json"
    made = shell("--json", "anchor", anchor)
    assert (made.code, made.json["streams"], len(made.json["key"])) == (0, 0, 64)
    assert json.loads(shell("anchor").out)["publicKey"]
    checked = shell("--json", "verify", "--since", anchor)
    assert (checked.code, checked.json["since"]["sound"]) == (0, True)
    assert shell("verify", "--since", tmp_path / "none").code == 2
    assert shell("anchor", shell.home / "a.json").code == 1
    anchor.write_text("{}")
    assert shell("verify", "--since", anchor).code == 1
