"""Tool-list integrity: what clients have approved must not change unannounced.

`docs/tools.lock.json` holds the SHA-256 of every tool as `tools/list` publishes it. A test fails when the
lock is stale, and the only thing that renews it is `python -m tracedesk.docs`, which refuses while the
package version is the lock's own and the changelog's Unreleased section does not name each tool that was
added, changed or removed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tracedesk
from tracedesk.registry import Registry
from tracedesk.toolsets import built, load
from tracedesk.wire.publish import describe
from tracedesk.wire.sdk import MODERN_PROTOCOL_VERSIONS

FILE: Final = "docs/tools.lock.json"
CHANGELOG: Final = "CHANGELOG.md"
_UNRELEASED: Final = re.compile(r"^## \[?Unreleased\]?.*?$(.*?)(?=^## |\Z)", re.M | re.S | re.I)


class Unannounced(RuntimeError):
    """Published tools changed, and nothing tells the people who use them."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The version, and the digest of each published tool."""

    version: str
    tools: dict[str, str]


def current() -> Lock:
    """The lock of what this package publishes with everything on."""
    version = max(MODERN_PROTOCOL_VERSIONS)
    registry = Registry(load(built()))
    digests = {name: _digest(describe(tool, version)) for name, tool in registry.tools.items()}
    return Lock(tracedesk.__version__, dict(sorted(digests.items())))


def _digest(entry: dict[str, Any]) -> str:
    canonical = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def text(lock: Lock) -> str:
    """The lock as its file has it."""
    return json.dumps({"version": lock.version, "tools": lock.tools}, indent=2) + "\n"


def read(root: Path) -> Lock | None:
    """The checkout's lock, or None where it has none yet."""
    file = root / FILE
    return Lock(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


def changed(old: Lock, new: Lock) -> list[str]:
    """The tools that were added, changed or removed."""
    names = old.tools.keys() | new.tools.keys()
    return sorted(name for name in names if old.tools.get(name) != new.tools.get(name))


def check(root: Path, new: Lock) -> None:
    """Raise `Unannounced` when the lock may not be renewed."""
    old = read(root)
    if old is None or old.version != new.version:
        return
    told = unreleased(root)
    silent = [name for name in changed(old, new) if not re.search(rf"\b{re.escape(name)}\b", told)]
    if silent:
        names = ", ".join(silent)
        raise Unannounced(
            f"Name what changed under Unreleased in {CHANGELOG}, or raise the version: {names}."
        )


def unreleased(root: Path) -> str:
    """The changelog's Unreleased section."""
    file = root / CHANGELOG
    found = _UNRELEASED.search(file.read_text(encoding="utf-8")) if file.exists() else None
    return found[1] if found else ""
