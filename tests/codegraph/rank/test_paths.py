from __future__ import annotations

import pytest

from tracedesk.codegraph.rank.paths import is_test, speaks_of_tests


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_basket.py",
        "test/run.js",
        "testing/python/collect.py",
        "t/unit/app.py",
        "js_tests/admin/core.js",
        "packages/core/src/tools/grep.test.ts",
        "packages/core/__tests__/a.ts",
        "src/a.spec.tsx",
        "pkg/store_test.go",
        "django/conftest.py",
        "src/test/../tests/x.py",
        "contracts/Token.t.sol",
        "src/main/FooTest.java",
    ],
)
def test_a_test_is_known_by_its_place_or_its_name(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize(
    "path",
    ["django/test/client.py", "src/latest.py", "shop/basket.py", "src/contest/rules.ts", "t.py", "spec.py"],
)
def test_code_that_only_sounds_like_a_test_is_none(path: str) -> None:
    assert not is_test(path)


@pytest.mark.parametrize("query", ["add a test for totals", "Tests fail", "untested branch", "fixture scope"])
def test_a_question_can_ask_for_tests(query: str) -> None:
    assert speaks_of_tests(query)


@pytest.mark.parametrize("query", ["the latest price", "contest rules", "attest the key"])
def test_a_question_with_a_like_word_does_not(query: str) -> None:
    assert not speaks_of_tests(query)
