"""The token holder: calls tools at a steady pace and notes every latency, refusal and acknowledged id.

`python -m tests.judges.abuse.owner PORT SECONDS PREFIX` with the token on stdin; one line of JSON comes out.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

from tests.judges.abuse.wires import CLIENT

PAUSE: Final = 0.02
CALLS_A_CONNECTION: Final = 25
"""A new connection comes often, for the gate that strangers could crowd is where one is accepted."""


@dataclass(slots=True)
class Owner:
    """One token holder and the notes it takes."""

    port: int
    token: str
    prefix: str
    latencies: list[float] = field(default_factory=list[float])
    refused: list[str] = field(default_factory=list[str])
    acknowledged: list[str] = field(default_factory=list[str])
    recorded: list[str] = field(default_factory=list[str])
    """References of the records of all answered calls."""
    _connection: http.client.HTTPConnection | None = None

    def work(self, seconds: float) -> None:
        """Call until the time is over; each turn is one reading, one change or one handshake."""
        until = time.monotonic() + seconds
        number = 0
        while time.monotonic() < until:
            self._turn(number)
            number += 1
            time.sleep(PAUSE)

    def _turn(self, number: int) -> None:
        if number % CALLS_A_CONNECTION == 0:
            self._reconnect()
            self._shake_hands()
        elif number % 3 == 0:
            self._log(f"{self.prefix}-{number}")
        elif number % 3 == 1:
            self._timed("/tools/get_portfolio", {"tool_call_id": f"{self.prefix}-read-{number}"})
        else:
            self._timed("/tools/desk_status", {})

    def _log(self, name: str) -> None:
        arguments = {"tool_call_id": name, "event_type": "signal", "data": {"name": name}}
        if self._timed("/tools/log_event", arguments) is not None:
            self.acknowledged.append(name)

    def _shake_hands(self) -> None:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
        headers = self._timed("/mcp", hello)
        if headers is not None:
            self._request("DELETE", "/mcp", None, {"Mcp-Session-Id": headers["mcp-session-id"]})

    def _timed(self, path: str, value: Any) -> dict[str, str] | None:
        """Post, note the latency, and return the answer's headers; None for a refusal."""
        began = time.perf_counter()
        try:
            status, headers = self._request(
                "POST", path, json.dumps(value), {"Content-Type": "application/json"}
            )
        except (OSError, http.client.HTTPException) as problem:
            self.refused.append(f"{path}: {problem!r}")
            self._reconnect()
            return None
        finally:
            self.latencies.append(time.perf_counter() - began)
        if status != 200:
            self.refused.append(f"{path}: {status}")
            return None
        if "tracedesk-call" in headers:
            self.recorded.append(headers["tracedesk-call"])
        return headers

    def _request(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, str]]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        accepted = {"Authorization": f"Bearer {self.token}", "Accept": "application/json, text/event-stream"}
        self._connection.request(method, path, body, {**accepted, **headers})
        answer = self._connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}

    def _reconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def main() -> None:
    port, seconds, prefix = sys.argv[1:4]
    owner = Owner(int(port), sys.stdin.readline().strip(), prefix)
    owner.work(float(seconds))
    names = ("latencies", "refused", "acknowledged", "recorded")
    print(json.dumps({name: getattr(owner, name) for name in names}))


if __name__ == "__main__":
    main()
