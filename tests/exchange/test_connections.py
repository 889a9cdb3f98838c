"""Handles of `connect`: at most so many, bound to who asked, gone when idle."""

from __future__ import annotations

import pytest

from tracedesk.errors import ToolError
from tracedesk.exchange.connections import Connections
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.time import ManualClock


def made(limit: int = 50) -> tuple[Connections, ManualClock, list[str]]:
    clock, ended = ManualClock(), list[str]()
    return Connections(clock, limit=limit, idle=30.0, on_end=ended.append), clock, ended


def test_a_handle_is_a_uuid4_that_its_owner_alone_can_use() -> None:
    connections, _, _ = made()
    handle = connections.mint("anonymous")
    assert is_uuid(handle.id, 4)
    assert connections.find(handle.id, "anonymous") is handle
    assert connections.find(handle.id.replace("-", ""), "anonymous") is handle
    with pytest.raises(ToolError, match="Call connect for a new one") as refused:
        connections.find(handle.id, "principal:other")
    assert refused.value.code == "INVALID_PARAMETER"


@pytest.mark.parametrize("identifier", ["", "x", "00000000-0000-4000-8000-000000000000"])
def test_what_is_no_handle_is_refused(identifier: str) -> None:
    with pytest.raises(ToolError, match="connection_id"):
        made()[0].find(identifier, "anonymous")


def test_the_51st_handle_is_refused_with_when_to_come_back() -> None:
    connections, clock, _ = made()
    for _ in range(50):
        connections.mint("anonymous")
    clock.advance(20)
    with pytest.raises(ToolError) as refused:
        connections.mint("anonymous")
    assert refused.value.code == "RATE_LIMITED"
    assert refused.value.details == {"limit": 50, "retryAfterSeconds": 10}
    clock.advance(10)
    connections.mint("anonymous")
    assert len(connections) == 1


def test_a_handle_idle_for_30_seconds_is_gone_and_its_end_is_told() -> None:
    connections, clock, ended = made()
    handle = connections.mint("anonymous")
    clock.advance(29.9)
    with connections.busy(connections.find(handle.id, "anonymous")):
        clock.advance(100)
        assert connections.find(handle.id, "anonymous") is handle
    clock.advance(29.9)
    connections.find(handle.id, "anonymous")
    clock.advance(30)
    assert ended == []
    connections.sweep()
    assert ended == [handle.scope]
    with pytest.raises(ToolError):
        connections.find(handle.id, "anonymous")


def test_a_handle_lives_while_its_user_is_asked() -> None:
    connections, clock, _ = made()
    handle = connections.mint("anonymous")
    connections.keep(handle, 300)
    clock.advance(299)
    assert connections.find(handle.id, "anonymous") is handle


def test_a_call_meanwhile_does_not_take_the_users_time_away() -> None:
    connections, clock, ended = made()
    handle = connections.mint("anonymous")
    connections.keep(handle, 300)
    clock.advance(10)
    with connections.busy(handle):
        pass
    clock.advance(280)
    connections.sweep()
    assert ended == []
    with connections.busy(handle):
        connections.keep(handle, 0)
    clock.advance(30)
    connections.sweep()
    assert ended == [handle.scope]


def test_the_handles_of_a_scope_end_with_it() -> None:
    connections, _, ended = made()
    mine, other = connections.mint("session:a"), connections.mint("session:b")
    connections.end_all("session:a")
    assert ended == [mine.scope]
    assert connections.find(other.id, "session:b") is other
