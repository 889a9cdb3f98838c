"""The last snapshots of hosts that ended: one small file each, the newest of them kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tracedesk.hosts.client import Snapshot
from tracedesk.hosts.finding import FOLDER, check_name
from tracedesk.primitives import json

KEPT: Final = 64
"""How many ended hosts of a home are remembered."""


def keep(home: Path, kind: str, id: str, documents: Mapping[str, bytes]) -> None:
    """Write the documents of a host that ends; nothing published leaves nothing."""
    if not documents:
        return
    path = _path(home, kind, id)
    path.parent.mkdir(exist_ok=True, mode=0o700)
    fresh = path.with_suffix(".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(json.dumps({name: json.Raw(document) for name, document in documents.items()}))
    fresh.rename(path)
    _prune(path.parent)


def last_snapshots(home: Path, kind: str, id: str) -> dict[str, Snapshot]:
    """What a host had published when it ended in good order; empty when nothing is remembered of it."""
    check_name(kind, id)
    try:
        documents = json.loads(_path(home, kind, id).read_bytes())
    except FileNotFoundError:
        return {}
    return {name: Snapshot.of(name, document) for name, document in documents.items()}


def forget(home: Path, kind: str, id: str) -> None:
    """Drop what an earlier host of that name left."""
    _path(home, kind, id).unlink(missing_ok=True)


def _path(home: Path, kind: str, id: str) -> Path:
    return home / FOLDER / "last" / f"{kind}-{id}.json"


def _prune(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for old in files[KEPT:]:
        old.unlink(missing_ok=True)
