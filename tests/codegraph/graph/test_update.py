"""Edits into the graph: the disk decides, every change is named, and edges from other files stay right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegraph.graph.projects import Desk, dangling
from tracedesk.codegraph.graph import languages
from tracedesk.codegraph.graph.index import Cancelled
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.update import NotIndexed

CALLER = "from lib.tools import work\n\n\ndef main():\n    return work()\n"
CALLEE = "def work():\n    return 1\n"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as found:
        found.write({"app.py": CALLER, "lib/__init__.py": "", "lib/tools.py": CALLEE})
        found.index()
        yield found


def test_what_an_update_leaves_out_is_what_an_index_leaves_out(desk: Desk) -> None:
    large, minified = "x = 1\n" * 300_000, "x = " + "1+" * 6_000 + "1\n"
    desk.write({"a.py": "def a(): ...\n", "big.py": large, "lib/min.js": minified, "lib/other.js": minified})
    desk.index()
    for files, gone in (
        ({"late.py": large, "a.py": large}, []),
        ({"big.py": "def big(): ...\n"}, []),
        ({"a.py": "def a(): ...\n"}, ["lib/min.js"]),
        ({"lib/.gitignore": "other.js\n"}, []),
        ({f"many/m{number}.py": "def m(): ...\n" for number in range(401)}, []),
        ({}, ["late.py"]),
    ):
        desk.write(files)
        for path in gone:
            (desk.root / path).unlink()
        desk.update(list(files), gone)
        assert desk.graph() == desk.rebuilt()


def test_edges_from_other_files_follow_what_the_called_file_defines(desk: Desk) -> None:
    edge = ("app.py:main", "lib/tools.py:work")
    assert desk.edges() == {edge}
    desk.write({"lib/tools.py": "# moved down\n\n\n" + CALLEE})
    assert desk.update(["lib/tools.py"]).updated_files == ["lib/tools.py"]
    assert desk.edges() == {edge}
    desk.write({"lib/tools.py": "def other():\n    return 1\n"})
    desk.update(["lib/tools.py"])
    assert desk.edges() == set()
    desk.write({"lib/tools.py": CALLEE})
    desk.update(["lib/tools.py"])
    assert desk.edges() == {edge}
    assert desk.graph() == desk.rebuilt()


def test_a_definition_that_moves_to_another_file_takes_its_edges_along(desk: Desk) -> None:
    (desk.root / "lib/tools.py").rename(desk.root / "lib/other.py")
    report = desk.update(["lib/other.py"], ["lib/tools.py"])
    assert report.updated_files == ["lib/other.py", "lib/tools.py"]
    assert report.deleted_files == ["lib/tools.py"]
    assert desk.edges() == {("app.py:main", "lib/other.py:work")}
    assert desk.imports() == set()
    assert desk.graph() == desk.rebuilt()


def test_a_name_with_too_many_definitions_means_none_of_them(desk: Desk) -> None:
    desk.write({"user.py": "def use():\n    return common()\n"})
    desk.update(["user.py"])
    for number in range(5):
        desk.write({f"m{number}.py": "def common():\n    return 1\n"})
        desk.update([f"m{number}.py"])
        meant = {target for source, target in desk.edges() if source == "user.py:use"}
        assert len(meant) == (number + 1 if number < 3 else 0)
        assert desk.graph() == desk.rebuilt()
    for number in range(5):
        (desk.root / f"m{number}.py").unlink()
        desk.update(deleted=[f"m{number}.py"])
        assert desk.graph() == desk.rebuilt()


def test_a_popular_name_means_the_definition_that_an_imported_file_gains(desk: Desk) -> None:
    desk.write({f"m{number}.py": "def common():\n    return 1\n" for number in range(6)})
    desk.write({"near.py": "x = 1\n", "user.py": "import near\n\n\ndef use():\n    return common()\n"})
    desk.index()
    assert not [edge for edge in desk.edges() if edge[0] == "user.py:use"]
    desk.write({"near.py": "def common():\n    return 1\n"})
    desk.update(["near.py"])
    assert ("user.py:use", "near.py:common") in desk.edges()
    assert desk.graph() == desk.rebuilt()


def test_a_file_that_takes_an_imported_ones_place_takes_its_edges_away(desk: Desk) -> None:
    desk.write({f"m{number}.py": "def thing():\n    return 1\n" for number in range(6)})
    desk.write({"two/pkg/mod.py": "def thing():\n    return 1\n"})
    desk.write({"one/user.py": "from pkg.mod import thing\n\n\ndef use():\n    return thing()\n"})
    desk.index()
    assert ("one/user.py:use", "two/pkg/mod.py:thing") in desk.edges()
    desk.write({"one/pkg/mod.py": "y = 1\n"})
    desk.update(["one/pkg/mod.py"])
    assert ("one/user.py", "one/pkg/mod.py") in desk.imports()
    assert not [edge for edge in desk.edges() if edge[0] == "one/user.py:use"]
    assert desk.graph() == desk.rebuilt()


def test_the_disk_decides_what_became_of_a_path_in_both_lists(desk: Desk) -> None:
    desk.write({"app.py": CALLER + "\n"})
    report = desk.update(["app.py"], ["app.py"])
    assert (report.updated_files, report.deleted_files) == (["app.py"], [])
    (desk.root / "app.py").unlink()
    report = desk.update(["app.py"], ["app.py"])
    assert (report.updated_files, report.deleted_files) == (["app.py"], ["app.py"])


def test_a_path_that_is_deleted_in_words_but_not_on_the_disk_stays(desk: Desk) -> None:
    report = desk.update(deleted=["app.py"])
    assert (report.updated_files, report.unchanged_files) == ([], ["app.py"])
    assert ("app.py:main", "lib/tools.py:work") in desk.edges()


def test_unchanged_files_keep_the_version_and_are_named(desk: Desk) -> None:
    before = desk.graph()
    os.utime(desk.root / "app.py")
    report = desk.update(["app.py", "lib/tools.py"])
    assert report.updated_files == []
    assert report.unchanged_files == ["app.py", "lib/tools.py"]
    assert report.graph_version == before["version"]


def test_a_path_that_is_nowhere_is_a_warning(desk: Desk) -> None:
    report = desk.update(["gone.py"], ["never.py"])
    assert report.updated_files == []
    assert [warning.split()[0] for warning in report.warnings] == ["gone.py", "never.py"]


def test_a_file_that_can_no_longer_be_read_leaves_the_graph(desk: Desk) -> None:
    desk.write({"lib/tools.py": b"\0" + CALLEE.encode()})
    report = desk.update(["lib/tools.py"])
    assert report.updated_files == report.deleted_files == ["lib/tools.py"]
    assert desk.skipped(report) == {"lib/tools.py": "binary"}
    assert desk.edges() == set()
    assert desk.graph() == desk.rebuilt()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../out.py", "parent"),
        ("build/made.py", "ignored"),
        (".env", "secret"),
        ("data.csv", "unknown_language"),
        ("pipe.py", "not_regular"),
    ],
)
def test_what_an_index_would_not_take_an_update_does_not_take(desk: Desk, name: str, reason: str) -> None:
    desk.write({".gitignore": "build/\n", "build/made.py": "x = 1\n", ".env": "A=1\n", "data.csv": "x\n"})
    os.mkfifo(desk.root / "pipe.py")
    report = desk.update([name])
    assert report.updated_files == []
    assert desk.skipped(report) == {name: reason}
    assert desk.graph() == desk.rebuilt()


def test_a_link_out_of_the_root_is_refused(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("x = 1\n")
    (desk.root / "link.py").symlink_to(tmp_path / "secret.py")
    assert desk.skipped(desk.update(["link.py"])) == {"link.py": "outside"}


def test_a_folder_stands_for_what_is_and_what_was_below_it(desk: Desk) -> None:
    desk.write({"lib/more.py": "def more(): pass\n", "lib/tools.py": CALLEE + "\n"})
    (desk.root / "lib/__init__.py").unlink()
    report = desk.update(["lib"])
    assert report.updated_files == ["lib/__init__.py", "lib/more.py", "lib/tools.py"]
    assert report.deleted_files == ["lib/__init__.py"]
    for path in (desk.root / "lib").iterdir():
        path.unlink()
    (desk.root / "lib").rmdir()
    assert desk.update(deleted=["lib"]).deleted_files == ["lib/more.py", "lib/tools.py"]
    assert desk.graph() == desk.rebuilt()
    assert dangling(desk.store) == []


def test_a_removed_file_is_a_tombstone_and_comes_back_under_the_same_id(desk: Desk) -> None:
    def row() -> tuple[int, int]:
        with desk.store.reading() as connection:
            return next(connection.execute("SELECT id, deleted FROM file WHERE path = 'lib/tools.py'"))

    before = row()
    (desk.root / "lib/tools.py").unlink()
    desk.update(deleted=["lib/tools.py"])
    assert row() == (before[0], 1)
    desk.write({"lib/tools.py": CALLEE})
    desk.update(["lib/tools.py"])
    assert row() == before
    assert desk.graph() == desk.rebuilt()


def test_an_update_keeps_the_language_that_a_file_was_indexed_with(desk: Desk) -> None:
    desk.write({"tool.txt": "def helper():\n    return 1\n"})
    desk.index(["."], hints={"tool.txt": "python"})
    desk.write({"tool.txt": "def helper2():\n    return 1\n"})
    desk.update(["tool.txt"])
    assert "tool.txt:helper2" in {f"{facts[0][0]}:{facts[0][1]}" for facts in desk.graph()["symbols"]}


def test_a_project_without_a_graph_says_what_to_call(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Desk(tmp_path / "new") as new, pytest.raises(NotIndexed, match="graph_index_project"):
        new.update(["a.py"])
    monkeypatch.setattr(languages, "EXTRACTOR", "newer", raising=False)
    with pytest.raises(NotIndexed, match="older extractor"):
        desk.update(["app.py"])


def test_a_limit_holds_for_updates_too(desk: Desk) -> None:
    desk.write({"app.py": CALLER * 10})
    report = desk.update(["app.py"], limits=Limits(file_bytes=100))
    assert desk.skipped(report) == {"app.py": "too_large"}


def test_an_absolute_path_inside_the_root_is_the_same_file(desk: Desk) -> None:
    desk.write({"app.py": CALLER + "\n"})
    assert desk.update([str(desk.root / "app.py")]).updated_files == ["app.py"]


# --- many files, and rules that change


@pytest.fixture
def large(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk on which four changed files are too many for one short transaction."""
    monkeypatch.setattr("tracedesk.codegraph.graph.index.IN_PLACE_FILES", 3)
    desk.write({f"many/m{number}.py": f"def f{number}(): return work()\n" for number in range(8)})
    (desk.root / "lib/__init__.py").unlink()
    return desk


def test_an_update_of_very_many_files_is_whole(large: Desk) -> None:
    before = large.store.project(str(large.root))
    report = large.update(["many", "app.py", "notes.blob"], ["lib/__init__.py"])
    assert report.updated_files == ["lib/__init__.py", *(f"many/m{number}.py" for number in range(8))]
    assert report.deleted_files == ["lib/__init__.py"]
    assert report.unchanged_files == ["app.py"]
    assert large.graph() == large.rebuilt()
    assert report.graph_version == large.graph()["version"]
    after = large.store.project(str(large.root))
    assert before is not None
    assert after is not None
    assert after.id != before.id, "it was built beside the old one"


def test_a_cancelled_update_of_very_many_files_leaves_the_graph_as_it_was(large: Desk) -> None:
    before = large.graph()
    for looks in range(1, 12):
        left = iter([False] * looks)
        try:
            large.update(["many"], ["lib/__init__.py"], cancelled=lambda left=left: next(left, True))
        except Cancelled:
            assert large.graph() == before
        else:
            assert large.graph() == large.rebuilt()
            break
    with large.store.reading() as connection:
        assert next(connection.execute("SELECT count(*) FROM project"))[0] == 1, "nothing half built is left"


def test_changed_ignore_rules_reach_the_graph(desk: Desk) -> None:
    desk.write({"build/made.py": "def made(): pass\n", "lib/odd.py": "def odd(): pass\n"})
    desk.update(["build", "lib"])
    desk.write({".gitignore": "build/\n", "lib/.gitignore": "odd.py\n"})
    report = desk.update(["lib/odd.py", ".gitignore", "lib/.gitignore"])
    assert report.deleted_files == ["build/made.py", "lib/odd.py"]
    assert desk.graph() == desk.rebuilt()
    (desk.root / ".gitignore").unlink()
    report = desk.update(deleted=[".gitignore"])
    assert report.updated_files == ["build/made.py"]
    assert desk.graph() == desk.rebuilt()


def test_changed_ignore_rules_of_a_project_of_which_some_files_are_indexed_are_a_warning(desk: Desk) -> None:
    desk.index(["app.py"])
    desk.write({".gitignore": "app.py\n"})
    report = desk.update([".gitignore"])
    assert "graph_index_project" in report.warnings[0]
    assert report.updated_files == []
