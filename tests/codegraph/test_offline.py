"""The whole toolset with the network cable out: nothing asks for a name or connects to another machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.codegraph.desks import shop
from tests.support import ROOT
from tracedesk.codegraph.indexer import SMALL

GUARD: Final = """
import os, socket

def note(what):
    with open(os.environ["TRIED"], "a") as file:
        file.write(f"{os.getpid()} {what!r}\\n")
    raise OSError("the network is blocked")

def connecting(name):
    own = getattr(socket.socket, name)
    def connect(self, address, *rest):
        return own(self, address, *rest) if self.family == socket.AF_UNIX else note(address)
    setattr(socket.socket, name, connect)

for name in ("connect", "connect_ex", "sendto"):
    connecting(name)
for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
    setattr(socket, name, lambda *words, **more: note(words))
"""
"""As `sitecustomize` in every process that a test starts, it notes and bars every way out of this machine."""

SCRIPT: Final = """
import asyncio, json, sys
from pathlib import Path
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.wire.dispatch import Origin

class Quiet:
    capabilities = {}
    async def progress(self, *words): ...
    async def log(self, *words): ...
    async def ask(self, requests): return {}

async def main(home, project):
    tables = {"codegraph": {"roots": [project]}}
    settings = Settings(home=Path(home), toolsets=("codegraph",), check_output=True, tables=tables)
    answers = {}
    async with open_desk(settings) as desk:
        async def ask(tool, **arguments):
            reply = await desk.dispatch.call(tool, arguments, Origin("test", Quiet()))
            assert not reply.is_error, reply.body
            answers[tool] = json.loads(reply.body)
        await ask("graph_index_project", project_root=project, files=[])
        version = answers["graph_index_project"]["graph_version"]
        await ask("graph_update_files", project_root=project, added_or_modified=["app/clock.py"])
        desk.states["codegraph"].semantics.wait(30)
        said = {"message": "Refresh sooner", "graph_version": version, "query": "session expires"}
        await ask("etg_log_event", attempt_id="a", kind="checkpoint", payload=said)
        await ask("etg_query_similar_attempts", query="session expires", min_score=0)
        await ask("graph_context_for_files", project_root=project, files=["app/session.py"])
        await ask("graph_search", query="refresh a session")
        await ask("graph_neighbors", symbol="Session")
        await ask("etg_get_attempt", attempt_id="a")
        await ask("etg_timeline")
        assert set(answers) == set(desk.registry.tools) - {"desk_status", "get_source", "trace"}
    print(json.dumps(answers["graph_search"]))

asyncio.run(main(*sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Barred:
    """Python in a folder where no process can reach the network."""

    folder: Path

    def __call__(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        guard = self.folder / "guard"
        guard.mkdir(exist_ok=True)
        (guard / "sitecustomize.py").write_text(GUARD)
        surroundings = {**os.environ, "PYTHONPATH": str(guard), "TRIED": str(self.folder / "tried")}
        command = [sys.executable, "-c", script, *words]
        return subprocess.run(
            command, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=60, check=False
        )

    @property
    def tried(self) -> list[str]:
        file = self.folder / "tried"
        return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("more", [0, SMALL], ids=["indexed here", "indexed by a process of its own"])
def test_every_tool_answers_with_the_network_blocked_and_none_tries_to_use_it(
    tmp_path: Path, more: int
) -> None:
    project = shop(tmp_path / "shop")
    for number in range(more):
        (project / f"extra_{number}.py").write_text(f"def extra_{number}(): ...\n")
    barred = Barred(tmp_path)
    done = barred(SCRIPT, str(tmp_path / "home"), str(project))
    assert done.returncode == 0, done.stderr
    assert barred.tried == []
    found = json.loads(done.stdout)
    assert found["files"][0]["file"] == "app/session.py"
    assert any(share == 1 for share in found["coverage"].values())


def test_whoever_tries_is_noticed_also_in_a_child(tmp_path: Path) -> None:
    barred = Barred(tmp_path)
    reaching = "import socket; socket.create_connection(('192.0.2.1', 80))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {reaching!r}], stderr=-3)"
    barred(reaching)
    barred(child)
    assert len(barred.tried) == 2
    assert len({line.split()[0] for line in barred.tried}) == 2
