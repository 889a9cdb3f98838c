"""Folder that a desk may read where nobody names one: the one it is started in, inside a project."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

MARKS: Final = (
    ".git",
    ".hg",
    ".jj",
    "pyproject.toml",
    "setup.py",
    "package.json",
    "deno.json",
    "foundry.toml",
    "hardhat.config.js",
    "hardhat.config.ts",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "Makefile",
    "composer.json",
    "Gemfile",
    "mix.exs",
)
"""Files and folders that make the folder they lie in a project."""

_WHOLLY: Final = ("/etc", "/proc", "/sys", "/dev", "/boot", "/bin", "/sbin", "/lib", "/lib64", "/System")
"""System folders in which nothing is a project: `etckeeper` keeps a `.git` in /etc."""

_ITSELF: Final = (
    *("/", "/home", "/root", "/usr", "/usr/local", "/var", "/opt", "/srv", "/mnt", "/media", "/run", "/tmp"),
    *(
        "/var/tmp",
        "/Users",
        "/Library",
        "/Applications",
        "/private",
        "/private/tmp",
        "/private/var",
        "/Volumes",
    ),
)
"""Folders that are never a project themselves; those in them may be."""

_HOMES: Final = (Path("/home"), Path("/Users"))
"""Folders of users' homes, none of which is a project, whoever runs the desk."""


def project_of(folder: Path) -> Path | None:
    """The innermost project that a folder lies in; None outside of one."""
    real = folder.resolve()
    return next((each for each in (real, *real.parents) if is_possible(each) and _is_marked(each)), None)


def is_possible(folder: Path) -> bool:
    """True when a folder may be a project: not a user's home, and no folder of the system."""
    real = folder.resolve()
    if any(real.is_relative_to(system) for system in _WHOLLY):
        return False
    return real != _home() and real.parent not in _HOMES and real not in map(Path, _ITSELF)


def assumed(roots: Iterable[Path], folder: Path | None = None) -> tuple[Path, ...]:
    """The roots that were named, else the folder a desk is started in, where that lies in a project."""
    named = tuple(roots)
    if named:
        return named
    try:
        here = folder or Path.cwd()
    except FileNotFoundError:  # the folder was removed
        return ()
    return (here,) if is_possible(here) and project_of(here) is not None else ()


def _is_marked(folder: Path) -> bool:
    try:
        return any((folder / mark).exists() for mark in MARKS)
    except OSError:
        return False


def _home() -> Path:
    try:
        return Path.home().resolve()
    except RuntimeError:  # a user without a home
        return Path("/")
