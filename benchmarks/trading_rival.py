"""Installs alpaca-mcp-server beside the project: `python -m benchmarks.trading_rival`; repeating is free."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping
from typing import Final

from benchmarks.rivals import JUDGES

VERSION: Final = "2.4.0"
PINS: Final = (f"alpaca-mcp-server=={VERSION}", "fastmcp==3.4.7")
HOME: Final = JUDGES / "alpaca"
COMMAND: Final = HOME / "bin" / "alpaca-mcp-server"
ENV: Final[Mapping[str, str]] = {
    "ALPACA_API_KEY": "PK" + "0" * 18,
    "ALPACA_SECRET_KEY": "0" * 40,
    "ALPACA_PAPER_TRADE": "true",
}
"""It does not start without credentials; these open nothing, and listing its tools asks nobody."""


def installed() -> bool:
    found = HOME.glob(f"lib/python*/site-packages/alpaca_mcp_server-{VERSION}.dist-info")
    return COMMAND.exists() and any(found)


def install() -> None:
    venv.create(HOME, with_pip=True, clear=True)
    subprocess.run([HOME / "bin" / "python", "-m", "pip", "install", "-q", *PINS], check=True)


def main() -> None:
    if not installed():
        install()
    if not installed():
        sys.exit(f"alpaca-mcp-server {VERSION}: the install left something else behind")
    print(f"alpaca-mcp-server {VERSION}: installed")


if __name__ == "__main__":
    main()
