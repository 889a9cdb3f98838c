"""Who is measured, and how each is started."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import rivals
from benchmarks.process import ROOT

OURS: Final = "ours"
STOCK: Final = "stock"
SERVERS: Final = Path(__file__).resolve().parent / "servers"

Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One server; an empty command keeps it out of that measurement."""

    name: str
    label: str
    stdio: Argv = ()
    http: Argv = ()
    cold: Argv = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    token_file: Path | None = None

    def token(self) -> str:
        """The bearer token its clients send; servers that check none are sent one too."""
        return self.token_file.read_text("ascii").strip() if self.token_file else "td_" + "x" * 43


def lineup(home: Path, *, with_rivals: bool) -> list[Contestant]:
    """Ours and the stock server, then whichever rivals are installed."""
    contestants = [_ours(home), _stock()]
    if with_rivals:
        contestants.append(_tuned())
        if rivals.fastmcp_installed():
            contestants.append(_fastmcp())
        if rivals.node_installed():
            contestants.append(_node())
    return contestants


def absent() -> list[str]:
    """The rivals that are not installed."""
    missing = [] if rivals.fastmcp_installed() else [f"FastMCP {rivals.FASTMCP_VERSION}"]
    return missing if rivals.node_installed() else [*missing, f"TypeScript server {rivals.NODE_VERSION}"]


def _ours(home: Path) -> Contestant:
    serve = (sys.executable, "-m", "tests.fixtures.serve")
    stdio = (*serve, "stdio", str(home), "echo")
    return Contestant(
        OURS,
        "Tracedesk",
        stdio=stdio,
        http=(*serve, "http", str(home), "echo"),
        cold=shipped() or stdio,
        env={"TRACEDESK_HOME": str(home)},
        token_file=home / "token",
    )


def shipped() -> Argv | None:
    """The command that users run, where it is built."""
    command = Path(sys.executable).parent / "tracedesk"
    if not command.exists():
        return None
    asked = subprocess.run([command, "serve", "--help"], capture_output=True, text=True, cwd=ROOT)
    works = asked.returncode == 0 and "--stdio" in asked.stdout
    return (str(command), "serve", "--stdio") if works else None


def _module(name: str, *rest: str) -> Argv:
    return (sys.executable, "-m", f"benchmarks.servers.{name}", *rest)


def _stock() -> Contestant:
    return Contestant(
        STOCK,
        "mcp low-level",
        stdio=_module("stock_stdio"),
        http=_module("stock_http"),
        cold=_module("bare"),
    )


def _tuned() -> Contestant:
    return Contestant("tuned", "mcp tuned", http=_module("stock_http", "tuned"))


def _fastmcp() -> Contestant:
    serve = (str(rivals.FASTMCP_PYTHON), str(SERVERS / "fastmcp_server.py"))
    return Contestant(
        "fastmcp",
        f"FastMCP {rivals.FASTMCP_VERSION}",
        stdio=(*serve, "stdio"),
        http=(*serve, "http"),
        cold=(*serve, "stdio"),
    )


def _node() -> Contestant:
    # Node resolves packages from where a file lies, so the server has to lie beside them.
    server = rivals.NPM_HOME / "server.mjs"
    shutil.copyfile(SERVERS / "node_server.mjs", server)
    serve = (str(rivals.node()), str(server))
    return Contestant(
        "node",
        f"TypeScript {rivals.NODE_VERSION}",
        stdio=(*serve, "stdio"),
        http=(*serve, "http"),
        cold=(*serve, "stdio"),
    )
