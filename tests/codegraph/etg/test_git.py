"""Git history as attempts: one a commit, once, and nothing of the repository's configuration is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.codegraph.etg.bench import Bench
from tests.support import BOUND
from tracedesk.codegraph.etg import git, log
from tracedesk.codegraph.etg.git import commits, import_history, without_trailers
from tracedesk.errors import ToolError
from tracedesk.hosts import confined
from tracedesk.primitives.time import parse

_WHO: Final = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Repository:
    """A real repository; each commit is a minute after the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._minute = 0
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        date = f"2026-01-01T00:{self._minute:02}:00Z"
        environment = {**os.environ, **_WHO, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str, *files: str) -> str:
        for name in files:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{message} {self._minute}")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        self._minute += 1
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def test_each_commit_is_an_attempt_with_its_message_and_files(bench: Bench, repository: Repository) -> None:
    repository.commit("First", "a.py")
    message = "Fixed #12 -- Parser.\n\nIt failed on commas.\n\nSigned-off-by: A <a@example.com>"
    sha = repository.commit(message, "src/b.py", "ä ö.py", "new\nline.py")
    done = import_history(bench.etg, repository.folder)
    assert (done.commits, done.new, done.project) == (2, 2, str(repository.folder))
    view = bench.view(f"git:{sha}")
    event = view.events[0]
    assert event.payload["message"] == "Fixed #12 -- Parser."
    assert event.payload["query"] == "Fixed #12 -- Parser.\n\nIt failed on commas."
    assert event.payload["files"] == ["new\nline.py", "src/b.py", "ä ö.py"]
    assert event.payload["graph_version"].startswith("git-tree:")
    assert event.time_ns == parse("2026-01-01T00:01:00Z").ns
    assert [file.path for file in view.files] == ["src/b.py", "ä ö.py"]
    assert view.brief.summary == "Fixed #12 -- Parser. It failed on commas."
    assert (view.brief.project, view.brief.source) == (str(repository.folder), "git")
    assert view.brief.verdict.outcome == "succeeded"


def test_importing_again_adds_only_what_is_new(bench: Bench, repository: Repository) -> None:
    for n in range(3):
        repository.commit(f"c{n}", "a.py")
    assert import_history(bench.etg, repository.folder).new == 3
    repository.commit("c3", "b.py")
    again = import_history(bench.etg, repository.folder)
    assert (again.commits, again.new) == (4, 1)
    assert bench.rows("SELECT count(*) FROM attempt_event") == [(4,)]


def test_a_commit_that_was_reverted_has_failed(bench: Bench, repository: Repository) -> None:
    bad = repository.commit("Bad idea", "a.py")
    assert import_history(bench.etg, repository.folder).reverts == 0
    repository.commit(f'Revert "Bad idea"\n\nThis reverts commit {bad}.', "a.py")
    repository.commit("Revert\n\nThis reverts commit " + "0" * 40, "a.py")
    assert import_history(bench.etg, repository.folder).reverts == 1
    brief = bench.view(f"git:{bad}").brief
    assert (brief.verdict.outcome, brief.events) == ("failed", 2)
    assert import_history(bench.etg, repository.folder).reverts == 0


def test_the_newest_commits_are_taken_oldest_first(repository: Repository) -> None:
    for n in range(5):
        repository.commit(f"c{n}", "a.py")
    assert [commit.message.strip() for commit in commits(repository.folder, most=2)] == ["c3", "c4"]
    since = parse("2026-01-01T00:03:00Z").ns
    assert [c.message.strip() for c in commits(repository.folder, since_ns=since)] == ["c3", "c4"]


def test_a_merge_is_one_attempt_with_all_it_brought(repository: Repository) -> None:
    repository.commit("base", "a.py")
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit("one", "b.py")
    repository.commit("two", "c.py")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge topic", "topic")
    found = [(commit.message.strip(), commit.files) for commit in commits(repository.folder)]
    assert found == [("base", ("a.py",)), ("Merge topic", ("b.py", "c.py"))]


def test_a_commit_without_files_or_with_a_strange_message_is_taken(repository: Repository) -> None:
    repository.commit("\x01odd\x02", "a.py")
    repository.commit("empty")
    assert [(c.message.strip(), c.files) for c in commits(repository.folder)] == [
        ("\x01odd\x02", ("a.py",)),
        ("empty", ()),
    ]


def test_a_folder_below_the_top_has_its_own_files_relative_to_it(repository: Repository) -> None:
    repository.commit("both", "app/a.py", "lib/b.py")
    assert [commit.files for commit in commits(repository.folder / "app")] == [("a.py",)]


def test_nothing_that_a_repository_configures_is_run(repository: Repository, tmp_path: Path) -> None:
    repository.commit("c", "a.py")
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho $0 >> {ran}\nexec cat\n")
    script.chmod(0o755)
    (repository.folder / ".gitattributes").write_text("*.py diff=evil filter=evil\n")
    for name in (
        "core.pager",
        "pager.log",
        "core.fsmonitor",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.smudge",
        "filter.evil.clean",
        "gpg.program",
        "core.sshCommand",
        "core.editor",
        "credential.helper",
    ):
        repository.git("config", name, str(script))
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "alias.log", f"!{script}")
    hooks = repository.folder / ".git" / "hooks"
    for hook in ("post-checkout", "pre-auto-gc", "reference-transaction", "post-index-change"):
        (hooks / hook).write_text(script.read_text())
        (hooks / hook).chmod(0o755)
    assert len(list(commits(repository.folder))) == 1
    assert not ran.exists()


@pytest.mark.parametrize("kind", ["missing", "file", "plain", "empty"])
def test_what_is_no_repository_with_a_history_is_refused(bench: Bench, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("x")
    elif kind == "plain":
        place.mkdir()
    elif kind == "empty":
        Repository(place)
    with pytest.raises(ToolError, match="path: ") as refused:
        import_history(bench.etg, place)
    assert refused.value.code == "INVALID_PARAMETER"


@pytest.mark.parametrize(
    ("work", "why"),
    [
        ("while :; do :; done", "git used its 1 s of processor time"),
        ("exec sleep 1000", "git said nothing for 1 s and was ended"),
        ("exec sleep 1000 >&-", "git said nothing for 1 s and was ended"),
    ],
)
def test_a_git_that_does_not_end_is_ended_and_the_limit_named(
    bench: Bench, repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: str, why: str
) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{work}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(git, "_LIMITS", confined.Limits(1 << 30, seconds=0))
    monkeypatch.setattr(git, "_SILENCE", BOUND if "processor" in why else 1.0)
    with pytest.raises(ToolError, match=why):
        import_history(bench.etg, repository.folder)


@pytest.mark.parametrize("most", [0, -1, 10**9])
def test_the_number_of_commits_is_bounded(bench: Bench, repository: Repository, most: int) -> None:
    with pytest.raises(ToolError, match="max: must be 1 to"):
        import_history(bench.etg, repository.folder, most=most)


def test_an_import_tells_of_its_progress_and_can_be_cancelled(
    bench: Bench, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracedesk.codegraph.etg.git.BATCH", 2)
    for n in range(5):
        repository.commit(f"c{n}", "a.py")
    told: list[tuple[int, int | None]] = []
    import_history(bench.etg, repository.folder, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, None), (4, None), (5, 5)]
    stopped = import_history(bench.etg, repository.folder, cancelled=lambda: True)
    assert (stopped.cancelled, stopped.commits) == (True, 0)
    assert log.BATCH > 2


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("Subject", "Subject"),
        ("Subject\n\nBody: text", "Subject\n\nBody: text"),
        ("Subject\n\nBody\n\nSigned-off-by: A\nCo-authored-by: B\n", "Subject\n\nBody"),
        ("Subject\n\nChange-Id: I1\n\n(cherry picked from commit abcdef1)", "Subject"),
        ("Signed-off-by: A", "Signed-off-by: A"),
        ("", ""),
    ],
)
def test_trailers_are_no_part_of_what_was_asked(message: str, kept: str) -> None:
    assert without_trailers(message) == kept
