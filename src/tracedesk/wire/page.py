"""The page at `/`: what this desk serves, how to connect each client, live figures."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any, Final

from tracedesk.contract import Tool
from tracedesk.registry import Registry
from tracedesk.snippets import SNIPPETS, Target

_FILES: Final = resources.files("tracedesk.wire") / "assets"
STYLE: Final = (_FILES / "page.css").read_bytes()
SCRIPT: Final = (_FILES / "page.js").read_bytes()
_TEMPLATE: Final = (_FILES / "page.html").read_text(encoding="utf-8")

_FIGURES: Final = {
    "uptimeSeconds": "seconds up",
    "calls": "calls",
    "errors": "refused",
    "callsInFlight": "in flight",
    "sessions": "sessions",
    "openStreams": "open streams",
}


def render(registry: Registry, base: str, figures: Mapping[str, Any]) -> bytes:
    """The whole page; every value in it is escaped."""
    parts = {
        "version": escape(str(figures["version"])),
        "base": escape(base),
        "figures": "".join(_figure(name, figures[name]) for name in _FIGURES),
        "toolsets": "".join(
            _toolset(registry, toolset.name, toolset.summary) for toolset in registry.toolsets
        ),
        "clients": "".join(_client(name, base) for name in SNIPPETS),
    }
    page = _TEMPLATE
    for name, value in parts.items():
        page = page.replace("{{" + name + "}}", value)
    return page.encode()


def _figure(name: str, value: Any) -> str:
    return f'<div><dt>{_FIGURES[name]}</dt><dd id="{name}">{escape(str(value))}</dd></div>'


def _toolset(registry: Registry, name: str, summary: str) -> str:
    rows = "".join(_tool(tool) for tool in registry.tools.values() if tool.toolset == name)
    return f"<section><h3>{escape(name)}</h3><p>{escape(summary)}</p><table>{rows}</table></section>"


def _tool(tool: Tool) -> str:
    first = tool.description.split("\n")[0]
    return f"<tr><td><code>{escape(tool.name)}</code></td><td>{tool.scope}</td><td>{escape(first)}</td></tr>"


def _client(name: str, base: str) -> str:
    snippet = SNIPPETS[name]
    text = snippet.http(Target(url=f"{base}/mcp", token="YOUR_TOKEN"))
    return f"<details><summary>{escape(snippet.title)}</summary><pre>{escape(text)}</pre></details>"
