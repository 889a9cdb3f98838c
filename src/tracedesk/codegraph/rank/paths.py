"""What a path says about a file: whether it is a test."""

from __future__ import annotations

import re
from typing import Final

_TEST_TOPS: Final = frozenset(("test", "testing", "t", "spec", "e2e"))
"""Folders of tests at the top of a project; further down they may be a package that helps with testing."""

_TEST_FOLDER: Final = re.compile(r"(?:.+[-_])?tests|__tests__|__mocks__|__fixtures__|fixtures|testdata")
_TEST_NAME: Final = re.compile(
    r"test_.+|conftest\.py|.+_test\.\w+|.+[.-](?:test|spec|bench)\.\w+|.+Tests?\.(?:java|cs|php|sol)|.+\.t\.sol"
)
_ABOUT_TESTS: Final = re.compile(
    r"\b(?:un)?test(?:s|ed|ing|case|suite)?\b|\bspecs?\b|\bfixtures?\b", re.IGNORECASE
)


def is_test(path: str) -> bool:
    """Whether the file tests others, by where it lies and what it is called."""
    *folders, name = path.split("/")
    if folders and folders[0].lower() in _TEST_TOPS:
        return True
    return bool(_TEST_NAME.fullmatch(name)) or any(_TEST_FOLDER.fullmatch(folder) for folder in folders)


def speaks_of_tests(query: str) -> bool:
    """Whether a question asks for tests."""
    return bool(_ABOUT_TESTS.search(query))
