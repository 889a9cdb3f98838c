"""Which files are taken: only inside the root, only regular, once; and what the project itself leaves out."""

from __future__ import annotations

import os
import socket
import subprocess
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracedesk.codegraph.graph.ignore import builtin
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.scan import Scan, scan, shown
from tracedesk.primitives.paths import Jail, PathRefused


def _lay(root: Path, names: Iterable[str]) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n")


def _scan(root: Path, *entries: str, limits: Limits | None = None) -> Scan:
    return scan(Jail([root]), str(root), entries, lambda path: path.endswith(".py"), limits or Limits())


def _skipped(found: Scan) -> dict[str, str]:
    return {skip.file: skip.reason for skip in found.skipped}


def test_no_entries_and_a_dot_both_mean_the_whole_project(tmp_path: Path) -> None:
    _lay(tmp_path, ["b.py", "a/c.py", "a/b/d.py", "readme.bin"])
    assert _scan(tmp_path).files == ["a/b/d.py", "a/c.py", "b.py"]
    assert _scan(tmp_path, ".").files == _scan(tmp_path).files
    assert _scan(tmp_path).others == 1


def test_a_folder_stands_for_what_is_below_it_and_a_file_for_itself(tmp_path: Path) -> None:
    _lay(tmp_path, ["b.py", "a/c.py", "a/b/d.py", "odd.bin"])
    assert _scan(tmp_path, "a").files == ["a/b/d.py", "a/c.py"]
    assert _scan(tmp_path, "a/", "a/c.py", "odd.bin").files == ["a/b/d.py", "a/c.py", "odd.bin"]


def test_an_absolute_entry_is_taken_only_inside_the_root(tmp_path: Path) -> None:
    root = tmp_path / "project"
    _lay(root, ["a.py"])
    _lay(tmp_path, ["outside.py", "project-of-another/b.py"])
    inside, outside = str(root / "a.py"), str(tmp_path / "outside.py")
    sibling = str(tmp_path / "project-of-another" / "b.py")
    found = scan(Jail([tmp_path]), str(root), [inside, outside, sibling], lambda _: True, Limits())
    assert found.files == ["a.py"]
    assert _skipped(found) == {outside: "outside", sibling: "outside"}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("../outside.py", "parent"),
        ("a/../../outside.py", "parent"),
        ("a\0.py", "nul"),
        ("", "empty"),
        ("C:\\a.py", "drive"),
        ("//server/share/a.py", "drive"),
        ("missing.py", "missing"),
        ("a.py/b.py", "not_directory"),
        ("x" * 5_000, "too_long"),
        ("\udcff.py", "missing"),
    ],
)
def test_an_entry_that_is_no_file_of_the_project_is_skipped_with_its_reason(
    tmp_path: Path, entry: str, reason: str
) -> None:
    _lay(tmp_path, ["a.py"])
    found = _scan(tmp_path, entry, "a.py")
    assert found.files == ["a.py"]
    assert _skipped(found)[shown(entry)] in (reason, "denied" if reason == "not_directory" else reason)


def test_a_root_outside_the_allowed_ones_is_refused_and_they_are_named(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    with pytest.raises(PathRefused, match=str(allowed)):
        scan(Jail([allowed]), str(tmp_path), [], lambda _: True, Limits())
    with pytest.raises(PathRefused, match="not absolute"):
        scan(Jail([allowed]), "allowed", [], lambda _: True, Limits())
    (allowed / "file").write_text("")
    with pytest.raises(PathRefused, match="not a directory"):
        scan(Jail([allowed]), str(allowed / "file"), [], lambda _: True, Limits())


def test_a_link_out_of_the_root_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    root = tmp_path / "project"
    _lay(root, ["a.py"])
    _lay(tmp_path, ["secret.py", "elsewhere/b.py"])
    (root / "out.py").symlink_to(tmp_path / "secret.py")
    (root / "folder").symlink_to(tmp_path / "elsewhere")
    found = _scan(root)
    assert found.files == ["a.py"]
    assert _skipped(found) == {"out.py": "outside", "folder": "outside"}
    assert _skipped(_scan(root, "out.py", "folder/b.py")) == {"out.py": "outside", "folder/b.py": "outside"}


def test_links_inside_the_root_are_taken_once_under_the_real_path(tmp_path: Path) -> None:
    _lay(tmp_path, ["real/a.py", "other/b.py"])
    (tmp_path / "again.py").symlink_to("real/a.py")
    (tmp_path / "other" / "folder").symlink_to("../real")
    assert _scan(tmp_path).files == ["other/b.py", "real/a.py"]
    assert _scan(tmp_path, "again.py", "real/a.py").files == ["real/a.py"]
    assert _scan(tmp_path, "other").files == ["other/b.py", "real/a.py"]


def test_loops_of_links_end(tmp_path: Path) -> None:
    _lay(tmp_path, ["a/b/c.py"])
    (tmp_path / "a" / "b" / "up").symlink_to("../..")
    (tmp_path / "a" / "self").symlink_to(".")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "nowhere.py").symlink_to("gone.py")
    found = _scan(tmp_path)
    assert found.files == ["a/b/c.py"]
    assert {"one", "two", "nowhere.py"} <= _skipped(found).keys()


def test_fifos_and_sockets_are_refused_without_waiting(tmp_path: Path) -> None:
    _lay(tmp_path, ["a.py"])
    os.mkfifo(tmp_path / "pipe.py")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.py"))
        found = _scan(tmp_path)
        named = _scan(tmp_path, "pipe.py", "socket.py", "/dev/null")
    assert found.files == ["a.py"]
    assert _skipped(found) == {"pipe.py": "not_regular", "socket.py": "not_regular"}
    assert _skipped(named) == {"pipe.py": "not_regular", "socket.py": "not_regular", "/dev/null": "outside"}


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    _lay(tmp_path, ["a.py"])
    deep = tmp_path
    for _ in range(120):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "b.py").write_text("")
    found = _scan(tmp_path)
    assert found.files == ["a.py"]
    assert list(_skipped(found).values()) == ["too_deep"]


# --- what is left out


def test_secrets_and_machine_folders_are_never_found(tmp_path: Path) -> None:
    _lay(tmp_path, ["a.py", ".git/b.py", "node_modules/x/c.py", ".venv/lib/d.py", "p/__pycache__/e.py"])
    _lay(
        tmp_path, [".env", "conf/.env.local", "id_rsa", ".ssh/config.py", "key.pem", "credentials", "v.kdbx"]
    )
    found = scan(Jail([tmp_path]), str(tmp_path), [], lambda _: True, Limits())
    assert found.files == ["a.py"]
    assert set(_skipped(found).values()) == {"secret"}
    assert set(_skipped(found)) == {".env", "conf/.env.local", "id_rsa", "key.pem", "credentials", "v.kdbx"}


def test_a_secret_is_not_taken_even_when_it_is_named(tmp_path: Path) -> None:
    _lay(tmp_path, [".env", ".ssh/config.py", ".env.example", "deploy/server.pem"])
    found = _scan(tmp_path, ".env", ".ssh/config.py", ".env.example", "deploy/server.pem")
    assert found.files == [".env.example"]
    assert set(_skipped(found).values()) == {"secret"}


def test_a_named_file_is_taken_whatever_gitignore_says(tmp_path: Path) -> None:
    _lay(tmp_path, ["build/made.py", "a.py"])
    (tmp_path / ".gitignore").write_text("build/\n")
    assert _scan(tmp_path).files == ["a.py"]
    assert _scan(tmp_path, "build/made.py").files == ["build/made.py"]
    assert _skipped(_scan(tmp_path, "build")) == {"build": "ignored"}


def test_names_that_only_look_like_secrets_are_taken() -> None:
    assert builtin("environment.py") is None
    assert builtin("id_generator.py") is None
    assert builtin("src/credentials.py") is None
    assert builtin("keys/monkey.py") is None


_LINES = st.sampled_from(
    ["*.py", "!a.py", "/a.py", "b/", "/b/", "b/*.py", "**/c/", "!b/c/", "c/**", "a*", "!*.py", "b/c/d.py",
     "# x", "",
     "\\!a.py", "[ab].py", "b/**/d.py", "*", "!b", "d.py "]
)  # fmt: skip
_TREE = ["a.py", "b/a.py", "b/d.py", "b/c/a.py", "b/c/d.py", "c/a.py", "c/b/d.py", "d.py"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_LINES, max_size=4),
    st.lists(_LINES, max_size=3),
    st.lists(_LINES, max_size=2),
    st.lists(_LINES, max_size=2),
)
def test_gitignore_files_mean_what_git_says_they_mean(
    tmp_path_factory: pytest.TempPathFactory,
    top: list[str],
    b: list[str],
    deep: list[str],
    exclude: list[str],
) -> None:
    root = tmp_path_factory.mktemp("ignored")
    _lay(root, _TREE)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, capture_output=True)
    for name, lines in (
        (".gitignore", top),
        ("b/.gitignore", b),
        ("b/c/.gitignore", deep),
        (".git/info/exclude", exclude),
    ):
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text("\n".join(lines) + "\n")
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    wanted = sorted(path for path in listed.stdout.split("\0") if path.endswith(".py"))
    assert _scan(root).files == wanted


# --- bounds


def test_more_files_than_the_limit_are_bounded_with_a_message(tmp_path: Path) -> None:
    _lay(tmp_path, [f"d{n % 7}/f{n:03}.py" for n in range(300)])
    found = _scan(tmp_path, limits=Limits(files=100))
    assert len(found.files) == 100
    assert "more than 100 files" in found.warnings[0]
    assert "raise the limit" in found.warnings[0]
    assert found.files == _scan(tmp_path, limits=Limits(files=100)).files, "the same ones every time"


def test_a_folder_with_very_many_files_does_not_fill_the_memory(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(30_000):
        os.close(os.open(folder / f"{number:07}.py", os.O_CREAT | os.O_WRONLY))
    tracemalloc.start()
    found = _scan(tmp_path, limits=Limits(files=500))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.files) == 500
    assert found.files[0] == "many/0000000.py"
    assert peak < 2_000_000, peak


def test_very_many_skipped_files_are_counted_instead_of_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracedesk.codegraph.graph.scan.MOST_SKIPPED", 10)
    for number in range(30):
        os.mkfifo(tmp_path / f"{number}.py")
    found = _scan(tmp_path)
    assert len(found.skipped) == 10
    assert found.unnamed == 20


def test_a_scan_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    _lay(tmp_path, [f"d{n}/a.py" for n in range(50)])
    looks = iter(range(10))

    def cancelled() -> None:
        if next(looks, None) is None:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        scan(Jail([tmp_path]), str(tmp_path), [], lambda _: True, Limits(), cancelled)


def test_a_named_file_is_taken_by_its_real_path_however_it_is_named(tmp_path: Path) -> None:
    root = tmp_path / "project"
    _lay(root, ["a/b.py", "c.py", "c.d/e f.py"])
    _lay(tmp_path, ["c.py", "x.py"])
    (root / "link").symlink_to("a")
    (root / "a" / "other.py").symlink_to("../c.py")
    (root / "out").symlink_to(tmp_path)
    named = ["a/b.py", "a//b.py", "./a/b.py", "./c.py", "link/b.py", "a/other.py", "c.d/e f.py"]
    found = scan(
        Jail([root]), str(root), [*named, "/c.py", "out/x.py", "a/none.py", "a/."], str.isprintable, Limits()
    )
    assert found.files == ["a/b.py", "c.d/e f.py", "c.py"]
    assert _skipped(found) == {"/c.py": "outside", "out/x.py": "outside", "a/none.py": "missing"}
