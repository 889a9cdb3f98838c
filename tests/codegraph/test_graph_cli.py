"""`tracedesk graph` and the attempts of `tracedesk trace`, as a user runs them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.codegraph.desks import INDEXED, shop
from tests.support import BOUND


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = make_shell(tmp_path)
    shop(made.project)
    return made


def commit(folder: Path, message: str, *files: str) -> str:
    """One commit of these files, or of all, and its hash."""
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", *(files or ["."])], [*who, "commit", "-qm", message]):
        subprocess.run(["git", *words], cwd=folder, env=quiet, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
    )
    return head.stdout.strip()


def test_a_project_is_indexed_searched_outlined_and_listed(shell: Shell) -> None:
    indexed = shell("graph", "index", ".", "--json").json
    assert indexed["indexed_files"] == INDEXED
    assert max(share for name, share in indexed["coverage"].items() if name.startswith("vectors")) == 1
    found = shell("graph", "search", "move", "the", "end", "of", "a", "session")
    assert found.code == 0
    assert "app/session.py" in found.out.splitlines()[0]
    shown = shell("graph", "context", "app/session.py", "none.py", "--max-tokens", "400")
    assert "== app/session.py (fresh)" in shown.out
    assert "13  def refresh(self, seconds)" in shown.out
    assert "== none.py (missing)\nnot found" in shown.out
    status = shell("graph", "status", "--json").json
    assert [row["project_root"] for row in status["projects"]] == [str(shell.project)]
    assert status["projects"][0]["graph_version"] == indexed["graph_version"]
    assert "100%" in shell("graph", "status").out


def test_an_index_of_nothing_and_a_search_without_a_project_fail_with_what_to_do(shell: Shell) -> None:
    (shell.project / "empty").mkdir()
    nothing = shell("graph", "index", "empty")
    assert nothing.code == 1
    assert "Nothing in" in nothing.err
    lost = shell("graph", "search", "x", "--project", shell.user)
    assert lost.code == 1
    assert "graph_index_project" in lost.err
    nowhere = make_nowhere(shell)("graph", "search", "x")
    assert nowhere.code == 2
    assert "--project" in nowhere.err


def make_nowhere(shell: Shell) -> Shell:
    """The same user in a folder of no project."""
    place = shell.user / "nowhere"
    place.mkdir()
    return Shell(shell.user, shell.home / "other", place)


def test_a_watch_follows_edits_and_ends_with_ctrl_c(shell: Shell) -> None:
    watch = shell.start("graph", "watch", ".", "--interval", "0.05", "--json")
    try:
        first = _line(watch)
        assert first["watching"] == len(INDEXED)
        written = shell.user / "fresh.py"
        written.write_text("def fresh(): ...\n")
        written.rename(shell.project / "app" / "fresh.py")  # at once: half a file would be an edit of its own
        added = _line(watch)
        assert added["updated_files"] == ["app/fresh.py"]
        (shell.project / "app" / "fresh.py").unlink()
        gone = _line(watch)
        assert gone["deleted_files"] == ["app/fresh.py"]
        assert gone["graph_version"] == first["graph_version"]
        watch.send_signal(signal.SIGINT)
        assert watch.wait(BOUND) == 0
    finally:
        watch.kill()
        watch.communicate()


def _line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], BOUND)[0], "nothing was said"
    return json.loads(process.stdout.readline())


def test_history_becomes_attempts_that_can_be_shown_and_exported(shell: Shell) -> None:
    sha = commit(shell.project, "Refresh sessions sooner\n\nThey expired too early.")
    taken = shell("trace", "import-git", ".", "--json").json
    assert (taken["commits"], taken["new"]) == (1, 1)
    assert shell("trace", "import-git", ".", "--json").json["new"] == 0
    shown = shell("trace", "show", f"git:{sha}", "--json").json
    assert shown["kind"] == "attempt"
    assert shown["body"]["outcome"] == "succeeded"
    assert "app/session.py" in shown["body"]["files"]
    event = shell("trace", "show", shown["edges"][0]["ref"], "--json").json
    assert event["body"]["payload"]["message"] == "Refresh sessions sooner"
    exported = json.loads(shell("trace", "export", f"git:{sha}").out)
    assert exported["resourceSpans"]
    unknown = shell("trace", "show", "nobody")
    assert unknown.code == 1
    assert "Nothing in this home is 'nobody'" in unknown.err


def test_imported_history_helps_a_search(shell: Shell) -> None:
    commit(shell.project, "The shop", "README.md", "app/__init__.py", "app/views.py")
    commit(shell.project, "Rounding of prices", "web/cart.ts")
    shell("graph", "index", ".")
    shell("trace", "import-git", ".")
    found = shell("graph", "search", "rounding", "--json").json
    assert found["files"][0]["file"] == "web/cart.ts"
    assert found["files"][0]["reasons"]["attempts"] > 0


def test_a_folder_that_is_no_repository_is_said_to_be_none(shell: Shell) -> None:
    refused = shell("trace", "import-git", ".")
    assert refused.code == 1
    assert "git" in refused.err.lower()
    bad = shell("trace", "import-git", ".", "--since", "yesterday")
    assert bad.code == 2


def test_a_served_root_is_the_one_the_flag_names(shell: Shell) -> None:
    from tracedesk.config import load

    environ = {"TRACEDESK_HOME": str(shell.home), "TRACEDESK_CODEGRAPH_ROOTS": f"/a{os.pathsep}/b"}
    assert load(environ=environ).tables["codegraph"]["roots"] == ["/a", "/b"]
    flags = {"tables": {"codegraph": {"roots": ["/c"]}}}
    assert load(flags, environ).tables["codegraph"]["roots"] == ["/c"]
    shell.home.mkdir(exist_ok=True)
    (shell.home / "tracedesk.toml").write_text('[codegraph]\nroots = ["/d"]\nworkers = 2\n')
    assert load(environ={"TRACEDESK_HOME": str(shell.home)}).tables["codegraph"]["roots"] == ["/d"]
    both = load(environ=environ).tables["codegraph"]
    assert both == {"roots": ["/a", "/b"], "workers": 2}


def test_serve_takes_roots_and_refuses_one_that_is_not_there(shell: Shell) -> None:
    refused = shell("serve", "--stdio", "--root", "none")
    assert refused.code == 2
    (shell.home).mkdir(exist_ok=True)
    (shell.home / "tracedesk.toml").write_text("[codegraph]\nroots = 5\n")
    bad = shell("serve", "--stdio", "--toolsets", "codegraph")
    assert bad.code == 2
    assert "codegraph.roots must be a list of folders" in bad.err
