"""Cheatcodes that the native core does not have: in words, and as the refusal of a deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.foreign import quoted
from tracedesk.fuzz.refusals import invalid

KIND: Final = "UNSUPPORTED_CHEATCODES"
_SKIPS: Final = frozenset(("skip(bool)", "skip(bool,string)"))
_SOME: Final = 12


def words(names: Sequence[str]) -> str:
    """Cheatcodes as people write them: `vm.readFile(string)`, or a selector that nobody knows."""
    shown = [name if name.startswith("0x") else f"vm.{name}" for name in names]
    more = f" and {len(shown) - _SOME} more" if len(shown) > _SOME else ""
    # They are selectors or names of our own table, never a stranger's words.
    return ", ".join(shown[:_SOME]) + more


def is_skip(names: Sequence[str]) -> bool:
    """Whether a test has no verdict only because it asked to be skipped, which the core reports alike."""
    return bool(names) and _SKIPS.issuperset(names)


def refusal(message: str, names: Sequence[str]) -> ToolError:
    """The refusal of a contract whose constructor or `setUp()` needs cheatcodes that are not there."""
    remedy = "Avoid them in what prepares the tests, or run these tests with forge."
    return invalid(KIND, f"contract: {message}. {remedy}", cheatcodes=list(names))


def warnings(functions: Iterable[Mapping[str, Any]], tests: frozenset[str]) -> list[str]:
    """A sentence for each handler some of whose calls could not be judged; `tests` have rows of their own."""
    why = "which is not supported here: sequences end there"
    return [
        f"{quoted(each['id'])} used {words(each['unsupported'])}, {why}."
        for each in functions
        if each.get("unsupported") and each["id"] not in tests
    ]
