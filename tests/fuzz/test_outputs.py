"""Reports that an agent names: only below the campaign's folder, and no link leads anywhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracedesk.errors import ToolError
from tracedesk.fuzz.outputs import fitting_lcov, write_lcov, write_report

REPORT = b"TN:\nSF:a\nend_of_record\n"


def refused(root: Path, name: str) -> str:
    with pytest.raises(ToolError) as refusal:
        write_lcov(root, name, REPORT)
    assert refusal.value.code == "INVALID_INPUT"
    details = refusal.value.details or {}
    assert (details["kind"], details["argument"]) == ("BAD_PATH", "outputPath")
    assert refusal.value.message.startswith("outputPath: ")
    return details["reason"]


def test_a_report_is_written_whole_and_may_be_written_again(tmp_path: Path) -> None:
    root = tmp_path / "reports"
    path = write_lcov(root, "now.lcov", REPORT)
    assert path == root / "now.lcov"
    assert path.read_bytes() == REPORT
    assert write_lcov(root, str(root / "now.lcov"), REPORT * 2).read_bytes() == REPORT * 2
    assert [file.name for file in root.iterdir()] == ["now.lcov"], "nothing is left beside it"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../now.lcov", "parent"),
        ("a/../../now.lcov", "parent"),
        ("/etc/now.lcov", "outside"),
        ("now.sh", "suffix"),
        ("now", "suffix"),
        ("no/such/now.lcov", "missing"),
        ("nul\0.lcov", "nul"),
        ("C:now.lcov", "drive"),
        ("x" * 300 + ".lcov", "too_long"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    assert refused(tmp_path, name) == reason
    assert list(tmp_path.iterdir()) == []


def test_links_fifos_folders_and_other_files_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    root, outside = tmp_path / "reports", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "kept.lcov").write_bytes(REPORT)
    (root / "link.lcov").symlink_to(outside / "kept.lcov")
    (root / "dangling.lcov").symlink_to(outside / "made.lcov")
    (root / "inner.lcov").symlink_to(root / "notes.lcov")
    (root / "way").symlink_to(outside)
    os.mkfifo(root / "fifo.lcov")
    (root / "folder.lcov").mkdir()
    (root / "notes.lcov").write_text("do not lose me")
    before = sorted(os.listdir(root))
    assert refused(root, "link.lcov") == "outside"
    assert refused(root, "dangling.lcov") == "outside"
    assert refused(root, "inner.lcov") == "symlink"
    assert refused(root, "way/now.lcov") == "outside"
    assert refused(root, "fifo.lcov") == "not_regular"
    assert refused(root, "folder.lcov") == "not_regular"
    assert refused(root, "notes.lcov") == "exists"
    assert sorted(os.listdir(root)) == before
    assert sorted(os.listdir(outside)) == ["kept.lcov"]
    assert (root / "notes.lcov").read_text() == "do not lose me"


def test_a_report_that_is_too_long_is_cut_after_whole_records() -> None:
    record = "SF:a\nDA:1,1\nend_of_record\n"
    whole = "TN:\n" + record * 100
    assert fitting_lcov(whole, 10_000) == whole
    cut = fitting_lcov(whole, 500)
    assert len(cut) <= 500
    assert cut.startswith("# ")
    assert cut.endswith("end_of_record\n")
    kept = cut.count("end_of_record")
    assert f"# {kept} of 100 files" in cut


def test_a_missing_folder_is_named_as_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as refusal:
        write_lcov(tmp_path, "no/such/now.lcov", REPORT)
    assert refusal.value.message.startswith("outputPath: the folder 'no/such' is not there; ")
    assert ".new" not in refusal.value.message
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ToolError) as refusal:
        write_lcov(tmp_path, "file/now.lcov", REPORT)
    assert ".new" not in refusal.value.message
    (tmp_path / "there").mkdir()
    assert write_lcov(tmp_path, "there/now.lcov", REPORT) == tmp_path / "there" / "now.lcov"


def test_a_report_of_the_user_goes_into_folders_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_report(Path("a/b/cov.html"), b"one")
    assert path == tmp_path / "a" / "b" / "cov.html"
    assert write_report(Path("a/b/cov.html"), b"two").read_bytes() == b"two"
    assert os.listdir(path.parent) == ["cov.html"]


def test_a_report_that_cannot_be_written_is_refused_by_the_name_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept")
    Path("folder").mkdir()
    for name in ("file/cov.html", "folder", "/proc/nowhere/cov.html", "x" * 300):
        with pytest.raises(ToolError) as refusal:
            write_report(Path(name), b"one")
        assert refusal.value.code == "INVALID_INPUT"
        assert refusal.value.message.startswith(f"{name} cannot be written: ")
        assert ".new" not in refusal.value.message
    assert sorted(os.listdir()) == ["file", "folder"]
