"""What every HTTP request must pass: host, origin, content type, bearer token."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tracedesk.errors import NotPermitted
from tracedesk.wire.auth import OWN_USER, SCOPES, STRANGER, Identity, Tokens
from tracedesk.wire.origins import Names
from tracedesk.wire.request import Refused, Request

_FORWARDED: Final = frozenset(
    (
        "forwarded",
        "via",
        "proxy-connection",
        "cf-connecting-ip",
        "fastly-client-ip",
        "true-client-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-real-ip",
    )
)
_FORWARDED_BEGINS: Final = ("x-forwarded", "x-envoy-")
"""Headers of a proxy: the user behind its connection is then not the one who asks."""
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class Guard:
    """The desk's rules for strangers: which names it answers to, and what needs a token."""

    tokens: Tokens
    base: str
    names: Names
    anonymous_reads: bool = True
    own_uid: int = field(default_factory=os.geteuid)

    def check(self, request: Request, remedy: str = "") -> None:
        """Refuse a request that came by another name, from another site, or (with the remedy) not as JSON."""
        _refuse_repeated(request)
        if not request.target.startswith(b"/"):
            raise Refused(400, "Send the path alone as the request's target, not a whole URL")
        host = request.headers.get("host", "")
        if not self.names.answers_to(host):
            remedy = "--allow-host NAME allows another one"
            raise Refused(421, f"This desk does not answer to the host {host[:80]!r}; {remedy}")
        origin = request.headers.get("origin")
        if origin is not None and not self.names.takes(origin, host):
            raise Refused(403, "Requests from other origins are refused; --origin URL allows one")
        if request.method == "POST":
            _check_content_type(request, remedy)

    def identify(self, request: Request) -> Identity:
        """Return the sender's identity; a wrong token is refused, without one the desk's own user reads."""
        uid = None if is_forwarded(request.headers) else request.caller_uid
        return self.bearer(request.headers.get("authorization"), uid)

    def bearer(self, header: str | None, uid: int | None) -> Identity:
        """Return the identity behind an authorization header, or behind a connection of a user without one.

        The desk's own user alone is known without a token: not root, for which a desk is one program of many.
        """
        if header is None:
            if not self.anonymous_reads:
                raise Refused(401, "This desk needs a bearer token", self.challenge())
            return OWN_USER if uid == self.own_uid else STRANGER
        kind, _, secret = header.partition(" ")
        token = self.tokens.verify(secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise Refused(401, "The token is not known here", self.challenge("invalid_token"))
        return Identity(f"principal:{token.name}", token.name, token.scopes, token.digest, token.name)

    def challenge(self, error: str | None = None, scope: str | None = None) -> dict[str, str]:
        """The WWW-Authenticate header that tells a client what it lacks."""
        parts = [f'resource_metadata="{self.base}{METADATA_PATH}/mcp"']
        if error is not None:
            parts.insert(0, f'error="{error}"')
        if scope is not None:
            parts.append(f'scope="{scope}"')
        return {"WWW-Authenticate": "Bearer " + ", ".join(parts)}

    def denial(self, refused: NotPermitted) -> tuple[int, dict[str, str]]:
        """The status and headers of a scope that is lacking: 403 with a token, 401 without."""
        if refused.authenticated:
            return 403, self.challenge("insufficient_scope", refused.scope)
        return 401, self.challenge(scope=refused.scope)


def is_forwarded(headers: Iterable[str]) -> bool:
    """True when the names of a request's headers, in lower case, include one that proxies add."""
    return any(name in _FORWARDED or name.startswith(_FORWARDED_BEGINS) for name in headers)


def metadata(base: str) -> dict[str, object]:
    """RFC 9728: what this resource is and how tokens reach it."""
    return {
        "resource": f"{base}/mcp",
        "resource_name": "Tracedesk",
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
    }


_ONCE: Final = frozenset(
    ("host", "origin", "authorization", "mcp-session-id", "connection-id", "x-connection-id", "content-type")
)


def _refuse_repeated(request: Request) -> None:
    """Two readers of one request could take different copies of a header; so there is only one."""
    if request.has_repeated_headers:
        names = [name for name, _ in request.header_lines()]
        repeated = sorted(name for name in _ONCE if names.count(name) > 1)
        if repeated:
            raise Refused(400, f"Send {', '.join(repeated)} once")


def _check_content_type(request: Request, remedy: str) -> None:
    length = request.headers.get("content-length")
    if length == "0" or (length is None and "transfer-encoding" not in request.headers):
        return
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, f"Send the body as application/json{remedy and f': {remedy}'}")
