"""Reading what a process spent, and saying it in few figures."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any, Final

PROC: Final = Path("/proc")
_SETTLE: Final = 0.005
_PACKAGES: Final = (
    "mcp",
    "pydantic",
    "anyio",
    "starlette",
    "uvicorn",
    "httptools",
    "uvloop",
    "orjson",
    "jsonschema-rs",
)

Reading = dict[int, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one server."""

    cpu_us: float
    """Server CPU per call (per start, in the cold row)."""
    p50_us: float
    """Median time the client waited."""
    per_second: float
    """Calls answered per second of wall clock."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process holds resident, in KiB; `pss` shares out what it shares."""

    rss: int
    pss: int


def reading(pid: int) -> Reading:
    """Nanoseconds on a CPU so far, of every thread of a process and of its living descendants."""
    return {int(task.name): _on_cpu_ns(task) for member in _family(pid) for task in _tasks(member)}


def settled_reading(pid: int) -> Reading:
    """A `reading` once the server has put down what its last answer left to do."""
    time.sleep(_SETTLE)
    return reading(pid)


def spent_us(before: Reading, after: Reading) -> float:
    """Microseconds on a CPU between two readings; a thread that ended in between takes nothing along."""
    return sum(now - before.get(thread, 0) for thread, now in after.items()) / 1000


def children(pid: int) -> list[int]:
    """The living children of a process."""
    return [int(child) for task in _tasks(pid) for child in _living(task / "children").split()]


def peak_kib(pid: int) -> int:
    """The most a process has held resident; nothing of one that has ended."""
    lines = _living(PROC / str(pid) / "status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def _on_cpu_ns(task: Path) -> int:
    told = _living(task / "schedstat").split()
    return int(told[0]) if told else 0


def _family(pid: int) -> Iterable[int]:
    yield pid
    for child in children(pid):
        yield from _family(child)


def _tasks(pid: int) -> list[Path]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return list((PROC / str(pid) / "task").iterdir())
    return []


def _living(path: Path) -> str:
    """What the system says of a thread or a process; nothing of one that ended since it was listed."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return path.read_text(encoding="ascii", errors="replace")
    return ""


def memory(pid: int) -> Memory:
    """Resident memory now."""
    lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return Memory(sizes["Rss"], sizes["Pss"])


def supported() -> bool:
    """Whether this system can say how long a thread was on a CPU."""
    return (PROC / "self" / "schedstat").exists()


def best_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The best round of ours against the best of theirs.

    Noise only ever adds CPU time, and adds more of it to a server that hops between threads: the best
    rounds compare the servers, the others compare how they take to a busy machine.
    """
    return min(ours) / min(theirs)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over rounds of ours against theirs, each round's two sides measured moments apart."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


class Neighbours:
    """Who else used the machine since this was made: figures are worth little when many did."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._before = _machine_seconds() - _own_seconds()

    def cores(self) -> float:
        """CPU spent by others, or withheld by the host, in cores; ask when the servers have ended."""
        spent = _machine_seconds() - _own_seconds() - self._before
        return max(0.0, spent / (time.monotonic() - self._started))


def _machine_seconds() -> float:
    user, nice, system, _idle, _wait, *rest = map(
        int, (PROC / "stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    )
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def sync_seconds(path: Path, count: int = 20) -> float:
    """The median time to append a page to a file and sync it: the floor under any commit."""
    waits: list[float] = []
    with path.open("ab", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            waits.append(time.perf_counter() - began)
    path.unlink()
    return median(waits)


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Best and median, and every round behind them."""
    return {
        "best": round(min(values), 1),
        "median": round(median(values), 1),
        "rounds": [round(value, 1) for value in values],
    }


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures by."""
    return {
        "cpus": os.cpu_count(),
        "cpu": _cpu_model(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }


def _cpu_model() -> str:
    lines = (PROC / "cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
