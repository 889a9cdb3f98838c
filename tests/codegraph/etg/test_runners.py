"""Outputs of test runners: one that speaks of failures is no success, whatever its pipe's exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.codegraph.etg.bench import Bench
from tests.codegraph.etg.summaries import FAILING, PASSING, SILENT
from tracedesk.codegraph.etg.commands import hides_status, is_check, is_read
from tracedesk.codegraph.etg.runners import output_of, result_of
from tracedesk.primitives import json

FAILED: Final = {
    "pytest": "E       assert 1 == 2\n=== short test summary info ===\nFAILED t.py::test_a - assert 1 == 2\n"
    "========= 1 failed, 2 passed in 0.12s =========",
    "pytest -q": "1 failed in 0.02s",
    "pytest errors": "ERROR tests/test_basic.py\n!!!!! Interrupted: 1 error during collection !!!!!",
    "pytest conftest": "ImportError while loading conftest '/r/conftest.py'.",
    "unittest": "Ran 3 tests in 0.001s\n\nFAILED (failures=1)",
    "go": "--- FAIL: TestA (0.00s)\nFAIL\texample.org/a\t0.002s\nok  \texample.org/b\t0.001s",
    "go build": "# example.org/a\n./a.go:3:5: undefined: x\nFAIL\texample.org/a [build failed]",
    "cargo": "failures:\n    tests::a\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored",
    "cargo build": "error[E0425]: cannot find value `x`\nerror: could not compile `a` (bin)",
    "nextest": "     Summary [   0.012s] 3 tests run: 2 passed, 1 failed, 0 skipped",
    "jest": "FAIL src/a.test.ts\nTests:       1 failed, 4 passed, 5 total\nTime: 1 s",
    "vitest": " Test Files  1 failed | 3 passed (4)\n      Tests  1 failed | 9 passed (10)",
    "mocha": "  3 passing (12ms)\n  1 failing\n\n  1) adds",
    "node": "# tests 2\n# pass 1\n# fail 1\n# cancelled 0",
    "tap": "ok 1 - a\nnot ok 2 - b\n1..2",
    "ctest": "50% tests passed, 1 tests failed out of 2\n\nThe following tests FAILED:\n\t  2 - b (Failed)",
    "maven": "[ERROR] Tests run: 4, Failures: 0, Errors: 1, Skipped: 0\n[INFO] BUILD FAILURE",
    "gradle": "3 tests completed, 1 failed\n\nBUILD FAILED in 2s",
    "phpunit": "FAILURES!\nTests: 3, Assertions: 5, Failures: 1.",
    "rspec": "Finished in 0.01 seconds\n3 examples, 1 failure\n\nrspec ./a_spec.rb:3",
    "make": "cc -c a.c\na.c:1:1: error: unknown type name 'x'\nmake: *** [Makefile:3: a.o] Error 1",
    "tsc": "src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.",
    "mypy": "a.py:1: error: Name 'x' is not defined  [name-defined]\nFound 1 error in 1 file",
    "pyright": "3 errors, 0 warnings, 0 informations",
    "eslint": "✖ 2 problems (1 error, 1 warning)",
    "forge": "Suite result: FAILED. 1 passed; 1 failed; 0 skipped; finished in 1.00ms",
    "dotnet": "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3",
    "a shell's word": "Command: ./check\nOutput: (empty)\nExit Code: 4\nSignal: (none)",
    "coloured": "\x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m\x1b[31m in 0.05s\x1b[0m",
    "labelled": "Output: 1 failed, 2 passed in 0.05s",
}
PASSED: Final = {
    "pytest": "========= 12 passed, 1 skipped in 0.12s =========",
    "pytest, a name that fails": "tests/test_failed.py::test_error PASSED\n3 passed, 1 xfailed in 0.10s",
    "unittest": "Ran 3 tests in 0.001s\n\nOK",
    "go": "ok  \texample.org/a\t0.002s\nok  \texample.org/b\t(cached)",
    "cargo": "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
    "jest": "Tests:       5 passed, 5 total",
    "vitest": " Test Files  4 passed (4)\n      Tests  10 passed (10)",
    "mocha": "  3 passing (12ms)",
    "node": "# tests 2\n# pass 2\n# fail 0",
    "ctest": "100% tests passed, 0 tests failed out of 2",
    "maven": "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS",
    "gradle": "BUILD SUCCESSFUL in 2s",
    "phpunit": "OK (3 tests, 5 assertions)",
    "rspec": "3 examples, 0 failures",
    "mypy": "Success: no issues found in 3 source files",
    "a log of errors in a run that passed": "ValueError: expected, and caught\n4 passed in 0.10s",
}
PIPES: Final = (
    "| tail -5",
    "| head -50",
    "| tee out.txt",
    "| grep -i test",
    "|| true",
    "; true",
    "; echo done",
)


@pytest.mark.parametrize("runner", FAILED)
def test_an_output_that_speaks_of_failures_is_a_failure(runner: str) -> None:
    assert result_of(FAILED[runner]) == "failed"


@pytest.mark.parametrize("runner", PASSED)
def test_an_output_that_says_that_all_passed_is_a_pass(runner: str) -> None:
    assert result_of(PASSED[runner]) == "passed"


def test_no_runner_that_failed_is_a_success_in_a_pipe_and_none_that_passed_a_failure(bench: Bench) -> None:
    wrong: list[str] = []
    for number, (wanted, command, output) in enumerate(
        [("failed", *each) for each in FAILING]
        + [("succeeded", *each) for each in PASSING]
        + [("", *each) for each in SILENT]
    ):
        name = f"a{number}"
        bench.start(name, "Bash", {"command": f"{command} 2>&1 | tail -5"}, call_id=name)
        bench.log(name, "tool_end", {"tool": "Bash", "status": "ok", "output": output}, call_id=name)
        bench.log(name, "answer_rendered", {"content": "Done."})
        verdict = bench.view(name).brief.verdict
        is_right = verdict.outcome == wanted if wanted else verdict.outcome != "failed"
        if not is_right or (wanted and verdict.confidence < 0.8):
            wrong.append(f"{command}: {output!r} is {verdict.outcome} {verdict.confidence}")
    assert wrong == []


def seconds_to_judge(command: str) -> float:
    best = float("inf")
    for _ in range(2):
        begin = time.thread_time()
        for judge in (is_check, is_read, hides_status):
            judge(command)
        best = min(best, time.thread_time() - begin)
    return best


@pytest.mark.parametrize("unit", ["\n", "1", "sh -", '\\"', "'\"", "-a ", " ", "a=b ", "|", "{ "])
def test_an_odd_command_takes_time_in_proportion_to_its_length(unit: str) -> None:
    small, large = (f"pytest bash {unit * (size // len(unit))}x" for size in (1 << 11, 1 << 15))
    # Sixteen times the text: linear work takes 16 times as long, quadratic 256 times.
    assert seconds_to_judge(large) <= 80 * max(seconds_to_judge(small), 0.001)


@pytest.mark.parametrize(
    "line",
    [
        "",
        " ",
        "! " + "1" * 2_000,
        "1 a " * 500,
        "1 a" + " " * 2_000 + "fail",
        "Tests: 1 fail " * 140,
        "x" + "." * 400 + "Failedx",
    ],
)
def test_an_output_of_nothing_but_odd_lines_is_read_at_once(line: str) -> None:
    began = time.process_time()
    result_of(f"{line}\n" * (200_000 // (len(line) + 1)))
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", None),
        ("collected 3 items", None),
        ("0 failed, 0 errors", None),
        ("E   ModuleNotFoundError: No module named 'flask'", "broken"),
        ("Traceback (most recent call last):\n  File 'a.py'", "broken"),
        ("bash: pytest: command not found", "broken"),
    ],
)
def test_an_output_without_a_summary_says_nothing_or_that_the_run_broke(
    text: str, result: str | None
) -> None:
    assert result_of(text) == result


def test_an_output_is_read_wherever_its_client_puts_it() -> None:
    told = json.dumps({"stdout": "3 tests\n1 failed in 0.1s", "stderr": "", "interrupted": False}).decode()
    for payload in (
        {"output": told},
        {"result": {"content": [{"text": "1 failed in 0.1s"}]}},
        {"stdout": "", "stderr": "1 failed in 0.1s"},
    ):
        assert result_of(output_of({"tool": "Bash", "status": "ok", **payload})) == "failed"
    assert output_of({"tool": "x", "status": "ok", "query": "1 failed in 0.1s"}) == ""


@pytest.mark.parametrize("pipe", PIPES)
def test_a_pipe_or_what_comes_after_hides_the_status_of_a_test(pipe: str) -> None:
    assert hides_status(f"cd a && python -m pytest -q 2>&1 {pipe}")
    assert hides_status(f"bash -lc 'make test {pipe}'")


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q 2>&1",
        "cat a | pytest -",
        "cd a; pytest -q",
        "pytest && echo ok",
        "set -o pipefail; pytest | tail -3",
        "set -e; make; make test; echo done",
        "pytest -k 'a | b'",
        "make test > out.txt 2>&1;",
    ],
)
def test_other_commands_have_the_status_of_their_test(command: str) -> None:
    assert is_check(command)
    assert not hides_status(command)


def test_what_only_reads_tests_is_no_test() -> None:
    for command in (
        "cat tests/a.py",
        "git commit -m 'fix build'",
        "grep -rn test . | head",
        "ls test; cd build",
    ):
        assert not is_check(command), command
        assert is_read(command), command


# --- what becomes of an attempt ------------------------------------------------------------------


def _outcome(bench: Bench, command: str, output: object, status: str = "ok") -> tuple[str, float]:
    bench.start("a", "Bash", {"command": command}, call_id="1")
    bench.log("a", "tool_end", {"tool": "Bash", "status": status, "output": output}, call_id="1")
    bench.log("a", "answer_rendered", {"content": "Done."})
    verdict = bench.view("a").brief.verdict
    return verdict.outcome, verdict.confidence


@pytest.mark.parametrize("pipe", ["", *PIPES])
def test_a_failed_test_in_a_pipe_is_never_a_success(bench: Bench, pipe: str) -> None:
    assert _outcome(bench, f"pytest -q 2>&1 {pipe}", FAILED["pytest"]) == ("failed", 0.8)
    assert bench.view("a").brief.failed_tools == ("Bash",)


def test_a_run_that_broke_in_a_pipe_is_a_failure(bench: Bench) -> None:
    output = "E   ModuleNotFoundError: No module named 'flask'"
    assert _outcome(bench, "python3 -m pytest -q tests/test_basic.py 2>&1 | tail -5", output) == (
        "failed",
        0.8,
    )


def test_a_pipe_whose_output_says_nothing_is_unknown_and_one_that_passed_a_success(bench: Bench) -> None:
    assert _outcome(bench, "pytest -q | tail -1", "") == ("unknown", 0.0)
    bench.clock.advance(1)
    assert _outcome(bench, "pytest -q | tail -1", PASSED["pytest"]) == ("succeeded", 0.8)


def test_an_exit_code_in_an_answer_counts_though_its_client_says_ok(bench: Bench) -> None:
    assert _outcome(bench, "./check.sh", FAILED["a shell's word"])[0] == "failed"


def test_a_script_that_runs_tests_is_judged_by_its_output_and_a_reader_is_not(bench: Bench) -> None:
    assert _outcome(bench, "./run.sh | tail", FAILED["cargo"]) == ("failed", 0.8)
    bench.clock.advance(1)
    bench.start("b", "Bash", {"command": "cat log.txt"}, call_id="2")
    bench.log("b", "tool_end", {"tool": "Bash", "status": "ok", "output": FAILED["go"]}, call_id="2")
    assert bench.view("b").brief.failed_tools == ()


def test_the_end_of_a_very_long_output_counts(bench: Bench) -> None:
    output = "." * 300_000 + "\n1 failed, 2 passed in 0.05s"
    assert _outcome(bench, "pytest -q | tee out", output) == ("failed", 0.8)


def test_an_answer_that_speaks_of_failing_tests_is_no_success(bench: Bench) -> None:
    bench.start("a", "Edit", {"file_path": "a.py"})
    bench.end("a", "Edit")
    bench.log("a", "answer_rendered", {"content": "The tests still fail; I could not find out why."})
    verdict = bench.view("a").brief.verdict
    assert (verdict.outcome, verdict.shown) == ("unknown", "unclear")


# --- real runners --------------------------------------------------------------------------------

_PROJECTS: Final = {
    "pytest": ({"test_a.py": "def test_a():\n    assert {good}\n"}, f"{sys.executable} -m pytest -q"),
    "unittest": (
        {
            "test_a.py": "import unittest\n\nclass A(unittest.TestCase):\n    def test_a(self):\n"
            "        self.assertTrue({good})\n"
        },
        f"{sys.executable} -m unittest",
    ),
    "node": (
        {
            "a.test.mjs": "import test from 'node:test'; import assert from 'node:assert';\n"
            "test('a', () => assert({small}));\n"
        },
        "node --test",
    ),
    "go": (
        {
            "go.mod": "module example.org/a\n\ngo 1.20\n",
            "a_test.go": 'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) {{\n'
            '\tif !{small} {{\n\t\tt.Fatal("no")\n\t}}\n}}\n',
        },
        "go test ./...",
    ),
    "cargo": (
        {
            "Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "#[test]\nfn a() {{\n    assert!({small});\n}}\n",
        },
        "cargo test --offline",
    ),
    "make": ({"Makefile": "test:\n\t@test {good} = True\n\t@echo '1 passed in 0.1s'\n"}, "make test"),
}


@pytest.mark.judge
@pytest.mark.parametrize("runner", _PROJECTS)
def test_a_real_runner_in_any_pipe_is_judged_by_what_it_prints(runner: str, tmp_path: Path) -> None:
    files, command = _PROJECTS[runner]
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{runner} is not installed")
    for good in (True, False):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(good=good, small=str(good).lower()))
        for number, pipe in enumerate(("", *PIPES)):
            folder = tmp_path / f"{good}{number}"
            folder.mkdir()
            bench = Bench(folder)
            ran = _run(f"{command} 2>&1 {pipe}", tmp_path)
            found = _outcome(
                bench, f"{command} 2>&1 {pipe}", ran.stdout, "ok" if ran.returncode == 0 else "error"
            )
            bench.etg.close()
            # What grep or tail leave of it may say nothing, and grep fails by itself where it finds nothing.
            wanted = {"succeeded", "unknown", "failed"} if good else {"failed", "unknown"}
            assert found[0] in wanted, (pipe, ran.stdout)
            if pipe in ("", "|| true", "; true", "| tee out.txt"):
                assert found[0] == ("succeeded" if good else "failed"), (pipe, ran.stdout)


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = ("PATH", "HOME", "LANG", "CARGO_HOME", "RUSTUP_HOME", "GOCACHE", "GOPATH")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
