"""The user behind a connection over loopback, as the kernel reports it.

Linux answers one question over netlink in about 10 µs; where that is not to be had, `/proc/net/tcp` and
`/proc/net/tcp6` are read. Elsewhere, and for a socket that is gone, the user is unknown.
"""

from __future__ import annotations

import logging
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final, cast

log = logging.getLogger(__name__)

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_LISTEN: Final = 10
_ANY_STATE: Final = 0xFFFF_FFFF
_NO_COOKIE: Final = 0xFFFF_FFFF
_HEAD: Final = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence, port."""
_ASKED: Final = struct.Struct("=BBBBI")
"""inet_diag_req_v2 up to the socket: family, protocol, extensions, padding, states."""
_PORTS: Final = struct.Struct("!HH")
_REST: Final = struct.Struct("=III")
"""The interface and the two words of the cookie."""
_TAIL: Final = struct.Struct("=IIIII")
"""expires, receive queue, send queue, uid, inode."""
_FOUND: Final = _HEAD.size + 4 + 48
"""The bytes of an answer before its tail: header, four small fields, the socket."""
_TABLES: Final = (Path("/proc/thread-self/net/tcp"), Path("/proc/thread-self/net/tcp6"))
_OVERFLOW: Final = Path("/proc/sys/kernel/overflowuid")

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a connection, as its server sees them."""

    client: Address
    client_port: int
    server: Address
    server_port: int

    @classmethod
    def of(cls, client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> Ends | None:
        """The ends by the names that a transport has for them; None where they are no IP addresses."""
        if client is None or server is None or server[1] is None:
            return None
        try:
            return cls(_plain(client[0]), client[1], _plain(server[0]), server[1])
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class _Socket:
    """One row of the kernel's table of sockets."""

    uid: int
    inode: int
    state: int


class CallerUids:
    """Looks up the user of a connection's other end. Used from one thread."""

    def __init__(self) -> None:
        self._netlink: socket.socket | None = None
        self._answers = False
        """True once netlink has found a socket: one that it then does not find is gone."""
        self._sequence = 0

    def of(self, ends: Ends | None) -> int | None:
        """The uid that opened the client's socket; None where the kernel does not report one."""
        if ends is None or not sys.platform.startswith("linux"):
            return None
        found = self._asked(ends)
        if found is None and not self._answers:
            found = _listed(ends)
        # A socket that its process has closed belongs to nobody, and its uid reads as 0.
        if found is None or found.inode == 0 or found.uid == _overflow_uid():
            return None
        return found.uid

    def close(self) -> None:
        """Close the netlink socket, if there is one."""
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def _asked(self, ends: Ends) -> _Socket | None:
        """The client's socket by netlink; None where it is not found or cannot be asked for."""
        try:
            if self._netlink is None:
                self._netlink = _opened()
            self._sequence = (self._sequence + 1) & 0x7FFF_FFFF
            self._netlink.send(_question(ends, self._sequence))
            found = self._answer(self._netlink, ends)
        except OSError as problem:
            log.debug("netlink does not report sockets: %s", problem)
            self.close()
            return None
        self._answers |= found is not None
        return found

    def _answer(self, netlink: socket.socket, ends: Ends) -> _Socket | None:
        """The answer to the last question; the kernel has given it before the question returns."""
        while True:
            data, (sender, _) = cast("tuple[bytes, tuple[int, int]]", netlink.recvfrom(8192))
            if sender != 0 or len(data) < _HEAD.size:
                continue  # any process may send to a netlink socket; only the kernel has the number 0
            _, kind, _, sequence, _ = _HEAD.unpack_from(data)
            if sequence == self._sequence:
                return _read(data, ends) if kind == _SOCK_DIAG_BY_FAMILY else None


def _opened() -> socket.socket:
    family: Any = getattr(socket, "AF_NETLINK")  # noqa: B009 - not there on every platform
    netlink = socket.socket(family, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
    netlink.setblocking(False)
    return netlink


def _question(ends: Ends, sequence: int) -> bytes:
    """A request for the one socket whose own end is the client's."""
    family = socket.AF_INET if ends.client.version == 4 else socket.AF_INET6
    body = (
        _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE)
        + _PORTS.pack(ends.client_port, ends.server_port)
        + ends.client.packed.ljust(16, b"\0")
        + ends.server.packed.ljust(16, b"\0")
        + _REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    )
    return _HEAD.pack(_HEAD.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, sequence, 0) + body


def _read(data: bytes, ends: Ends) -> _Socket | None:
    """The socket of an answer, if it is the connection's: without one the kernel may name a listener."""
    if len(data) < _FOUND + _TAIL.size:
        return None
    family, state = data[_HEAD.size], data[_HEAD.size + 1]
    at = _HEAD.size + 4
    ports = _PORTS.unpack_from(data, at)
    size = 4 if family == socket.AF_INET else 16
    addresses = [ip_address(data[start : start + size]) for start in (at + 4, at + 20)]
    found = Ends(_unmapped(addresses[0]), ports[0], _unmapped(addresses[1]), ports[1])
    _, _, _, uid, inode = _TAIL.unpack_from(data, _FOUND)
    return _Socket(uid, inode, state) if found == ends and state != _LISTEN else None


def _listed(ends: Ends) -> _Socket | None:
    """The client's socket by the tables of `/proc`."""
    for table in _TABLES:
        try:
            text = table.read_bytes()
        except OSError:
            continue
        for pair in _pairs(ends):
            at = text.find(pair)
            if at >= 0:
                return _row(text[at : text.find(b"\n", at)].split())
    return None


def _pairs(ends: Ends) -> Iterator[bytes]:
    """The two addresses as the tables write them: as they are, and as mapped into IPv6."""
    written = [(ends.client, ends.client_port), (ends.server, ends.server_port)]
    yield b" ".join(_hex(address.packed, port) for address, port in written) + b" "
    if ends.client.version == 4:
        prefix = b"\0" * 10 + b"\xff\xff"
        yield b" ".join(_hex(prefix + address.packed, port) for address, port in written) + b" "


def _hex(packed: bytes, port: int) -> bytes:
    """An address in the words of the machine, and a port."""
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return b"".join(b"%08X" % int.from_bytes(word, sys.byteorder) for word in words) + b":%04X" % port


def _row(fields: list[bytes]) -> _Socket | None:
    """The row that begins with the two addresses: state, queues, timer, retransmits, uid, timeout, inode."""
    if len(fields) < 9:
        return None
    return _Socket(int(fields[6]), int(fields[8]), int(fields[2], 16))


def _plain(name: str) -> Address:
    return _unmapped(ip_address(name.partition("%")[0]))


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@cache
def _overflow_uid() -> int:
    """The uid under which the kernel shows every user that this process's namespace has no number for."""
    try:
        return int(_OVERFLOW.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 65534
