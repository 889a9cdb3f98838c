"""The bar on a terminal, the lines for programs, and silence for everything else."""

from __future__ import annotations

import io
import json

import pytest

from tests.support import run
from tracedesk.cli.progress import Bar, picture
from tracedesk.jobs import Job


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("done", "total", "message", "line"),
    [
        (0, 10, None, "index  [..............................]   0%"),
        (5, 10, "src", "index  [###############...............]  50%  src"),
        (10, 10, None, "index  [##############################] 100%"),
        (99.99, 100, None, "index  [#############################.]  99%"),
        (20, 10, None, "index  [##############################] 100%"),
        (1234567, None, "files", "index  1,234,567  files"),
        (3, 0, None, "index  3"),
        (1, 2, "two\nlines\x1b[31m", "index  [###############...............]  50%  two lines"),
    ],
)
def test_a_bar_shows_the_part_that_is_done(
    done: float, total: float | None, message: str | None, line: str
) -> None:
    assert picture("index", done, total, message) == line


def test_a_terminal_gets_one_line_repainted_and_left_clean() -> None:
    terminal = Terminal()

    async def main() -> None:
        with Bar("index", stream=terminal, columns=30) as bar:
            await bar.progress(1, 2, "a long message that does not fit")
            await bar.progress(2, 2)

    run(main())
    first, second, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert first == "index  [###############......"
    assert len(first) == len(second) == 29
    assert last == ""
    assert "\n" not in terminal.getvalue()


def test_no_terminal_gets_nothing() -> None:
    stream = io.StringIO()

    async def main() -> None:
        with Bar("index", stream=stream) as bar:
            await bar.progress(1, 2)

    run(main())
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_lines_are_json_wherever_they_go(stream: io.StringIO) -> None:
    async def main() -> None:
        with Bar("index", lines=True, stream=stream) as bar:
            await bar.progress(1, 2, "ü")
            await bar.progress(2)

    run(main())
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"progress": {"job": "index", "done": 1, "total": 2, "message": "ü"}},
        {"progress": {"job": "index", "done": 2, "total": None, "message": None}},
    ]


def test_a_bar_follows_a_job_to_its_result() -> None:
    terminal = Terminal()

    async def main() -> str:
        job = Job[str]("index")
        job.report(4, 4)
        job.finish("indexed")
        with Bar("index", stream=terminal, columns=80) as bar:
            return await job.follow(bar)

    assert run(main()) == "indexed"
    assert "100%" in terminal.getvalue()
