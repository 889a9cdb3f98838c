"""Patterns of .gitignore files, as git reads them, matched in time that is bounded by their length.

A star never gives back what it took: each part between two stars is found where it first fits, and so is
each run of folders between two `**`, which is as good as any later place. So no pattern, however many stars
it has, costs more than its length times the path's. Characters are compared, where git compares bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

MOST_PATTERNS: Final = 2_000
MOST_CHARACTERS: Final = 100_000
LONGEST_PATTERN: Final = 1_000
_TOGETHER: Final = 64
"""Patterns tried in one step: other threads wait for no longer than that."""
_STAR: Final = "*"
_SLASH: Final = "/"
_WITHIN: Final = "[^/]"
_FOLDERS: Final = f"(?:{_WITHIN}++/)*?"
_NAMED: Final = re.compile(r"\[:([^]]*):\]")
_CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t-\\r",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class Rule:
    """One pattern: what it matches, and whether that is left out or taken in again."""

    def __init__(self, source: str, excludes: bool, folders_only: bool, by_name: bool) -> None:
        self.source = source
        self.excludes = excludes
        self.folders_only = folders_only
        self.by_name = by_name
        """Whether it is matched with the last name of a path, at any depth."""

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(self.source, re.DOTALL)

    def is_for(self, path: str, name: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return self._regex.match(name if self.by_name else path) is not None


class Rules:
    """The rules of one file, the last and strongest first."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules = rules
        # Most paths match nothing, which one pattern says faster than many.
        self._names = _together([rule.source for rule in rules if rule.by_name])
        self._paths = _together([rule.source for rule in rules if not rule.by_name])

    def verdict(self, path: str) -> bool | None:
        """Whether the path (a folder's ends with a slash) is left out; None when no rule is for it."""
        if not self._rules:
            return None
        is_folder = path.endswith("/")
        if is_folder:
            path = path[:-1]
        name = path.rpartition("/")[2]
        if not (_any(self._names, name) or _any(self._paths, path)):
            return None
        return next((rule.excludes for rule in self._rules if rule.is_for(path, name, is_folder)), None)


def _together(sources: Sequence[str]) -> list[re.Pattern[str]]:
    parts = [sources[at : at + _TOGETHER] for at in range(0, len(sources), _TOGETHER)]
    return [re.compile("|".join(part), re.DOTALL) for part in parts]


def _any(patterns: Sequence[re.Pattern[str]], text: str) -> bool:
    return any(pattern.match(text) for pattern in patterns)


def rules_of(texts: Sequence[str]) -> tuple[Rules, int]:
    """The rules of some files, a later one's stronger, and how many lines were too many or too long."""
    rules: list[Rule] = []
    left_out, characters = 0, 0
    for text in texts:
        for line in _lines(text):
            characters += len(line)
            if len(line) > LONGEST_PATTERN or characters > MOST_CHARACTERS or len(rules) >= MOST_PATTERNS:
                left_out += 1
            elif rule := _rule(line):
                rules.append(rule)
    return Rules(rules[::-1]), left_out


def _lines(text: str) -> Iterator[str]:
    """The lines that hold a pattern, without the blanks that git cuts off."""
    for line in text.removeprefix("\ufeff").split("\n"):
        line = line.removesuffix("\r")
        if line and not line.startswith("#") and (pattern := _trimmed(line)):
            yield pattern


def _trimmed(line: str) -> str:
    """Without blanks at the end; one behind a backslash stays."""
    if not line.endswith(" "):
        return line
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 else kept


def _rule(line: str) -> Rule | None:
    """None for a pattern that cannot match: git passes over malformed ones too."""
    excludes = not line.startswith("!")
    pattern = line if excludes else line[1:]
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    by_name = "/" not in pattern
    items = _items(pattern.removeprefix("/"))
    source = _source(_segments(items)) if items else None
    return Rule(source, excludes, folders_only, by_name) if source is not None else None


def _items(pattern: str) -> list[str] | None:
    """The pattern as stars, slashes, and the regular expressions of single characters."""
    items: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "[":
            found = _class(pattern, at)
            if found is None:
                return None
            item, at = found
        elif char == "\\":
            if at == len(pattern):
                return None
            item = re.escape(pattern[at])
            at += 1
        else:
            item = char if char in "*/" else _WITHIN if char == "?" else re.escape(char)
        items.append(item)
    return items


def _class(pattern: str, at: int) -> tuple[str, int] | None:
    """A set of characters from behind its bracket, and where it ends; None where it does not."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    first, members = True, list[str]()
    low: str | None = None
    while first or pattern[at : at + 1] != "]":
        first = False
        if at >= len(pattern):
            return None
        if named := _NAMED.match(pattern, at):
            if named[1] not in _CLASSES:
                return None
            members.append(_CLASSES[named[1]])
            low, at = None, named.end()
            continue
        is_range = pattern[at] == "-" and low is not None and pattern[at + 1 : at + 2] not in ("", "]")
        at += is_range
        at += pattern[at] == "\\"
        if at >= len(pattern):
            return None
        char = pattern[at]
        at += 1
        if is_range and low is not None:
            if low <= char:
                members.append(f"{re.escape(low)}-{re.escape(char)}")
            low = None
        else:
            members.append(re.escape(char))
            low = char
    return _set("".join(members), negated), at + 1


def _set(members: str, negated: bool) -> str:
    """One character of a set, never a slash; a set may be empty, as `[z-a]` is."""
    if not members:
        return _WITHIN if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{members}]"


def _segments(items: Sequence[str]) -> list[list[str]]:
    """The items between slashes; runs of stars are one star, and a segment of several is `**`."""
    segments: list[list[str]] = [[]]
    for item in items:
        if item == _SLASH:
            segments.append([])
        else:
            segments[-1].append(item)
    return [_starred(segment) for segment in segments]


def _starred(segment: list[str]) -> list[str]:
    if len(segment) > 1 and all(item == _STAR for item in segment):
        return ["**"]
    return [item for n, item in enumerate(segment) if item != _STAR or segment[n - 1 : n] != [_STAR]]


def _source(segments: Sequence[Sequence[str]]) -> str | None:
    """The regular expression of a whole path."""
    if not all(segments):  # no path has an empty name
        return None
    runs: list[list[str]] = [[]]
    for n, segment in enumerate(segments):
        if segment != ["**"]:
            runs[-1].append(_segment(segment))
        elif n == 0 or segments[n - 1] != ["**"]:
            runs.append([])
    first, *others = ["".join(f"{name}/" for name in run) for run in runs]
    if not others:
        return f"{first[:-1]}\\Z"
    *middle, last = others
    found = first + "".join(f"(?>{_FOLDERS}{run})" for run in middle)
    return f"{found}{_FOLDERS}{last[:-1]}\\Z" if last else f"{found}."


def _segment(items: Sequence[str]) -> str:
    """The regular expression of one name, to be followed by its end."""
    parts = [""]
    for item in items:
        if item == _STAR:
            parts.append("")
        else:
            parts[-1] += item
    first, *others = parts
    if not others:
        return first
    *middle, last = others
    found = first + "".join(f"(?>{_WITHIN}*?{part})" for part in middle)
    return f"{found}{_WITHIN}*{last}" if last else f"{found}{_WITHIN}*+"
