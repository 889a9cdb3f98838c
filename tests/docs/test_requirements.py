"""Every promise in docs/requirements has a test, and every test it names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support import ROOT

FOLDER: Final = ROOT / "docs" / "requirements"
PAGES: Final = sorted(FOLDER.glob("*.md"))
_NODE: Final = re.compile(r"`(tests/[^`\s]+\.py(?:::[^`\s]+)?)`")
_ID: Final = re.compile(r"[A-Z]+-\d+")


@dataclass(frozen=True, slots=True)
class Row:
    """One promise and the tests that keep it."""

    id: str
    promise: str
    tests: tuple[str, ...]


def rows(text: str) -> list[Row]:
    """The rows of every table of a page whose first column holds ids."""
    cells = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in _lines(text))
    return [Row(c[0], c[1], tuple(_NODE.findall(c[2]))) for c in cells if len(c) == 3 and _ID.fullmatch(c[0])]


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith("|"))


@cache
def collected(file: Path) -> frozenset[str]:
    """The test functions of a file, methods as `Class::test`, without importing it."""
    if not file.exists():
        return frozenset()
    return frozenset(_tests(ast.parse(file.read_text(encoding="utf-8")).body, ""))


def _tests(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests(node.body, f"{node.name}::")


def problems(text: str) -> list[str]:
    """What is wrong with a page."""
    found = rows(text)
    wrong = [f"{row.id} names no test" for row in found if not row.tests]
    wrong += [f"{row.id} promises nothing" for row in found if not row.promise]
    wrong += [f"{row.id}: {test} does not exist" for row in found for test in row.tests if not _exists(test)]
    ids = [row.id for row in found]
    return wrong + [f"{name} is used twice" for name in sorted({i for i in ids if ids.count(i) > 1})]


def _exists(test: str) -> bool:
    name, _, function = test.partition("::")
    known = collected(ROOT / name)
    return bool(known) if not function else function in known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_of_a_page_is_kept_by_a_test_that_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert rows(text), "a page of requirements has rows"
    assert problems(text) == []


def test_the_desk_has_a_page() -> None:
    assert (FOLDER / "desk.md").exists()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("| X-1 | a promise | |", "X-1 names no test"),
        ("| X-1 | a promise | later |", "X-1 names no test"),
        ("| X-1 | | `tests/docs/test_requirements.py` |", "X-1 promises nothing"),
        (
            "| X-1 | a promise | `tests/docs/test_requirements.py::test_nothing` |",
            "X-1: tests/docs/test_requirements.py::test_nothing does not exist",
        ),
        ("| X-1 | a promise | `tests/gone.py::test_x` |", "X-1: tests/gone.py::test_x does not exist"),
        ("| X-1 | a promise | `tests/gone.py` |", "X-1: tests/gone.py does not exist"),
    ],
)
def test_a_row_without_a_real_test_is_a_problem(row: str, problem: str) -> None:
    assert problem in problems(f"| id | promise | tests |\n| --- | --- | --- |\n{row}\n")


def test_an_id_used_twice_is_a_problem() -> None:
    row = "| X-1 | a | `tests/docs/test_requirements.py::test_the_desk_has_a_page` |\n"
    assert problems(row + row) == ["X-1 is used twice"]
