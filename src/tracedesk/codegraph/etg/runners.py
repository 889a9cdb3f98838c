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

_LONGEST_LINE: Final = 500
"""Characters of a line that are looked at; a summary is shorter."""
_MOST_LINES: Final = 2_000
"""Lines that may be of a summary, from the end."""

_LABELS: Final = re.compile(r"^(?:Output|Stdout|Stderr|stdout|stderr): ", re.MULTILINE)
"""Words that clients put before the first line of an output."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TELLING: Final = re.compile(
    r"fail|error|pass|ok\b|succe|not |exit|\*\*\*|broke|stopped|aborted|terminated|ended|dubious|problem"
    r"|✖|-\d+: |offense|no issues|done |congrat|detected|timeout|assertions|exception|rejection"
    r"|err!|timed out",
    re.IGNORECASE,
)
"""Words of which every summary below has one: other lines are not looked at any closer."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.MULTILINE)


# A line begins with marks at most: bullets, frames, `>` and the like.
_LEAD: Final = r"^[^\w\n]{0,30}"
_ENDS: Final = r"(?=[ \t]*(?:[.,;:|/()!│]|$| in [\d.]))"
_COUNT: Final = r"(?:\d+ [A-Za-z]+(?:[ \t]*[,;|/&][ \t]*|[ \t]+))"
_THINGS: Final = (
    r"(?:tests?|test cases?|test suites?|test files?|cases?|specs?|scenarios?|checks?|suites?|examples?"
    r"|assertions?|steps?|features?|programs?|jobs?|hooks?|targets?|subtests?|test programs?|files?)"
)

_FAILED: Final = _any(
    # in any runner's words: 3 of 20 cases failed; 5 tests, 1 failure; 1 failing test; Failed: 3
    rf"{_LEAD}(?:[A-Za-z]+: ?)?[1-9]\d*(?: ?(?:of|out of|/) ?\d+)?(?:(?: \w+)?? {_THINGS})?"
    rf"(?: have| has| were| was| are| is| did)? (?i:fail(?:ed|ing|s|ures?)?){_ENDS}",
    rf"{_LEAD}{_COUNT}{{0,12}}[1-9]\d* (?i:failed|failures?|failing|fails?){_ENDS}",
    rf"{_LEAD}{_COUNT}{{1,12}}[1-9]\d* (?i:errors?|errored){_ENDS}",
    rf"{_LEAD}[1-9]\d* (?i:failed|failing) {_THINGS}[.:! ]*$",
    rf"{_LEAD}(?i:(?:tests? |total )?fail(?:ed|ures|ing|s)?(?: tests?| cases?)?)"
    r"[ \t]*[:=][ \t]*[1-9]\d*\b(?![\d.]*\d)",
    rf"{_LEAD}(?i:(?:(?:all|some|the|unit|integration) )?"
    r"(?:tests?|test suite|test run|checks|build|compilation) (?:have |has |run )?failed)[.!: ]*$",
    r"^(?:FAILED|FAILURE|!!!FAILURES!!!)$",
    # pytest
    r"^=* ?(?:\d+ \w+, )*[1-9]\d* (?:failed|errors?)(?:, \d+ \w+)* in \d",
    r"^(?:FAILED|ERROR) \S+\.py\b",
    r"^(?:\[gw\d+\] )?(?:\[ *\d+%\] )?(?:FAILED|ERROR) \S+::",
    r"^\S+::.* (?:FAILED|ERROR)(?: +\[ *\d+%\])?$",
    r"^!+ (?:Interrupted: )?.*\b[1-9]\d* errors? during collection",
    r"^ImportError while loading conftest",
    r"^INTERNALERROR>",
    r"^ERROR: (?:usage: |not found: |file or directory not found)",
    # unittest, nose, trial, doctest
    r"^FAILED \((?:[^)\n]*, ?)?(?:failures|errors|unexpected successes)=",
    r"^\*\*\*Test Failed\*\*\*",
    r"^ *[1-9]\d* items? had failures",
    r"^\d+ passed and [1-9]\d* failed",
    # tox, nox, pre-commit
    r"^ *[\w.-]+: FAIL(?: code \d+|\b ✖)",
    r"^ *evaluation failed",
    r"^ERROR: +\S+: commands? failed",
    r"^nox > (?:Session .* failed|Command .* failed|\* \S+: failed)",
    r"^\S.*\.\.\.(?:\([^)\n]{0,80}\))?Failed$",
    # behave, cucumber, robot
    r"^\d+ (?:features?|rules?|scenarios?|steps?) passed, (?:[1-9]\d* failed|\d+ failed, [1-9]\d* error)",
    r"^(?:Failing|Errored) scenarios:",
    r"^\d+ (?:scenarios?|steps?) \((?:.*\b)?[1-9]\d* failed",
    r"\| FAIL \|$",
    # Perl
    r"^Result: FAIL",
    r"^Failed \d+/\d+ (?:test programs|subtests)",
    r"\. ?Dubious, test returned ",
    r"^ *# Looks like (?:you failed [1-9]|your test exited with [1-9])",
    # Ruby
    r"^\d+ (?:runs?|tests?), \d+ assertions?, (?:[1-9]\d* failures?|\d+ failures?, [1-9]\d* errors?)",
    r"^\d+ examples?, (?:\d+ failures?, )?[1-9]\d* (?:failures?|errors? occurred)",
    r"^rake aborted!",
    r"^\d+ files? inspected, [1-9]\d* offenses? detected(?!, [1-9]\d* offenses? corrected)",
    # go
    r"^[ \t]*--- FAIL: ",
    r"^=== FAIL: ",
    r"^FAIL(?:\t|$| +\S+ \[)",
    r"\[(?:build|setup) failed\]$",
    r"^FAIL! -- ",
    r"^DONE \d+ tests?(?: in \d+ runs)?,.* [1-9]\d* (?:failures?|errors?)",
    # cargo, nextest, forge
    r"^test result: FAILED",
    r"^error(?:\[E\d+\])?: (?:could not compile|test (?:run )?failed|aborting)",
    r"^[ \t]*Summary \[.*\b[1-9]\d* (?:failed|timed out|exec failed)",
    r"^ +FAIL \[",
    r"^Suite result: FAILED",
    r"^\[FAIL[:.\]]",
    r"^Encountered (?:a total of )?[1-9]\d* failing tests?",
    r"\b[1-9]\d* failed, \d+ skipped \(\d+ total tests\)",
    # jest, vitest, mocha, node:test, TAP, deno, AVA, Karma, Cypress, newman
    r"^[ \t]*(?:Tests|Test Suites|Test Files):?[ \t]+(?:.*\b)?[1-9]\d* failed",
    r"^[ \t]*Errors[ \t]+[1-9]\d* errors?$",
    r"^[ \t]*(?:FAIL|❯ FAIL)[ \t]+\S+\.[cm]?[jt]sx?\b",
    r"^ *● Test suite failed to run",
    r"^(?:#|ℹ) fail +[1-9]",
    r"^# \{.*\bfail: [1-9]",
    r"^ *not ok\b(?!.*# ?(?i:TODO|SKIP))",
    r"^FAILED \| ",
    r"^error: Test failed",
    rf"{_LEAD}[1-9]\d* (?:uncaught exceptions?|unhandled rejections?)$",
    r"\bExecuted \d+ of \d+ .*\([1-9]\d* FAILED\)",
    r"^TOTAL: [1-9]\d* FAILED",
    r"│ +assertions +│ +\d+ +│ +[1-9]",
    # Dart, Swift, Xcode, Bazel, SCons, Zig
    r"^\d\d:\d\d \+\d+(?: ~\d+)? -[1-9]\d*: ",
    r"\bExecuted \d+ tests?, with (?:\d+ tests? skipped and )?[1-9]\d* failures?",
    r"Test run with \d+ tests?(?: in \d+ suites?)? failed",
    r"^\*\* (?:TEST|BUILD|ARCHIVE|ANALYZE)(?: EXECUTE)? FAILED \*\*",
    r"^@?//\S+ +(?:\(cached\) +)?(?:FAILED|TIMEOUT)\b",
    r"^Executed \d+ out of \d+ tests?: .*\b[1-9]\d* fails?\b",
    r"^(?:ERROR|FAILED): Build did NOT",
    r"^scons: building terminated because of errors",
    r"^Build Summary: .*\b[1-9]\d* failed",
    r"^error: the following (?:test|build) command (?:failed|terminated|exited)",
    r"^\d+/\d+ .*\.\.\. ?FAIL \(",
    # ctest, googletest, Catch2, doctest, Boost, Criterion, Check, Unity, Meson, automake, DejaGnu
    r"^\d+% tests passed, [1-9]\d* tests? failed",
    r"^The following tests FAILED:",
    r"^\[  FAILED  \]",
    r"^ *[1-9]\d* FAILED TESTS?",
    r"^(?:\[doctest\] )?test cases: .*\b[1-9]\d* failed(?! as expected)",
    r"^\[doctest\] Status: FAILURE",
    r"^\*\*\* [1-9]\d* failures? (?:is|are) detected",
    r"Synthesis: .*(?:Failing|Crashing): [1-9]",
    r"^\d+%: Checks: \d+, Failures: (?:[1-9]|\d+, Errors: [1-9])",
    r"^\d+ Tests [1-9]\d* Failures ",
    r"^# (?:FAIL|ERROR|XPASS): +[1-9]",
    r"^FAIL: \S+",
    r"^# of unexpected failures[ \t]+[1-9]",
    r"^ *Timeout: +[1-9]\d*$",
    # JUnit, Maven, Gradle, sbt, .NET
    r"Tests run: \d+, +Failures: [1-9]",
    r"Tests run: \d+, +Failures: \d+, +Errors: [1-9]",
    r"\bBUILD (?:FAILURE|FAILED)\b",
    r"^Build FAILED",
    r"^\d+ tests completed, [1-9]\d* failed",
    r"^> Task \S+ FAILED",
    r"^FAILURE: Build failed",
    r"\b(?:Failed|Error): Total \d+, Failed \d+, Errors \d+",
    r"\*\*\* [1-9]\d* (?:TESTS?|SUITES?) (?:FAILED|ABORTED) \*\*\*",
    r"Tests: succeeded \d+, failed [1-9]",
    r"^\[ *[1-9]\d* tests failed *\]",
    r"sbt\.TestsFailedException",
    r"^(?:Failed!|Test Run Failed)",
    r"^Test summary: total: \d+, failed: [1-9]",
    r"^ *Overall result: Failed",
    r"(?:Test Count|Total): \d+, (?:.*, )?Failed: [1-9]",
    # PHP
    r"^(?:FAILURES|ERRORS)!$",
    r"^Tests: \d+, Assertions: \d+, (?:Errors|Failures): [1-9]",
    # Haskell, OCaml, Erlang, Elm, R, Julia, Nim
    r"^Test suite \S+: FAIL",
    r"^Test suite failure for ",
    r"^(?P<ran>\d+) of (?!(?P=ran) )\d+ test suites? \(",
    r"^ *\*\*\* (?:Failed!|Gave up!)",
    r"^Cases: \d+ +Tried: \d+ +(?:Errors: [1-9]|Errors: \d+ +Failures: [1-9])",
    r"^ *Failed:? [1-9]\d*(?:\.| tests?\b)",
    r"^TEST RUN FAILED",
    r"^\[ FAIL [1-9]",
    r"Some tests did not pass:",
    r"^ *\[FAILED\]",
    # make, ninja, npm, yarn, pnpm
    r"^\S*make(?:\[\d+\])?: \*\*\* (?!.*\(ignored\))",
    r"^ninja: build stopped",
    r"^npm (?:ERR!|error) ",
    r"^error Command failed with exit code",
    r"\bELIFECYCLE\b",
    # compilers and checkers
    r"\berror TS\d+: ",
    r"^Found [1-9]\d* errors?\b(?! \(\d+ fixed, 0 remaining\))",
    r"^[1-9]\d* errors?, \d+ warnings?",
    r"^[1-9]\d* (?:errors? generated|warnings? and [1-9]\d* errors? generated)",
    r"✖ \d+ problems? \([1-9]",
    # a shell's own word
    r"^(?:Exit [Cc]ode|exit code|Exit status):? [1-9]\d*\s*$",
    r"^Process exited with code [1-9]",
)
"""A summary, or a line of one, that says so."""

_PASSED: Final = _any(
    r"^=* ?[1-9]\d* passed\b.* in \d",
    r"^ *\d+ (?:doctests?, \d+ )?(?:tests?|specs?|examples?|runs?)"
    r"(?:, \d+ (?:assertions?|expectations?))?, 0 failures?\b",
    r"^[1-9]\d* (?:features?|scenarios?) passed, 0 failed",
    r"^[1-9]\d* scenarios? \([1-9]\d* passed\)$",
    r"^[1-9]\d* tests?, [1-9]\d* passed, 0 failed",
    r"^0 failures, 0 errors\.",
    r"^ *[1-9]\d* success(?:es)? / 0 failures / 0 errors",
    rf"{_LEAD}[1-9]\d* tests? passed(?:, 0 failed\b.*)?$",
    rf"{_LEAD}[1-9]\d* passed(?: \([\d.]+m?s\))?(?:[;,] 0 (?:skipped|failed)[;,.]?)*$",
    r"All (?:\d+ )?(?:specs|tests) (?:passed|successful)",
    r"^Result: PASS$",
    r"^OK(?: \(.*\))?$",
    r"^OK, but ",
    r"^PASSED \(successes=",
    r"^ *congratulations :\)",
    r"^nox > Session \S+ was successful",
    r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))",
    r"^ok \| [1-9]\d* passed",
    r"^DONE [1-9]\d* tests?(?:, \d+ skipped)? in ",
    r"^PASS$",
    r"^test result: ok\. [1-9]",
    r"^[ \t]*Summary \[.*\b[1-9]\d* passed",
    r"^Suite result: ok\.",
    r"\b[1-9]\d* tests? passed, 0 failed, \d+ skipped \(",
    r"^[ \t]*Tests:?[ \t]+(?:.*\b)?[1-9]\d* passed",
    r"^[ \t]*[1-9]\d* passing\b",
    r"^(?:#|ℹ) pass +[1-9]",
    r"^ *[1-9]\d* pass$",
    r"\bExecuted (?P<done>\d+) of (?P=done) .*SUCCESS",
    r"^TOTAL: [1-9]\d* SUCCESS$",
    r"^\d\d:\d\d \+[1-9]\d*(?: ~\d+)?: All tests passed!",
    r"\bExecuted [1-9]\d* tests?, with 0 failures",
    r"Test run with [1-9]\d* tests?(?: in \d+ suites?)? passed",
    r"^\*\* (?:TEST|BUILD)(?: EXECUTE)? SUCCEEDED \*\*",
    r"^Executed \d+ out of \d+ tests?: [1-9]\d* tests? pass(?:es)?\.",
    r"^INFO: Build completed successfully",
    r"^scons: done building targets",
    r"^Build Summary: (?P<steps>\d+)/(?P=steps) steps succeeded",
    r"^100% tests passed",
    r"^\[  PASSED  \] [1-9]",
    r"^\[doctest\] Status: SUCCESS",
    r"^\*\*\* No errors detected",
    r"Synthesis: .*Failing: 0 \| Crashing: 0",
    r"^100%: Checks: [1-9]",
    r"^[1-9]\d* Tests 0 Failures ",
    r"^Fail: +0$",
    r"^# FAIL: +0$",
    r"\bBUILD (?:SUCCESS|SUCCESSFUL)\b",
    r"^(?:\[success\]|Build succeeded\.)",
    r"\bPassed: Total [1-9]\d*, Failed 0, Errors 0",
    r"^(?:Passed!|Test Run Successful)",
    r"^Test summary: total: [1-9]\d*, failed: 0",
    r"^\d+ examples?, 0 failures",
    r"^(?P<ran>\d+) of (?P=ran) test suites? \(",
    r"^Test suite \S+: PASS",
    r"^Cases: \d+ +Tried: \d+ +Errors: 0 +Failures: 0",
    r"^ *Test Successful in ",
    r"^TEST RUN PASSED",
    r"^\[ FAIL 0 .*PASS [1-9]",
    r"^\d+ files? inspected, no offenses detected",
    r"^(?:Success: no issues found|All checks passed!|0 errors, )",
)
_ENDED: Final = re.compile(r"[\w.:]*(?:Error|Exception|Exit|Interrupt|Expired)(?:: .*)?\s*$")
"""An exception in the last line: nothing came after it."""
_BROKEN: Final = _any(
    r"^Traceback \(most recent call last\)",
    r"^(?:E   +)?\w*(?:Error|Exception)(?:: |$)",
    r"^E {2,}\S",
    r"^panic: ",
    r"^thread '.*' \(?.*panicked at",
    r"^(?:\S+:\d+(?::\d+)?: )?(?:fatal )?error(?:\[\w+\])?: ",
    r"(?:command not found|No such file or directory|Permission denied)[ \t]*$",
)
"""Signs of a run that broke off; a summary that says otherwise is believed."""


def result_of(text: str) -> Result | None:
    """Return the result that an output speaks of, None for one that speaks of none."""
    text = _LABELS.sub("", _COLOURS.sub("", text[-_READ:]))
    # A progress bar writes over its own line.
    lines = [line[:_LONGEST_LINE] for line in text.replace("\r", "\n").split("\n") if line.strip()]
    latest = dict.fromkeys(reversed(lines))
    telling = "\n".join([line for line in latest if _TELLING.search(line)][:_MOST_LINES])
    if _FAILED.search(telling):
        return "failed"
    if _PASSED.search(telling):
        return "passed"
    if lines and _ENDED.match(lines[-1]):
        return "failed"
    return "broken" if _BROKEN.search("\n".join(lines)) else None


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
