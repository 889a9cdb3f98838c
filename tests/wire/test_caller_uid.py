"""The user behind a connection: reported by the kernel for the client's own socket, else unknown."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.other_user import UID, become, needs_root
from tracedesk.wire import caller_uid
from tracedesk.wire.caller_uid import CallerUids, Ends

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the user of a socket")
OWN: Final = os.geteuid()


@contextmanager
def connected(
    family: socket.AddressFamily = socket.AF_INET, *, to: str = "127.0.0.1", mapped: bool = False
) -> Generator[tuple[socket.socket, Ends]]:
    """A client's socket, and the two ends as its server sees them."""
    with (
        socket.create_server((to, 0), family=family) as server,
        socket.socket(socket.AF_INET6 if mapped else family, socket.SOCK_STREAM) as client,
    ):
        port = server.getsockname()[1]
        client.connect((f"::ffff:{to}" if mapped else to, port))
        accepted, peer = server.accept()
        with accepted:
            yield client, ends(peer, accepted.getsockname())


def ends(client: Any, server: Any) -> Ends:
    found = Ends.of((client[0], client[1]), (server[0], server[1]))
    assert found is not None
    return found


@pytest.fixture(params=["netlink", "tables"])
def uids(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[CallerUids]:
    """Both ways to ask: over netlink with no table to be read, and by the tables where netlink is refused."""

    def refused() -> socket.socket:
        raise PermissionError("netlink is closed here")

    if request.param == "netlink":
        monkeypatch.setattr(caller_uid, "_TABLES", ())
    else:
        monkeypatch.setattr(caller_uid, "_opened", refused)
    made = CallerUids()
    yield made
    made.close()


def test_an_own_connection_is_the_own_users(uids: CallerUids) -> None:
    with connected() as (_, found):
        assert [uids.of(found), uids.of(found)] == [OWN, OWN]


def test_over_ipv6_and_over_ipv4_mapped_into_it_the_user_is_found_too(uids: CallerUids) -> None:
    with connected(socket.AF_INET6, to="::1") as (_, found):
        assert uids.of(found) == OWN
    with connected(mapped=True) as (client, found):
        assert client.family == socket.AF_INET6
        assert uids.of(found) == OWN
        as_mapped = ends(
            (f"::ffff:{found.client}", found.client_port), ("::ffff:127.0.0.1", found.server_port)
        )
        assert uids.of(as_mapped) == OWN


def test_a_socket_that_was_closed_is_nobodys_although_the_kernel_shows_it_as_roots(uids: CallerUids) -> None:
    with connected() as (client, found):
        client.close()
        assert uids.of(found) is None


def test_a_client_that_has_only_finished_sending_is_still_known(uids: CallerUids) -> None:
    with connected() as (client, found):
        client.shutdown(socket.SHUT_WR)
        assert uids.of(found) == OWN


def test_a_listener_on_the_port_of_a_client_that_is_gone_is_not_taken_for_it(uids: CallerUids) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = ends(listener.getsockname(), ("127.0.0.1", 1))
        assert uids.of(gone) is None


def test_a_place_that_is_no_address_has_no_user(uids: CallerUids) -> None:
    assert Ends.of(None, ("127.0.0.1", 1)) is None
    assert Ends.of(("/run/x.sock", 0), ("127.0.0.1", 1)) is None
    assert Ends.of(("127.0.0.1", 1), ("/run/x.sock", None)) is None
    assert uids.of(None) is None


def test_the_user_that_stands_for_all_that_have_no_number_is_unknown(
    uids: CallerUids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_uid, "_overflow_uid", lambda: OWN)
    with connected() as (_, found):
        assert uids.of(found) is None


def test_another_platform_reports_nobody(uids: CallerUids, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with connected() as (_, found):
        assert uids.of(found) is None


@needs_root
def test_a_process_of_another_user_is_that_user(uids: CallerUids, tmp_path: Path) -> None:
    script = become() + 'link = socket.create_connection(("127.0.0.1", int(sys.argv[2])), 30); link.recv(1)\n'
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        port = server.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", script, str(UID), str(port)]) as child:
            accepted, peer = server.accept()
            with accepted:
                assert uids.of(ends(peer, accepted.getsockname())) == UID
            assert child.wait(30) == 0
