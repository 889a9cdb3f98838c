"""What each client is told about a desk: the entry of its configuration, and text ready to paste."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

NAME: Final = "tracedesk"
"""The name under which clients know the desk."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What a client connects to: a running desk's URL, or a command that starts one."""

    url: str = ""
    token: str | None = None
    command: str = "tracedesk"
    arguments: tuple[str, ...] = ("serve", "--stdio")
    environment: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a client runs when something happens: by event, a command that reads the event from its input."""

    commands: dict[str, str]
    mark: str
    """What stands in our commands and in nobody else's."""

    def group(self, event: str, second: int) -> Entry:
        """The group of one event; `second` is how many of its units the client counts in a second."""
        return {"hooks": [{"type": "command", "command": self.commands[event], "timeout": second}]}

    def document(self, second: int) -> dict[str, Any]:
        """The whole file of a client that has no other hooks."""
        return {"hooks": {event: [self.group(event, second)] for event in self.commands}}


@dataclass(frozen=True, slots=True)
class Snippet:
    """How one client is told about a desk."""

    title: str
    file: str
    """Where the text goes, as a person would say it."""
    key: str
    """The object of the client's file that holds its servers."""
    stdio_entry: Callable[[Target], Entry]
    http_entry: Callable[[Target], Entry] | None
    """None where the client's file can only start commands."""
    shell: Callable[[Target], str] | None = None
    """The client's own command that adds a running desk, where it has one."""

    def entry(self, target: Target) -> Entry:
        """The entry for `target`: by URL where it has one and the client can, else by command."""
        if target.url and self.http_entry is not None:
            return self.http_entry(target)
        return self.stdio_entry(target)

    def document(self, target: Target) -> dict[str, Any]:
        """The whole file of a client that knows no other server."""
        return {self.key: {NAME: self.entry(target)}}

    def http(self, target: Target) -> str:
        """What to paste, on as many lines as it takes to be read."""
        return self.shell(target) if self.shell else json.dumps(self.document(target), indent=2)

    def short(self, target: Target) -> str:
        """What to paste, on one line."""
        return self.shell(target) if self.shell else json.dumps(self.document(target))


def _command(target: Target) -> Entry:
    entry: Entry = {"command": target.command, "args": list(target.arguments)}
    return {**entry, "env": dict(target.environment)} if target.environment else entry


def _typed_command(target: Target) -> Entry:
    return {"type": "stdio", **_command(target)}


def _link(key: str, target: Target) -> Entry:
    entry: Entry = {key: target.url}
    return {**entry, "headers": {"Authorization": f"Bearer {target.token}"}} if target.token else entry


def _url(target: Target) -> Entry:
    return _link("url", target)


def _typed_url(target: Target) -> Entry:
    return {"type": "http", **_link("url", target)}


def _http_url(target: Target) -> Entry:
    return _link("httpUrl", target)


def _claude_mcp_add(target: Target) -> str:
    words = ["claude", "mcp", "add", "--transport", "http", NAME, target.url]
    header = f' --header "Authorization: Bearer {target.token}"' if target.token else ""
    return shlex.join(words) + header


SNIPPETS: Final[dict[str, Snippet]] = {
    "claude-code": Snippet(
        "Claude Code", "in a shell", "mcpServers", _typed_command, _typed_url, _claude_mcp_add
    ),
    "claude-desktop": Snippet(
        "Claude Desktop (starts its own desk)", "claude_desktop_config.json", "mcpServers", _command, None
    ),
    "cursor": Snippet("Cursor", ".cursor/mcp.json", "mcpServers", _command, _url),
    "vscode": Snippet("VS Code", ".vscode/mcp.json", "servers", _typed_command, _typed_url),
    "qwen-code": Snippet("Qwen Code", ".qwen/settings.json", "mcpServers", _command, _http_url),
}
