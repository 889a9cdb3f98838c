"""The official low-level server's own HTTP app under uvicorn.

With `tuned` it gets what its documentation offers to those who know: a lookup that spares it running
`tools/list` on every call, and no tracing middleware.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server

from benchmarks.servers.stock_tool import ECHO, build


def tuned() -> Server[Any]:
    server = build(get_tool_input_schema={"echo": ECHO.input_schema}.get)
    server.middleware.clear()
    return server


def main() -> None:
    server = tuned() if "tuned" in sys.argv else build()
    app = server.streamable_http_app(json_response=True)
    uvicorn.run(app, port=int(os.environ["PORT"]), http="httptools", access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
