"""Toolsets hear of subscriptions in both eras, and clients hear of changes under the URI that they gave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fixtures.ward import Ward, ward
from tests.support import BOUND, VERSION, Client, desk_client, modern, read_head, rpc, run, until
from tracedesk.primitives.time import ManualClock

BED = "ward://bed/3"


def _state(client: Client) -> Ward:
    return client.desk.states["ward"]


@asynccontextmanager
async def _stream(session: Client) -> AsyncGenerator[asyncio.StreamReader]:
    """A session's own stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", session.port)
    writer.write(session.encode("GET", "/mcp"))
    assert (await read_head(reader))[0] == 200
    yield reader
    writer.close()


@asynccontextmanager
async def _listening(client: Client, *uris: str) -> AsyncGenerator[asyncio.StreamReader]:
    """A listening stream of the stateless era, once it is acknowledged."""
    message = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris)}})
    lines = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "subscriptions/listen"}
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(client.encode("POST", "/mcp", json.dumps(message).encode(), lines))
    await asyncio.wait_for(reader.readuntil(b"notifications/subscriptions/acknowledged"), BOUND)
    yield reader
    writer.close()


async def _subscribe(session: Client, uri: str = BED) -> Any:
    return (await session.post("/mcp", rpc("resources/subscribe", {"uri": uri}))).json


async def _next_update(reader: asyncio.StreamReader) -> str:
    """The URI of the next update on a stream."""
    data = await asyncio.wait_for(reader.readuntil(b"notifications/resources/updated"), BOUND)
    data = await asyncio.wait_for(reader.readuntil(b'"}'), BOUND) if b'"uri"' not in data else data
    rest = data.split(b'"uri":"')[-1]
    return rest.split(b'"')[0].decode()


# --- the handshake era


def test_a_session_that_subscribes_and_unsubscribes_is_heard_of_once_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            session = await client.open_session()
            assert "result" in await _subscribe(session)
            assert "result" in await _subscribe(session)
            assert [(w.scope, w.uri) for w in _state(client).watchers] == [
                (f"session:{session.session}", BED)
            ]
            await session.post("/mcp", rpc("resources/unsubscribe", {"uri": BED}))
            await session.post("/mcp", rpc("resources/unsubscribe", {"uri": BED}))
            await until(lambda: not _state(client).watchers)
            assert _state(client).told == [("on", BED), ("off", BED)]

    run(main())


def test_a_session_that_expires_takes_its_subscriptions_along_and_the_toolset_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, extra=[ward], clock=clock) as client:
            session = await client.open_session()
            scope = f"session:{session.session}"
            client.desk.vault.put(scope, "ward_key", "correct-horse")
            await _subscribe(session)
            clock.advance(31.0)
            await until(lambda: not _state(client).watchers)
            assert _state(client).ended == [scope]
            assert client.desk.vault.get(scope, "ward_key") is None

    run(main())


def test_a_toolset_that_fails_at_an_end_keeps_nobody_from_leaving(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            session = await client.open_session()
            await _subscribe(session, "ward://bed/sticky")
            assert (await session.request("DELETE", "/mcp")).status == 204
            await until(lambda: _state(client).told[-1] == ("off", "ward://bed/sticky"))
            assert len(client.app.sessions) == 0
            assert (await client.open_session()).session is not None

    run(main())


def test_each_subscriber_is_told_under_the_uri_it_gave(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            session = await client.open_session()
            async with _stream(session) as stream, _listening(client, "WARD://Bed/3") as listening:
                await _subscribe(session, "ward://BED/3")
                await client.desk.notify_resource(BED)
                assert await _next_update(stream) == "ward://BED/3"
                assert await _next_update(listening) == "WARD://Bed/3"
            assert {w.uri for w in _state(client).watchers} == {BED}

    run(main())


def test_one_watcher_can_be_told_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            one, two = await client.open_session(), await client.open_session()
            async with _stream(one) as first, _stream(two) as second, _listening(client, BED) as third:
                await _subscribe(one)
                await _subscribe(two)
                listener, *_ = _state(client).watchers
                await listener.notify()
                assert await _next_update(third) == BED
                chosen = next(w for w in _state(client).watchers if w.scope == f"session:{two.session}")
                await chosen.notify()
                assert await _next_update(second) == BED
                await client.desk.notify_lists("resources")
                data = await asyncio.wait_for(first.readuntil(b"list_changed"), BOUND)
                assert b"resources/updated" not in data

    run(main())


def test_a_toolset_can_refuse_a_subscription_with_its_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            session = await client.open_session()
            error = (await _subscribe(session, "ward://bed/full"))["error"]
            assert (error["code"], error["message"]) == (-32602, "bed full is taken; follow another")
            assert error["data"]["error"]["code"] == "LIMIT_EXCEEDED"
            params = {"notifications": {"resourceSubscriptions": [BED, "ward://bed/full"]}}
            refused = await client.modern("subscriptions/listen", params)
            assert refused.json["error"]["data"]["error"]["code"] == "LIMIT_EXCEEDED"
            await until(lambda: not _state(client).watchers)
            assert _state(client).told.count(("off", BED)) == 1
            await client.desk.notify_resource("ward://bed/full")

    run(main())


def test_a_bug_at_the_beginning_of_a_subscription_is_an_internal_error_without_its_secret(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            session = await client.open_session()
            error = (await _subscribe(session, "ward://bed/odd"))["error"]
            assert error["code"] == -32603
            assert "secret inside" not in str(error)
            await until(lambda: _state(client).told == [("on", "ward://bed/odd"), ("off", "ward://bed/odd")])

    run(main())


# --- the stateless era


def test_a_listener_that_leaves_is_heard_of(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            async with _listening(client.authorised(), BED, BED):
                (watcher,) = _state(client).watchers
                assert (watcher.scope, watcher.principal) == ("principal:owner", "owner")
            await until(lambda: not _state(client).watchers)
            assert _state(client).told == [("on", BED), ("off", BED)]

    run(main())


def test_a_desk_that_closes_tells_its_toolsets_while_they_are_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            state = _state(client)
            session = await client.open_session()
            await _subscribe(session)
            stream = _listening(client, "ward://bed/4")
            await stream.__aenter__()
        assert state.closed
        assert not state.watchers
        assert sorted(state.told) == [
            ("off", BED),
            ("off", "ward://bed/4"),
            ("on", BED),
            ("on", "ward://bed/4"),
        ]
        await stream.__aexit__(None, None, None)

    run(main())


def test_one_stream_follows_a_bounded_number_of_resources(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            uris = [f"ward://bed/{n}" for n in range(257)]
            params = {"notifications": {"resourceSubscriptions": uris}}
            refused = await client.modern("subscriptions/listen", params)
            assert "at most 256 resources" in refused.json["error"]["message"]
            assert _state(client).told == []

    run(main())


# --- what a URI is


def test_a_uri_is_read_by_its_toolsets_rules(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            reply = await client.modern("resources/read", {"uri": "WARD://BED/A3"})
            (contents,) = reply.json["result"]["contents"]
            assert (contents["uri"], contents["text"]) == ("WARD://BED/A3", "bed a3")

    run(main())


def test_a_bad_uri_is_answered_with_its_remedy_wherever_it_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            session = await client.open_session()
            listen = {"notifications": {"resourceSubscriptions": ["ward://bed/"]}}
            for reply in (
                (await client.modern("resources/read", {"uri": "ward://bed/"})).json,
                (await client.modern("subscriptions/listen", listen)).json,
                await _subscribe(session, "ward://bed/"),
            ):
                assert reply["error"]["code"] == -32602
                assert "Use ward://bed/{bed}" in reply["error"]["message"]
                assert reply["error"]["data"]["error"]["code"] == "INVALID_PARAMETER"

    run(main())


# --- what else a toolset may say


def test_a_reading_says_how_long_and_for_whom_it_may_be_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            kept = (await client.modern("resources/read", {"uri": BED})).json["result"]
            assert (kept["ttlMs"], kept["cacheScope"]) == (750, "public")
            other = (await client.modern("resources/read", {"uri": "probe://watched"})).json["result"]
            assert (other["ttlMs"], other["cacheScope"]) == (0, "private")

    run(main())


def test_a_completer_sees_its_toolsets_state(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            _state(client).told.append(("on", BED))
            reply = await client.modern(
                "completion/complete",
                {
                    "ref": {"type": "ref/resource", "uri": "ward://bed/{bed}"},
                    "argument": {"name": "bed", "value": "b"},
                },
            )
            assert reply.json["result"]["completion"]["values"] == ["b1"]

    run(main())


def test_a_withheld_prompt_is_not_listed_and_asking_for_it_names_the_switch(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path / "off", extra=[ward]) as client:
            names = [p["name"] for p in (await client.modern("prompts/list")).json["result"]["prompts"]]
            assert "rounds" not in names
            refused = await client.modern("prompts/get", {"name": "rounds"})
            assert "Set rounds = true under [ward]" in refused.json["error"]["message"]
        async with desk_client(tmp_path / "on", extra=[ward], tables={"ward": {"rounds": True}}) as client:
            assert (await client.modern("prompts/get", {"name": "rounds"})).status == 200

    run(main())
