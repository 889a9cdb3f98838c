"""One connection between a host and a client, as messages; and who is at its other end."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from tracedesk.hosts import forks
from tracedesk.hosts.frames import MAX_FRAME, BadFrame, Decoder, Message, encode, parse

_LOCAL_PEERCRED: Final = 1
_XUCRED: Final = 76


class Link(asyncio.Protocol):
    """Sends and receives messages; what happens to them is its owner's business."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._decoder = Decoder(limit)
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self.is_flooded = False
        """Whether the other side reads more slowly than this one writes."""

    # --- for the owner to fill in

    def on_open(self, peer: socket.socket) -> None: ...

    def on_message(self, message: Message) -> None: ...

    def on_bad_frame(self, fault: BadFrame) -> None: ...

    def on_drained(self) -> None: ...

    def on_lost(self) -> None: ...

    # --- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("socket")
        self._fd = forks.keep(peer.fileno())
        self.on_open(peer)

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._decoder.feed(data):
                if self.is_closed:
                    return
                self.on_message(parse(payload))
        except BadFrame as fault:
            self.on_bad_frame(fault)
            self.close()

    def pause_writing(self) -> None:
        # Who does not read its answers gets to ask no more, so that they cannot pile up here.
        self.is_flooded = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_flooded = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self.on_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        forks.let_go(self._fd)
        self.on_lost()

    # --- what the owner calls

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def send(self, message: Message) -> None:
        """Send a message, unless the connection has ended; raises when it cannot be a frame."""
        frame = encode(message, self._limit)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def close(self) -> None:
        """End the connection after what was sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()


PeerUid = Callable[[Any], int | None]


def peer_uid(connection: socket.socket, platform: str = sys.platform) -> int | None:
    """The user at the other end of a Unix socket; None where the platform does not say."""
    if platform == "linux":
        size = struct.calcsize("3i")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return struct.unpack("3i", credentials)[1]
    if platform == "darwin":
        # struct xucred: version, uid, groups; the level of local sockets is 0.
        return struct.unpack_from("2I", connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED))[1]
    return None
