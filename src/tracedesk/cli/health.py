"""The checks of `tracedesk doctor`, each a small function that yields findings."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

import tracedesk
from tracedesk.cli.console import describe, sentence, short_path, size_text
from tracedesk.config import BadSetting, Settings, load, locate
from tracedesk.home import FORMAT, Home, HomeError, read_format

Status = Literal["ok", "warn", "fail"]
_OLDEST: Final = (3, 11)
_SCARCE: Final = 1 << 30
_EMPTY: Final = 50 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw, and what to do where it is not well."""

    check: str
    status: Status
    detail: str
    remedy: str | None = None
    figures: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        facts = {"check": self.check, "status": self.status, "detail": self.detail, "remedy": self.remedy}
        return facts if self.figures is None else {**facts, "figures": self.figures}


Check = Callable[[Settings], Iterator[Finding]]


def examine(home: Path | None) -> Iterator[Finding]:
    """Every finding, in the order a person would look."""
    settings, judged = _settings(home)
    yield from _python()
    yield from _packages()
    yield judged
    for check in (_home, _space, _rollback, _tokens, _port, _temporary, _toolsets, _clients, _protocol):
        yield from _guarded(check, settings)


def _guarded(check: Check, settings: Settings) -> Iterator[Finding]:
    """A check that cannot be made is a finding, not the end of the others."""
    from tracedesk.journal.sqlite import SQLiteError
    from tracedesk.storage import fault_of

    name = check.__name__.strip("_")
    try:
        yield from check(settings)
    except (OSError, SQLiteError) as fault:
        disk = fault_of(fault, settings.home)
        if disk is not None:
            # The home's own finding says so: what could not be looked at for it is no second illness.
            yield Finding(name, "warn", _not_checked(disk.problem))
        elif isinstance(fault, OSError):
            yield Finding(name, "fail", describe(fault))
        else:
            yield Finding(name, "fail", sentence(fault))


def _settings(home: Path | None) -> tuple[Settings, Finding]:
    try:
        settings = load({"home": home})
    except BadSetting as fault:
        found = Finding(
            "settings", "fail", sentence(fault), "Mend or remove it; tracedesk config show lists all."
        )
        return Settings(home=locate(home)), found
    file = settings.home / "tracedesk.toml"
    detail = (
        f"{short_path(file)} is valid" if file.exists() else "defaults and environment; no tracedesk.toml"
    )
    return settings, Finding("settings", "ok", detail)


# --- the installation --------------------------------------------------------------------------


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST:
        yield Finding("python", "fail", f"{version} is too old", "Install Python 3.11 or newer.")
    else:
        yield Finding("python", "ok", f"{version} at {short_path(Path(sys.executable))}")


def _packages() -> Iterator[Finding]:
    requirements = [r for r in metadata.requires("tracedesk") or () if _applies(r)]
    problems = [problem for requirement in requirements if (problem := _unmet(requirement))]
    for problem in problems:
        yield Finding("packages", "fail", problem, "Install tracedesk again to get what it was tested with.")
    if not problems:
        detail = f"tracedesk {tracedesk.__version__}, and its {len(requirements)} packages fit"
        yield Finding("packages", "ok", detail)


def _applies(requirement: str) -> bool:
    _, _, marker = requirement.partition(";")
    return "extra" not in marker and not ("sys_platform" in marker and sys.platform == "win32")


def _unmet(requirement: str) -> str | None:
    found = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)", requirement)
    assert found is not None
    name, bounds = found[1], found[2].strip()
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is missing; {bounds} is needed"
    if all(_holds(version, bound) for bound in bounds.split(",") if bound):
        return None
    return f"{name} is {version}, but {bounds} is needed"


def _holds(version: str, bound: str) -> bool:
    found = re.fullmatch(r"\s*(>=|<=|==|<|>)\s*([0-9.]+)\s*", bound)
    if found is None:
        return True
    have, want = _release(version), _release(found[2])
    return {">=": have >= want, "<=": have <= want, "==": have == want, "<": have < want, ">": have > want}[
        found[1]
    ]


def _release(version: str) -> tuple[int, ...]:
    """The release numbers without trailing zeros, so that 2.3 equals 2.3.0."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# --- the home ----------------------------------------------------------------------------------


def _home(settings: Settings) -> Iterator[Finding]:
    from tracedesk.storage import probe

    home = settings.home
    if not home.exists():
        yield _future_home(home)
        return
    if not home.is_dir():
        yield Finding(
            "home", "fail", f"{home} is not a folder", "Move it away, or choose another with --home."
        )
        return
    if (fault := probe(home)) is not None:
        yield Finding("home", "fail", f"{fault.problem} ({short_path(home)})", fault.remedy)
        return
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("home", "fail", f"{home} cannot be written", "Give it to this user, or choose another.")
        return
    if mode := _open_to_others(home):
        remedy = f"chmod 700 {home}"
        yield Finding("home", "warn", f"{short_path(home)} is open to other users ({mode})", remedy)
        return
    yield _format(home)


def _format(home: Path) -> Finding:
    """A home of a newer format is refused by `serve`; an older one is migrated by it."""
    try:
        found = read_format(home)
    except HomeError as fault:
        return Finding("home", "fail", describe(fault))
    number = found.number if found else 0
    figures = {"format": number, "current": FORMAT}
    detail = f"{short_path(home)}, writable, private, format {number}"
    if number > FORMAT:
        detail = f"{short_path(home)} has format {number}; this tracedesk knows formats up to {FORMAT}"
        return Finding("home", "fail", detail, "Update tracedesk, or choose another with --home.", figures)
    if number < FORMAT:
        detail += f", which the next serve brings to {FORMAT}"
    return Finding("home", "ok", detail, None, figures)


def _future_home(home: Path) -> Finding:
    parent = next(folder for folder in home.parents if folder.exists())
    if os.access(parent, os.W_OK | os.X_OK):
        return Finding("home", "ok", f"{short_path(home)} will be made by the first serve")
    return Finding("home", "fail", f"{home} cannot be made", "Choose another with --home or TRACEDESK_HOME.")


def _open_to_others(path: Path) -> str | None:
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:04o}" if mode & 0o077 else None


def _space(settings: Settings) -> Iterator[Finding]:
    from tracedesk.disk import sizes

    home = settings.home
    folder = next(f for f in (home, *home.parents) if f.exists())
    free = shutil.disk_usage(folder).free
    held = sizes(home)
    parts = ", ".join(f"{kind} {size_text(size)}" for kind, size in held.kinds.items() if size)
    detail = f"{size_text(free)} free; the home holds {size_text(held.total)}" + (parts and f": {parts}")
    figures = {"free": free, "total": held.total, "kinds": held.kinds, "wal": held.wal}
    if free < _EMPTY:
        remedy = "Make room: records are refused when the disk is full."
        yield Finding("disk", "fail", detail, remedy, figures)
    elif free < _SCARCE:
        yield Finding("disk", "warn", detail, "Make room before long; tracedesk prune helps.", figures)
    else:
        yield Finding("disk", "ok", detail, None, figures)
    yield from _journals(home, held.wal)


def _journals(home: Path, wal: int) -> Iterator[Finding]:
    """What the journals hold, once there are any."""
    from tracedesk.disk import streams
    from tracedesk.storage import probe

    found = streams(Home(home))
    if not found.journals and not found.unreadable:
        return
    detail = (
        f"{found.streams} streams in {found.journals} files, {found.sealed} sealed, {found.pruned} pruned"
    )
    detail += f"; write-ahead logs {size_text(wal)}"
    figures = {**found.document(), "wal": wal}
    if found.unreadable and probe(home) is not None:
        yield Finding("journals", "warn", f"not checked: {', '.join(found.unreadable)}", None, figures)
    elif found.unreadable:
        detail = f"not readable: {', '.join(found.unreadable)}; else {detail}"
        yield Finding("journals", "fail", detail, "Restore them from a backup.", figures)
    else:
        yield Finding("journals", "ok", detail, None, figures)


def _rollback(settings: Settings) -> Iterator[Finding]:
    """A file that was replaced by an older copy, while the other one went on."""
    from tracedesk.rollback import LEDGER, REMEDY, TRACE, check

    home = settings.home
    if not any((home / name).exists() for name in (TRACE, LEDGER)):
        return
    losses = check(home)
    figures = {"losses": [loss.document() for loss in losses]}
    if losses:
        detail = "; ".join(loss.text for loss in losses)
        yield Finding("rollback", "fail", detail, REMEDY, figures)
    else:
        detail = f"{TRACE} and {LEDGER} have all that they have stored of each other"
        yield Finding("rollback", "ok", detail, None, figures)


def _tokens(settings: Settings) -> Iterator[Finding]:
    from tracedesk.wire.auth import Tokens

    table = settings.home / "tokens.json"
    for file in (settings.home / "token", table, settings.home / "anchor.key"):
        if file.exists() and (mode := _open_to_others(file)):
            yield Finding("tokens", "fail", f"{file} is open to other users ({mode})", f"chmod 600 {file}")
    try:
        names = [one.name for one in Tokens(settings.home).list()]
    except (ValueError, KeyError, TypeError):
        yield Finding("tokens", "fail", f"{table} is damaged", "Remove it; the next serve makes a new one.")
        return
    yield Finding("tokens", "ok", ", ".join(names) or "none yet; the first serve over HTTP makes one")


# --- what it serves, and to whom ---------------------------------------------------------------


def _port(settings: Settings) -> Iterator[Finding]:
    from tracedesk.cli.neighbours import holder

    where = f"{settings.host} port {settings.port}"
    found = holder(settings.host, settings.port)
    if found is None:
        yield Finding("port", "ok", f"{where} is free")
    elif "version" in found:
        yield Finding("port", "ok", f"{where} is held by a desk of version {found['version']}")
    else:
        remedy = "Choose another with --port or in tracedesk.toml, or stop it."
        yield Finding("port", "warn", f"{where} is held by another program", remedy)


def _temporary(_: Settings) -> Iterator[Finding]:
    """The folder in which toolsets are exercised; a toolset is not broken where only this one is full."""
    from tracedesk.storage import temporary

    found = temporary()
    if found is None:
        yield Finding("temporary", "ok", f"{tempfile.gettempdir()} takes files")
    else:
        yield Finding("temporary", "fail", f"{found.problem}{_named_temporary()}", found.remedy)


def _named_temporary() -> str:
    try:
        return f": {tempfile.gettempdir()}"
    except FileNotFoundError:
        return ""


def _not_checked(problem: str) -> str:
    return f"not checked: {problem[0].lower()}{problem[1:]}"


def _toolsets(settings: Settings) -> Iterator[Finding]:
    from tracedesk.toolsets import TOOLSETS, UnknownToolset, built, check

    names = [name for name in settings.toolsets or built() if name != "desk"]
    try:
        check(names)
    except UnknownToolset as fault:
        yield Finding("toolsets", "fail", sentence(fault), "Mend the setting 'toolsets'.")
        return
    missing = [name for name in TOOLSETS if name not in built()]
    later = f"; not built yet: {', '.join(missing)}" if missing else ""
    yield Finding("toolsets", "ok", f"{', '.join(('desk', *names))}{later}")
    yield from map(_exercised, names)


def _exercised(name: str) -> Finding:
    """A small piece of the toolset's real work, done now."""
    from tracedesk.exercise import exercise

    done = exercise(name)
    if done.can_run:
        return Finding(name, "ok", done.detail)
    if done.storage is not None:
        return Finding(name, "warn", _not_checked(done.detail), done.remedy)
    return Finding(name, "fail", f"cannot run: {done.detail}", done.remedy)


def _clients(settings: Settings) -> Iterator[Finding]:
    from tracedesk.clients import mentions

    found = [_client(mention) for mention in mentions()]
    if not found:
        yield Finding("clients", "ok", "no client knows this desk yet; tracedesk install --client NAME")
    yield from found


def _client(mention: Any) -> Finding:
    where = f"{mention.client.name}, {short_path(mention.file)}"
    if mention.entry is None:
        status: Status = "warn" if mention.lenient else "fail"
        return Finding(
            "clients", status, f"{where}: {mention.problem}", "It could not be checked; look yourself."
        )
    command = mention.entry.get("command")
    if command is None:
        return Finding(
            "clients",
            "ok",
            f"{where}: connects to {mention.entry.get('url') or mention.entry.get('httpUrl')}",
        )
    if not isinstance(command, str) or shutil.which(command) is None:
        remedy = f"tracedesk install --client {mention.client.name} --scope {mention.scope}"
        return Finding("clients", "fail", f"{where}: its command {command!r} does not exist", remedy)
    return Finding("clients", "ok", f"{where}: starts {short_path(Path(command))}")


def _protocol(settings: Settings) -> Iterator[Finding]:
    from tracedesk.cli.selftest import SelfTestFailed, self_test
    from tracedesk.storage import temporary

    if (found := temporary()) is not None:
        yield Finding("protocol", "warn", _not_checked(found.problem))
        return
    try:
        tools, seconds = self_test()
    except SelfTestFailed as fault:
        yield Finding("protocol", "fail", sentence(fault), "Install tracedesk again; then report this.")
    else:
        detail = (
            f"a desk over stdio answered as expected: {tools} tools, {seconds:.1f} s from start to answer"
        )
        yield Finding("protocol", "ok", detail)
