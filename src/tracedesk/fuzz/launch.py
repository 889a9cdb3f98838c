"""Starting a campaign: what it is told is written down, and its host begins in a process of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

from tracedesk.errors import FUZZ, ToolError
from tracedesk.fuzz import config as configs
from tracedesk.fuzz import native
from tracedesk.fuzz.building import options
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.folder import KIND, Folder, Plan, new_id
from tracedesk.fuzz.limits import Budget, Limits
from tracedesk.home import Home
from tracedesk.hosts import HostFailed, HostInfo, HostTimeout, spawn
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock, SystemClock
from tracedesk.storage import probe

MODULE: Final = "tracedesk.fuzz.host"
PATIENCE: Final = 120.0
"""Seconds that a start may take beside compiling and deploying: reading the project, loading a corpus."""
LATE: Final = 0.5
"""Seconds after the end of the campaign's time in which its process says why it did not begin."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be fuzzed, and how."""

    path: Path
    contract: str | None = None
    config: Config = field(default_factory=Config)
    warnings: tuple[str, ...] = ()
    replay: Path | None = None
    trusted: bool = False
    """Whether the project may bring the program that compiles it."""
    within: tuple[Path, ...] = ()
    """Folders that every source must lie in, imports too; none allows any."""
    limits: Limits = field(default_factory=Limits)
    outlives: bool = True
    """True when the campaign goes on after the process that started it has ended."""
    started: float = field(default_factory=monotonic)
    """When the time of the campaign began, by the system's monotonic clock."""

    @property
    def budget(self) -> Budget:
        return Budget(self.limits, self.config.timeout_s, self.started)


def configured(
    file: Path | None, keys: Mapping[str, Any], path: Path | None = None, within: tuple[Path, ...] = ()
) -> configs.Reading:
    """A configuration file with single keys of Echidna laid over it.

    In the mode `foundry`, both lie over the `foundry.toml` of the project that `path` belongs to.
    """
    given = {key: value for key, value in keys.items() if value is not None}
    reading = _laid_over(configs.Reading(Config()), file, given)
    if reading.config.mode != "foundry" or path is None:
        return reading
    from tracedesk.fuzz import foundry_settings
    from tracedesk.fuzz.reach import Reach

    return _laid_over(foundry_settings.configured(path, Reach(within)), file, given)


def _laid_over(base: configs.Reading, file: Path | None, given: Mapping[str, Any]) -> configs.Reading:
    read = configs.read(file, base.config) if file is not None else configs.Reading(base.config)
    over = configs.of(given, read.config)
    return replace(over, warnings=(*base.warnings, *read.warnings, *over.warnings))


def runs_suites(path: Path, mode: str | None, file: Path | None) -> bool:
    """Whether a path without a contract means every Foundry suite there, not one campaign."""
    if mode is not None or file is not None:
        return mode == "foundry"
    from tracedesk.fuzz import foundry_toml
    from tracedesk.fuzz.compile import root_of

    folder = path.absolute() if path.is_dir() else path.absolute().parent
    is_foundry = (root_of(folder) / foundry_toml.NAME).is_file()
    return is_foundry and (path.is_dir() or path.name.endswith(".t.sol"))


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
        request.limits,
    )
    folder.path.mkdir(parents=True, mode=0o700)
    folder.write(folder.plan, plan.document())
    try:
        given = [repr(request.started)]
        patience, outlives = _patience(request.budget), request.outlives
        info = await spawn(home.path, KIND, folder.id, MODULE, given, timeout=patience, outlives=outlives)
        return folder, info
    except BaseException as fault:
        refusal = _refusal(home.path, folder, fault, request.budget)
        await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)
        if refusal is None:
            raise
        raise refusal from None


def _patience(budget: Budget) -> float:
    """Seconds to wait for a host: its own limits end it before that, but for what they do not see."""
    limits, left = budget.limits, budget.left()
    most = PATIENCE + limits.compile_seconds + limits.deploy_seconds
    return most if left is None else min(most, max(left, 0.0) + LATE)


def _refusal(home: Path, folder: Folder, fault: BaseException, budget: Budget) -> ToolError | None:
    """Why a host did not start, in the words of the tools."""
    if folder.failure.exists():
        error = json.loads(folder.failure.read_bytes())
        return ToolError(error["code"], error["message"], error["details"])
    if isinstance(fault, HostTimeout):
        phase = folder.last_phase()
        if budget.is_over():
            return budget.time_over(phase)
        message = f"path: the campaign was not ready in time; it was at {phase}. Name a single file."
        return ToolError("EXECUTION_TIMEOUT", message, {"kind": "SLOW_START", "phase": phase})
    if isinstance(fault, HostFailed) and fault.out_of_memory:
        return budget.out_of_memory(folder.last_phase())
    if isinstance(fault, HostFailed):
        disk = probe(home)
        if disk is not None:
            return disk.error(FUZZ, "The campaign could not start")
        return ToolError("INTERNAL_ERROR", f"The campaign's process failed: {fault}", {"kind": "HOST_FAILED"})
    return None
