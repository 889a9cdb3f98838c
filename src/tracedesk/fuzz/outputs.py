"""Reports as files: where someone at a terminal says, or for an agent below the campaign's own folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from tracedesk.errors import ToolError
from tracedesk.fuzz.refusals import invalid
from tracedesk.primitives.ids import short, uuid4
from tracedesk.primitives.paths import Jail, PathRefused

SUFFIXES: Final = (".lcov", ".info")
_END: Final = "end_of_record\n"
_REMARK: Final = 80
_MARKS: Final = (b"TN:", b"SF:", b"#")
_SHOWN: Final = 120


def fitting_lcov(text: str, most: int) -> str:
    """As many whole records of a report as fit, with a remark that tells of the others."""
    if len(text.encode()) <= most:
        return text
    kept: list[str] = []
    room = most - _REMARK
    records = text.split(_END)
    for record in records[:-1]:
        room -= len(record.encode()) + len(_END)
        if room < 0:
            break
        kept.append(record + _END)
    return f"# {len(kept)} of {len(records) - 1} files; the linked file has all.\n{''.join(kept)}"


def write_report(path: Path, document: bytes) -> Path:
    """Write a report where the user says, with the folders that are missing; returns where it lies."""
    place = path.absolute()
    fresh = place.with_name(f".{short(uuid4())}.new")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("xb") as file:
            file.write(document)
        fresh.replace(place)
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise invalid("BAD_PATH", f"{path} cannot be written: {why}. Name another file.") from None
    finally:
        with suppress(OSError, ValueError):
            fresh.unlink()
    return place


def write_lcov(root: Path, name: str, document: bytes) -> Path:
    """Write a report under the name that an agent chose; returns where it lies."""
    try:
        return _written(root, name, document)
    except PathRefused as refused:
        raise _refusal(f"{refused}. Files are written below {root}", refused.reason) from None


def _written(root: Path, name: str, document: bytes) -> Path:
    if not name.endswith(SUFFIXES):
        raise _refusal(
            f"a report's name ends in {' or '.join(SUFFIXES)}, not as {name[-80:]!r} does", "suffix"
        )
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    jail = Jail([root])
    jail.resolve(None, name)
    head, last = os.path.split(name)
    fresh = os.path.join(head, f".{short(uuid4())}.new")
    parent = jail.resolve(None, head or ".").path
    if not os.path.isdir(parent):
        shown = head if len(head) <= _SHOWN else f"…{head[-_SHOWN:]}"
        problem = f"the folder {shown!r} is not there; reports go into folders that exist below {root}"
        raise _refusal(f"{problem}, so name the file alone", "missing")
    _refuse_other_files(jail, name, os.path.join(parent, last))
    with jail.create_file(None, fresh) as file:
        try:
            file.write(document)
            file.flush()
            _rename(parent, os.path.basename(fresh), last, file.fileno())
        except BaseException:
            os.unlink(os.path.join(parent, os.path.basename(fresh)))
            raise
    return Path(parent) / last


def _refuse_other_files(jail: Jail, name: str, place: str) -> None:
    """What is there already may be replaced only when it is a report too."""
    if os.path.islink(place):
        raise _refusal(f"{name!r} is a link; name the file itself", "symlink")
    if not os.path.lexists(place):
        return
    with jail.open_read(None, name) as file:
        start = file.read(8)
    if start and not start.startswith(_MARKS):
        raise _refusal(f"{name!r} exists and is no LCOV report; choose another name", "exists")


def _rename(parent: str, fresh: str, last: str, written: int) -> None:
    """Give the file its name in the very folder where it was made, whatever the path leads to by now."""
    folder = os.open(parent, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.stat(fresh, dir_fd=folder, follow_symlinks=False)
        if not os.path.samestat(there, os.fstat(written)):
            raise _refusal("the folder changed while the file was written; try again", "symlink")
        os.rename(fresh, last, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _refusal(problem: str, reason: str) -> ToolError:
    return invalid("BAD_PATH", f"outputPath: {problem}.", argument="outputPath", reason=reason)
