"""Homes as other versions leave them, and made-up migrations to try the machinery on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tracedesk.home import lay_out

SECRET = "td_" + "x" * 43


def first_desk(path: Path) -> Path:
    """A home as tracedesk 0.1.0 leaves it: tokens, a log, settings, and no format file."""
    (path / "logs").mkdir(parents=True, mode=0o700)
    path.chmod(0o700)
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    row = {"name": "owner", "sha256": digest, "scopes": ["read", "trade", "write"]}
    files = {
        "token": SECRET + "\n",
        "tokens.json": json.dumps([row], indent=2) + "\n",
        "tokens.lock": "",
        "logs/tracedesk.log": "2026-11-15T10:00:00.000Z INFO    [1] tracedesk.serve: stopped\n",
        "tracedesk.toml": "port = 3100\n",
    }
    for name, text in files.items():
        (path / name).write_text(text)
        (path / name).chmod(0o600)
    return path


def rename_settings(path: Path) -> None:
    """1 to 2, made up: a file gets another name."""
    if (path / "tracedesk.toml").exists():
        (path / "tracedesk.toml").rename(path / "settings.toml")


def split_log(path: Path) -> None:
    """2 to 3, made up: a file becomes two."""
    (path / "history").mkdir(exist_ok=True)
    text = (path / "logs" / "tracedesk.log").read_text()
    for number, half in enumerate((text[:20], text[20:])):
        fresh = path / "history" / f".{number}"
        fresh.write_text(half)
        fresh.rename(path / "history" / str(number))


def count_runs(path: Path) -> None:
    """3 to 4, made up: not idempotent, so that running it twice shows."""
    with (path / "ran").open("a") as file:
        file.write("ran\n")


THREE = (lay_out, rename_settings, split_log)
COUNTED = (lay_out, count_runs)
