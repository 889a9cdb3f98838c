"""The state of code and machine that a proof is tied to: room digests, commits, versions, load."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from scripts.proof.bars import ROOT

_MADE: Final = frozenset(("__pycache__", "target"))
"""Folders of build output inside a room."""
_MADE_SUFFIXES: Final = frozenset((".pyc", ".so"))
_PACKAGES: Final = ("mcp", "orjson", "apsw", "numpy", "uvloop")
WRITTEN: Final = ("docs/proof", "docs/performance.md")
"""Paths that proving writes itself: they make no tree unclean."""


def room_digest(room: str, root: Path = ROOT) -> str:
    """SHA-256 over the paths and bytes of a folder's or file's sources."""
    place = root / room
    if not place.exists():
        raise FileNotFoundError(f"{room} is no source folder. Correct docs/proof/bars.toml.")
    files = [place] if place.is_file() else sorted(_sources(place))
    made = hashlib.sha256()
    for file in files:
        made.update(f"{file.relative_to(root).as_posix()}\0".encode())
        made.update(hashlib.sha256(file.read_bytes()).digest())
    return made.hexdigest()


def _sources(place: Path) -> Iterable[Path]:
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if name not in _MADE]
        yield from (Path(folder, name) for name in names if Path(name).suffix not in _MADE_SUFFIXES)


def room_digests(rooms: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    return {room: room_digest(room, root) for room in rooms}


def commit(folder: Path = ROOT) -> str:
    """The commit that a checkout is at."""
    return _git(folder, "rev-parse", "HEAD").strip()


def is_clean(folder: Path = ROOT) -> bool:
    """True without changes beside those that proving writes."""
    excluded = [f":(exclude){path}" for path in WRITTEN]
    return not _git(folder, "status", "--porcelain", "--", ".", *excluded).strip()


def identity(checkout: Path) -> str:
    """A repository's commit and whether files have changed since; of another folder, its files' digest."""
    try:
        top = _git(checkout, "rev-parse", "--show-prefix").strip()
    except subprocess.CalledProcessError:
        top = "none"
    if top:
        return f"sha256:{room_digest('.', checkout)}"
    return commit(checkout) + ("" if _is_bare(checkout) or is_clean(checkout) else ", with changes")


def _is_bare(folder: Path) -> bool:
    return _git(folder, "rev-parse", "--is-bare-repository").strip() == "true"


def _git(folder: Path, *words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout


def versions() -> dict[str, str]:
    """Python and the packages that every figure depends on."""
    return {"python": platform.python_version(), **_installed(_PACKAGES)}


def rivals(names: Iterable[str]) -> dict[str, str]:
    """Installed versions of the distributions that a bar is measured against."""
    return _installed(names)


def _installed(names: Iterable[str]) -> dict[str, str]:
    return {name: metadata.version(name) for name in names}


def load() -> float:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.release()}", "cpu": _cpu()}


def _cpu() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8", errors="replace").splitlines() if known.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
