"""The page on which a person enters keys: one path, one use, one host, no traces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urlsplit

import pytest

from tests.exchange.test_profiles import KEY, SECRET
from tests.support import BOUND, Reply, read_reply, run
from tracedesk.exchange.credentials.keys import Keys
from tracedesk.exchange.credentials.page import Page, Pages
from tracedesk.exchange.one_time_page import LIFE, OneTimePage
from tracedesk.primitives.time import ManualClock

GOOD = urlencode({"api_key": KEY, "secret": SECRET})


@asynccontextmanager
async def pages() -> AsyncGenerator[tuple[Pages, ManualClock, list[tuple[str, Keys]]]]:
    clock, got = ManualClock(), list[tuple[str, Keys]]()
    made = Pages(clock, lambda scope, keys: got.append((scope, keys)))
    try:
        yield made, clock, got
    finally:
        await made.close()


async def ask(
    page: OneTimePage, body: str | None = None, *, path: str | None = None, **headers: str
) -> Reply:
    parts = urlsplit(page.url)
    assert parts.port is not None
    lines = {
        "Host": parts.netloc,
        "Connection": "close",
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    if body is not None:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(body))}
        lines = {**form, **lines}
    head = f"{'GET' if body is None else 'POST'} {path or parts.path} HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    reader, writer = await asyncio.open_connection("127.0.0.1", parts.port)
    try:
        writer.write(f"{head}\r\n{body or ''}".encode())
        return await asyncio.wait_for(read_reply(reader), BOUND)
    finally:
        writer.close()


def test_keys_that_are_entered_reach_their_scope_and_the_page_is_used_up() -> None:
    async def main() -> None:
        async with pages() as (made, _, got):
            page = await made.open("session:a", "testnet", "Tracedesk (session:1234)")
            shown = await ask(page)
            assert shown.status == 200
            assert b"session:1234" in shown.body
            assert b"testnet" in shown.body
            done = await ask(page, GOOD)
            assert done.status == 200
            assert KEY.encode() not in done.body
            [(scope, keys)] = got
            assert (scope, keys.api_key, keys.secret) == ("session:a", KEY, SECRET)
            assert page.used
            assert page.settled.is_set()
            assert (await ask(page, GOOD)).status == 404
            assert (await ask(page)).status == 404
            assert len(got) == 1

    run(main())


def test_the_answer_is_kept_by_nobody() -> None:
    async def main() -> None:
        async with pages() as (made, _, _):
            headers = (await ask(await made.open("s", "live", "x"))).headers
            assert headers["cache-control"] == "no-store"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["referrer-policy"] == "no-referrer"

    run(main())


def test_another_host_path_origin_or_site_finds_nothing() -> None:
    async def main() -> None:
        async with pages() as (made, _, got):
            page = await made.open("s", "live", "x")
            port = urlsplit(page.url).port
            assert len(page.path) >= 43
            for host in ("evil.example", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}.evil.example"):
                assert (await ask(page, Host=host)).status == 404
            assert (await ask(page, GOOD, Origin="https://evil.example")).status == 404
            assert (await ask(page, GOOD, Sec_Fetch_Site="cross-site")).status == 404
            assert (await ask(page, path="/" + page.path[:-1])).status == 404
            assert (await ask(page, path="/")).status == 404
            assert got == []
            assert (await ask(page)).status == 200

    run(main())


def test_a_page_expires() -> None:
    async def main() -> None:
        async with pages() as (made, clock, got):
            page = await made.open("s", "live", "x")
            clock.advance(LIFE)
            assert (await ask(page, GOOD)).status == 404
            assert got == []
            await made.sweep()
            assert page.settled.is_set()
            assert not page.used
            assert made.of("s") is None

    run(main())


def test_what_cannot_be_keys_is_told_and_not_repeated_and_five_times_is_enough() -> None:
    async def main() -> None:
        async with pages() as (made, _, got):
            page = await made.open("s", "live", "x")
            bad = urlencode({"api_key": KEY, "secret": "short-secret"})
            for _ in range(4):
                again = await ask(page, bad)
                assert again.status == 422
                assert b"too short" in again.body
                assert b"short-secret" not in again.body
                assert KEY.encode() not in again.body
            assert (await ask(page, bad)).status == 404
            assert (await ask(page, GOOD)).status == 404
            assert got == []

    run(main())


def test_a_scope_has_one_page_and_loses_it_with_its_end() -> None:
    async def main() -> None:
        async with pages() as (made, _, _):
            first, again = await made.open("a", "live", "x"), await made.open("a", "live", "x")
            other = await made.open("b", "live", "x")
            assert first is again
            assert other.url != first.url
            await made.drop("a")
            assert (await ask(other)).status == 200
            assert (await ask(first, path=urlsplit(first.url).path)).status == 404

    run(main())


def test_a_body_that_is_too_large_is_refused() -> None:
    async def main() -> None:
        async with pages() as (made, _, got):
            page = await made.open("s", "live", "x")
            refused = await ask(page, "api_key=" + "x" * 20_000)
            assert refused.status == 413
            assert refused.headers["cache-control"] == "no-store"
            assert got == []

    run(main())


def test_what_is_no_form_is_a_try_and_leaves_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with pages() as (made, _, got):
            page = await made.open("s", "live", "x")
            kinds = (
                "application/x-www-form-urlencoded; charset=bogus",
                "multipart/form-data; boundary=x",
                "multipart/form-data",
            )
            for kind in kinds:
                refused = await ask(page, GOOD, Content_Type=kind)
                assert refused.status == 400, kind
                assert b"no form of this page" in refused.body
                assert KEY.encode() not in refused.body
                assert refused.headers["cache-control"] == "no-store"
                assert "default-src 'none'" in refused.headers["content-security-policy"]
            assert page.tries == len(kinds)
            assert (await ask(page, GOOD)).status == 200
            assert len(got) == 1

    run(main())
    assert caplog.records == []


def test_a_body_that_is_no_text_and_other_methods_are_answered_in_the_same_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with pages() as (made, _, got):
            page = await made.open("s", "live", "x")
            path = urlsplit(page.url).path
            form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n"
            for method, lines, body, status in (
                (b"POST", form, b"api_key=\xff\xfe", 400),
                (b"PUT", b"Content-Length: 0\r\n", b"", 405),
                (b"POST", form + b"Expect: nonsense\r\n", b"", 417),
            ):
                answer = await _sent(page, method + b" " + path.encode(), lines, body)
                assert answer.status == status
                assert answer.headers["cache-control"] == "no-store"
                assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert page.tries == 1
            assert got == []

    run(main())
    assert caplog.records == []


async def _sent(page: Page, line: bytes, headers: bytes, body: bytes) -> Reply:
    parts = urlsplit(page.url)
    reader, writer = await asyncio.open_connection("127.0.0.1", parts.port)
    try:
        host = f"Host: {parts.netloc}\r\nConnection: close\r\n".encode()
        writer.write(line + b" HTTP/1.1\r\n" + host + headers + b"\r\n" + body)
        return await asyncio.wait_for(read_reply(reader), BOUND)
    finally:
        writer.close()
