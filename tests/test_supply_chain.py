"""What is installed is locked by digest, and nothing is fetched at run time."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tests.support import ROOT, StdioDesk, modern

_OFFLINE = """
import socket
real = socket.socket.connect
def connect(self, address):
    if self.family != socket.AF_UNIX and not str(address[0]).startswith(("127.", "::1")):
        raise SystemExit(f"reached for the network: {address}")
    return real(self, address)
socket.socket.connect = connect
def resolve(host, *rest, **named):
    raise SystemExit(f"looked up {host}")
socket.getaddrinfo = resolve
"""


def test_every_locked_python_package_has_digests() -> None:
    for lock in (ROOT / "requirements").glob("*.lock"):
        blocks = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8"))
        packages = [block for block in blocks if "==" in block.split("\n")[0]]
        assert len(packages) > 30
        assert all("--hash=sha256:" in block for block in packages), lock.name


def test_every_locked_node_package_has_a_digest_and_no_address() -> None:
    for lock in (ROOT / "tests").rglob("package-lock.json"):
        if "node_modules" in lock.parts:
            continue
        packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
        for name, entry in packages.items():
            assert name == "" or "integrity" in entry, name
            assert "resolved" not in entry, name


def test_a_desk_serves_without_ever_looking_up_a_host(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_OFFLINE, encoding="utf-8")
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    with StdioDesk(tmp_path / "home", environment={"PYTHONPATH": path}) as desk:
        for number, method in enumerate(("server/discover", "tools/list", "resources/list", "prompts/list")):
            assert "result" in desk.ask(modern(method, None, number))
        assert "result" in desk.ask(modern("tools/call", {"name": "desk_status"}, 9))
        assert desk.finish()[0] == 0
