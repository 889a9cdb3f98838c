"""The configuration files of MCP clients: where they are, and one entry written or removed safely."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, cast

from tracedesk import jsontext
from tracedesk.snippets import NAME, SNIPPETS, Entry, Snippet, Target

FileScope = Literal["user", "project"]
_BOM: Final = "\ufeff"


class Refusal(RuntimeError):
    """A configuration file that is left alone, with the reason and what to do by hand."""


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client and its files: `user` below the home folder, `project` below the project's."""

    name: str
    user: Mapping[str, str]
    """By platform; `linux` stands for every other one."""
    project: str | None
    config_variable: str | None = None
    """An environment variable that moves the user's file to another folder."""

    @property
    def snippet(self) -> Snippet:
        return SNIPPETS[self.name]

    @property
    def scopes(self) -> tuple[FileScope, ...]:
        return ("user",) if self.project is None else ("user", "project")

    def file(self, scope: FileScope, environ: Mapping[str, str] | None = None) -> Path:
        """The file of `scope`."""
        if scope == "project":
            if self.project is None:
                raise Refusal(f"{self.snippet.title} has no project file; use --scope user.")
            return Path.cwd() / self.project
        surroundings = os.environ if environ is None else environ
        moved = surroundings.get(self.config_variable or "")
        place = self.user.get(sys.platform, self.user["linux"])
        return Path(moved) / Path(place).name if moved else Path.home() / place


_MAC: Final = "Library/Application Support"
CLIENTS: Final[dict[str, Client]] = {
    client.name: client
    for client in (
        Client("claude-code", {"linux": ".claude.json"}, ".mcp.json", "CLAUDE_CONFIG_DIR"),
        Client(
            "claude-desktop",
            {
                "linux": ".config/Claude/claude_desktop_config.json",
                "darwin": f"{_MAC}/Claude/claude_desktop_config.json",
            },
            None,
        ),
        Client("cursor", {"linux": ".cursor/mcp.json"}, ".cursor/mcp.json"),
        Client(
            "vscode",
            {"linux": ".config/Code/User/mcp.json", "darwin": f"{_MAC}/Code/User/mcp.json"},
            ".vscode/mcp.json",
        ),
        Client("qwen-code", {"linux": ".qwen/settings.json"}, ".qwen/settings.json"),
    )
}


def this_command() -> tuple[str, ...]:
    """The words that start the very tracedesk that is running, by absolute path."""
    called = Path(sys.argv[0])
    beside = Path(sys.executable).with_name(NAME)
    for candidate in (called, beside):
        if candidate.name == NAME and candidate.is_file() and os.access(candidate, os.X_OK):
            return (os.path.abspath(candidate),)
    return (sys.executable, "-m", "tracedesk.cli")


def starting(toolsets: Iterable[str], home: Path | None) -> Target:
    """A target that starts a desk of its own over stdio; `home` is named when it is not the default."""
    command, *words = this_command()
    arguments = (*words, "serve", "--stdio", "--toolsets", ",".join(toolsets))
    return Target(
        command=command,
        arguments=arguments,
        environment={} if home is None else {"TRACEDESK_HOME": str(home)},
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to a file; without a backup there was nothing to keep."""

    file: Path
    changed: bool
    backup: Path | None = None


def install(client: Client, scope: FileScope, target: Target) -> Change:
    """Write the desk's entry into the client's file."""
    snippet, file = client.snippet, client.file(scope)
    entry = snippet.entry(target)
    before = _read(file)
    try:
        after = jsontext.put(_text(before, file), snippet.key, NAME, entry)
    except jsontext.Unreadable as fault:
        raise Refusal(_by_hand(file, fault, snippet, entry)) from None
    return _change(file, before, after, private=target.token is not None)


def uninstall(client: Client, scope: FileScope) -> Change:
    """Remove the desk's entry, and nothing else, from the client's file."""
    snippet, file = client.snippet, client.file(scope)
    before = _read(file)
    try:
        after = jsontext.drop(_text(before, file), snippet.key, NAME)
    except jsontext.Unreadable as fault:
        remedy = f"Remove {NAME!r} from its {snippet.key!r} by hand."
        raise Refusal(f"{file} was left as it is: {fault}. {remedy}") from None
    return _change(file, before, after, private=False)


@dataclass(frozen=True, slots=True)
class Mention:
    """A client's file that speaks of the desk: its entry, or why it cannot be read."""

    client: Client
    scope: FileScope
    file: Path
    entry: Entry | None = None
    problem: str | None = None
    lenient: bool = False


def mentions() -> Iterator[Mention]:
    """Every file of a known client, for the user and for this folder, that speaks of the desk."""
    for client in CLIENTS.values():
        for scope in client.scopes:
            found = _mention(client, scope)
            if found is not None:
                yield found


def _mention(client: Client, scope: FileScope) -> Mention | None:
    file = client.file(scope)
    try:
        text = _text(_read(file), file)
        if NAME not in text:
            return None
        entry = jsontext.member(text, client.snippet.key, NAME)
    except jsontext.Unreadable as fault:
        return Mention(client, scope, file, problem=str(fault), lenient=fault.lenient)
    except Refusal as refusal:
        return Mention(client, scope, file, problem=str(refusal))
    if not isinstance(entry, dict):
        return None
    return Mention(client, scope, file, entry=cast(Entry, entry))


def _by_hand(file: Path, fault: jsontext.Unreadable, snippet: Snippet, entry: Entry) -> str:
    import json

    line = json.dumps({NAME: entry}, ensure_ascii=False)[1:-1]
    kept = " Writing it would lose them." if fault.lenient else ""
    return f"{file} was left as it is: {fault}.{kept} Add this to its {snippet.key!r} by hand: {line}"


# --- bytes on disk -----------------------------------------------------------------------------


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise Refusal(f"{file} cannot be read: {fault.strerror}.") from None


def _text(content: bytes | None, file: Path) -> str:
    try:
        return (content or b"").decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError:
        raise Refusal(f"{file} was left as it is: it is not UTF-8.") from None


def _change(file: Path, before: bytes | None, after: str, *, private: bool) -> Change:
    if after == _text(before, file):
        return Change(file, changed=False)
    mark = _BOM if (before or b"").startswith(_BOM.encode()) else ""
    try:
        return Change(file, True, _replace(file, before, (mark + after).encode(), private=private))
    except OSError as fault:
        raise Refusal(f"{file} cannot be written: {fault.strerror}.") from None


def _replace(file: Path, before: bytes | None, after: bytes, *, private: bool) -> Path | None:
    """Replace the file whole; what a symbolic link points at is replaced, not the link."""
    real = Path(os.path.realpath(file))
    real.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        _copy_mode(real, fresh, private=private)
        backup = None if before is None else _back_up(real)
        # A running client may have saved meanwhile; its change must not be undone by ours.
        if _read(real) != before:
            raise Refusal(f"{file} was changed by another program just now. Run this again.")
        fresh.replace(real)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
    return backup


def _copy_mode(real: Path, fresh: Path, *, private: bool) -> None:
    if real.exists():
        shutil.copymode(real, fresh)
    else:
        fresh.chmod(0o600 if private else 0o644)


def _back_up(real: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for count in range(1, 1000):
        backup = real.with_name(f"{real.name}.{stamp}{f'-{count}' if count > 1 else ''}.bak")
        if not backup.exists():
            shutil.copy2(real, backup)
            return backup
    raise Refusal(f"{real} has a thousand backups of this second.")
