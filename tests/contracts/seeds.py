"""The four seed documents, read afresh: the pure schemas and the examples they print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contracts import notation, typescript
from tests.contracts.markdown import fences, sections

Schema = dict[str, Any]

# The fuzz seed titles its examples by what they do and leaves the tool to the reader.
_FUZZ_EXAMPLES = {
    "Example 1: Read Last 50 Events": "read_logs",
    "Example 2: Inject Transaction Sequence": "inject_transaction",
    "Example 3: Prioritize Transfer Function": "prioritize_function",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A request or an answer that a seed prints for one of its tools."""

    toolset: str
    tool: str
    side: str
    value: Any


def schemas(folder: Path) -> dict[str, Schema]:
    """Return every pure seed schema by `<toolset>/<tool>.<input|output>`."""
    return {
        **_backtest(_page(folder, "000")),
        **_fuzz(_page(folder, "001")),
        **_codegraph(_page(folder, "003")),
        **_trading(_page(folder, "004")),
    }


def examples(folder: Path) -> list[Example]:
    """Return every example that a seed prints for a tool, in order."""
    return [
        *_backtest_examples(_page(folder, "000")),
        *_fuzz_examples(_page(folder, "001")),
        *_codegraph_examples(_page(folder, "003")),
    ]


def _page(folder: Path, number: str) -> str:
    (file,) = folder.glob(f"{number}_*.txt")
    return file.read_text("utf-8")


def _json(section: str) -> list[Any]:
    return [json.loads(block) for block in fences(section, "json")]


def _backtest_tools(page: str) -> Iterator[tuple[str, dict[str, str]]]:
    for title, section in sections(page, 2).items():
        if named := re.fullmatch(r"Tool \d+: (\w+)", title):
            yield named[1], sections(section, 3)


def _backtest(page: str) -> dict[str, Schema]:
    common = sections(sections(page, 2)["Common Types"], 3)
    known = {name: notation.shape(_json(section)[0]) for name, section in common.items()}
    known["EventEntity"] = known["EventQueryResult"]["properties"]["events"]["items"]
    known["EventType"] = known["EventEntity"]["properties"]["eventType"]
    found: dict[str, Schema] = {}
    for tool, parts in _backtest_tools(page):
        found[f"backtest/{tool}.input"] = notation.parameters(_json(parts["Parameters"])[0])
        found[f"backtest/{tool}.output"] = {"$schema": notation.DRAFT_07, **_returns(parts["Returns"], known)}
    return found


def _returns(section: str, known: dict[str, Schema]) -> Schema:
    if blocks := _json(section):
        return notation.shape(blocks[0], known)
    named = re.match(r"\s*`(\w+)`", section)
    assert named, section
    return known[named[1]]


def _backtest_examples(page: str) -> Iterator[Example]:
    for tool, parts in _backtest_tools(page):
        for title, side in (("Example Request", "input"), ("Example Response", "output")):
            if title in parts:
                yield Example("backtest", tool, side, _json(parts[title])[0])


def _fuzz(page: str) -> dict[str, Schema]:
    chapters = sections(page, 2)
    inputs = sections(chapters["Tool Input Schemas"], 3)
    outputs = sections(chapters["Tool Output Schemas"], 3)
    found: dict[str, Schema] = {}
    for tool, section in inputs.items():
        found[f"fuzz/{tool}.input"] = _json(section)[0]
        found[f"fuzz/{tool}.output"] = _json(outputs[f"{tool} (output)"])[0]
    return found


def _fuzz_examples(page: str) -> Iterator[Example]:
    for title, section in sections(sections(page, 2)["Usage Examples"], 3).items():
        request, response = _json(section)
        yield Example("fuzz", _FUZZ_EXAMPLES[title], "input", request)
        yield Example("fuzz", _FUZZ_EXAMPLES[title], "output", response)


def _codegraph(page: str) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for title, section in sections(sections(page, 2)["MCP Tool Schemas"], 3).items():
        tool = title.strip("`")
        found[f"codegraph/{tool}.input"], found[f"codegraph/{tool}.output"] = _json(section)
    return found


def _codegraph_examples(page: str) -> Iterator[Example]:
    chapter = sections(page, 2)["Canonical `etg_log_event` Payloads"]
    kinds = re.findall(r"^- \*\*`(\w+)`:\*\*$", chapter, flags=re.M)
    for kind, body in zip(kinds, _json(chapter), strict=True):
        # The page prints the payload alone; the envelope around it is its own rule.
        yield Example(
            "codegraph", "etg_log_event", "input", {"attempt_id": "attempt123", "kind": kind, **body}
        )


def _trading(page: str) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for block in fences(sections(page, 2)["Core Trading Tools"], "typescript"):
        tool, found_input, found_output = typescript.signature(block)
        found[f"trading/{tool}.input"] = found_input
        found[f"trading/{tool}.output"] = found_output
    return found
