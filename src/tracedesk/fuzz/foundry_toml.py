"""`foundry.toml`: the chosen profile of a Foundry project, and its values by kind."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path
from typing import Any, Final, cast

from tracedesk.foreign import named
from tracedesk.fuzz.project import CompileError
from tracedesk.fuzz.reach import ANYWHERE, LARGEST_SETTINGS, Reach

NAME: Final = "foundry.toml"
SECTIONS: Final = ("fuzz", "invariant")
"""Tables that may stand alone or inside a profile; the profile's own values come first."""
_MOST_PARTS: Final = 16
"""Parts of a key."""
_MOST_KEYS: Final = 10_000
"""Parts of keys, tables and lists in all."""
_DEEPEST: Final = 64
_NO_MARKS: Final = re.compile(
    "|".join(
        (
            # Texts: one without an end goes on to the end; two quotes may come before the three that close.
            r'"""(?:[^"\\]|\\.|"(?!""))*+"{0,5}',
            r"'''(?:[^']|'(?!''))*+'{0,5}",
            r'"(?:[^"\\\n]|\\.)*+"?',
            r"'[^'\n]*+'?",
            r"#[^\n]*+",
            r"""[^\[\]{}.=,\n"'#]++""",
        )
    ),
    re.DOTALL,
)
"""All but the marks that make keys, tables and lists, and those between them."""
_PLACE: Final = re.compile(r"at line ([0-9]{1,9}), column [0-9]{1,9}\)$")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_MOST_GLOBS: Final = 256
_LONGEST_GLOB: Final = 1_000
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]{1,64}|[0-9][0-9_]{0,80}")


@dataclass(frozen=True, slots=True)
class Profile:
    """The values of one profile over those of `default`; empty where there is no file."""

    name: str = "default"
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    exists: bool = False

    def __bool__(self) -> bool:
        return self.exists

    def section(self, name: str) -> Profile:
        """The table `[fuzz]` or `[invariant]`."""
        return Profile(self.name, self.values.get(name, {}), self.exists)

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise bad(key, "true or false")
        return value

    def number(self, key: str, default: int, most: int = 2**256 - 1) -> int:
        """A whole number, also as text, as forge takes it."""
        return whole(key, self.values.get(key, default), most)

    def text(self, key: str, default: str) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or "\0" in value:
            raise bad(key, "text")
        return value

    def strings(self, key: str) -> list[str]:
        """A list of text; a single text is a list of one."""
        value: Any = self.values.get(key, [])
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and "\0" not in item for item in items):
            raise bad(key, "a list of text")
        return items

    def folder(self, key: str, root: Path, reach: Reach) -> str:
        """The name of a folder of the project."""
        name: Any = self.values.get(key, key)
        if not isinstance(name, str) or not name or "\0" in name:
            raise bad(key, "the name of a folder")
        reach.keep(root / name, f"{NAME}: {key}: {named(name[:120])}")
        if not (root / name).resolve().is_relative_to(root):
            # Else a project could have every folder of the machine walked through.
            raise bad(key, "a folder of the project")
        return name


def whole(key: str, value: Any, most: int = 2**256 - 1) -> int:
    """A whole number from 0 to a bound."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value, 0) if value.startswith("0x") else int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise bad(key, f"a whole number from 0 to {most}")
    return value


def bad(key: str, expected: str) -> CompileError:
    """The refusal of a value."""
    return CompileError("BAD_PROJECT", f"{NAME}: {key} must be {expected}.")


def read(root: Path, reach: Reach = ANYWHERE) -> Profile:
    """The profile that `FOUNDRY_PROFILE` names, else `default`."""
    path = root / NAME
    if not path.is_symlink() and not reach.has(path):
        return Profile()
    document = _document(reach.read(path, NAME, LARGEST_SETTINGS))
    name = os.environ.get("FOUNDRY_PROFILE", "default")
    profiles = _table(document, "profile")
    found: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {section: _table(document, section) for section in SECTIONS}
    for each in dict.fromkeys(("default", name)):
        table = _table(profiles, each, "profile.")
        found |= table
        for section in SECTIONS:
            sections[section] |= _table(table, section, f"profile.{each}.")
    return Profile(name, {**found, **sections}, exists=True)


def _document(data: bytes) -> dict[str, Any]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise CompileError("BAD_PROJECT", f"{NAME}: is not UTF-8; save it as UTF-8.") from None
    _refuse_bombs(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        # The parser's own words repeat keys of the file.
        place = _PLACE.search(str(fault))
        where = f" at line {place[1]}" if place else ""
        raise CompileError("BAD_PROJECT", f"{NAME}: is not TOML{where}. Correct it.") from None
    except (ValueError, RecursionError):
        raise CompileError("BAD_PROJECT", f"{NAME}: has a number or date that is none. Correct it.") from None


def _refuse_bombs(text: str) -> None:
    """Refuse keys that would take the machine: the parser's work and memory grow with the square of one."""
    marks = _NO_MARKS.sub("", text)
    if "." * _MOST_PARTS in marks:
        raise _bomb(f"a key of more than {_MOST_PARTS} parts")
    if sum(map(marks.count, ".=[{")) > _MOST_KEYS:
        raise _bomb(f"more than {_MOST_KEYS:,} keys, tables and lists")
    depth = deepest = 0
    for mark in marks:
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise _bomb(f"more than {_DEEPEST} lists and tables in each other")


def _bomb(problem: str) -> CompileError:
    return CompileError("BAD_PROJECT", f"{NAME}: has {problem}; make it simpler.")


def _table(document: Mapping[str, Any], key: str, before: str = "") -> dict[str, Any]:
    value: Any = document.get(key, {})
    if not isinstance(value, dict):
        raise bad(f"{before}{key}", "a table, such as [profile.default]")
    return dict(cast("dict[str, Any]", value))


# --- skip ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Skips:
    """The globs of `skip`: files that a build leaves out unless another file imports them."""

    globs: tuple[re.Pattern[str], ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: list[str]) -> Skips:
        """Globs as forge reads them: `*` crosses folders, `{a,b}` is either, `test` is an ending."""
        aliases = {"test": ".t.sol", "tests": ".t.sol", "script": ".s.sol", "scripts": ".s.sol"}
        words = tuple(aliases.get(pattern, pattern) for pattern in patterns)
        if len(words) > _MOST_GLOBS or any(len(word) > _LONGEST_GLOB for word in words):
            raise _too_many()
        globs = [one for word in words for one in _alternatives(word)]
        if len(globs) > _MOST_GLOBS:
            raise _too_many()
        return cls(tuple(re.compile(translate(each.removeprefix("./"))) for each in globs), words)

    def match(self, path: str) -> bool:
        """Whether a path below the root is left out; a pattern may also be a part of the file's name."""
        name = path.rpartition("/")[2]
        return any(glob.match(path) for glob in self.globs) or any(word in name for word in self.words)


def _alternatives(pattern: str) -> Iterator[str]:
    """Patterns without `{a,b}`; refuses one that spells too many."""
    waiting = [pattern]
    for _ in range(2 * _MOST_GLOBS):
        if not waiting:
            return
        # Each makes one glob at least, and one pair of braces may hold hundreds of words.
        if len(waiting) > _MOST_GLOBS:
            break
        current = waiting.pop()
        match = _BRACES.search(current)
        if match is None:
            yield current
        else:
            waiting += [
                current[: match.start()] + part + current[match.end() :] for part in match[1].split(",")
            ]
    raise _too_many()


def _too_many() -> CompileError:
    return bad("skip", f"a list of at most {_MOST_GLOBS} globs of at most {_LONGEST_GLOB} characters")
