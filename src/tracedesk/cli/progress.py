"""How a command shows long work: a bar on a terminal, JSON lines on request, nothing otherwise."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Final, Literal, TextIO

from tracedesk.primitives.text import escape_controls, sanitize_terminal

Style = Literal["bar", "lines", "silent"]

_WIDTH: Final = 30
_CLEAR: Final = "\r\x1b[K"


class Bar:
    """Paints progress on stderr; `job.follow(bar)` and `client.call(on_progress=bar.progress)` feed it."""

    def __init__(
        self, label: str, *, lines: bool = False, stream: TextIO | None = None, columns: int | None = None
    ) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._columns = columns
        self.style: Style = "lines" if lines else "bar" if self._stream.isatty() else "silent"

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal's line clean for what is printed next."""
        if self.style == "bar":
            self._write(_CLEAR)

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Show how far the work is."""
        self.show(done, total, message)

    def show(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """The same, for work that runs in this thread."""
        if self.style == "lines":
            self._write(_line(self._label, done, total, message) + "\n")
        elif self.style == "bar":
            columns = self._columns or shutil.get_terminal_size().columns
            self._write(_CLEAR + picture(self._label, done, total, message)[: columns - 1])

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def picture(label: str, done: float, total: float | None, message: str | None) -> str:
    """One line: a bar with a percentage when the total is known, a count when it is not."""
    words = sanitize_terminal(f"  {message}").replace("\n", " ") if message else ""
    if not total or total <= 0:
        return f"{label}  {done:,.10g}{words}"
    part = min(1.0, max(0.0, done / total))
    full = int(part * _WIDTH)
    return f"{label}  [{'#' * full}{'.' * (_WIDTH - full)}] {int(part * 100):3}%{words}"


def _line(label: str, done: float, total: float | None, message: str | None) -> str:
    document = {"job": label, "done": done, "total": total, "message": message}
    return escape_controls(json.dumps({"progress": document}, ensure_ascii=False))
