"""An agent's session on the sample run: from a question about money to the reason of a rejected order."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import pytest

from tests.backtest.desks import Agent, agent
from tests.support import run
from tracedesk.backtest import sample
from tracedesk.home import Home
from tracedesk.primitives.tokens import count, method

MOST_CALLS: Final = 6
MOST_TOKENS: Final = 8_000
STRATEGY_QUESTION: Final = "Why did my strategy lose money in the run with the hedge?"
_WORDS: Final = re.compile(r"[\w$.:-]+")


class Invented(AssertionError):
    """An argument that nobody told the agent."""


def leaves(value: Any) -> list[Any]:
    """Every key and every plain value of a JSON document."""
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return [leaf for name, inner in found.items() for leaf in (name, *leaves(inner))]
    if isinstance(value, list):
        return [leaf for inner in cast("list[Any]", value) for leaf in leaves(inner)]
    return [value]


@dataclass(slots=True)
class Session:
    """An agent that may send only what the question, the tools' own lists or earlier answers hold."""

    desk: Agent
    question: str
    offered: dict[str, set[str]]
    """By tool, the values that its schema lists for the agent to choose from."""
    known: set[str] = field(default_factory=set[str])
    calls: list[str] = field(default_factory=list[str])
    tokens: int = 0

    def __post_init__(self) -> None:
        self.known |= set(_WORDS.findall(self.question.replace("?", " ")))
        self.tokens += count(self.question)

    async def ask(self, tool: str, **arguments: Any) -> Any:
        """The answer; its parts may be used from now on."""
        for name, value in arguments.items():
            for leaf in leaves(value):
                if str(leaf) not in self.known | self.offered[tool]:
                    raise Invented(f"{tool}: {name}={leaf!r}")
        text = await self.desk.text(tool, **arguments)
        answer = json.loads(text)
        self.known |= {str(leaf) for leaf in leaves(answer)}
        self.calls.append(tool)
        self.tokens += count(text) + count(json.dumps({"name": tool, "arguments": arguments}))
        return answer


async def begin(desk: Agent, question: str) -> Session:
    """A session that has read the list of tools and nothing else."""
    listed = (await desk.client.modern("tools/list")).json["result"]["tools"]
    return Session(desk, question, {tool["name"]: choices(tool["inputSchema"]) for tool in listed})


def choices(schema: Any) -> set[str]:
    """The values that a schema's enumerations offer."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        own = {str(value) for value in cast("list[Any]", node.get("enum", []))}
        return own.union(*(choices(inner) for inner in node.values()))
    if isinstance(schema, list):
        return set[str]().union(*(choices(inner) for inner in cast("list[Any]", schema)))
    return set()


def column(table: dict[str, Any], name: str) -> list[Any]:
    """One column of a table of events."""
    place = table["columns"].index(name)
    return [row[place] for row in table["rows"]]


def of_type(description: dict[str, Any], name: str) -> dict[str, Any]:
    """What describe_run tells of one event type."""
    return next(kind for kind in description["eventTypes"] if kind["eventType"] == name)


async def investigate(session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an agent does: which runs, what is in it, how much was lost, which orders failed, and why."""
    (chosen,) = (r for r in (await session.ask("list_backtest_runs"))["runs"] if "hedge" in r["name"])
    about = {"runId": chosen["runId"]}
    description = await session.ask("describe_run", **about)
    end = await session.ask("get_state_snapshot", **about, timestamp=description["run"]["end"])
    rejection = of_type(description, "OrderRejection")
    kind, paths = rejection["eventType"], [path[0] for path in rejection["paths"]]
    reason, size = (next(p for p in paths if p.endswith(n)) for n in ("RejectionReason", "Quantity"))
    groups = await session.ask(
        "aggregate_metrics", **about, eventType=kind, propertyPath=size, groupBy=reason
    )
    assert groups["groups"][0]["events"] == rejection["count"]
    page = await session.ask("get_events_by_type", **about, eventType=kind, format="table")
    first = column(page["tables"][0], "seq")[0]
    why = await session.ask("explain_event", **about, eventId=str(first))
    return end, why


def test_six_calls_lead_from_a_loss_to_the_rejected_orders_reason(tmp_path: Path) -> None:
    async def main() -> None:
        sample.bring_in(Home.open(tmp_path))
        async with agent(tmp_path) as desk:
            session = await begin(desk, STRATEGY_QUESTION)
            end, why = await investigate(session)
            assert session.calls[0] == "list_backtest_runs"
            assert len(session.calls) <= MOST_CALLS
            assert method() == "cl100k_base"
            assert session.tokens <= MOST_TOKENS
            assert end["state"]["pnl"]["total"] < 0
            assert "was rejected: «Insufficient margin" in why["summary"]
            assert [step["eventType"] for step in why["chain"]][-2:] == ["OrderPlaced", "OrderRejection"]

    run(main())


def test_the_question_that_the_sample_suggests_names_its_run(tmp_path: Path) -> None:
    """With the run's id in the question itself, its first look at the list finds that run."""

    async def main() -> None:
        brought = sample.bring_in(Home.open(tmp_path))
        async with agent(tmp_path) as desk:
            session = await begin(desk, sample.question(brought))
            listed = await session.ask("list_backtest_runs")
            assert listed["runs"][0]["runId"] in session.question
            described = await session.ask("describe_run", runId=listed["runs"][0]["runId"])
            assert described["run"]["events"] == brought.events

    run(main())


def test_a_session_cannot_use_what_nobody_told_it(tmp_path: Path) -> None:
    async def main() -> None:
        brought = sample.bring_in(Home.open(tmp_path))
        async with agent(tmp_path) as desk:
            session = await begin(desk, STRATEGY_QUESTION)
            with pytest.raises(Invented, match="runId"):
                await session.ask("describe_run", runId=brought.id)
            assert session.calls == []

    run(main())
