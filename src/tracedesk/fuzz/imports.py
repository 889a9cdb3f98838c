"""The sources that a Solidity file needs: its imports, followed as solc follows them, through remappings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracedesk.foreign import named, quoted
from tracedesk.fuzz import foundry_toml
from tracedesk.fuzz.braces import hidden
from tracedesk.fuzz.foundry_toml import Profile, Skips
from tracedesk.fuzz.pragma import Pragma, pragmas
from tracedesk.fuzz.project import CompileError, Source
from tracedesk.fuzz.reach import ANYWHERE, LARGEST_SETTINGS, Reach

_IMPORT: Final = re.compile(r"\bimport\b[^;]*;")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|([\"'])(.*?)(?:\1|\Z)", re.DOTALL)
_BELOW: Final = ("node_modules", "lib")
_MOST_REMAPPINGS: Final = 1_000
_MOST_BYTES: Final = 64 << 20
"""Bytes of all sources of a project."""


@dataclass(frozen=True, slots=True)
class Remapping:
    """`context:prefix=target`: names that begin with the prefix are looked up under the target."""

    context: str
    prefix: str
    target: str

    @classmethod
    def of(cls, text: str) -> Remapping:
        before, equals, target = text.strip().partition("=")
        if not equals or not before:
            raise CompileError(
                "BAD_REMAPPING", f"remappings: {named(text[:120])} is not context:prefix=target."
            )
        context, colon, prefix = before.rpartition(":")
        return cls(context if colon else "", prefix, target)

    def __str__(self) -> str:
        return (
            f"{self.context}:{self.prefix}={self.target}" if self.context else f"{self.prefix}={self.target}"
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project's own files say about compiling it."""

    remappings: tuple[Remapping, ...] = ()
    folders: tuple[str, ...] = ()
    """Where its sources lie; empty means everywhere below the root."""
    out: str = "out"
    compiler: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of solc's settings: evmVersion, optimizer, viaIR."""
    skips: Skips = field(default_factory=Skips)
    """Files that are compiled only where others import them."""
    profile: Profile = field(default_factory=Profile)


def settings_of(root: Path, extra: Iterable[str] = (), reach: Reach = ANYWHERE) -> Settings:
    """The caller's remappings, then those of remappings.txt, of foundry.toml, and of the libraries."""
    profile = foundry_toml.read(root, reach)
    lines = (_text(root / "remappings.txt", reach) or "").splitlines()
    told = [*extra, *(line for line in lines if line.strip()), *profile.strings("remappings")]
    if len(told) > _MOST_REMAPPINGS:
        raise CompileError(
            "BAD_PROJECT", f"remappings: there are more than {_MOST_REMAPPINGS:,}; remove what is not used."
        )
    remappings = [_kept(Remapping.of(text), root, reach) for text in told]
    known = {(remapping.context, remapping.prefix) for remapping in remappings}
    libraries = profile.strings("libs") or ["lib"]
    remappings += [r for r in _inferred(root, libraries, reach) if (r.context, r.prefix) not in known]
    folders = [profile.folder(key, root, reach) for key in ("src", "test")] if profile else []
    present = tuple(name for name in folders if (root / name).is_dir())
    out = profile.folder("out", root, reach)
    skips = Skips.of(profile.strings("skip"))
    return Settings(tuple(remappings), present, out, _compiler(profile), skips, profile)


def _text(path: Path, reach: Reach) -> str | None:
    """The text of a file of the project, when there is one."""
    if not path.is_symlink() and not reach.has(path):
        return None
    try:
        return reach.read(path, path.name, LARGEST_SETTINGS).decode("utf-8")
    except UnicodeDecodeError:
        raise CompileError("BAD_PROJECT", f"{path.name}: is not UTF-8; save it as UTF-8.") from None


def _kept(remapping: Remapping, root: Path, reach: Reach) -> Remapping:
    reach.keep(root / remapping.target, f"remappings: {named(str(remapping)[:120])}")
    return remapping


def _compiler(profile: Profile) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "evm_version" in profile.values:
        found["evmVersion"] = profile.text("evm_version", "").lower()
    if profile.flag("optimizer", False):
        found["optimizer"] = {"enabled": True, "runs": profile.number("optimizer_runs", 200, 2**32 - 1)}
    if profile.flag("via_ir", False):
        found["viaIR"] = True
    return found


def _inferred(root: Path, libraries: Iterable[str], reach: Reach) -> Iterator[Remapping]:
    """As Foundry does: `lib/name/src` (or contracts, or the folder itself) answers to `name/`."""
    for library in libraries:
        folder = reach.keep(root / library, f"foundry.toml: libs: {named(library[:120])}")
        if library.endswith("node_modules") or not folder.is_dir():
            continue
        for child in sorted(path for path in folder.iterdir() if reach.holds(path) and path.is_dir()):
            inner = next((name for name in ("src", "contracts") if (child / name).is_dir()), "")
            target = posixpath.join(library, child.name, inner, "") if inner else f"{library}/{child.name}/"
            yield Remapping("", f"{child.name}/", target)


class Sources:
    """Collects files with everything they import, by the names under which solc asks for them."""

    def __init__(self, root: Path, settings: Settings, reach: Reach = ANYWHERE) -> None:
        self._root = root
        self._reach = reach
        self._remappings = settings.remappings
        self._known: dict[str, Source] = {}
        self._needs: dict[str, tuple[str, ...]] = {}
        self._bytes = 0

    @property
    def known(self) -> dict[str, Source]:
        return self._known

    def add(self, file: Path) -> str:
        """Take up a file and what it needs; returns its name."""
        name = self._name(file)
        waiting = [(name, file)]
        while waiting:
            new, path = waiting.pop()
            if new not in self._known:
                waiting += [(need, self._file(need, new)) for need in self._taken(new, path)][::-1]
        return name

    def closure(self, name: str) -> tuple[str, ...]:
        """A source and all that it needs, in the order they are met."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found[current] = None
                waiting.extend(reversed(self._needs[current]))
        return tuple(found)

    def pragmas(self, name: str) -> tuple[Pragma, ...]:
        """What a source and its imports demand of the compiler."""
        return tuple(p for part in self.closure(name) for p in pragmas(hidden(self._known[part].text)))

    def _name(self, file: Path) -> str:
        resolved = file.resolve()
        is_below = resolved.is_relative_to(self._root)
        return resolved.relative_to(self._root).as_posix() if is_below else resolved.as_posix()

    def _taken(self, name: str, file: Path) -> tuple[str, ...]:
        """Take up one file; returns the names of what it imports."""
        self._reach.keep_foreign(file, self._root, name)
        data = self._reach.read(file, name)
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            raise CompileError(
                "NO_SOURCE",
                f"{name}: with it the sources are larger than {_MOST_BYTES >> 20} MiB; name one file.",
            )
        if not _is_utf8(data):
            raise CompileError("NO_SOURCE", f"{name}: is not UTF-8; save it as UTF-8.")
        source = self._known[name] = Source(name, data, "solidity", file.resolve())
        needed = self._needs[name] = tuple(self._resolved(name, text) for text in imports(source.text))
        return needed

    def _resolved(self, importer: str, text: str) -> str:
        """The name that solc gives an import: relative to the importer, or remapped."""
        if text.startswith(("./", "../")):
            text = posixpath.normpath(posixpath.join(posixpath.dirname(importer), text))
        fitting = [
            r for r in self._remappings if text.startswith(r.prefix) and importer.startswith(r.context)
        ]
        if not fitting:
            return text
        best = max(reversed(fitting), key=lambda r: (len(r.context), len(r.prefix)))
        return best.target + text[len(best.prefix) :]

    def _file(self, name: str, importer: str) -> Path:
        for path in (self._root / name, *(self._root / below / name for below in _BELOW)):
            self._reach.keep(path, f"{quoted(importer)}: imports {named(name[:200])}, which")
            if self._reach.has(path):
                return path
        for folder in self._root.parents:
            if self._reach.has(folder / "node_modules" / name):
                return folder / "node_modules" / name
        raise CompileError(
            "NO_SOURCE",
            f"{quoted(importer)}: imports {named(name[:200])}, which is neither in {self._root.name}/ nor "
            "its node_modules. Install it, or add a remapping in remappings.txt or foundry.toml.",
            importer=importer,
            imported=name,
        )


def imports(text: str) -> tuple[str, ...]:
    """The paths that a source imports, in order."""
    # Found where comments and strings are blank, read where they are not.
    # Up to the last semicolon every match ends, so that no import is looked for to the end of the file.
    shown = hidden(text)
    found = _IMPORT.finditer(shown, 0, shown.rfind(";") + 1)
    told = (_path(text[match.start() : match.end()]) for match in found)
    return tuple(path.encode("latin-1").decode("utf-8", "replace") for path in told if path)


def _path(statement: str) -> str:
    strings = (match[2] for match in _COMMENT.finditer(statement) if match[1])
    return next(strings, "")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
