"""`tracedesk trace`: what was recorded, for people and programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.support import desk_client, run
from tracedesk.backtest import Recorder
from tracedesk.config import Settings
from tracedesk.desk import Desk, open_desk
from tracedesk.fuzz.folder import Folder
from tracedesk.home import Home
from tracedesk.journal import Entry, Journal
from tracedesk.journal.sqlite import connect
from tracedesk.primitives.time import SystemClock
from tracedesk.wire.auth import OWNER
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.door import Silence


@pytest.fixture
def recorded(shell: Shell) -> Shell:
    """A home in which a desk has answered five calls."""

    async def main() -> None:
        async with desk_client(shell.home) as client:
            for number in range(4):
                await client.call("say", {"n": number})
            await client.call("refuse", {"code": "RUN_NOT_FOUND"})

    run(main())
    return shell


def test_tail_shows_the_newest_calls(recorded: Shell) -> None:
    done = recorded("trace", "tail", "-n", "2")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0].split() == ["STARTED", "TOOL", "OUTCOME", "TIME", "CALL"]
    assert "say" in lines[1]
    assert "RUN_NOT_FOUND" in lines[2]
    assert len(lines) == 3


def test_with_json_tail_prints_one_call_a_line(recorded: Shell) -> None:
    calls = [json.loads(line) for line in recorded("--json", "trace", "tail").out.splitlines()]
    assert [call["tool"] for call in calls] == ["say"] * 4 + ["refuse"]
    assert [call["arguments"] for call in calls[:4]] == [{"n": n} for n in range(4)]


def test_show_prints_one_call_and_where_it_leads(recorded: Shell) -> None:
    call = json.loads(recorded("--json", "trace", "tail", "-n", "1").out)
    shown = recorded("trace", "show", call["id"])
    assert shown.out.startswith(f"tracedesk://calls/{call['id']}\n")
    assert "RUN_NOT_FOUND" in shown.out
    document = json.loads(recorded("--json", "trace", "show", f"tracedesk://calls/{call['id']}").out)
    assert document["body"]["tool"] == "refuse"


def test_showing_what_was_never_recorded_fails_with_a_remedy(recorded: Shell) -> None:
    done = recorded("trace", "show", "nonsense")
    assert done.code == 1
    assert "trace tail" in done.err


def test_an_untouched_record_verifies(recorded: Shell) -> None:
    done = recorded("--json", "trace", "verify", "--all")
    assert done.code == 0
    report = json.loads(done.out)["files"][0]
    assert report["sound"] is True
    assert report["events"] == 5


def test_verify_exits_1_and_names_what_was_changed(recorded: Shell) -> None:
    _edit(recorded.home / "trace.db")
    done = recorded("trace", "verify")
    assert done.code == 1
    assert "not what was written" in done.out + done.err


def _edit(path: Path) -> None:
    """Change one record as an intruder would, guards and all."""
    connection = connect(path)
    ((sql,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'event_is_never_changed'")
    connection.execute("DROP TRIGGER event_is_never_changed")
    connection.execute("UPDATE event SET body = CAST(replace(body, '\"n\":2', '\"n\":9') AS BLOB)")
    connection.execute(str(sql))
    connection.close()


# --- what the tool `trace` follows -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traded:
    """A home in which a trade was made, and what the tool `trace` says of references into it."""

    shell: Shell
    told: Mapping[str, Any]


TRADE = {"symbol": "AAPL", "action": "buy", "quantity": 10}


@pytest.fixture(scope="module")
def traded(tmp_path_factory: pytest.TempPathFactory) -> Traded:
    shell = make_shell(tmp_path_factory.mktemp("traded"))
    sent: list[tuple[str, dict[str, Any]]] = [
        ("trade_simulate", {"tool_call_id": "sim-1", "trades": [TRADE]}),
        (
            "trade_execute",
            {
                "tool_call_id": "buy-1",
                "simulation_ref": "sim-1",
                "trades": [{**TRADE, "order_type": "market"}],
            },
        ),
    ]

    async def main() -> dict[str, Any]:
        settings = Settings(home=shell.home, toolsets=("trading",))
        user = Origin("stdio:1", Silence(), subject=OWNER)
        async with open_desk(settings) as desk:
            replies = [await desk.dispatch.call(tool, arguments, user) for tool, arguments in sent]
            assert not any(reply.is_error for reply in replies)
            entry = (await _traced(desk, "buy-1", user))["root"]
            order = json.loads(replies[1].body)["execution"]["trades"][0]["order_id"]
            refs = ("buy-1", "sim-1", entry, f"tracedesk://trading/orders/{order}")
            return {ref: await _traced(desk, ref, user) for ref in refs}

    return Traded(shell, run(main()))


async def _traced(desk: Desk, ref: str, user: Origin) -> dict[str, Any]:
    reply = await desk.dispatch.call("trace", {"ref": ref, "depth": 2}, user)
    assert not reply.is_error, reply.body
    return json.loads(reply.body)


def test_show_follows_every_reference_that_the_tool_trace_follows(traded: Traded) -> None:
    for ref, told in traded.told.items():
        shown = traded.shell("trace", "show", ref)
        assert (shown.code, shown.out.splitlines()[0]) == (0, told["root"]), ref
        followed = traded.shell("--json", "trace", "show", ref, "--depth", "2").json
        assert followed["root"] == told["root"]
        assert [node["ref"] for node in followed["nodes"]] == [node["ref"] for node in told["nodes"]]
        assert followed["nodes"] == told["nodes"]
    payloads = {e["ref"] for told in traded.told.values() for node in told["nodes"] for e in node["edges"]}
    payload = next(ref for ref in payloads if ref.startswith("tracedesk://payloads/"))
    assert traded.shell("trace", "show", payload).out.startswith(payload)


def test_show_follows_runs_campaigns_and_the_audit_of_orders(shell: Shell) -> None:
    with Recorder(shell.home, "run") as recorder:
        recorder.market_data("2013-03-01T14:30:00Z", "AAPL", {"Close": 1})
    with Journal(Home(shell.home).trace, SystemClock()) as journal:
        journal.open("orders-2026-11", "orders")
        journal.append("orders-2026-11", [Entry("intent", 1, b'{"principal":null,"edges":[]}')])
    campaign = Home(shell.home).campaign("c1")
    campaign.mkdir(parents=True)
    with Journal(Folder(campaign).journal, SystemClock()) as journal:
        journal.open("c1", "campaign")
        journal.append("c1", [Entry("Started", 1, b"{}")])
    kinds = {
        f"tracedesk://backtest/{recorder.run_id}/1": "backtest_event",
        "tracedesk://exchange/orders-2026-11/1": "order_intent",
        "tracedesk://fuzz/c1/1": "Started",
    }
    for ref, kind in kinds.items():
        shown = shell("--json", "trace", "show", ref)
        assert (shown.code, shown.json["kind"]) == (0, kind), shown.err


def test_showing_a_reference_writes_nothing_into_the_home(traded: Traded) -> None:
    files = sorted(path.name for path in traded.shell.home.glob("*.db"))
    before = (traded.shell.home / "ledger.db").read_bytes()
    traded.shell("trace", "show", "buy-1", "--depth", "3")
    assert (traded.shell.home / "ledger.db").read_bytes() == before
    assert [path for path in files if path not in ("graph.db",)] == [
        path.name for path in sorted(traded.shell.home.glob("*.db")) if path.name != "graph.db"
    ]


def test_an_empty_home_has_nothing_to_show(shell: Shell) -> None:
    for command in (("tail",), ("show", "x"), ("verify",)):
        done = shell("trace", *command)
        assert done.code == 1
        assert "yet" in done.err
