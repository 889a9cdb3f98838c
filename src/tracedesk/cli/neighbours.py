"""Who holds a port: nobody, a desk, or another program."""

from __future__ import annotations

import errno
import http.client
import json
import socket
from typing import Any, cast


def holder(host: str, port: int) -> dict[str, Any] | None:
    """None when the port is free; the figures of the desk that holds it; an empty dict for anyone else."""
    return None if port == 0 or _is_free(host, port) else _figures(host, port)


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as fault:
        if fault.errno == errno.EADDRINUSE:
            return False
        raise
    return True


def _figures(host: str, port: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/health")
        answer: Any = json.loads(connection.getresponse().read(65536))
    except (OSError, ValueError, http.client.HTTPException):
        return {}
    finally:
        connection.close()
    is_desk = isinstance(answer, dict) and {"version", "uptimeSeconds", "maxSessions"} <= cast(
        "set[str]", answer.keys()
    )
    return cast("dict[str, Any]", answer) if is_desk else {}
