"""The configuration files of MCP clients: where they are, and one entry written or removed safely."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, cast

from tracedesk import jsontext
from tracedesk.snippets import NAME, SNIPPETS, Entry, Hooks, Snippet, Target

FileScope = Literal["user", "project"]
_BOM: Final = "\ufeff"
_MOST_BACKUPS: Final = 64
ISOLATED: Final = ("-I", "-S")
"""How our hooks start Python: with nothing of the user's surroundings."""


class Refusal(RuntimeError):
    """A configuration file that is left alone, with the reason and what to do by hand."""


@dataclass(frozen=True, slots=True)
class HookFile:
    """Where a client reads hooks, below the user's folder or a project's, and its units in a second."""

    place: str
    second: int


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client and its files: `user` below the home folder, `project` below the project's."""

    name: str
    user: Mapping[str, str]
    """By platform; `linux` stands for every other one."""
    project: str | None
    config_variable: str | None = None
    """An environment variable that moves the user's file to another folder."""
    hooks: HookFile | None = None
    """None where a client runs no hooks, or none that we know."""

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

    def hook_file(self, scope: FileScope, environ: Mapping[str, str] | None = None) -> Path:
        """The file of `scope` with the client's hooks."""
        assert self.hooks is not None, f"{self.name} has no hooks"
        surroundings = os.environ if environ is None else environ
        moved = surroundings.get(self.config_variable or "") if scope == "user" else None
        if moved:
            return Path(moved) / Path(self.hooks.place).name
        return (Path.home() if scope == "user" else Path.cwd()) / self.hooks.place


_MAC: Final = "Library/Application Support"
CLIENTS: Final[dict[str, Client]] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            {"linux": ".claude.json"},
            ".mcp.json",
            "CLAUDE_CONFIG_DIR",
            HookFile(".claude/settings.json", second=1),
        ),
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
        Client(
            "qwen-code",
            {"linux": ".qwen/settings.json"},
            ".qwen/settings.json",
            hooks=HookFile(".qwen/settings.json", second=1_000),
        ),
    )
}


def this_command() -> tuple[str, ...]:
    """The words that start the very tracedesk that is running, by absolute path."""
    called = Path(sys.argv[0])
    beside = Path(sys.executable).with_name(NAME)
    for candidate in (called, beside):
        if candidate.name == NAME and candidate.is_file() and os.access(candidate, os.X_OK):
            return (os.path.abspath(candidate),)
    return (sys.executable, "-P", "-m", "tracedesk.cli")


def starting(toolsets: Iterable[str], home: Path | None, roots: Iterable[Path] = ()) -> Target:
    """A target that starts a desk of its own over stdio; `home` is named when it is not the default.

    Roots are named because clients start servers in any folder, such as the user's home or `/`.
    """
    command, *words = this_command()
    named = (word for root in roots for word in ("--root", str(root)))
    arguments = (*words, "serve", "--stdio", "--toolsets", ",".join(toolsets), *named)
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


Edit = Callable[[str], str]


def install(client: Client, scope: FileScope, target: Target, hooks: Hooks | None = None) -> list[Change]:
    """Write the desk's entry, and the hooks if any, into the client's files: the entry's file comes first."""
    snippet = client.snippet
    entry = snippet.entry(target)
    edits: dict[Path, list[Edit]] = {
        client.file(scope): [lambda text: jsontext.put(text, snippet.key, NAME, entry)]
    }
    if hooks is not None and client.hooks is not None:
        second = client.hooks.second
        edits.setdefault(client.hook_file(scope), []).append(lambda text: put_hooks(text, hooks, second))
    by_hand = {client.file(scope): _by_hand(snippet, entry)}
    plans = [_planned(file, each, by_hand.get(file, _HOOKS_BY_HAND)) for file, each in edits.items()]
    return _carried_out(plans, private=target.token is not None)


def uninstall(client: Client, scope: FileScope, mark: str | None = None) -> list[Change]:
    """Remove the desk's entry, hooks that run `mark`, and nothing else from the client's files."""
    key = client.snippet.key
    edits: dict[Path, list[Edit]] = {client.file(scope): [lambda text: drop_entry(text, key)]}
    if mark is not None and client.hooks is not None:
        edits.setdefault(client.hook_file(scope), []).append(lambda text: drop_hooks(text, mark))
    by_hand = {client.file(scope): f"Remove {NAME!r} from its {key!r} by hand."}
    other = f"Remove the hooks that run {mark} by hand."
    plans = [_planned(file, each, by_hand.get(file, other)) for file, each in edits.items()]
    return _carried_out([_restored(plan, key, mark) for plan in plans], private=False)


def drop_entry(text: str, key: str) -> str:
    """`text` without the desk's entry, and without the object that it alone was in."""
    without = jsontext.drop(text, key, NAME)
    is_empty = without != text and not _mapping(jsontext.parse(without)[key])
    return jsontext.cut(without, (key,)) if is_empty else without


# --- several files, all or none ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a file holds and what it is to hold; None where there is none."""

    file: Path
    before: bytes | None
    after: bytes | None


def _planned(file: Path, edits: Iterable[Edit], by_hand: str) -> _Plan:
    """All edits of a file, worked out before any file is touched."""
    before = _read(file)
    text = after = _text(before, file)
    try:
        for edit in edits:
            after = edit(after)
    except jsontext.Unreadable as fault:
        kept = " Writing it would lose them." if fault.lenient else ""
        raise Refusal(f"{file} was left as it is: {fault}.{kept} {by_hand}") from None
    if after == text:
        return _Plan(file, before, before)
    mark = _BOM if (before or b"").startswith(_BOM.encode()) else ""
    return _Plan(file, before, (mark + after).encode())


def _restored(plan: _Plan, key: str, mark: str | None) -> _Plan:
    """The bytes from before the installation, where nothing else was changed since.

    That is so when what the file holds of ours, put into a backup (or into nothing), makes the very file.
    """
    if plan.after == plan.before:
        return plan
    text = _text(plan.before, plan.file)
    entry = jsontext.member(text, key, NAME)
    groups = {} if mark is None else _ours(text, mark)

    def again(old: str) -> str:
        old = old if entry is None else jsontext.put(old, key, NAME, entry)
        for event, group in ((event, group) for event, each in groups.items() for group in each):
            old = jsontext.push(old, (_HOOKS, event), group)
        return old

    for content in (*_backups(plan.file), None):
        with contextlib.suppress(Refusal, jsontext.Unreadable):
            old = _text(content, plan.file)
            is_ours = jsontext.member(old, key, NAME) is not None or (mark and _ours(old, mark))
            if not is_ours and again(old) == text:
                return replace(plan, after=content)
    return plan


def _backups(file: Path) -> Iterator[bytes]:
    """What a file held before our changes, the latest first."""
    real = Path(os.path.realpath(file))
    names = sorted(real.parent.glob(f"{glob.escape(real.name)}.*.bak"), reverse=True)
    for name in names[:_MOST_BACKUPS]:
        with contextlib.suppress(OSError):
            yield name.read_bytes()


def _carried_out(plans: Iterable[_Plan], *, private: bool) -> list[Change]:
    """Write every file; when one cannot be written, those before it are as they were."""
    done: list[tuple[_Plan, Change]] = []
    for plan in plans:
        try:
            done.append((plan, _change(plan, private=private)))
        except Refusal as refusal:
            left = [words for each in reversed(done) if (words := _undone(*each))]
            raise Refusal(" ".join((str(refusal), *left))) from None
    return [change for _, change in done]


def _undone(plan: _Plan, change: Change) -> str | None:
    """Take a change back; words when that was not possible."""
    if not change.changed:
        return None
    try:
        _change(_Plan(plan.file, plan.after, plan.before), private=False, keeps=False)
    except Refusal as refusal:
        kept = f" Its old content is in {change.backup}." if change.backup else ""
        return f"{plan.file} was already changed, and could not be changed back: {refusal}{kept}"
    if change.backup is not None:
        with contextlib.suppress(OSError):
            change.backup.unlink()
    return None


# --- hooks ---------------------------------------------------------------------------------------

_HOOKS: Final = "hooks"
_HOOKS_BY_HAND: Final = "Add the hooks by hand; --print shows them."


def put_hooks(text: str, hooks: Hooks, second: int) -> str:
    """`text` with our group as the last one of each event; groups of ours that differ go."""
    wanted = {event: hooks.group(event, second) for event in hooks.commands}
    if _ours(text, hooks.mark) == {event: [group] for event, group in wanted.items()}:
        return text
    text = drop_hooks(text, hooks.mark, keep=wanted)
    for event, group in wanted.items():
        text = jsontext.push(text, (_HOOKS, event), group)
    return text


def drop_hooks(text: str, mark: str, keep: Container[str] = ()) -> str:
    """`text` without the hooks that run `mark`, and without what they alone were in.

    The lists of the events to `keep` stay, also empty.
    """
    events = _mapping(jsontext.parse(text).get(_HOOKS))
    for event, groups in events.items():
        paths = [*_marked(groups, mark)]
        for path in reversed(paths):
            text = jsontext.cut(text, (_HOOKS, event, *path))
        left = _mapping(jsontext.parse(text)[_HOOKS])
        if paths and not left[event] and event not in keep:
            only = len(left) == 1
            text = jsontext.cut(text, (_HOOKS,) if only else (_HOOKS, event))
    return text


def _ours(text: str, mark: str) -> dict[str, list[object]]:
    """By event, the groups that are ours; None for a hook of ours in a group of someone else's."""
    found: dict[str, list[object]] = {}
    for event, groups in _mapping(jsontext.parse(text).get(_HOOKS)).items():
        for place, *rest in _marked(groups, mark):
            found.setdefault(event, []).append(None if rest else _listed(groups)[place])
    return found


def _marked(groups: object, mark: str) -> Iterator[tuple[int, *tuple[str | int, ...]]]:
    """Where our hooks are in an event's groups: a whole group, or single ones among others."""
    for place, group in enumerate(_listed(groups)):
        hooks = _listed(_mapping(group).get(_HOOKS))
        ours = [number for number, hook in enumerate(hooks) if _runs(_mapping(hook).get("command"), mark)]
        if ours and len(ours) == len(hooks):
            yield (place,)
        else:
            yield from ((place, _HOOKS, number) for number in ours)


def _runs(command: object, script: str) -> bool:
    """Whether a command is one of ours: an isolated Python that runs the script of that name."""
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    places = (place for place, word in enumerate(words) if Path(word).name == script)
    return any(words[max(0, place - len(ISOLATED)) : place] == [*ISOLATED] for place in places)


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


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


def _by_hand(snippet: Snippet, entry: Entry) -> str:
    import json

    line = json.dumps({NAME: entry}, ensure_ascii=False)[1:-1]
    return f"Add this to its {snippet.key!r} by hand: {line}"


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


def _change(plan: _Plan, *, private: bool, keeps: bool = True) -> Change:
    """Carry out one plan, with a backup of what there was unless `keeps` is false."""
    file, before, after = plan.file, plan.before, plan.after
    if after == before:
        return Change(file, changed=False)
    real = Path(os.path.realpath(file))
    backup: Path | None = None
    try:
        backup = _back_up(real) if keeps and before is not None else None
        _replace(real, before, after, private=private)
    except (OSError, Refusal) as fault:
        if backup is not None:
            backup.unlink(missing_ok=True)
        told = fault if isinstance(fault, Refusal) else f"{file} cannot be written: {fault.strerror}."
        raise Refusal(str(told)) from None
    return Change(file, True, backup)


def _refuse_meddling(real: Path, before: bytes | None) -> None:
    """A running client may have saved meanwhile; its change must not be undone by ours."""
    if _read(real) != before:
        raise Refusal(f"{real} was changed by another program just now. Run this again.")


def _replace(real: Path, before: bytes | None, after: bytes | None, *, private: bool) -> None:
    """Replace the file whole, or remove it; what a symbolic link points at is meant, not the link."""
    if after is None:
        _refuse_meddling(real, before)
        real.unlink()
        return
    real.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        _copy_mode(real, fresh, private=private)
        _refuse_meddling(real, before)
        fresh.replace(real)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()


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
