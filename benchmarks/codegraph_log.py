"""What a client waits for `etg_log_event` while the same desk indexes, and for a bare durable commit."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from benchmarks import messages
from benchmarks.lineup import shipped
from benchmarks.messages import Misbehaved
from benchmarks.process import Server, running
from benchmarks.stdio_client import StdioClient
from tracedesk.journal.sqlite import connect

OURS: Final = "etg_log_event"
BARE: Final = "bare commit"
EVENTS_AN_ATTEMPT: Final = 20
_OUTPUT: Final = "FAILED tests/test_views.py::test_it - AssertionError: assert 200 == 404\n" * 4


class Bare:
    """One row, one transaction, one sync: what any durable log pays."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        for line in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
            self._connection.execute(line)
        self._connection.execute("CREATE TABLE event(id INTEGER PRIMARY KEY, body BLOB) STRICT")

    def log(self, body: bytes) -> None:
        self._connection.execute("INSERT INTO event(body) VALUES(?)", (body,))

    def close(self) -> None:
        self._connection.close()


def event(number: int) -> dict[str, Any]:
    """Events as agents send them: tools begin and end, and now and then a checkpoint."""
    attempt, step = divmod(number, EVENTS_AN_ATTEMPT)
    head: dict[str, Any] = {"attempt_id": f"attempt-{attempt}"}
    if step == EVENTS_AN_ATTEMPT - 1:
        told = {"message": f"Patched view {number}", "files": [f"app/views_{step}.py"], "graph_version": "v"}
        return {**head, "kind": "checkpoint", "payload": told}
    head["call_id"] = f"call-{number // 2}"
    if number % 2 == 0:
        arguments = {"command": f"pytest -q tests/test_views_{number}.py"}
        return {**head, "kind": "tool_start", "payload": {"tool": "shell", "arguments": arguments}}
    told = {"tool": "shell", "status": "error", "duration_ms": 1823, "output": f"{number} {_OUTPUT}"}
    return {**head, "kind": "tool_end", "payload": told}


class Desk(StdioClient):
    """A client that logs, and has its desk index one copy of the checkout after another meanwhile."""

    def __init__(self, server: Server, copies: Callable[[], str]) -> None:
        super().__init__(server, "modern")
        self._copies = copies
        self._indexing = 0
        self.indexes = 0

    def index(self) -> None:
        """Ask for a full index, and do not wait for it."""
        self._indexing = self._next()
        arguments: dict[str, Any] = {"project_root": self._copies(), "files": []}
        self._write(_call(self._indexing, "graph_index_project", arguments))

    def log(self, number: int) -> float:
        """The milliseconds that one event took to be on the disk."""
        asked = self._next()
        request = _call(asked, "etg_log_event", event(number))
        began = time.perf_counter()
        self._write(request)
        answer = self._answer(asked)
        waited = (time.perf_counter() - began) * 1e3
        if answer.get("isError", True):
            raise Misbehaved(f"an event was not logged: {json.dumps(answer)[:600]}")
        return waited

    def _answer(self, asked: int) -> dict[str, Any]:
        """The answer with that id; an index that ended in between is followed by the next."""
        while True:
            message: dict[str, Any] = json.loads(self._line())
            if message.get("id") == asked:
                return message["result"]
            if message.get("id") == self._indexing:
                self._ended(message)

    def _ended(self, message: dict[str, Any]) -> None:
        if message.get("result", {}).get("isError", True):
            raise Misbehaved(f"an index failed: {json.dumps(message)[:600]}")
        self.indexes += 1
        self.index()

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _call(number: int, tool: str, arguments: dict[str, Any]) -> bytes:
    message: dict[str, Any] = json.loads(messages.list_tools("modern", number))
    params = {**message["params"], "name": tool, "arguments": arguments}
    return json.dumps({**message, "method": "tools/call", "params": params}).encode()


class Copies:
    """New roots with the same files: to the desk, each is a project that it does not know yet."""

    def __init__(self, root: str, files: Sequence[str], folder: Path) -> None:
        self.folder = folder.resolve()
        self._files = files
        self._made = 0
        for name in files:
            _place(Path(root) / name, self.folder / "0" / name, shutil.copyfile)

    def __call__(self) -> str:
        place = self.folder / str(self._made)
        if self._made:
            for name in self._files:
                _place(self.folder / "0" / name, place / name, os.link)
        self._made += 1
        return str(place)


def _place(source: Path, target: Path, put: Callable[[Path, Path], object]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    put(source, target)


@contextmanager
def served(folder: Path, copies: Copies) -> Generator[Desk]:
    """The desk as users run it, on every core."""
    command = shipped()
    if command is None:
        raise Misbehaved("`tracedesk serve --stdio` is not built here; run `make setup`")
    env = {"TRACEDESK_HOME": str(folder / "home"), "TRACEDESK_CODEGRAPH_ROOTS": str(copies.folder)}
    with running("tracedesk", (*command, "--toolsets", "codegraph"), env, pipes=True) as server:
        for task in Path(f"/proc/{server.pid}/task").iterdir():
            with suppress(ProcessLookupError):  # a thread that ended since it was listed
                os.sched_setaffinity(int(task.name), os.sched_getaffinity(0))
        with server.blamed():
            yield Desk(server, copies)


def measure(root: str, files: Sequence[str], folder: Path, events: int) -> dict[str, list[float]]:
    """The waits of both in milliseconds, an event of one after an event of the other."""
    waits: dict[str, list[float]] = {OURS: [], BARE: []}
    copies = Copies(root, files, folder / "beside")
    with served(folder, copies) as desk, closing(Bare(folder / "bare.db")) as bare:
        for number in range(EVENTS_AN_ATTEMPT):
            desk.log(number)  # opens the file, makes its tables, and loads what logging needs
        _wait_for_room(folder / "home")
        desk.index()
        for number in range(EVENTS_AN_ATTEMPT, EVENTS_AN_ATTEMPT + events):
            _turn(number, desk, bare, waits)
    return waits


def _wait_for_room(home: Path) -> None:
    """Let what a desk writes once, when it opens its file, be on the disk: it would slow both."""
    length, before = _logged(home), -1
    while length != before:
        time.sleep(0.2)
        length, before = _logged(home), length


def _logged(home: Path) -> int:
    return sum(file.stat().st_size for file in home.glob("*-wal"))


def _turn(number: int, desk: Desk, bare: Bare, waits: dict[str, list[float]]) -> None:
    """One event of each; who comes first changes, for the second finds the disk warm."""
    body = json.dumps(event(number)).encode()

    def ours() -> None:
        waits[OURS].append(desk.log(number))

    def theirs() -> None:
        began = time.perf_counter()
        bare.log(body)
        waits[BARE].append((time.perf_counter() - began) * 1e3)

    for turn in (ours, theirs) if number % 2 else (theirs, ours):
        turn()
