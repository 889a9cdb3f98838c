"""Documents of other protocols: who may post them, how large, how packed, and what is answered."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import Client, desk_client, run
from tracedesk.contract import DeclarationError, Posted, Receipt, Toolset
from tracedesk.errors import ToolError
from tracedesk.wire import intake

LARGEST = 1_000


def letters() -> Toolset[None]:
    """A toolset with an address that takes letters."""
    toolset: Toolset[None] = Toolset("letters", summary="Takes letters.", guide="post one.")

    @toolset.intake("/letters", scope="write", largest=LARGEST, remedy="choose JSON")
    async def take(posted: Posted, _: Any) -> Receipt:
        letter = json.loads(posted.body)
        if "refuse" in letter:
            raise ToolError(letter["refuse"], "refused: send another.")
        return Receipt({"from": posted.principal, "letter": letter}, 202)

    assert take
    return toolset


async def post(
    client: Client, body: bytes, headers: Mapping[str, str | None] | None = None, *, token: bool = True
) -> tuple[int, Any]:
    lines: dict[str, str | None] = {"Authorization": f"Bearer {client.token}"} if token else {}
    reply = await client.request("POST", "/letters", body, {**lines, **(headers or {})})
    return reply.status, reply.json


def answered(
    tmp_path: Path, body: bytes, headers: Mapping[str, str | None] | None = None, **more: Any
) -> Any:
    async def main() -> Any:
        async with desk_client(tmp_path, extra=[letters()]) as client:
            return await post(client, body, headers, **more)

    return run(main())


def test_a_document_reaches_its_toolset_with_the_tokens_name(tmp_path: Path) -> None:
    assert answered(tmp_path, b'{"n": 1}') == (202, {"from": "owner", "letter": {"n": 1}})


def test_a_gzipped_document_is_unpacked(tmp_path: Path) -> None:
    status, body = answered(tmp_path, gzip.compress(b'{"n": 2}'), {"Content-Encoding": "gzip"})
    assert (status, body["letter"]) == (202, {"n": 2})


def test_a_document_packed_in_parts_is_read_whole(tmp_path: Path) -> None:
    body = gzip.compress(b'{"n":') + gzip.compress(b" 2}")
    status, told = answered(tmp_path, body, {"Content-Encoding": "gzip"})
    assert (status, told["letter"]) == (202, {"n": 2})


def test_without_a_token_nothing_is_taken(tmp_path: Path) -> None:
    status, body = answered(tmp_path, b"{}", token=False)
    assert status == 401
    assert "scope 'write'" in body["error"]["message"]


def test_a_token_without_the_scope_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        from tracedesk.wire.auth import Tokens

        async with desk_client(tmp_path, extra=[letters()]) as client:
            reader = Tokens(tmp_path).issue("reader", ["read"])
            status, _ = await post(client, b"{}", {"Authorization": f"Bearer {reader}"})
            assert status == 403

    run(main())


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        (b"x" * (LARGEST + 1), {}, 413, "at most 1000 bytes"),
        (gzip.compress(b"x" * 100_000), {"Content-Encoding": "gzip"}, 413, "at most 1000 bytes"),
        (b"{}", {"Content-Encoding": "br"}, 415, "not with 'br'"),
        (b"no gzip", {"Content-Encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(b'{"n": 2}')[:-9], {"Content-Encoding": "gzip"}, 400, "ends too early"),
        (gzip.compress(b"{}") + b"junk", {"Content-Encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(b"") * 17, {"Content-Encoding": "gzip"}, 400, "16 gzip members"),
        (b"\x0a", {"Content-Type": "application/x-protobuf"}, 415, "application/json: choose JSON"),
        (b"{}", {"Origin": "https://elsewhere.example"}, 403, "other origins"),
        (b"{}", {"Host": "elsewhere.example"}, 421, "does not answer to"),
        (b'{"refuse": "INVALID_PARAMETER"}', {}, 400, "send another"),
        (b'{"refuse": "DATABASE_ERROR"}', {}, 500, "send another"),
    ],
    ids=[
        "large",
        "large unpacked",
        "brotli",
        "no gzip",
        "cut gzip",
        "junk",
        "many members",
        "protobuf",
        "origin",
        "host",
        "refused",
        "failed",
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    found, told = answered(tmp_path, body, headers)
    assert found == status
    assert said in told["error"]["message"]


def test_work_that_outlasts_its_sender_keeps_its_place_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "SECONDS", 0.05)
    monkeypatch.setattr(intake, "MOST_AT_ONCE", 1)

    async def main() -> None:
        go, ended = asyncio.Event(), asyncio.Event()
        toolset: Toolset[None] = Toolset("slow", summary="Takes its time.", guide="post one.")

        @toolset.intake("/letters", scope="write", largest=LARGEST, remedy="choose JSON")
        async def take(posted: Posted, _: Any) -> Receipt:
            await go.wait()
            ended.set()
            return Receipt({})

        assert take
        async with desk_client(tmp_path, extra=[toolset]) as client:
            status, told = await post(client, b"{}")
            assert (status, "longer than" in told["error"]["message"]) == (503, True)
            status, told = await post(client, b"{}")
            assert (status, "being taken in" in told["error"]["message"]) == (503, True)
            go.set()
            await ended.wait()
            assert (await post(client, b"{}"))[0] == 200

    run(main())


def test_no_caller_takes_every_place_from_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "SECONDS", 0.05)

    async def main() -> None:
        from tracedesk.wire.auth import Tokens

        go = asyncio.Event()
        toolset: Toolset[None] = Toolset("slow", summary="Takes its time.", guide="post one.")

        @toolset.intake("/letters", scope="write", largest=LARGEST, remedy="choose JSON")
        async def take(posted: Posted, _: Any) -> Receipt:
            if posted.principal == "busy":
                await go.wait()
            return Receipt({})

        assert take
        async with desk_client(tmp_path, extra=[toolset]) as client:
            busy = {"Authorization": f"Bearer {Tokens(tmp_path).issue('busy', ['write'])}"}
            told = [(await post(client, b"{}", busy))[1]["error"]["message"] for _ in range(20)]
            assert sum("longer than" in message for message in told) == intake.MOST_OF_ONE
            assert sum("of this caller" in message for message in told) == 20 - intake.MOST_OF_ONE
            assert (await post(client, b"{}"))[0] == 200
            go.set()

    run(main())


def test_only_post_is_taken_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[letters()]) as client:
            reply = await client.request("GET", "/letters")
            assert reply.status == 405
            assert reply.headers["allow"] == "POST"

    run(main())


def test_a_read_only_desk_has_no_intake_that_writes(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[letters()], read_only=True) as client:
            assert (await post(client, b"{}"))[0] == 404

    run(main())


def test_one_address_belongs_to_one_function() -> None:
    toolset = letters()
    with pytest.raises(DeclarationError, match="declared twice"):

        @toolset.intake("/letters", scope="write", largest=1, remedy="x")
        async def again(posted: Posted, _: Any) -> Receipt:  # pyright: ignore[reportUnusedFunction]
            return Receipt({})
