"""Patterns of .gitignore files: what git says they mean, in bounded time, within bounds."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracedesk.codegraph.graph.ignore import Ignore, builtin
from tracedesk.codegraph.graph.patterns import LONGEST_PATTERN, MOST_CHARACTERS, MOST_PATTERNS, rules_of


def ignoring(text: str) -> Ignore:
    return Ignore(lambda path: text if path == ".gitignore" else None)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 12 + "*b", "a" * 250),
        ("*a" * 400 + "*b", "a" * 250),
        ("*" * 900 + "b", "a" * 250),
        ("?*" * 120 + "b", "a" * 250),
        ("[ab]*" * 150 + "c", "ab" * 120),
        ("/".join(["**", "a"] * 12) + "/b", "/".join("a" * 60)),
        ("/".join(["**", "a"] * 200) + "/b", "/".join("a" * 1_000)),
        ("**/" + "/".join(["*a*a"] * 60) + "/b", "/".join(["aaaa"] * 500)),
        ("x/**/" + "*a?" * 60 + "b", "x/" + "/".join(["a" * 255] * 15)),
    ],
)
def test_no_pattern_costs_more_than_its_length_times_the_paths(pattern: str, path: str) -> None:
    ignore = ignoring(pattern)
    began = time.process_time()
    assert not ignore.says(path, "")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("*a*a*a*b", "a" * 60 + "b"), ("**/a/**/a/**/b", "a/x/y/a/z/b"), ("a*b*c", "a" + "bc" * 40)],
)
def test_patterns_with_many_stars_still_match(pattern: str, path: str) -> None:
    assert ignoring(pattern).says(path, "")


# --- against a matcher that tries everything

_PIECES = ["a", "b", "*", "**", "***", "?", "[ab]", "[!a]", "[a-b]", "ab"]
_SEGMENT = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4).map("".join)
_PATTERN = st.lists(st.one_of(_SEGMENT, st.just("**")), min_size=1, max_size=5).map("/".join)
_PATH = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=6).map("/".join)


def _name_matches(pattern: str, name: str) -> bool:
    """By trying every length for every star."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_name_matches(pattern[1:], name[at:]) for at in range(len(name) + 1))
    if not name:
        return False
    if pattern[0] == "[":
        inside, _, rest = pattern[1:].partition("]")
        wanted = {"ab": "ab", "a-b": "ab", "!a": "bc"}[inside]
        return name[0] in wanted and _name_matches(rest, name[1:])
    return pattern[0] in ("?", name[0]) and _name_matches(pattern[1:], name[1:])


def _path_matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """By trying every number of folders for every `**`."""
    if not pattern:
        return not path
    if len(pattern[0]) > 1 and set(pattern[0]) == {"*"}:
        if len(pattern) == 1:
            return bool(path)
        return any(_path_matches(pattern[1:], path[at:]) for at in range(len(path) + 1))
    return bool(path) and _name_matches(pattern[0], path[0]) and _path_matches(pattern[1:], path[1:])


@settings(max_examples=400, deadline=None)
@given(_PATTERN, _PATH)
def test_a_pattern_matches_what_trying_everything_would_match(pattern: str, path: str) -> None:
    names = path.split("/")
    parts = pattern.split("/")
    if len(parts) == 1:  # the last name alone counts, and `**` is any name
        parts, names = [pattern], names[-1:]
    wanted = _path_matches(parts, names)
    assert (rules_of([pattern])[0].verdict(path) is True) == wanted


# --- against git

_WORDS = st.sampled_from(
    ["a", "b", "*", "?", "a*", "*.py", "**", "***", "[ab]", "[!a]", "[^b]", "[]a]", "[a-", "[z-a]",
     "[[:alpha:]]", "[[:nope:]]", "[a\\]]", "dir", "A", "\\#h", "\\!n", "b\\ c", "e\\ ", "a**b", "\\a",
     "d[i]r", "#h", "a\\", "*a*b*"]
)  # fmt: skip
_LINE = st.tuples(
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(_WORDS, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "", "/", "  ", "\t", "\r", "\f", "\u2028"]),
).map("".join)
_LINES = st.lists(_LINE, max_size=5).map("\n".join)
_NAMES = ["a", "b", "ab", "A", "x.py", "b c", "e ", "#h", "!n", "dir", "a]", "axb"]


@cache
def _tree(root: Path) -> list[str]:
    """Every name three folders deep, half of them folders."""
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, capture_output=True)
    found = list(_NAMES[5:])
    for top in ("a", "b", "dir"):
        found += [f"{top}/{name}" for name in _NAMES[2:]]
        found += [f"{top}/{folder}/{name}" for folder in ("a", "b") for name in _NAMES[::2]]
    files = [name for name in found if name != "dir"]
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return files


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")


@settings(max_examples=150, deadline=None)
@given(_LINES, _LINES)
def test_every_path_is_ignored_exactly_when_git_ignores_it(repository: Path, top: str, below: str) -> None:
    files = _tree(repository)
    texts = {".gitignore": top, "a/.gitignore": below}
    for name, text in texts.items():
        (repository / name).write_bytes(text.encode())
    asked = ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"]
    said = subprocess.run(asked, cwd=repository, input="\0".join(files), capture_output=True, text=True)
    assert said.returncode in (0, 1), said.stderr
    ignore = Ignore(texts.get)
    ours = {name for name in files if ignore.verdict(name) == "ignored"}
    assert ours == set(said.stdout.split("\0")) - {""}


# --- bounds


def test_more_patterns_than_the_bound_are_left_out_with_a_warning() -> None:
    ignore = ignoring("\n".join(f"*x{n}-*y" for n in range(20_000)))
    began = time.process_time()
    assert ignore.says("x0-y", "")
    assert time.process_time() - began < 5
    assert not ignore.says(f"x{MOST_PATTERNS}-y", "")
    assert f"{20_000 - MOST_PATTERNS} patterns of" in ignore.warnings[0]


def test_long_patterns_and_long_files_are_bounded_too() -> None:
    ignore = ignoring(f"{'a' * (LONGEST_PATTERN + 1)}\nb\n")
    assert ignore.says("b", "")
    assert len(ignore.warnings) == 1
    many = [f"{'c' * 400}{n:04}" for n in range(MOST_CHARACTERS // 400)]
    _, left_out = rules_of(["\n".join(many)])
    assert 0 < left_out < len(many) // 10


def test_an_ordinary_file_has_no_warning() -> None:
    ignore = ignoring("# built\n*.o\nbuild/\n!keep.o\n")
    assert ignore.says("x.o", "")
    assert not ignore.says("keep.o", "")
    assert ignore.warnings == []


def test_folders_of_secrets_are_known_in_any_case() -> None:
    assert builtin(".SSH/config") == "secret"
    assert builtin("home/.Aws/config.py") == "secret"
    assert builtin(".Kube") == "secret"
