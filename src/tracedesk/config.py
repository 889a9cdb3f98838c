"""Settings: defaults, then `tracedesk.toml`, then the environment, then flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, Final, cast

import platformdirs

from tracedesk.surroundings import credential_names
from tracedesk.toolsets import TOOLSETS

PREFIX: Final = "TRACEDESK_"
FILE: Final = "tracedesk.toml"
OTHER_VARIABLES: Final = ("TRACEDESK_NATIVE", "TRACEDESK_SOLJSON", "TRACEDESK_READY_FD")
"""Variables that are no settings: what leaves native parts alone, a compiler, and what hosts begin with."""
_TABLES: Final = ", ".join(f"[{name}]" for name in TOOLSETS)
ROOTED: Final = ("codegraph", "fuzz")
"""Toolsets that read folders of the user's, and only those below their roots."""
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_KINDS: Final[Mapping[type[object], str]] = {
    bool: "true or false",
    int: "a whole number above 0",
    float: "a number above 0",
}


class BadSetting(ValueError):
    """A setting that does not exist or whose value does not fit, with where it came from."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, with its default."""

    home: Path = Path()
    """Where the desk keeps its files."""
    toolsets: tuple[str, ...] = ()
    """The toolsets to serve; empty serves every one that is built."""
    read_only: bool = False
    """Serve only what is annotated read-only."""
    host: str = "127.0.0.1"
    """The address to listen on; anything but loopback needs TLS or a proxy, and a token."""
    port: int = 3000
    """The HTTP port; 0 takes any free one."""
    max_bytes: int = 1 << 20
    """The hard cap of one answer."""
    max_tokens: int = 8_000
    """The budget, in estimated tokens, of answers that can be continued."""
    max_sessions: int = 50
    """How many handshake-era HTTP sessions may be open at once."""
    idle_seconds: float = 30.0
    """How long a session without a request in flight lives."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    check_output: bool = False
    """Validate every answer against its own contract; a breach is an INTERNAL_ERROR."""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The toolsets' own tables of tracedesk.toml, by toolset; each toolset checks its own."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A value in force and who set it."""

    value: Any
    source: str


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force."""
    return replace(Settings(), **{name: origin.value for name, origin in explain(flags, environ).items()})


def explain(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, Origin]:
    """Every setting with its value and the layer that decided it."""
    given, surroundings, home = _given(flags, environ)
    decided: dict[str, Origin] = {}
    for source, layer in _layers(given, surroundings, home):
        if "tables" in layer:
            layer = {**layer, "tables": _merged(decided.get("tables"), layer["tables"])}
        decided |= {name: Origin(value, source) for name, value in layer.items()}
    decided["home"] = Origin(home, _home_source(given, surroundings))
    return decided


def table_sources(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> dict[tuple[str, str], str]:
    """The layer that decided each value of the toolsets' tables, by toolset and name in its table."""
    tables = ((source, layer.get("tables", {})) for source, layer in _layers(*_given(flags, environ)))
    return {(toolset, name): source for source, own in tables for toolset in own for name in own[toolset]}


def _given(
    flags: Mapping[str, Any] | None, environ: Mapping[str, str] | None
) -> tuple[dict[str, Any], Mapping[str, str], Path]:
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    surroundings = os.environ if environ is None else environ
    return given, surroundings, locate(given.get("home"), surroundings)


def _layers(
    given: Mapping[str, Any], surroundings: Mapping[str, str], home: Path
) -> list[tuple[str, dict[str, Any]]]:
    """The layers that decide settings, weakest first."""
    file = _from_file(home / FILE)
    _refuse_unknown(surroundings, credential_names(file.get("tables", {}).get("exchange", {})))
    return [
        ("default", {f.name: getattr(Settings(), f.name) for f in fields(Settings)}),
        (FILE, file),
        ("environment", _from_environment(surroundings)),
        ("flag", {n: v if n == "tables" else _fit(n, v, "flag") for n, v in given.items()}),
    ]


def _merged(below: Origin | None, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of a stronger layer over those of the weaker ones, value by value."""
    known: Mapping[str, Any] = below.value if below is not None else {}
    return {name: {**known.get(name, {}), **tables.get(name, {})} for name in (*known, *tables)}


def _home_source(given: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    if given.get("home"):
        return "flag"
    return "environment" if environ.get(f"{PREFIX}HOME") else "default"


def locate(given: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The home: as given, else as TRACEDESK_HOME says, else the platform's data folder."""
    named = given or (os.environ if environ is None else environ).get(f"{PREFIX}HOME")
    default = platformdirs.user_data_dir("tracedesk", appauthor=False)
    return Path(named or default).expanduser().absolute()


def _from_file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise BadSetting(f"{path}: not TOML: {fault}") from None
    own = {name: value for name, value in table.items() if name in TOOLSETS}
    strange = (name for name, value in table.items() if isinstance(value, dict) and name not in TOOLSETS)
    if (name := next(strange, None)) is not None:
        raise BadSetting(f"{path}: unknown table [{name}].{_nearest(name, TOOLSETS)} There are {_TABLES}")
    for name, value in own.items():
        if not isinstance(value, dict):
            raise BadSetting(f"{path}: {name} must be a table, [{name}]")
    plain = {n: _fit(n, v, str(path)) for n, v in table.items() if n not in own and n != "home"}
    return {**plain, "tables": own} if own else plain


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    names = {f.name for f in fields(Settings)} - {"home", "tables"}
    plain = {
        name: _fit(name, environ[f"{PREFIX}{name.upper()}"], f"{PREFIX}{name.upper()}")
        for name in names
        if f"{PREFIX}{name.upper()}" in environ
    }
    tables = _roots_from_environment(environ)
    return {**plain, "tables": tables} if tables else plain


def _refuse_unknown(environ: Mapping[str, str], credentials: Iterable[str]) -> None:
    """Refuse a variable of our prefix that is none: misspelt, it would change nothing, unnoticed."""
    plain = [f"{PREFIX}{f.name.upper()}" for f in fields(Settings) if f.name != "tables"]
    known = [*plain, *(f"{PREFIX}{name.upper()}_ROOTS" for name in ROOTED), *OTHER_VARIABLES, *credentials]
    for name in sorted(environ):
        if name.upper().startswith(PREFIX) and name not in known:
            raise BadSetting(f"{name} is not a variable of tracedesk.{_remedy(name, known)}")


def _remedy(name: str, known: Sequence[str]) -> str:
    name = name.upper()
    table, _, setting = name.removeprefix(PREFIX).lower().partition("_")
    if near := _nearest(name, known):
        return f"{near} Rename or unset it"
    if table in TOOLSETS and setting:
        return f" Settings of [{table}] have none: write {setting} under [{table}] in {FILE}, and unset it"
    return f" Unset it; settings that have one are {', '.join(known[: len(fields(Settings)) - 1])}"


def _nearest(name: str, known: Sequence[str]) -> str:
    """A question after the name that was probably meant; empty where none is near."""
    found = get_close_matches(name, known, 1, cutoff=0.8)
    return f" Did you mean {found[0]}?" if found else ""


def _roots_from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """`TRACEDESK_<TOOLSET>_ROOTS`: the folders of a toolset, written as a search path."""
    named = {name: environ.get(f"{PREFIX}{name.upper()}_ROOTS", "") for name in ROOTED}
    return {
        name: {"roots": [part for part in text.split(os.pathsep) if part]}
        for name, text in named.items()
        if text
    }


def _fit(name: str, value: Any, source: str) -> Any:
    """`value` in the type of the setting's default."""
    known = {f.name: getattr(Settings(), f.name) for f in fields(Settings) if f.name != "tables"}
    if name not in known:
        raise BadSetting(f"{source}: unknown setting {name!r}; there are {', '.join(known)}")
    try:
        return _within(name, _convert(known[name], value))
    except (TypeError, ValueError, OverflowError):
        raise BadSetting(f"{source}: {name} must be {_expected(name, known[name])}, not {value!r}") from None


def _expected(name: str, like: Any) -> str:
    if name == "port":
        return "a port from 0 to 65535"
    if name == "log_level":
        return "one of " + ", ".join(LEVELS)
    return _KINDS.get(cast("type[object]", type(like)), "text")


def _within(name: str, value: Any) -> Any:
    """`value` when it lies in the setting's bounds."""
    if name == "log_level":
        value = value.upper()
        allowed = value in LEVELS
    elif name == "port":
        allowed = 0 <= value <= 65535
    else:
        allowed = isinstance(value, bool) or not isinstance(value, (int, float)) or value > 0
    if not allowed:
        raise ValueError
    return value


def _convert(like: Any, value: Any) -> Any:
    if isinstance(like, bool):
        return _boolean(value)
    if isinstance(like, tuple):
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if isinstance(like, Path):
        return Path(value).expanduser()
    if isinstance(like, (int, float)):
        number = type(like)(value)
        if isinstance(value, bool) or (isinstance(value, float) and number != value) or not isfinite(number):
            raise ValueError
        return number
    if not isinstance(value, str):
        raise TypeError
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError
