"""The page at `/` shows what toolsets say, and runs none of it."""

from __future__ import annotations

from dataclasses import replace

from tests.fixtures.echo import echo
from tracedesk.contract import Toolset
from tracedesk.registry import Registry
from tracedesk.wire import page

POISON = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"
FIGURES = {
    "version": "1",
    "uptimeSeconds": 0,
    "calls": 0,
    "errors": 0,
    "callsInFlight": 0,
    "sessions": 0,
    "openStreams": 0,
}


def test_everything_on_the_page_is_escaped() -> None:
    toolset: Toolset[None] = Toolset("evil", summary=POISON, guide=POISON)
    toolset.add(replace(echo.tools["echo"], toolset="evil", description=POISON))
    text = page.render(Registry([toolset]), f"http://x/{POISON}", {**FIGURES, "version": POISON}).decode()
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
