"""A user's walker over the graph, in a process and a folder of its own.

What it prints never reaches this process's standard output, which may be carrying a protocol; what Jac leaves
behind goes with the folder.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tracedesk.codegraph.jac.export import MODULE, as_json
from tracedesk.codegraph.jac.types import Graph
from tracedesk.codegraph.refusals import invalid
from tracedesk.errors import ToolError
from tracedesk.hosts import confined
from tracedesk.primitives.temporary import work_folder

REMEDY: Final = (
    "Walkers need Python 3.12 or newer with jaclang: run `pip install 'tracedesk[jac]'` there, or name such "
    "a Python with --python. `graph export --format jac` works without it."
)
_WORKER: Final = Path(__file__).with_name("worker.py")
_SHOWN_ERRORS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a walker may take before it is ended."""

    seconds: float = 120.0
    result_bytes: int = 8 * 1024 * 1024
    printed_bytes: int = 64 * 1024
    """Of what it prints, how much is kept; more is read past, up to `file_bytes`."""
    file_bytes: int = 256 * 1024 * 1024
    memory_bytes: int = 8 * 1024**3
    """Address space, of which a Jac process reserves far more than it uses."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walker brought back."""

    walker: str
    reports: list[Any]
    state: Mapping[str, Any]
    """The walker's own fields at the end."""
    printed: str
    printed_whole: bool
    build_seconds: float
    walk_seconds: float
    notes: list[str] = field(default_factory=list[str])
    """What the graph it walked over left out."""


class JacMissing(ToolError):
    """No Python with jaclang is there to run a walker."""

    def __init__(self, why: str) -> None:
        super().__init__("JAC_UNAVAILABLE", f"{why}. {REMEDY}", {"reason": why})


class WalkFailed(ToolError):
    """A walker that could not be loaded or did not come to its end."""

    def __init__(self, why: str, **details: Any) -> None:
        super().__init__("WALKER_FAILED", f"walker: {why}", details)


def walk(
    graph: Graph,
    file: Path,
    *,
    walker: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    python: Path | None = None,
    limits: Limits | None = None,
) -> Walked:
    """Run a walker of a `.jac` file from the project's node; `walker` names one where there are several."""
    _check_file(file)
    interpreter = python or _own_python()
    with work_folder() as folder:
        module = _copy(file, folder)
        _write_graph(graph, folder / "graph.json")
        job = _job(folder, module, walker, dict(arguments or {}), limits or Limits())
        return _result(_run(interpreter, folder, job), graph)


def _check_file(file: Path) -> None:
    if file.suffix != ".jac" or not file.is_file():
        raise invalid("walker", f"{str(file)!r} is not a .jac file. Name one that declares a walker.")
    if file.stem == MODULE:
        raise invalid("walker", f"{file.name} would hide the graph's own types. Rename the walker's file.")


def _own_python() -> Path:
    if sys.version_info < (3, 12):
        raise JacMissing(f"this is Python {sys.version_info.major}.{sys.version_info.minor}")
    return Path(sys.executable)


# --- the folder -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """One run: where everything lies, and its bounds."""

    file: Path
    result: Path
    limits: Limits


def _copy(file: Path, folder: Path) -> str:
    """Bring the walker and the Jac files beside it; Jac writes its caches next to what it compiles."""
    code = folder / "code"
    code.mkdir()
    for each in file.parent.glob("*.jac"):
        if each.is_file() and each != file and each.stem != MODULE:
            shutil.copyfile(each, code / each.name)
    module = re.sub(r"\W|^(?=\d)", "_", file.stem)
    shutil.copyfile(file, code / f"{module}.jac")
    return module


def _write_graph(graph: Graph, path: Path) -> None:
    with path.open("wb") as out:
        out.writelines(as_json(graph))


def _job(folder: Path, module: str, walker: str | None, arguments: Mapping[str, Any], limits: Limits) -> _Job:
    job = _Job(folder / "job.json", folder / "result.json", limits)
    told = {
        "graph": str(folder / "graph.json"),
        "module": MODULE,
        "result": str(job.result),
        "path": [str(folder / "code")],
        "walker_module": module,
        "walker": walker,
        "arguments": arguments,
        "limits": {"RLIMIT_FSIZE": limits.file_bytes, "RLIMIT_AS": limits.memory_bytes, "RLIMIT_CORE": 0},
    }
    job.file.write_text(json.dumps(told), encoding="utf-8")
    return job


# --- the process ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the process ended, and what it left."""

    code: int | None
    """None: it was ended for taking too long."""
    result: bytes | None
    printed: bytes
    errors: str
    limits: Limits


def _run(python: Path, folder: Path, job: _Job) -> _Ended:
    out, errors = folder / "stdout", folder / "stderr"
    with out.open("wb") as told, errors.open("wb") as complained:
        try:
            process = confined.start(
                [python, "-I", _WORKER, job.file],
                _confinement(job.limits),
                cwd=folder,
                # No home of the user's, where Jac could leave things.
                more={"HOME": str(folder), "PYTHONIOENCODING": "utf-8"},
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=complained,
            )
        except OSError as error:
            raise JacMissing(f"{str(python)!r} cannot be run: {error.strerror}") from None
        code = _wait(process, job.limits.seconds)
    return _Ended(
        code,
        _head(job.result, job.limits.result_bytes),
        _head(out, job.limits.printed_bytes) or b"",
        (_head(errors, _SHOWN_ERRORS) or b"").decode(errors="replace"),
        job.limits,
    )


def _confinement(limits: Limits) -> confined.Limits:
    return confined.Limits(limits.memory_bytes, seconds=limits.seconds, file_bytes=limits.file_bytes)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        confined.end(process)


def _head(path: Path, most: int) -> bytes | None:
    """A file's first bytes, one more than allowed when there are more."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        return file.read(most + 1)


# --- the answer -----------------------------------------------------------------------------------


def _result(ended: _Ended, graph: Graph) -> Walked:
    found = _parsed(ended)
    if "missing" in found:
        raise JacMissing(f"jaclang cannot be imported by Python {found['python']}: {found['missing']}")
    if "refused" in found:
        raise WalkFailed(found["refused"], trace=found.get("trace"), printed=_printed(ended))
    most = ended.limits.printed_bytes
    return Walked(
        found["walker"],
        found["reports"],
        found["state"],
        _printed(ended),
        len(ended.printed) <= most,
        found["build_seconds"],
        found["walk_seconds"],
        graph.coverage.notes,
    )


def _parsed(ended: _Ended) -> dict[str, Any]:
    if ended.code is None:
        raise WalkFailed(
            f"it ran for more than {ended.limits.seconds:g} s and was ended", printed=_printed(ended)
        )
    if ended.result is not None and len(ended.result) > ended.limits.result_bytes:
        raise WalkFailed(f"its result is larger than {ended.limits.result_bytes} bytes. Report less.")
    try:
        return cast("dict[str, Any]", json.loads(ended.result or b""))
    except ValueError:
        raise WalkFailed(
            f"its process ended with code {ended.code} and no result",
            errors=ended.errors,
            printed=_printed(ended),
        ) from None


def _printed(ended: _Ended) -> str:
    return ended.printed[: ended.limits.printed_bytes].decode(errors="replace")
