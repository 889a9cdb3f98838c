"""The official TypeScript clients, old and new, in both eras over every transport they speak."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.judges.support import JUDGES, command, package, run_node, server

pytestmark = pytest.mark.judge

_DRIVERS: Final = Path(__file__).parent / "typescript"


@dataclass(frozen=True, slots=True)
class Way:
    """One client, one transport, one era."""

    sdk: str
    transport: str
    era: str = "handshake"

    @property
    def name(self) -> str:
        return f"{self.sdk}-{self.transport}-{self.era}"

    @contextmanager
    def target(self, home: Path) -> Generator[str]:
        """What the driver is told to connect to; a desk of its own."""
        if self.transport == "stdio":
            yield json.dumps(command("stdio", home, "conformance"))
            return
        with server(home, "conformance") as desk:
            yield desk.sse if self.transport == "sse" else desk.mcp


WAYS: Final = (
    Way("v1", "stdio"),
    Way("v1", "http"),
    Way("v1", "sse"),
    Way("v2", "stdio"),
    Way("v2", "http"),
    Way("v2", "stdio", "modern"),
    Way("v2", "http", "modern"),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client reported, and the way it went."""

    way: Way
    report: dict[str, Any]

    def __getitem__(self, what: str) -> Any:
        return self.report[what]

    def text(self, what: str) -> str:
        return self.report[what]["content"][0]["text"]


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.name)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    way: Way = request.param
    package("@modelcontextprotocol", "sdk" if way.sdk == "v1" else "client")
    with way.target(tmp_path_factory.mktemp(way.name) / "home") as target:
        arguments = [way.transport, target, way.era]
        ran = run_node(str(_DRIVERS / f"{way.sdk}.mjs"), arguments, JUDGES=str(JUDGES))
    assert ran.code == 0, ran.err
    return Seen(way, json.loads(ran.out))


def test_the_era_is_agreed_and_the_desk_names_itself(seen: Seen) -> None:
    expected = "2026-07-28" if seen.way.era == "modern" else "2025-11-25"
    assert seen["version"] in (expected, None)
    assert seen["server"] == "tracedesk"


def test_the_tools_are_listed(seen: Seen) -> None:
    assert {"desk_status", "test_simple_text", "test_structured"} <= set(seen["tools"])


def test_a_call_answers_with_text_and_structure(seen: Seen) -> None:
    assert seen.text("text") == "This is a simple text response for testing."
    assert seen.text("structured") == '{"n":1.5}'
    assert seen["structured"]["structuredContent"] == {"n": 1.5}


def test_a_refusal_is_delivered_as_a_result_with_its_envelope(seen: Seen) -> None:
    for what, code in (("refusal", "INTENDED"), ("invalid", "INVALID_PARAMETER")):
        assert seen[what]["isError"] is True
        assert "structuredContent" not in seen[what]
        assert json.loads(seen.text(what))["error"]["code"] == code


def test_an_unknown_tool_is_a_protocol_error_with_the_envelope_as_data(seen: Seen) -> None:
    assert seen["unknown"]["code"] == -32602
    assert seen["unknown"]["data"]["error"]["code"] == "TOOL_NOT_FOUND"


def test_a_resource_is_read_and_a_missing_one_named(seen: Seen) -> None:
    assert json.loads(seen["resource"]["contents"][0]["text"])["id"] == "42"
    assert seen["missing"]["data"] == {"uri": "test://nothing"}


def test_a_prompt_is_filled_in(seen: Seen) -> None:
    (message,) = seen["prompt"]["messages"]
    assert message["content"]["text"] == "Prompt with arguments: arg1='one', arg2='two'"


def test_every_step_of_progress_arrives(seen: Seen) -> None:
    assert seen["progress"] == [1, 2, 3]


def test_questions_reach_the_user_and_their_answers_the_tool(seen: Seen) -> None:
    assert seen.text("elicited") == 'User response: action=accept, content={"response":"my response"}'
    assert seen.text("rounds") == "my name likes my color."


def test_a_cancelled_call_stops_in_the_desk(seen: Seen) -> None:
    assert seen["cancelled"] == {"cancelled": 1}


def test_a_subscriber_hears_that_its_resource_changed(seen: Seen) -> None:
    assert seen["changed"] == "test://watched-resource"
