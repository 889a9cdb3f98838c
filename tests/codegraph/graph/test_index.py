"""A project's index: what it takes, what it says about the rest, and how it goes about it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegraph.graph.projects import Desk, Here, dangling
from tests.journal.forks import Lines
from tests.support import BOUND, ROOT
from tracedesk.codegraph.graph import languages
from tracedesk.codegraph.graph.index import Cancelled, NothingAccepted, NothingExtracted, index_project
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.locks import ProjectBusy
from tracedesk.codegraph.graph.model import Extract
from tracedesk.codegraph.graph.pool import Parsers
from tracedesk.codegraph.graph.reading import Source
from tracedesk.codegraph.graph.rows import Task
from tracedesk.codegraph.graph.store import Store
from tracedesk.primitives.paths import PathRefused

SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": (
        '"""Carts."""\nfrom .prices import total\n\n\nclass Cart:\n    """Holds things."""\n\n'
        "    def add(self, thing):\n        self.things.append(thing)\n\n"
        "    def sum(self):\n        return total(self.things)\n"
    ),
    "shop/prices.py": "def total(things):\n    return rate(things)\n\n\ndef rate(thing):\n    return 1\n",
    "web/app.ts": "import { draw } from './draw';\nexport function main() { return draw(1); }\n",
    "web/draw.ts": "export const draw = (x: number) => x;\n",
    "README.md": "# Shop\n\nSells things.\n",
}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as found:
        yield found


def test_a_comment_over_many_symbols_of_one_line_is_kept_once(desk: Desk) -> None:
    names = ", ".join(f"a{number} = 1" for number in range(400))
    comment = " ".join(f"word{number}" for number in range(400))
    desk.write({"web/many.ts": f"/** {comment} */\nexport const {names};\n"})
    desk.index()
    assert sum(file.stat().st_size for file in desk.home.glob("graph.db*")) < 1_200_000


def test_a_project_becomes_files_symbols_chunks_and_edges(desk: Desk) -> None:
    desk.write(SHOP)
    report = desk.index()
    assert report.indexed_files == sorted(SHOP)
    assert report.graph_version.startswith("cg1-")
    assert len(report.graph_version) == 4 + 26
    assert report.counts["files"] == 6
    assert report.coverage["python"]["files"] == 3
    assert ("shop/cart.py:Cart.sum", "shop/prices.py:total") in desk.edges()
    assert ("shop/prices.py:total", "shop/prices.py:rate") in desk.edges()
    assert ("web/app.ts:main", "web/draw.ts:draw") in desk.edges()
    assert desk.imports() == {
        ("shop/cart.py", "shop/prices.py"),
        ("web/app.ts", "web/draw.ts"),
    }
    assert desk.store.report(str(desk.root)) == json.loads(json.dumps(report.document()))


def test_the_same_tree_has_the_same_version_whatever_its_history(desk: Desk, tmp_path: Path) -> None:
    desk.write(SHOP)
    first = desk.index().graph_version
    desk.write({"shop/cart.py": "x = 1\n"})
    second = desk.index().graph_version
    desk.write(SHOP)
    assert desk.index().graph_version == first != second
    with Desk(tmp_path / "elsewhere") as other:
        other.write(SHOP)
        assert other.index().graph_version == first
    assert desk.store.root_of(first) == str(desk.root)
    assert desk.store.root_of(second) == str(desk.root)
    assert desk.store.root_of("cg1-unknown") is None


def test_a_renamed_file_another_language_or_another_extractor_is_another_version(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write({"a.py": "x = 1\n"})
    versions = [desk.index().graph_version]
    (desk.root / "a.py").rename(desk.root / "b.py")
    versions.append(desk.index().graph_version)
    versions.append(desk.index(hints={"b.py": "text"}).graph_version)
    monkeypatch.setattr(languages, "EXTRACTOR", "another", raising=False)
    versions.append(desk.index(hints={"b.py": "text"}).graph_version)
    assert len(set(versions)) == 4


def test_unchanged_files_are_not_parsed_again(desk: Desk) -> None:
    desk.write(SHOP)
    assert desk.index().changed == 6
    again = desk.index()
    assert again.changed == 0
    assert again.indexed_files == sorted(SHOP)
    desk.write({"shop/cart.py": SHOP["shop/cart.py"] + "\n"})
    assert desk.index().changed == 1


def test_the_accepted_set_is_what_the_graph_holds_and_the_rest_become_tombstones(desk: Desk) -> None:
    desk.write(SHOP)
    desk.index()
    report = desk.index(["shop"])
    assert report.indexed_files == ["shop/__init__.py", "shop/cart.py", "shop/prices.py"]
    assert report.removed == ["README.md", "web/app.ts", "web/draw.ts"]
    with desk.store.reading() as connection:
        gone = "SELECT path FROM file WHERE deleted = 1 ORDER BY path"
        assert [row[0] for row in connection.execute(gone)] == report.removed
    assert dangling(desk.store) == []
    assert desk.index().graph_version == desk.rebuilt()["version"]


def test_an_empty_project_has_an_empty_graph_until_it_has_files(desk: Desk) -> None:
    assert desk.index().indexed_files == []
    desk.write(SHOP)
    assert len(desk.index([]).indexed_files) == 6


@pytest.mark.parametrize("files", [["nope.py"], [""], [".env"], ["../x"], ["~"], ["a\0b"], ["empty"]])
def test_names_of_which_none_is_accepted_change_nothing(desk: Desk, files: list[str]) -> None:
    desk.write({**SHOP, ".env": "A=1\n"})
    (desk.root / "empty").mkdir()
    desk.index()
    before = desk.graph()
    with pytest.raises(NothingAccepted, match=r"nothing of .* was accepted"):
        desk.index(files)
    assert desk.graph() == before
    with pytest.raises(NothingAccepted):
        index_project(Store(desk.home / "other.db", Here()), desk.jail, str(desk.root), files)


def test_a_project_whose_files_are_all_gone_keeps_its_graph(desk: Desk) -> None:
    desk.write(SHOP)
    desk.index()
    before = desk.graph()
    for path in SHOP:
        (desk.root / path).unlink()
    with pytest.raises(NothingAccepted, match="no file that the graph reads"):
        desk.index()
    assert desk.graph() == before


def test_names_that_cannot_be_printed_or_are_secrets_are_not_kept(desk: Desk) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    odd = ("src/\x1b[31m\n.py", f"src/{secret}.py", "a\u202eb.py")
    desk.write({**SHOP, **dict.fromkeys(odd, "x = 1\n")})
    (desk.root / os.fsdecode(b"bad\xff.py")).write_text("x = 1\n")
    report = desk.index()
    assert report.indexed_files == sorted(SHOP)
    assert sorted(desk.skipped(report).values()) == ["secret", "unprintable", "unprintable", "unprintable"]
    assert all(skip.file.isprintable() and secret not in skip.file for skip in report.skipped)
    update = desk.update(["src", f"src/{secret}.py", "src/\x1b[31m\n.py"])
    assert update.updated_files == []
    assert all(skip.file.isprintable() and secret not in skip.file for skip in update.skipped)
    desk.store.close()
    assert not [file for file in desk.home.glob("graph.db*") if secret.encode() in file.read_bytes()]


def test_what_cannot_be_read_is_named_with_its_reason(desk: Desk) -> None:
    desk.write(
        {
            "good.py": "x = 1\n",
            "large.py": "x = 1\n" * 200_000,
            "binary.py": b"x = 1\n\0\0",
            "minified.js": "a=1;" * 2_000,
            "latin.py": "# caf\xe9\n".encode("latin-1"),
            ".env": "TOKEN=1",
        }
    )
    os.mkfifo(desk.root / "pipe.py")
    report = desk.index(["."])
    assert report.indexed_files == ["good.py"]
    assert desk.skipped(report) == {
        "large.py": "too_large",
        "binary.py": "binary",
        "minified.js": "minified",
        "latin.py": "undecodable",
        ".env": "secret",
        "pipe.py": "not_regular",
    }


def test_an_unknown_language_hint_is_kept_as_text_with_a_warning(desk: Desk) -> None:
    desk.write({"a.py": "def f(): pass\n", "b.weird": "def g(): pass\n", "c.weird": "plain\n"})
    report = desk.index(["a.py", "b.weird", "c.weird"], hints={"a.py": "klingon", "b.weird": "py"})
    assert report.indexed_files == ["a.py", "b.weird", "c.weird"]
    assert "klingon" in report.warnings[0]
    graph = desk.graph()
    assert {facts[0]: facts[1] for facts in graph["files"]} == {
        "a.py": "text",
        "b.weird": "python",
        "c.weird": "text",
    }
    assert [facts[0][:2] for facts in graph["symbols"]] == [("b.weird", "g")]


def test_a_parser_that_finds_nothing_in_many_files_is_an_error_and_the_graph_stays(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write(SHOP)
    before = desk.index().graph_version
    desk.write({f"pkg/m{n}.py": f"def f{n}(): pass\n" for n in range(30)})

    def broken(path: str, text: bytes, language: str, *, timeout_s: float = 2.0) -> Extract:
        return Extract(language, 1, "", (), (), (), ())

    def in_python(task: Task, file: Source, seconds: float) -> bytes | None:
        return None

    monkeypatch.setattr("tracedesk.codegraph.graph.native.rows", in_python)
    monkeypatch.setattr("tracedesk.codegraph.graph.parse.extract", broken)
    monkeypatch.setattr(languages, "EXTRACTOR", "broken", raising=False)
    with pytest.raises(NothingExtracted, match="32 files of python"):
        desk.index()
    found = desk.store.project(str(desk.root))
    assert found is not None
    assert found.graph_version == before


def test_secrets_are_taken_out_of_everything_that_is_stored(desk: Desk) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    desk.write(
        {
            "a.py": f'"""Uses {secret}."""\n\n\ndef call(k="{secret}"):\n    """Sends {secret}."""\n',
            "notes.md": f"The token is {secret}.\n",
        }
    )
    desk.index()
    assert "redacted:github" in repr(desk.graph())
    desk.store.close()
    for file in desk.home.iterdir():
        if file.is_file():
            assert secret.encode() not in file.read_bytes()
            assert secret[4:].lower().encode() not in file.read_bytes()


def test_many_changes_build_a_graph_beside_the_old_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracedesk.codegraph.graph.index.IN_PLACE_FILES", 3)
    desk.write(SHOP)
    desk.index()
    project = desk.store.project(str(desk.root))
    desk.write({f"more/m{n}.py": f"def f{n}(): return total()\n" for n in range(20)})
    (desk.root / "README.md").unlink()
    report = desk.index()
    rebuilt = desk.store.project(str(desk.root))
    assert project is not None
    assert rebuilt is not None
    assert rebuilt.id != project.id
    assert report.removed == ["README.md"]
    assert desk.graph() == desk.rebuilt()
    assert dangling(desk.store) == []
    with desk.store.reading() as connection:
        tables = "SELECT count(*) FROM sqlite_master WHERE name LIKE '%_fts_' || ?"
        assert next(connection.execute(tables, (project.id,)))[0] == 0, "nothing of the old one is left"


def test_progress_is_told_and_ends_with_everything_done(desk: Desk) -> None:
    desk.write(SHOP)
    told: list[tuple[float, float, str]] = []

    def progress(done: float, total: float, message: str) -> None:
        told.append((done, total, message))

    desk.index(progress=progress)
    assert told[0][2] == "scanning"
    assert [done for done, _, message in told if message == "parsing"][-1] == len(SHOP)
    assert told[-1][2] == "resolving references"


def test_a_cancelled_index_leaves_the_graph_as_it_was(desk: Desk) -> None:
    desk.write(SHOP)
    desk.index()
    before = desk.graph()
    desk.write({f"more/m{n}.py": "x = 1\n" for n in range(30)})
    looks = iter([False] * 4)
    with pytest.raises(Cancelled):
        desk.index(cancelled=lambda: next(looks, True))
    assert desk.graph() == before
    assert desk.store.holder(str(desk.root)) is None
    with desk.store.reading() as connection:
        assert next(connection.execute("SELECT count(*) FROM project"))[0] == 1, "nothing half built is left"
    desk.index()
    assert desk.graph() == desk.rebuilt()


def test_a_project_is_written_by_one_at_a_time_and_the_holder_is_named(desk: Desk) -> None:
    desk.write(SHOP)
    with desk.store.locks.held(str(desk.root), "index", 1.0):
        holder = desk.store.holder(str(desk.root))
        assert holder is not None
        assert (holder.pid, holder.action) == (os.getpid(), "index")
        with (
            pytest.raises(ProjectBusy, match=rf"process {os.getpid()} \(index"),
            desk.store.locks.held(str(desk.root), "update", 0.0),
        ):
            pass
    assert desk.store.holder(str(desk.root)) is None


def test_a_root_that_is_not_allowed_fails_the_call(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match="configured roots"):
        index_project(desk.store, desk.jail, "/etc", [])


def test_more_files_than_the_limit_are_bounded_with_a_warning(desk: Desk) -> None:
    desk.write({f"m{n:02}.py": f"def f{n}(): pass\n" for n in range(30)})
    report = desk.index(limits=Limits(files=10))
    assert len(report.indexed_files) == 10
    assert "more than 10 files" in report.warnings[0]


# --- parsing processes


def test_parsing_processes_give_the_graph_that_one_gives(desk: Desk, tmp_path: Path) -> None:
    with Desk(tmp_path / "many", Parsers()) as many:
        for each in (desk, many):
            each.write({**SHOP, **{f"pkg/m{n}.py": f"def f{n}(): return f{n - 1}()\n" for n in range(60)}})
        desk.index()
        many.index(workers=2)
        assert many.graph() == desk.graph()
        assert [facts[0] for facts in many.graph()["files"]]
        many.write({"pkg/m1.py": "def f1(): return f59()\n"})
        many.update(["pkg/m1.py"])
        assert many.graph() == many.rebuilt()
        many.store.parsers.close()


def test_an_index_that_fails_at_once_leaves_one_waiting_parser(tmp_path: Path) -> None:
    parsers = Parsers()
    with Desk(tmp_path, parsers) as desk:
        named = [f"missing{n}.py" for n in range(100)]
        for _ in range(2):
            with pytest.raises(NothingAccepted):
                desk.index(named, workers=3)
            assert len(_parsers_of(os.getpid())) == 1
        parsers.close()
        assert not _parsers_of(os.getpid())


def _parsers_of(parent: int) -> list[int]:
    """The parsing processes that a process has started and that live."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()[1:]]
    return [int(pid) for pid, of, args in rows if int(of) == parent and "graph.worker" in args]


def test_very_long_paths_do_not_stop_parsers_and_their_parent_from_hearing_each_other(tmp_path: Path) -> None:
    deep = "/".join(["d" * 40] * 80)
    with Desk(tmp_path, Parsers()) as desk:
        source = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(40))
        desk.write({f"{deep}/m{n}.py": source for n in range(120)})
        assert len(desk.index(workers=2).indexed_files) == 120
        desk.store.parsers.close()


def test_a_file_that_ends_its_parser_is_left_out_and_the_rest_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Memory that only one file asks for, in a process that may not have it.
    variables = ("DESKTEST_DEADLY=deadly.py", f"PYTHONPATH={ROOT}")
    monkeypatch.setattr(
        "tracedesk.codegraph.graph.pool.COMMAND",
        ("env", *variables, sys.executable, "-m", "tests.codegraph.graph.deadly_worker"),
    )
    with Desk(tmp_path, Parsers()) as desk:
        desk.write({"deadly.py": "x = 1\n", **{f"m{n}.py": f"def f{n}(): pass\n" for n in range(10)}})
        report = desk.index()
        assert desk.skipped(report) == {"deadly.py": "parser_crashed"}
        assert len(report.indexed_files) == 10
        assert desk.skipped(desk.update(["deadly.py"])) == {"deadly.py": "parser_crashed"}
        desk.store.parsers.close()


def test_parsers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from tracedesk.codegraph.graph.pool import Parsers\n"
        "worker = Parsers().borrow()\n"
        "print(worker.process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = int(Lines(parent.stdout).next() or 0)
        # A descriptor of the process, to wait for an end that is not a child's.
        watched = os.pidfd_open(worker)
        os.kill(parent.pid, signal.SIGKILL)
        ended, _, _ = select.select([watched], [], [], BOUND)
        os.close(watched)
    assert ended, "the parser ended by itself"


def test_source_of_unknown_extensions_is_text_and_counted(desk: Desk) -> None:
    desk.write(
        {
            "fast.pyx": "cdef int speedy(): return 1\n",
            "app.dart": "void greetEverybody() {}\n",
            "sum.jl": "function addup(x) end\n",
            "more.jl": "function addmore(x) end\n",
            "odd.zzz": "whatever the weather\n",
            "odd.bin": b"\x00\x01",
            "core.zzz": b"\x00\x01",
            "a.png": b"\x89PNG",
        }
    )
    report = desk.index()
    assert {"fast.pyx", "app.dart", "sum.jl", "more.jl", "odd.zzz"} <= set(report.indexed_files)
    skipped = desk.skipped(report)
    counted = {name: reason for name, reason in skipped.items() if reason == "text_only"}
    assert counted == {
        "*.dart (1 files)": "text_only",
        "*.jl (2 files)": "text_only",
        "*.pyx (1 files)": "text_only",
        "*.zzz (1 files)": "text_only",
    }
    assert skipped["core.zzz"] == "binary"
    assert report.counts["other_files"] == 2
