"""The echo tool on FastMCP; runs in its own environment, see `benchmarks.rivals`."""

# FastMCP is not installed where the type checker looks.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedFunctionDecorator=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import sys

import uvicorn
from fastmcp import FastMCP
from typing_extensions import TypedDict

mcp = FastMCP("fastmcp")


class Echo(TypedDict):
    n: float


@mcp.tool(annotations={"readOnlyHint": True})
async def echo(n: float) -> Echo:
    """Returns the number it is given."""
    return {"n": n}


def main() -> None:
    if sys.argv[1] == "stdio":
        mcp.run(show_banner=False, log_level="WARNING")
    else:
        app = mcp.http_app(json_response=True)
        uvicorn.run(
            app, port=int(os.environ["PORT"]), http="httptools", access_log=False, log_level="warning"
        )


if __name__ == "__main__":
    main()
