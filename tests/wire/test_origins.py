"""Host names and origins: the desk's own, those that a person has allowed, and no lookalike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import HELLO, Client, desk_client, rpc, run
from tracedesk.wire.origins import Names, authority, named_origin

LOOKALIKES = [
    "evil.test\\@127.0.0.1:{port}",
    "evil.test@127.0.0.1:{port}",
    "127.0.0.1:{port}@evil.test",
    "127.0.0.1:{port}/evil",
    "127.0.0.1/evil",
    "localhost?.evil.test",
    "localhost#.evil.test",
    "localhost:{port}.evil.test",
    "local\thost:{port}",
    "localhost :{port}",
    "localhost.:{port}",
    "localhost:",
    "localhost:+{port}",
    "localhost:0x{port}",
    "localhost:{port}:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "::1:{port}",
    "[::1",
    "[::1]x:{port}",
    "[127.0.0.1]:{port}",
    "[::1%25lo]:{port}",
    "localhost",
    "127.0.0.1:1",
    "localhost:80",
    "http://127.0.0.1:{port}",
    "127.0.0.1:{port},127.0.0.1:{port}",
    "",
]
ORIGINS = [
    "http://localhost:1",
    "http://127.0.0.1:6274",
    "http://localhost",
    "https://127.0.0.1:{port}",
    "http://[::1]",
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port}/x",
    "http://evil.test@127.0.0.1:{port}",
    "http://evil.test\\@127.0.0.1:{port}",
    "http:127.0.0.1:{port}",
    "//127.0.0.1:{port}",
    "null",
    "http://127.0.0.1:{port} http://evil.test",
    "file://",
    "ws://127.0.0.1:{port}",
    "",
]
TARGETS = [
    b"http://evil.test/health",
    b"http://127.0.0.1/health",
    b"HTTP://evil.test/health",
    b"https://127.0.0.1/openapi.json",
]


def test_a_host_that_only_looks_like_the_desks_is_answered_421(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            answers = {
                host: (await client.request("GET", "/health", None, {"Host": host.format(port=client.port)}))
                for host in LOOKALIKES
            }
            assert {host: reply.status for host, reply in answers.items() if reply.status != 421} == {}

    run(main())


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "[::1]:{port}"])
def test_the_desks_own_names_are_answered_on_its_own_port(tmp_path: Path, host: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            own = host.format(port=client.port)
            assert (await client.request("GET", "/health", None, {"Host": own})).status == 200
            origin = {"Origin": f"http://{own.lower()}"}
            assert (await client.modern("tools/list", None, origin)).status == 200

    run(main())


def test_an_origin_that_is_not_the_desks_own_is_answered_403(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            answers = {
                origin: await client.request(
                    "GET", "/health", None, {"Origin": origin.format(port=client.port)}
                )
                for origin in ORIGINS
            }
            assert {origin: reply.status for origin, reply in answers.items() if reply.status != 403} == {}

    run(main())


@pytest.mark.parametrize("target", TARGETS)
def test_a_whole_url_as_the_target_is_refused(tmp_path: Path, target: bytes) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            data = client.encode("GET", "/health").replace(b"/health", target, 1)
            reply = await client.raw(data)
            assert reply.status == 400
            assert b"path alone" in reply.body

    run(main())


def test_more_or_fewer_than_one_host_header_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            once = client.encode("GET", "/health")
            line = f"Host: 127.0.0.1:{client.port}\r\n".encode()
            assert (await client.raw(once.replace(line, line * 2))).status == 400
            assert (await client.raw(once.replace(line, b"host: evil.test\r\n" + line))).status == 400
            assert (await client.raw(once.replace(line, b""))).status == 421
            assert (await client.raw(once.replace(line, b"").replace(b"/1.1", b"/1.0"))).status == 421

    run(main())


NAMED = "http://localhost:6274"


def test_an_origin_allowed_by_name_reads_its_answers_and_no_other_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, origins=(NAMED,)) as client:
            hello = await client.post("/mcp", rpc("initialize", HELLO), {"Origin": NAMED})
            assert hello.status == 200
            assert hello.headers["access-control-allow-origin"] == NAMED
            assert "mcp-session-id" in hello.headers["access-control-expose-headers"]
            assert hello.headers["vary"] == "origin"
            other = await client.request("GET", "/health", None, {"Origin": "http://localhost:6275"})
            assert other.status == 403
            assert "access-control-allow-origin" not in other.headers
            assert "access-control-allow-origin" not in (await client.request("GET", "/health")).headers

    run(main())


def preflight(client: Client, origin: str) -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,mcp-protocol-version",
    }


def test_a_browser_may_ask_first_for_an_allowed_origin_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, origins=(NAMED,)) as client:
            reply = await client.request("OPTIONS", "/mcp", None, preflight(client, NAMED))
            assert reply.status == 204
            assert reply.headers["access-control-allow-headers"] == "content-type,mcp-protocol-version"
            assert reply.headers["access-control-allow-origin"] == NAMED
            own = f"http://127.0.0.1:{client.port}"
            assert (await client.request("OPTIONS", "/mcp", None, preflight(client, own))).status == 405
            evil = "http://evil.test"
            assert (await client.request("OPTIONS", "/mcp", None, preflight(client, evil))).status == 403

    run(main())


def test_names_allowed_without_a_port_are_served_on_every_port_and_with_one_on_that_alone() -> None:
    names = Names.of("http://127.0.0.1:3000", ["127.0.0.1"], ["desk.test", "other.test:8443"])
    assert names.answers_to("desk.test")
    assert names.answers_to("desk.test:8080")
    assert names.answers_to("other.test:8443")
    assert not names.answers_to("other.test")
    assert not names.answers_to("127.0.0.1:8080")


def test_pages_of_an_allowed_name_come_from_its_own_ports() -> None:
    names = Names.of("http://127.0.0.1:3000", ["127.0.0.1"], ["desk.test"])
    assert names.takes("https://desk.test", "127.0.0.1:3000")  # a proxy may write another host
    assert names.takes("http://desk.test:8080", "desk.test:8080")
    assert not names.takes("http://desk.test:5173", "desk.test:8080")
    assert not names.takes("http://evil.desk.test", "desk.test")


def test_the_default_port_may_be_left_out_where_it_is_the_desks() -> None:
    names = Names.of("https://desk.test", ["desk.test"])
    assert names.answers_to("desk.test")
    assert names.answers_to("desk.test:443")
    assert not names.answers_to("desk.test:80")


def test_what_a_person_names_is_checked() -> None:
    assert named_origin("HTTP://LocalHost:80/") == "http://localhost"
    assert named_origin("chrome-extension://abcdef") == "chrome-extension://abcdef"
    assert named_origin("https://desk.test/page") is None
    assert named_origin("null") is None
    assert named_origin("*") is None
    assert authority("http://desk.test") is None
    with pytest.raises(ValueError, match="not an origin"):
        Names.of("http://127.0.0.1:1", (), (), ["*"])
