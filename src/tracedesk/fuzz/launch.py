"""Starting a campaign: what it is told is written down, and its host begins in a process of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tracedesk.errors import FUZZ, ToolError
from tracedesk.fuzz import config as configs
from tracedesk.fuzz import native
from tracedesk.fuzz.building import options
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.folder import KIND, Folder, Plan, new_id
from tracedesk.home import Home
from tracedesk.hosts import HostFailed, HostInfo, HostTimeout, spawn
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock, SystemClock
from tracedesk.storage import probe

MODULE: Final = "tracedesk.fuzz.host"
PATIENCE: Final = 300.0
"""Seconds that compiling, deploying and loading a corpus may take."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be fuzzed, and how."""

    path: Path
    contract: str | None = None
    config: Config = field(default_factory=Config)
    warnings: tuple[str, ...] = ()
    replay: Path | None = None
    trusted: bool = True
    """Whether the project may bring the program that compiles it."""
    within: tuple[Path, ...] = ()
    """Folders that every source must lie in, imports too; none allows any."""


def configured(file: Path | None, keys: Mapping[str, Any]) -> configs.Reading:
    """A configuration file with single keys of Echidna laid over it."""
    base = configs.read(file) if file is not None else configs.Reading(Config())
    over = configs.of({key: value for key, value in keys.items() if value is not None}, base.config)
    return replace(over, warnings=(*base.warnings, *over.warnings))


def checked(request: Request) -> Request:
    """A request whose compiler's arguments were read, with what they do not change."""
    _, ignored = options(request.config, trusted=request.trusted)
    return replace(request, warnings=(*request.warnings, *ignored))


async def start(home: Home, request: Request, clock: Clock | None = None) -> tuple[Folder, HostInfo]:
    """Start a campaign and return when it runs; what keeps it from running is a `ToolError`."""
    native.engine()
    folder = Folder(home.campaign(new_id(request.contract or request.path.stem)))
    plan = Plan(
        folder.id,
        str(request.path.absolute()),
        request.contract,
        request.config,
        (clock or SystemClock()).now_ns(),
        request.warnings,
        None if request.replay is None else str(request.replay.absolute()),
        request.trusted,
        tuple(str(folder.absolute()) for folder in request.within),
    )
    folder.path.mkdir(parents=True, mode=0o700)
    folder.write(folder.plan, plan.document())
    try:
        return folder, await spawn(home.path, KIND, folder.id, MODULE, timeout=PATIENCE)
    except BaseException as fault:
        refusal = _refusal(home.path, folder, fault)
        await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)
        if refusal is None:
            raise
        raise refusal from None


def _refusal(home: Path, folder: Folder, fault: BaseException) -> ToolError | None:
    """Why a host did not start, in the words of the tools."""
    if folder.failure.exists():
        error = json.loads(folder.failure.read_bytes())
        return ToolError(error["code"], error["message"], error["details"])
    if isinstance(fault, HostTimeout):
        message = f"path: the campaign was not ready within {PATIENCE:.0f} s. Name a single file."
        return ToolError("EXECUTION_TIMEOUT", message, {"kind": "SLOW_START"})
    if isinstance(fault, HostFailed):
        disk = probe(home)
        if disk is not None:
            return disk.error(FUZZ, "The campaign could not start")
        return ToolError("INTERNAL_ERROR", f"The campaign's process failed: {fault}", {"kind": "HOST_FAILED"})
    return None
