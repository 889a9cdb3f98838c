"""The graph's file: made when it is first needed, seen whole by readers, made anew when its form is old."""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegraph.graph.projects import Desk, Here, dangling, graph
from tests.support import BOUND, run
from tracedesk.codegraph.graph.nodes import chunks_of, counts_of, file_at, files_of, imports_of, symbols_of
from tracedesk.codegraph.graph.readers import Readers
from tracedesk.codegraph.graph.schema import GraphError, chunk_fts, file_fts, name_fts, symbol_fts
from tracedesk.codegraph.graph.store import Store
from tracedesk.journal.sqlite import Connection, InterruptError, connect

FILES = {
    "a.py": '"""First."""\nfrom b import helper\n\n\nclass A:\n    def go(self):\n        return helper()\n',
    "b.py": "def helper():\n    return 1\n",
}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as found:
        found.write(FILES)
        yield found


def _project(desk: Desk) -> int:
    found = desk.store.project(str(desk.root))
    assert found is not None
    return found.id


def test_a_new_graph_has_no_projects_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "graph.db") as store:
        assert store.projects() == []
        assert store.project("/nowhere") is None
        assert store.report("/nowhere") is None
    assert stat.S_IMODE((tmp_path / "graph.db").stat().st_mode) == 0o600


def test_a_project_is_known_once_its_graph_is_complete(desk: Desk) -> None:
    seen: list[object] = []

    def look(done: float, total: float, message: str) -> None:
        seen.append(desk.store.project(str(desk.root)))

    report = desk.index(progress=look)
    assert set(seen) == {None}, "nobody sees a graph that is being built"
    (project,) = desk.store.projects()
    assert (project.root, project.graph_version) == (str(desk.root), report.graph_version)
    assert project.indexed_ns == project.updated_ns > 0


def test_rows_of_a_file_are_read_in_the_order_of_its_text(desk: Desk) -> None:
    desk.index()
    project = _project(desk)
    desk.write({"a.py": FILES["a.py"].replace("class A:", "def first():\n    return 0\n\n\nclass A:")})
    desk.update(["a.py"])
    with desk.store.reading() as connection:
        file = file_at(connection, project, "a.py")
        assert file is not None
        assert (file.language, file.doc, file.deleted) == ("python", "First.", False)
        assert [symbol.qualified for symbol in symbols_of(connection, file.id)] == ["first", "A", "A.go"]
        assert [(i.module, i.names, i.line) for i in imports_of(connection, file.id)] == [
            ("b", ("helper",), 2)
        ]
        chunks = chunks_of(connection, file.id)
        assert chunks[0].symbol is None
        assert {s.chunk for s in symbols_of(connection, file.id)} <= {chunk.id for chunk in chunks}
        other = file_at(connection, project, "b.py")
        assert other is not None
        assert [symbol.inbound for symbol in symbols_of(connection, other.id)] == [1]
        assert [f.path for f in files_of(connection, project)] == ["a.py", "b.py"]
        assert file_at(connection, project, "c.py") is None
        counts = counts_of(connection, project)
    assert counts["files"] == 2
    assert counts["symbols"] == 4
    assert counts["symbol_references_symbol"] == counts["file_imports_file"] == 1


def test_full_text_finds_files_by_text_and_by_names_and_chunks_by_text(desk: Desk) -> None:
    desk.index()
    project = _project(desk)

    def found(table: str, words: str) -> list[int]:
        query = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid"
        with desk.store.reading() as connection:
            return [row[0] for row in connection.execute(query, (words,))]

    with desk.store.reading() as connection:
        ids = {file.path: file.id for file in files_of(connection, project)}
    assert found(file_fts(project), "helper") == [ids["a.py"], ids["b.py"]]
    assert found(name_fts(project), "symbols: helper") == [ids["b.py"]]
    assert {row >> 20 for row in found(chunk_fts(project), "helper")} == set(ids.values())
    (desk.root / "b.py").unlink()
    desk.update(deleted=["b.py"])
    assert found(name_fts(project), "helper") == []
    assert found(file_fts(project), "helper") == [ids["a.py"]]


def test_two_projects_share_a_file_and_nothing_else(desk: Desk, tmp_path: Path) -> None:
    desk.index()
    before = desk.graph()
    with Desk(tmp_path / "second") as second:
        second.store.close()
        second.store = desk.store
        second.write(FILES)
        second.write({"c.py": "def use():\n    return helper()\n"})
        second.index()
        assert desk.graph() == before
        assert second.graph() == second.rebuilt()
        assert len(desk.store.projects()) == 2
        assert desk.store.forget(str(second.root))
        assert not desk.store.forget(str(second.root))
    assert desk.graph() == before
    assert dangling(desk.store) == []


def test_a_reader_sees_one_state_from_its_first_look_to_its_last(desk: Desk) -> None:
    desk.index()
    query = "SELECT count(*) FROM symbol"
    with desk.store.reading() as connection:
        before = next(connection.execute(query))
        desk.write({"b.py": ""})
        desk.update(["b.py"])
        assert next(connection.execute(query)) == before
    with desk.store.reading() as connection:
        assert next(connection.execute(query)) != before


def test_a_file_of_an_older_form_is_made_anew_and_of_a_newer_is_refused(desk: Desk) -> None:
    desk.index()
    desk.store.close()
    _mark(desk.store.path, 0)
    assert Store(desk.store.path).project(str(desk.root)) is not None, "a reader alone changes nothing"
    with Store(desk.store.path, Here()) as store, store.writing():
        assert store.projects() == []
    _mark(desk.store.path, 99)
    with (
        Store(desk.store.path) as store,
        pytest.raises(GraphError, match="update tracedesk"),
        store.writing(),
    ):
        pass


def test_a_file_of_the_earlier_form_keeps_its_projects_searchable(desk: Desk) -> None:
    desk.write({"b.py": 'def helper():\n    """Take the long way round."""\n    return 1\n'})
    desk.index()
    project, before = _project(desk), desk.graph()
    with desk.store.writing() as connection:
        connection.execute(f"DROP TABLE {symbol_fts(project)}")
        connection.execute("UPDATE project SET extractor = 'tracedesk-1-earlier'")
    desk.store.close()
    _mark(desk.store.path, 1)
    with Store(desk.store.path, Here()) as store:
        with store.reading() as connection:
            query = f"SELECT rowid FROM {symbol_fts(project)} WHERE {symbol_fts(project)} MATCH ?"
            for words in ("name: helper", "signature: helper", "doc: long", "body: round"):
                (found,) = list(connection.execute(query, (words,)))
                assert symbol_at(connection, found[0]) == "helper"
        migrated = graph(store, str(desk.root))
    assert migrated["symbols"] == before["symbols"]
    assert migrated["version"] == before["version"]
    desk.store = Store(desk.store.path, Here())
    assert desk.index().changed == 2, "an index of this version reads every file again"
    assert desk.graph() == before


def test_a_file_of_the_form_without_what_is_left_out_gets_it_and_keeps_its_graph(desk: Desk) -> None:
    desk.write({"big.py": "x = 1\n" * 300_000})
    desk.index()
    before = desk.graph()
    with desk.store.writing() as connection:
        connection.execute("DROP TABLE left_out")
    desk.store.close()
    _mark(desk.store.path, 2)
    desk.store = Store(desk.store.path, Here())
    assert desk.graph() == {**before, "left out": []}
    desk.index()
    assert desk.graph() == before
    assert [row[:2] for row in before["left out"]] == [("big.py", "too_large")]


def test_readers_and_writers_that_open_an_earlier_form_at_once_migrate_it_once(desk: Desk) -> None:
    desk.index()
    with desk.store.writing() as connection:
        connection.execute(f"DROP TABLE {symbol_fts(_project(desk))}")
    desk.store.close()
    _mark(desk.store.path, 1)
    problems: list[BaseException] = []

    def look() -> None:
        try:
            with Store(desk.store.path) as store:
                assert store.project(str(desk.root)) is not None
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def symbol_at(connection: Connection, id: int) -> str:
    return next(connection.execute("SELECT qualified FROM symbol WHERE id = ?", (id,)))[0]


def _mark(path: Path, version: int) -> None:
    connection = connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    connection = connect(path)
    connection.execute("CREATE TABLE theirs(x)")
    connection.close()
    before = path.read_bytes()
    with Store(path) as store, pytest.raises(GraphError, match="another program's"):
        store.projects()
    assert path.read_bytes() == before


def test_readers_that_come_while_the_file_is_being_made_wait_for_it(tmp_path: Path) -> None:
    problems: list[BaseException] = []

    def look() -> None:
        try:
            with Store(tmp_path / "graph.db") as store:
                assert store.projects() == []
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=look) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_read_ends_with_the_call_that_asked_for_it(desk: Desk) -> None:
    desk.index()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    begun, ended = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        begun.set()
        try:
            next(connection.execute(endless))
        except InterruptError:
            ended.set()
            raise

    async def main() -> int:
        readers = Readers(desk.store, 1)
        reading = asyncio.ensure_future(readers.run(work))
        await asyncio.to_thread(begun.wait, BOUND)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reading, 0.05)
        assert ended.is_set()
        count = await readers.run(lambda connection: next(connection.execute("SELECT count(*) FROM file"))[0])
        readers.close()
        return count

    assert run(main()) == 2
