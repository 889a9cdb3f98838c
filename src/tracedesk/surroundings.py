"""Variables of the environment that hold credentials: read once, wiped, and given to no child process."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

API_KEY: Final = "BINANCE_API_KEY"
SECRETS: Final = ("BINANCE_SECRET_KEY", "BINANCE_API_SECRET")
_NAMING: Final = ("api_key_env", "secret_env")

_withheld: Final = {API_KEY, *SECRETS}
"""Names that no child sees: these, and what was ever taken."""


def credential_names(table: Mapping[str, Any]) -> list[str]:
    """The variables that hold credentials under a table [exchange] of tracedesk.toml, be it right or not."""
    profiles = [_table(profile) for profile in _table(table.get("profiles")).values()]
    named = (profile.get(field) for profile in profiles for field in _NAMING)
    return [API_KEY, *SECRETS, *(name for name in named if isinstance(name, str) and name)]


def _table(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def take(names: Iterable[str]) -> dict[str, str]:
    """Those of these variables that are set; the environment has them no more.

    The bytes that the process was started with are overwritten too: a listing of processes shows those.
    """
    wanted = set(names)
    _withheld.update(wanted)
    found = {name: os.environ[name] for name in wanted if name in os.environ}
    _wipe({os.fsencode(name) for name in found})
    for name in found:
        del os.environ[name]
    return found


def for_children() -> dict[str, str]:
    """The environment that a child process is started with."""
    return {name: value for name, value in os.environ.items() if name not in _withheld}


def _wipe(names: set[bytes]) -> None:
    if not names:
        return
    for place in _entries():
        name, equals, value = ctypes.string_at(place).partition(b"=")
        if name in names:
            ctypes.memset(place + len(name + equals), 0, len(value))


def _entries() -> Iterator[int]:
    """Where the C library has each `NAME=value`."""
    library = ctypes.CDLL(None)
    pointers = ctypes.POINTER(ctypes.c_void_p)
    if sys.platform == "darwin":
        library._NSGetEnviron.restype = ctypes.POINTER(pointers)
        entries = library._NSGetEnviron().contents
    else:
        entries = pointers.in_dll(library, "environ")
    position = 0
    while entries and (place := entries[position]):
        yield place
        position += 1
