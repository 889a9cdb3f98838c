"""What lies around a file or a symbol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegraph.graph.projects import Desk
from tracedesk.codegraph.graph.neighbours import (
    Bounded,
    FileNeighbours,
    Place,
    SymbolNeighbours,
    around_file,
    around_symbol,
)

FILES = {
    "core.py": (
        "def load(path):\n    return parse(path)\n\n\ndef parse(path):\n    return path\n\n\n"
        "class Store:\n    def load(self):\n        return load(self)\n"
    ),
    **{f"user{n}.py": f"from core import load\n\n\ndef use{n}():\n    return load({n})\n" for n in range(6)},
    "top.py": "from core import load\n\nload('at the top')\n",
}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as found:
        found.write(FILES)
        found.index()
        yield found


def _symbol(desk: Desk, name: str, path: str | None = None, most: int = 50) -> SymbolNeighbours | None:
    project = desk.store.project(str(desk.root))
    assert project is not None
    with desk.store.reading() as connection:
        return around_symbol(connection, project.id, name, path, most)


def _file(desk: Desk, path: str, most: int = 50) -> FileNeighbours | None:
    project = desk.store.project(str(desk.root))
    assert project is not None
    with desk.store.reading() as connection:
        return around_file(connection, project.id, path, most)


def _named(bounded: Bounded) -> list[str]:
    return [f"{p.path}:{p.symbol}" if isinstance(p, Place) else p for p in bounded.found]


def test_a_symbol_has_definitions_references_in_and_out_and_mentions(desk: Desk) -> None:
    found = _symbol(desk, "parse")
    assert found is not None
    assert _named(found.definitions) == ["core.py:parse"]
    assert _named(found.references_in) == ["core.py:load"]
    assert _named(found.references_out) == []
    assert [(p.path, p.line) for p in found.mentions.found if isinstance(p, Place)] == [("core.py", 2)]


def test_a_qualified_name_or_a_path_says_which_definition(desk: Desk) -> None:
    every, method, here = _symbol(desk, "load"), _symbol(desk, "Store.load"), _symbol(desk, "load", "core.py")
    assert every is not None
    assert method is not None
    assert here is not None
    assert _named(every.definitions) == _named(here.definitions) == ["core.py:load", "core.py:Store.load"]
    assert _named(method.definitions) == ["core.py:Store.load"]
    assert _symbol(desk, "load", "user0.py") is None
    assert _symbol(desk, "Other.load") is None
    assert _symbol(desk, "nothing") is None


def test_neighbours_are_bounded_and_counted(desk: Desk) -> None:
    found = _symbol(desk, "load", most=3)
    assert found is not None
    assert found.mentions.total == 8
    assert len(found.mentions.found) == 3
    assert found.references_in.is_cut
    assert _named(found.references_in) == sorted(_named(found.references_in))
    assert found.references_in.total == 6
    assert len(found.references_in.found) == 3


def test_a_line_at_the_top_of_a_file_is_a_mention_without_a_symbol(desk: Desk) -> None:
    found = _symbol(desk, "load")
    assert found is not None
    assert ("top.py", 3, None) in {
        (p.path, p.line, p.symbol) for p in found.mentions.found if isinstance(p, Place)
    }


def test_a_file_has_imports_both_ways_and_references_across(desk: Desk) -> None:
    core, user = _file(desk, "core.py"), _file(desk, "user1.py")
    assert core is not None
    assert user is not None
    assert _named(user.imports) == ["core.py"]
    assert _named(user.imported_by) == []
    assert _named(user.references_out) == ["core.py:Store.load", "core.py:load"] or _named(
        user.references_out
    ) == ["core.py:load", "core.py:Store.load"]
    assert core.imported_by.total == 7
    assert core.references_in.total == 6
    assert _named(core.definitions) == [
        "core.py:load",
        "core.py:parse",
        "core.py:Store",
        "core.py:Store.load",
    ]
    assert _file(desk, "gone.py") is None


def test_a_removed_file_has_no_neighbours(desk: Desk) -> None:
    (desk.root / "user1.py").unlink()
    desk.update(deleted=["user1.py"])
    assert _file(desk, "user1.py") is None


def test_names_with_signs_of_sql_find_nothing_and_break_nothing(desk: Desk) -> None:
    for name in ("%", "_", "load%", "'; DROP TABLE symbol; --", "a.%", "\\", "", "Store.%"):
        assert _symbol(desk, name) is None
