"""Limits of a campaign: time, gas and memory of everything that happens before and while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.fuzz.project import CompileError

if TYPE_CHECKING:
    from tracedesk.hosts import confined

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The table `[fuzz.limits]`, with its defaults."""

    memory_mb: int = 1024
    """MiB of memory of a campaign's process."""
    compiler_memory_mb: int = 4096
    """MiB of memory of a compiler, which is a process of its own."""
    compile_seconds: int = 300
    """Seconds that one run of a compiler may take."""
    deploy_seconds: int = 60
    """Seconds that all constructors and `setUp()` may take."""
    deploy_gas: int = 1 << 30
    """Gas of each constructor, and of `setUp()`."""
    journal_mb: int = 128
    """MiB of state changes and logs of a transaction, and of touched state; workers share them."""
    suite_seconds: int = 300
    """Seconds that the tests of one Foundry suite may take."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one campaign, and its time from the moment it was asked for."""

    limits: Limits = field(default_factory=Limits)
    seconds: int | None = None
    """`timeout` of the configuration."""
    started: float = field(default_factory=monotonic)
    """By the system's monotonic clock, which all processes share."""

    def left(self) -> float | None:
        """Seconds until the campaign's time is over; None when it has no end."""
        return None if self.seconds is None else self.started + self.seconds - monotonic()

    def spare(self, phase: str, most: float) -> float:
        """Seconds that a phase may take; refuses when the campaign's time is over."""
        left = self.left()
        if left is not None and left <= 0:
            raise self.time_over(phase)
        return most if left is None else min(most, left)

    def time_over(self, phase: str) -> ToolError:
        """The refusal of a campaign whose time ended before it ran."""
        message = f"timeout: the {self.seconds} s of the campaign were over during {phase}. Allow more."
        return ToolError("EXECUTION_TIMEOUT", message, _details(phase, "time"))

    def is_over(self) -> bool:
        left = self.left()
        return left is not None and left <= 0

    def deployment(self) -> float:
        """Seconds that a deployment may take."""
        return self.spare("the deployment", self.limits.deploy_seconds)

    def compiler(self) -> confined.Limits:
        """The limits of one run of a compiler."""
        from tracedesk.hosts import confined  # a desk that only lists its tools starts nothing

        seconds = self.spare("the compilation", self.limits.compile_seconds)
        return confined.Limits(self.limits.compiler_memory_mb * MIB, seconds)

    def compiler_stopped(self, label: str, found: confined.LimitReached) -> ToolError:
        """The refusal of a compiler that reached a limit."""
        if found.limit == "time" and self.is_over():
            return self.time_over("the compilation")
        setting = {"time": "compile_seconds", "memory": "compiler_memory_mb"}.get(found.limit)
        more = f", or raise {setting} in [fuzz.limits]" if setting else ""
        message = f"path: {label} {found}. Name fewer or smaller files{more}."
        return CompileError("LIMIT_REACHED", message, phase="the compilation", limit=found.limit)

    def deployment_stopped(self, phase: str, limit: str, words: str) -> ToolError:
        """The refusal of a deployment that reached a limit."""
        if limit in ("time", "stop") and self.is_over():
            return self.time_over(phase)
        if limit == "time":
            words = f"it did not end within {self.limits.deploy_seconds} s"
        setting = _SETTINGS.get(limit)
        more = f", or raise {setting} in [fuzz.limits]" if setting else ""
        message = f"contract: {phase} was ended: {words}. Let it do less{more}."
        return ToolError("INVALID_INPUT", message, _details(phase, limit))

    def out_of_memory(self, phase: str) -> ToolError:
        """The refusal of a campaign whose process got no more memory."""
        message = (
            f"path: the campaign's process reached its limit of {self.limits.memory_mb:,} MiB of memory "
            f"during {phase}. Name a smaller project, or raise memory_mb in [fuzz.limits]."
        )
        return ToolError("INVALID_INPUT", message, _details(phase, "memory"))


_SETTINGS: Final = {"gas": "deploy_gas", "time": "deploy_seconds", "journal": "journal_mb"}


def _details(phase: str, limit: str) -> dict[str, Any]:
    return {"kind": "LIMIT_REACHED", "phase": phase, "limit": limit}
