"""Codegraph desks under test: a real home, a small project on the disk, asked over MCP on a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from tests.support import VERSION, Client, Reply, events, modern
from tracedesk.codegraph.desk import Atlas
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.primitives.time import Clock
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import Bind, serving

SHOP: Final[Mapping[str, str]] = {
    "app/__init__.py": "",
    "app/session.py": '''"""Sessions: who is logged in, and until when."""

from app.clock import now


class Session:
    """One user's session."""

    def __init__(self, user, seconds):
        self.user = user
        self.ends = now() + seconds

    def refresh(self, seconds):
        """Move the end of the session."""
        self.ends = now() + seconds

    def is_over(self):
        return now() >= self.ends


def open_session(user):
    """A session of half an hour."""
    return Session(user, 1800)
''',
    "app/clock.py": '''"""The time, in one place."""

import time


def now():
    """Seconds since the epoch."""
    return time.time()
''',
    "app/views.py": '''"""What the browser asks for."""

from app.session import Session, open_session


def login(user):
    return open_session(user)


def heartbeat(session: Session):
    session.refresh(60)
''',
    "web/cart.ts": """// The cart of one visitor.
export interface Item { name: string; price: number }

export class Cart {
  private items: Item[] = [];
  add(item: Item): void { this.items.push(item); }
  total(): number { return this.items.reduce((sum, item) => sum + item.price, 0); }
}
""",
    "README.md": "# Shop\n\nA shop with sessions and a cart.\n",
    "ignored/skip.py": "def never(): ...\n",
    ".gitignore": "ignored/\n",
    ".env": "TOKEN=not-for-anyone\n",
}


def shop(folder: Path) -> Path:
    """A project of a few files in two languages."""
    for name, text in SHOP.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


INDEXED: Final = sorted(
    ["README.md", "app/__init__.py", "app/clock.py", "app/session.py", "app/views.py", "web/cart.ts"]
)


@dataclass(slots=True)
class Agent:
    """A client of a desk that serves codegraph alone."""

    client: Client

    @property
    def atlas(self) -> Atlas:
        return cast("Atlas", self.client.desk.states["codegraph"])

    async def raw(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """The reply of a call; one that took long came as an event stream, whose last message it is."""
        reply = await self.client.call(tool, dict(arguments))
        if reply.headers.get("content-type", "").startswith("text/event-stream"):
            return Reply(reply.status, reply.headers, json.dumps(events(reply.body)[-1]).encode())
        return reply

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The answer of a call that succeeds."""
        return (await self.raw(tool, arguments)).structured

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that is refused, its envelope checked."""
        envelope = (await self.raw(tool, arguments)).envelope
        assert set(envelope) == {"error"}
        assert set(envelope["error"]) == {"code", "message", "details"}
        return envelope["error"]

    async def in_attempt(self, attempt: str, tool: str, **arguments: Any) -> Any:
        """The result of a call that names its attempt, with its `_meta`."""
        message = modern("tools/call", {"name": tool, "arguments": arguments})
        message["params"]["_meta"] = {**message["params"]["_meta"], "tracedesk/attempt": attempt}
        headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        result = (await self.client.post("/mcp", message, headers)).json["result"]
        assert result["isError"] is False, result
        return result

    async def resource(self, uri: str) -> Reply:
        return await self.client.modern("resources/read", {"uri": uri})


@asynccontextmanager
async def agent(
    home: Path, *roots: Path, clock: Clock | None = None, **settings: Any
) -> AsyncGenerator[Agent]:
    """An agent at a desk that serves codegraph, every answer checked against its contract."""
    table: dict[str, Any] = {"roots": [str(root) for root in roots or (home.parent,)], "workers": 1}
    given: dict[str, Any] = {"check_output": True, "toolsets": ("codegraph",), **settings}
    chosen = Settings(home=home, tables={"codegraph": table}, **given)
    listener = listen("127.0.0.1", 0)
    bind = Bind(listener)
    async with open_desk(chosen, clock=clock) as desk:
        app, token = build_app(desk, bind)
        async with serving(app, bind):
            yield Agent(Client(desk, app, listener.getsockname()[1], token).authorised())
