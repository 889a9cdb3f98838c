"""Host names and browser origins, matched by the grammar of RFC 9110 and RFC 6454."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from tracedesk.wire.request import Request, Response, Send

LOOPBACK: Final = frozenset(("127.0.0.1", "localhost", "::1"))
_NAME: Final = r"[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?|\[[0-9a-f.]{0,4}:[0-9a-f:.]{1,40}\]"
_AUTHORITY: Final = re.compile(rf"({_NAME})(?::([0-9]{{1,5}}))?", re.IGNORECASE | re.ASCII)
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]{0,40}://[!-~]{1,300}", re.IGNORECASE | re.ASCII)
_HEADERS: Final = re.compile(r"[a-z0-9_, -]{0,2000}", re.IGNORECASE | re.ASCII)
_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
T = TypeVar("T")
_EXPOSED: Final = b"mcp-session-id, connection-id, tracedesk-call, www-authenticate, retry-after"


class Authority(NamedTuple):
    """A host name in lower case, without brackets, and the port if one was given."""

    name: str
    port: int | None


@lru_cache(maxsize=256)
def authority(text: str) -> Authority | None:
    """The host and port of `host[:port]`; None for anything else."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    name, port = found.groups()
    return Authority(name.lower().strip("[]"), None if port is None else int(port))


@lru_cache(maxsize=256)
def origin(text: str) -> tuple[str, Authority] | None:
    """The scheme and authority of an origin of the web, its port filled in; None for anything else."""
    scheme, separator, rest = text.partition("://")
    port = _PORTS.get(scheme.lower())
    named = authority(rest) if separator else None
    if port is None or named is None:
        return None
    return scheme.lower(), Authority(named.name, named.port or port)


def named_origin(text: str) -> str | None:
    """An origin that a person names, as browsers send it; None for what cannot be one."""
    text = text.rstrip("/")
    web = origin(text)
    if web is None:
        is_other = _ORIGIN.fullmatch(text) and text.partition("://")[0].lower() not in _PORTS
        return text if is_other and "/" not in text.partition("://")[2] else None
    scheme, (name, port) = web
    host = f"[{name}]" if ":" in name else name
    return f"{scheme}://{host}" + ("" if port == _PORTS[scheme] else f":{port}")


@dataclass(frozen=True, slots=True)
class Names:
    """The names a desk answers to: its own on its own port, and those that a person has allowed."""

    scheme: str
    port: int
    own: frozenset[str] = LOOPBACK
    allowed: frozenset[Authority] = frozenset()
    """One without a port is served on every port: a proxy or a port mapping chooses its own."""
    origins: frozenset[str] = frozenset()
    """The foreign origins whose pages may call."""

    @classmethod
    def of(
        cls, base: str, own: Iterable[str], allowed: Iterable[str] = (), origins: Iterable[str] = ()
    ) -> Names:
        """The names of a desk that is reached at `base`; raises `ValueError` for one that cannot be."""
        found = origin(base)
        assert found is not None, base
        scheme, (_, port) = found
        return cls(
            scheme,
            port or 0,
            frozenset(name.lower() for name in own),
            frozenset(_parsed(name, authority(name), "a host name") for name in allowed),
            frozenset(_parsed(name, named_origin(name), "an origin") for name in origins),
        )

    def answers_to(self, host: str) -> bool:
        """True for a Host header that names this desk."""
        named = authority(host)
        if named is None:
            return False
        own = named.name in self.own and (named.port or _PORTS[self.scheme]) == self.port
        return own or self._allows(named)

    def takes(self, sent: str, host: str) -> bool:
        """True for an Origin header of this desk's own pages, or of a page that a person has allowed."""
        if sent in self.origins:
            return True
        web = origin(sent)
        if web is None:
            return False
        scheme, named = web
        if named.name in self.own and scheme == self.scheme and named.port == self.port:
            return True
        if named in self.allowed:
            return True
        ports = (_PORTS[scheme], self.port, (authority(host) or named).port)
        return Authority(named.name, None) in self.allowed and named.port in ports

    def _allows(self, named: Authority) -> bool:
        return named in self.allowed or Authority(named.name, None) in self.allowed


def _parsed(text: str, value: T | None, kind: str) -> T:
    if value is None:
        raise ValueError(f"{text!r} is not {kind}")
    return value


def preflight(request: Request) -> Response:
    """The answer to a browser that asks what a page of an allowed origin may send."""
    asked = request.headers.get("access-control-request-headers", "")
    allowed = {
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": asked if _HEADERS.fullmatch(asked) else "",
        "Access-Control-Max-Age": "600",
    }
    return Response(204, headers=allowed)


def readable(send: Send, sent: str) -> Send:
    """A channel whose answers a page of that origin may read."""
    lines = [
        (b"access-control-allow-origin", sent.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"origin"),
    ]

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *lines]
        await send(message)

    return sending
