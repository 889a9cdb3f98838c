"""Results of tests and builds as their runners print them, whatever became of the exit status."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast

from tracedesk.primitives import json

Result = Literal["failed", "broken", "passed"]

_READ: Final = 200_000
"""Characters of an output's end that are looked at: runners sum up at the end."""
_DEEPEST: Final = 6
_MOST_TEXTS: Final = 200
_TOLD: Final = frozenset(("tool", "status", "arguments", "output_ref", "query", "summary", "agent"))
"""Members of a payload that are no output."""

_LABELS: Final = re.compile(r"^(?:Output|Stdout|Stderr|stdout|stderr): ", re.MULTILINE)
"""Words that clients put before the first line of an output."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.MULTILINE)


_FAILED: Final = _any(
    # pytest
    r"^=* ?(?:\d+ \w+, )*[1-9]\d* (?:failed|errors?)(?:, \d+ \w+)* in \d",
    r"^(?:FAILED|ERROR) \S+\.py\b",
    r"^!+ (?:Interrupted: )?.*[1-9]\d* errors? during collection",
    r"^ImportError while loading conftest",
    # unittest
    r"^FAILED \((?:failures|errors|unexpected successes)=",
    # go
    r"^\s*--- FAIL: ",
    r"^FAIL(?:\t|$| +\S+ \[)",
    r"\[(?:build|setup) failed\]$",
    # cargo, nextest, forge
    r"^test result: FAILED",
    r"^error(?:\[E\d+\])?: (?:could not compile|test failed|aborting)",
    r"^\s*Summary \[.*\b[1-9]\d* failed",
    r"^Suite result: FAILED",
    r"^Encountered a total of [1-9]\d* failing tests?",
    # jest, vitest, mocha, node:test, TAP
    r"^\s*(?:Tests|Test Suites|Test Files):?\s+(?:.*\b)?[1-9]\d* failed",
    r"^\s*(?:FAIL|❯ FAIL)\s+\S+\.[cm]?[jt]sx?\b",
    r"^\s*[1-9]\d* failing\b",
    r"^(?:#|ℹ) fail [1-9]",
    r"^not ok \d+(?!.*# (?:TODO|SKIP))",
    # ctest
    r"^\d+% tests passed, [1-9]\d* tests? failed",
    r"^The following tests FAILED:",
    # JUnit, Maven, Gradle, .NET
    r"Tests run: \d+, Failures: [1-9]",
    r"Tests run: \d+, Failures: \d+, Errors: [1-9]",
    r"\bBUILD (?:FAILURE|FAILED)\b",
    r"^\d+ tests completed, [1-9]\d* failed",
    r"^(?:Failed!|Test Run Failed)",
    # PHPUnit, RSpec
    r"^(?:FAILURES|ERRORS)!$",
    r"^Tests: \d+, Assertions: \d+, (?:Errors|Failures): [1-9]",
    r"^\d+ examples?, (?:\d+ failures?, )?[1-9]\d* (?:failures?|errors? occurred)",
    # make, ninja, npm
    r"^\S*make(?:\[\d+\])?: \*\*\* ",
    r"^ninja: build stopped",
    r"^npm (?:ERR!|error) ",
    # compilers and checkers
    r"\berror TS\d+: ",
    r"^Found [1-9]\d* errors?\b",
    r"^[1-9]\d* errors?, \d+ warnings?",
    r"✖ \d+ problems? \([1-9]",
    # a shell's own word
    r"^(?:Exit [Cc]ode|exit code|Exit status):? [1-9]\d*\s*$",
    r"^Process exited with code [1-9]",
)
"""A summary, or a line of one, that says so."""

_PASSED: Final = _any(
    r"^=* ?[1-9]\d* passed\b.* in \d",
    r"^OK(?: \(.*\))?$",
    r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))",
    r"^PASS$",
    r"^test result: ok\. [1-9]",
    r"^\s*Summary \[.*\b[1-9]\d* passed",
    r"^Suite result: ok\.",
    r"^\s*Tests:?\s+(?:.*\b)?[1-9]\d* passed",
    r"^\s*[1-9]\d* passing\b",
    r"^(?:#|ℹ) pass [1-9]",
    r"^100% tests passed",
    r"\bBUILD (?:SUCCESS|SUCCESSFUL)\b",
    r"^(?:Passed!|Test Run Successful)",
    r"^\d+ examples?, 0 failures",
    r"^(?:Success: no issues found|All checks passed!|0 errors, )",
)
_BROKEN: Final = _any(
    r"^Traceback \(most recent call last\)",
    r"^(?:E   +)?\w*(?:Error|Exception)(?:: |$)",
    r"^E {2,}\S",
    r"^panic: ",
    r"^thread '.*' \(?.*panicked at",
    r"^(?:\S+:\d+(?::\d+)?: )?(?:fatal )?error(?:\[\w+\])?: ",
    r"(?:command not found|No such file or directory|Permission denied)\s*$",
)
"""Signs of a run that broke off; a summary that says otherwise is believed."""


def result_of(text: str) -> Result | None:
    """Return the result that an output speaks of, None for one that speaks of none."""
    text = _LABELS.sub("", _COLOURS.sub("", text[-_READ:]).replace("\r\n", "\n"))
    if _FAILED.search(text):
        return "failed"
    if _PASSED.search(text):
        return "passed"
    return "broken" if _BROKEN.search(text) else None


def output_of(payload: Mapping[str, Any]) -> str:
    """Return all that a tool printed, as its client logged it: texts, documents, or documents in texts."""
    told = [value for name, value in payload.items() if name not in _TOLD]
    texts = [text for _, text in zip(range(_MOST_TEXTS), _texts(told, _DEEPEST), strict=False)]
    return "\n".join(texts)


def _texts(value: Any, deep: int) -> Iterator[str]:
    if isinstance(value, str):
        yield from _parsed(value, deep)
    elif deep and isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from _texts(item, deep - 1)
    elif deep and isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item, deep - 1)


def _parsed(text: str, deep: int) -> Iterator[str]:
    if deep and text[:1] in ("{", "["):
        try:
            yield from _texts(json.loads(text, levels=json.DEEPEST), deep - 1)
        except ValueError:
            yield text
    else:
        yield text
