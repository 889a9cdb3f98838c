"""The REST API: one handler for every route below `/api/v3/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from aiohttp import web

from tracedesk.exchange.local import errors
from tracedesk.exchange.local.answering import Asked, Cut, answer
from tracedesk.exchange.local.auth import rest_payload
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.methods import METHODS, Json
from tracedesk.exchange.local.sockets import unit_of
from tracedesk.primitives import json

if TYPE_CHECKING:
    from tracedesk.exchange.local.exchange import LocalExchange

KEY_HEADER: Final = "X-MBX-APIKEY"
UNIT_HEADER: Final = "X-MBX-TIME-UNIT"
ROUTES: Final = {(method.verb, method.path): method for method in METHODS}
_PATHS: Final = {method.path for method in METHODS}


async def handle(exchange: LocalExchange, request: web.Request) -> web.StreamResponse:
    """Answer a request in JSON, with what is left of the limits in its headers."""
    address = request.remote or ""
    headers: dict[str, str] = {}
    try:
        body, status = await _body(exchange, request, address, headers), 200
    except Refused as refused:
        body, status = refused.document(), refused.status
        if refused.retry_after_s is not None:
            headers["Retry-After"] = str(refused.retry_after_s)
    except Cut:
        return cut(request)
    return respond(body, status, {**_used(exchange, exchange.limits.counted(address)), **headers})


async def _body(exchange: LocalExchange, request: web.Request, address: str, headers: dict[str, str]) -> Json:
    method = ROUTES.get((request.method, path := request.match_info["path"]))
    if method is None:
        exchange.limits.admit(exchange.limits.counted(address))
        exchange.limits.charge(exchange.limits.counted(address), 1)
        raise Refused(-1020, "This operation is not supported.", 405 if path in _PATHS else 404)
    body, account = await answer(exchange, method, await _asked(request, address))
    headers |= _used(exchange, exchange.limits.counted(address, account))
    if method.places_order:
        headers |= {
            f"X-MBX-ORDER-COUNT-{rule.letters}": str(count) for rule, count in exchange.limits.orders(account)
        }
    return body


def respond(body: Json, status: int, headers: dict[str, str]) -> web.Response:
    return web.Response(
        body=json.dumps(body),
        status=status,
        headers=headers,
        content_type="application/json",
        charset="UTF-8",
    )


def cut(request: web.Request) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _used(exchange: LocalExchange, who: str | None) -> dict[str, str]:
    weights = exchange.limits.weights(who)
    used = {f"X-MBX-USED-WEIGHT-{rule.letters}": str(count) for rule, count in weights}
    return {"X-MBX-USED-WEIGHT": next(iter(used.values())), **used} if used else {}


async def _asked(request: web.Request, address: str) -> Asked:
    # The raw text: signatures are of the bytes that were sent, not of what a URL library makes of them.
    query = request.raw_path.partition("?")[2]
    body = await _form(request)
    return Asked(
        address=address,
        sent=_parameters(query, body),
        api_key=request.headers.get(KEY_HEADER, ""),
        payload=_signed_bytes(query, body),
        unit=unit_of(request.headers.get(UNIT_HEADER, "MILLISECOND")),
    )


async def _form(request: web.Request) -> str:
    if request.method == "GET" or not request.can_read_body:
        return ""
    return (await request.read()).decode("utf-8", "surrogateescape")


def _parameters(query: str, body: str) -> dict[str, str]:
    """What was sent; the query wins over the body."""
    return {**_once(body), **_once(query)}


def _once(encoded: str) -> dict[str, str]:
    pairs = parse_qsl(encoded, keep_blank_values=True)
    found = dict(pairs)
    if len(found) < len(pairs):
        raise errors.duplicate_values()
    return found


def _signed_bytes(query: str, body: str) -> bytes | None:
    """The payload of the signature; `None` where something was not percent-encoded before it was signed."""
    if not (query + body).isascii():
        return None
    return rest_payload(query, body)
