"""Shell commands: whether one tests or builds, and whether its exit status is that of the test."""

from __future__ import annotations

import re
from typing import Final

_CHECKS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:py|un|n)?(?:test|tests|spec|pytest|unittest|jest|vitest|mocha|tox|nox|rspec|phpunit"
    r"|ctest|tsc|mypy|pyright|build|compile|lint|check|checks|clippy|make|mvn|gradle|gradlew|forge)"
    r"|ava|bats|behave|busted|codecept|cucumber|cypress|eslint|flake8|ginkgo|gotestsum|jasmine|karma|newman"
    r"|nightwatch|ninja|nose2?|nosetests|pest|playwright|prove|pylint|rake|robot|rubocop|ruff|sbt|scons|selftest"
    r"|stestr|tap|tape|testcafe|trial|vet|xcodebuild)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_NAMES: Final = """
    awk bat cat cd chmod cp curl cut diff echo export find git grep head less ls mkdir more mv pip pip3 printf
    pwd rg rm sed set sort source tail tee touch tree uniq vi vim wc wget which
"""
_READERS: Final = frozenset(_NAMES.split())
"""Commands that neither test nor build, whatever their arguments are."""

_INSTALLS: Final = re.compile(
    r"(?:^|\s)(?:npm|pnpm|yarn|apt|apt-get|brew|uv|poetry|gem|go|cargo|pip)\s+(?:add|ci|get|i|install)\b"
)
# Each of these takes time in proportion to the length of a command.
_QUOTED: Final = re.compile(r"('[^']*'|\"(?:\\.|[^\"\\])*\")|['\"].*", re.DOTALL)
"""A quoted text; an open quote goes to the end, and is left as it is."""
_RUNS_TEXT: Final = re.compile(r"\b(?:ba|da|k|z)?sh\s+(?:-\w{1,20}\s+){0,8}-\w{0,20}c\b")
_DIRECTED: Final = re.compile(r"(?<!\d)\d*>&\d*-?|&>>?|<&\d+")
_OPERATOR: Final = re.compile(r"(\|\||&&|\|&?|;|&|\n)")
_BEFORE: Final = re.compile(
    r"^(?:(?:\w+=\S*|sudo|time|env|nice|nohup|exec|command|timeout(?:\s+-\S+)*\s+[\d.]+\w?|[({!])\s+)*"
)
_STOPS: Final = re.compile(r"\bset\s+-\w*e|\berrexit\b")
_PIPEFAIL: Final = re.compile(r"\bpipefail\b")


def is_check(command: str) -> bool:
    """Whether a command tests or builds."""
    return any(_checks(part) for part in _split(command)[::2])


def is_read(command: str) -> bool:
    """Whether all that a command does is to show or move what is there."""
    return all(_head(part) in _READERS or not part.strip() for part in _split(command)[::2])


def hides_status(command: str) -> bool:
    """Whether a command can end well although its last test or build did not."""
    parts = _split(command)
    last = max((place for place in range(0, len(parts), 2) if _checks(parts[place])), default=None)
    if last is None:
        return False
    end = max(place for place in range(0, len(parts), 2) if place == last or parts[place].strip())
    operators = parts[last + 1 : end : 2]
    forgiven = {"&&"}
    if _STOPS.search(command):
        forgiven |= {";", "\n"}
    if _PIPEFAIL.search(command):
        forgiven |= {"|", "|&"}
    return any(operator not in forgiven for operator in operators)


def _split(command: str) -> list[str]:
    """Simple commands, and the operators between them."""
    command = command.replace("\\\n", " ")
    if _RUNS_TEXT.search(command):
        command = re.sub("[\"']", " ", command)
    plain = _QUOTED.sub(lambda found: '""' if found[1] else found[0], command)
    return _OPERATOR.split(_DIRECTED.sub(" ", plain))


def _checks(part: str) -> bool:
    return bool(_CHECKS.search(part)) and _head(part) not in _READERS and not _INSTALLS.search(part)


def _head(part: str) -> str:
    """The program of a simple command."""
    words = _BEFORE.sub("", part.strip(), count=1).split(maxsplit=1)
    return words[0].rpartition("/")[2] if words else ""
