"""Sources that are made to be slow to read: the work of each reader grows as the text does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tracedesk.fuzz import braces, imports, indents, literals, pragma

SIZE = 1 << 18
SECONDS = 6.0
"""Of processor time; a reader that reads a text again for each of its words takes hours."""

TEXTS = {
    "a string that is not closed": '"' + '\\"' * (SIZE // 2),
    "a short string that is not closed": "'" + "\\'" * (SIZE // 2),
    "contracts without a body": "contract a " * (SIZE // 11),
    "a name without an end": "contract " + "a" * SIZE,
    "pragmas without an end": "pragma solidity " * (SIZE // 16),
    "a pragma of one word": f"pragma solidity {'a' * SIZE};",
    "functions without a body": "function a " * (SIZE // 11) + ";",
    "loops of assembly without a block": "contract A{function f(){" + "for a " * (SIZE // 6) + "}}",
    "one statement": "contract A{function f(){" + "if(a) x " * (SIZE // 8) + "}}",
    "loops that never begin": "function f(){" + "do " * (SIZE // 3),
    "loops that never close": "function f(){" + "for(" * (SIZE // 4),
    "conditions in conditions": "contract A{function f(){" + "if(a) " * (SIZE // 6) + "}}",
    "a condition at the end": "function f(){ if",
    "contracts": "contract A{function f(){}}" * (SIZE // 26),
    "an import of comments": f'import "{"/*" * (SIZE // 2)}\n;',
}
READERS: dict[str, Callable[[str], Any]] = {
    "imports": imports.imports,
    "pragmas": lambda text: pragma.pragmas(braces.hidden(text)),
    "contracts": lambda text: braces.has_contract(braces.hidden(text)),
    "outline": braces.outline,
    "literals": lambda text: literals.find([("solidity", text), ("vyper", text)]),
    "vyper": indents.hidden,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_source_is_read_in_a_moment_by_every_reader(name: str) -> None:
    for reader, read in READERS.items():
        began = time.process_time()
        read(TEXTS[name])
        assert time.process_time() - began < SECONDS, reader


def test_what_is_not_closed_is_hidden_to_the_end_of_its_line() -> None:
    assert braces.hidden('a = "b\nc') == "a =   \nc"
    assert indents.hidden("a = 'b\nc") == "a =   \nc"
    assert pragma.pragmas(braces.hidden("pragma solidity 0.8.1 - 0.8.9;"))[0].allows((0, 8, 5))
