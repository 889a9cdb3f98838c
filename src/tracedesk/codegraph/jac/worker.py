"""A process that runs one walker: `python -I worker.py JOB.json`, in a folder that is deleted afterwards.

Its standard output belongs to the walker, whose every `report` prints; the result goes to the file that the
job names. Nothing of Tracedesk is imported here, so any Python with jaclang can run it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import resource
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, cast


class Refused(Exception):
    """Something that the walker's author can put right."""


def main(job_file: str) -> None:
    """Run the job and write its result; a failure is a result too."""
    job: dict[str, Any] = json.loads(Path(job_file).read_bytes())
    result = Path(job["result"])
    _limit(job["limits"])
    try:
        text = json.dumps(_run(job), default=_plain, allow_nan=False)
    except Refused as refused:
        text = json.dumps({"refused": str(refused)})
    except Exception as fault:
        text = json.dumps({"refused": f"{type(fault).__name__}: {fault}", "trace": traceback.format_exc()})
    result.write_text(text, encoding="utf-8")


def _limit(limits: Mapping[str, int]) -> None:
    """Bound what the walker may take; the wall clock is its parent's."""
    for name, most in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError):  # macOS does not bound address space
            resource.setrlimit(kind, (bound, hard))


def _run(job: Mapping[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        jac = importlib.import_module("jaclang.lib")
    except ImportError as error:
        return {"missing": str(error), "python": sys.version.split()[0]}
    document = json.loads(Path(job["graph"]).read_bytes())
    projection = _projection_module().project(document, job["module"])
    sys.modules[job["module"]] = projection.module
    built = time.perf_counter()
    walker = _walker(jac, job)
    jac.spawn(walker, projection.project)
    walked = time.perf_counter()
    return {
        "walker": type(walker).__name__,
        "reports": list(walker.reports),
        "state": _state(walker),
        "build_seconds": round(built - began, 3),
        "walk_seconds": round(walked - built, 3),
    }


def _projection_module() -> Any:
    """The module beside this one, loaded by its place: its folder on the path would hide others' modules."""
    spec = importlib.util.spec_from_file_location(
        "tracedesk_projection", Path(__file__).with_name("projection.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _walker(jac: Any, job: Mapping[str, Any]) -> Any:
    sys.path[:0] = job["path"]
    module = importlib.import_module(job["walker_module"])
    kind = _chosen(_walkers(module, jac.Walker), job["walker"])
    known = {each.name for each in fields(kind)} - {"reports"}
    if unknown := sorted(set(job["arguments"]) - known):
        raise Refused(
            f"the walker {kind.__name__} has no field {', '.join(unknown)}; it has: "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    return kind(**job["arguments"])


def _walkers(module: ModuleType, base: type[Any]) -> dict[str, type[Any]]:
    """The walkers that the file itself declares."""
    found = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    return {
        name: value
        for name, value in found.items()
        if issubclass(value, base) and value.__module__ == module.__name__
    }


def _chosen(found: Mapping[str, type[Any]], name: str | None) -> type[Any]:
    names = ", ".join(sorted(found))
    if not found:
        raise Refused("the file declares no walker")
    if name is None and len(found) > 1:
        raise Refused(f"the file declares several walkers; name one of: {names}")
    if name is not None and name not in found:
        raise Refused(f"the file declares no walker {name}; it declares: {names}")
    return found[name] if name is not None else next(iter(found.values()))


def _state(walker: Any) -> dict[str, Any]:
    """What the walker has gathered in its own fields."""
    return {each.name: getattr(walker, each.name) for each in fields(walker) if each.name != "reports"}


def _plain(value: Any) -> Any:
    """A JSON value of what walkers report: nodes and objects by their fields, times as text."""
    if is_dataclass(value) and not isinstance(value, type):
        made = {each.name: getattr(value, each.name) for each in fields(value)}
        return {"type": type(value).__name__, **made}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[Any]", value), key=repr)
    raise Refused(f"a {type(value).__name__} was reported, which has no JSON form; report fields or nodes")


if __name__ == "__main__":
    main(sys.argv[1])
