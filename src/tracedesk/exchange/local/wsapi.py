"""The WebSocket API: requests with ids, sessions that are logged on, and user data as it happens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import orjson
from aiohttp import web

from tracedesk.exchange.local import documents, errors, parameters
from tracedesk.exchange.local.answering import Asked, Cut, answer, signed
from tracedesk.exchange.local.auth import Key, socket_payload
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.methods import BY_NAME, SIGNED, Method
from tracedesk.exchange.local.parameters import Parameter, whole
from tracedesk.exchange.local.sockets import Socket
from tracedesk.exchange.venue.events import BalancesChanged, Reported

if TYPE_CHECKING:
    from tracedesk.exchange.local.exchange import AccountEvent, LocalExchange

CONNECTING: Final = 2
"""The weight of opening a connection."""
SESSION: Final = 2
"""The weight of a request about the session itself."""
MOST_ACTIVE: Final = 1_000
MOST_EVER: Final = 65_535
_VERSION: Final = "v3/"
_SECURITY: Final = ("apiKey", *SIGNED)
_STEERING: Final = ("returnRateLimits",)


class _Raw(str):
    """A JSON number with its own digits."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message of a client, read as far as every request is alike."""

    id: int | str | None
    method: str
    sent: Mapping[str, str]
    rate_limits: bool | None
    """Whether the client wants them in this answer; `None` where it did not say."""


_UNREADABLE: Final = Request(None, "", {}, None)


@dataclass(frozen=True, slots=True)
class Subscription:
    """An account's events on this connection."""

    account: str
    cancel: Callable[[], None]
    of_session: bool
    """Begun by the session that is logged on, and ended with it."""


class ApiSocket(Socket):
    """A connection to the WebSocket API."""

    def __init__(self, exchange: LocalExchange, request: web.Request) -> None:
        super().__init__(exchange, request)
        self._shows_limits = request.query.get("returnRateLimits", "true").lower() != "false"
        self._key: Key | None = None
        self._since_ms: int | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._begun = 0

    async def opened(self) -> None:
        self.exchange.limits.charge(self._counted(), CONNECTING)

    def closed(self) -> None:
        for subscription in self._subscriptions.values():
            subscription.cancel()
        self._subscriptions.clear()

    def farewell(self) -> object:
        return {"event": {"e": "serverShutdown", "E": self.exchange.now_ms()}}

    # --- requests -------------------------------------------------------------------------------

    async def heard(self, text: str) -> None:
        request = _UNREADABLE
        try:
            request = _request(text)
            await self._answer(request)
        except Refused as refused:
            self._reply(request, refused.status, {"error": self._error(refused)}, self._orders_of(request))
        except Cut:
            self.cut()

    async def _answer(self, request: Request) -> None:
        own = self._own_methods().get(request.method)
        if own is not None:
            self._reply(request, 200, {"result": self._act(own, request)})
            return
        method = BY_NAME.get(request.method)
        if method is None:
            self._charge(1)
            raise Refused(-1020, "This operation is not supported.")
        result, account = await answer(self.exchange, method, self._asked(request))
        self._reply(request, 200, {"result": result}, account if method.places_order else None)

    def _charge(self, weight: int) -> None:
        self.exchange.limits.admit(self._counted())
        self.exchange.limits.charge(self._counted(), weight)

    def _counted(self) -> str | None:
        """The one that requests without a signature of their own are counted for."""
        return self.exchange.limits.counted(self.address, "" if self._key is None else self._key.account)

    def _act(self, own: Callable[[Request], object], request: Request) -> object:
        self._charge(SESSION)
        return own(request)

    def _asked(self, request: Request) -> Asked:
        return Asked(
            address=self.address,
            sent=request.sent,
            api_key=request.sent.get("apiKey", ""),
            payload=socket_payload(request.sent),
            unit=self.unit,
            security=_SECURITY,
            steering=_STEERING,
            session=self._key,
        )

    # --- answers --------------------------------------------------------------------------------

    def _reply(
        self, request: Request, status: int, outcome: dict[str, Any], account: str | None = None
    ) -> None:
        body: dict[str, Any] = {"id": request.id, "status": status, **outcome}
        if self._shows_limits if request.rate_limits is None else request.rate_limits:
            body["rateLimits"] = self._limits(account)
        self.send_json(body)

    def _limits(self, account: str | None) -> list[dict[str, Any]]:
        limits = self.exchange.limits
        orders = [] if account is None else limits.orders(account)
        return [rule.document(count) for rule, count in (*orders, *limits.weights(self._counted()))]

    def _error(self, refused: Refused) -> dict[str, Any]:
        if refused.retry_after_s is None:
            return refused.document()
        now = self.exchange.now_ms()
        again = {"serverTime": now, "retryAfter": now + 1_000 * refused.retry_after_s}
        return {**refused.document(), "data": {**(refused.data or {}), **again}}

    def _orders_of(self, request: Request) -> str | None:
        """The account whose order counts belong into a refusal."""
        method: Method | None = BY_NAME.get(request.method)
        if method is None or not method.places_order:
            return None
        try:
            return self.exchange.keys.find(request.sent["apiKey"]).account
        except (KeyError, Refused):
            return self._key.account if self._key is not None else None

    # --- the session ----------------------------------------------------------------------------

    def _own_methods(self) -> dict[str, Callable[[Request], object]]:
        return {
            "session.logon": self._log_on,
            "session.status": self._status,
            "session.logout": self._log_out,
            "session.subscriptions": self._list,
            "userDataStream.subscribe": self._subscribe_session,
            "userDataStream.subscribe.signature": self._subscribe_signed,
            "userDataStream.unsubscribe": self._unsubscribe,
        }

    def _log_on(self, request: Request) -> dict[str, Any]:
        key = self._signer(request)
        if key.kind != "Ed25519":
            raise Refused(
                -4056, f"{'HMAC_SHA256' if key.kind == 'HMAC' else key.kind} API key is not supported."
            )
        self._key = key
        self._since_ms = self.exchange.now_ms()
        return self._state()

    def _status(self, request: Request) -> dict[str, Any]:
        parameters.read((), request.sent, _STEERING)
        return self._state()

    def _log_out(self, request: Request) -> dict[str, Any]:
        parameters.read((), request.sent, _STEERING)
        self._key = self._since_ms = None
        for number, subscription in tuple(self._subscriptions.items()):
            if subscription.of_session:
                self._end(number)
        return self._state()

    def _state(self) -> dict[str, Any]:
        return {
            "apiKey": None if self._key is None else self._key.api_key,
            "authorizedSince": self._since_ms,
            "connectedSince": self.connected_ms,
            "returnRateLimits": self._shows_limits,
            "serverTime": self.exchange.now_ms(),
            "userDataStream": bool(self._subscriptions),
        }

    def _signer(self, request: Request) -> Key:
        """The key that signed a request which has no parameters of its own."""
        if not request.sent.get("apiKey"):
            raise errors.missing("apiKey")
        key, _ = signed(self.exchange, replace(self._asked(request), session=None))
        parameters.read((), request.sent, _SECURITY + _STEERING)
        return key

    # --- user data ------------------------------------------------------------------------------

    def _subscribe_session(self, request: Request) -> dict[str, Any]:
        parameters.read((), request.sent, _STEERING)
        if self._key is None:
            raise errors.rejected_key()
        return self._subscribe(self.exchange.keys.find(self._key.api_key), of_session=True)

    def _subscribe_signed(self, request: Request) -> dict[str, Any]:
        return self._subscribe(self._signer(request), of_session=False)

    def _subscribe(self, key: Key, *, of_session: bool) -> dict[str, Any]:
        if "USER_STREAM" not in key.permissions:
            raise errors.rejected_key()
        if any(each.account == key.account for each in self._subscriptions.values()):
            raise Refused(-2035, "User Data Stream subscription already active.")
        if self._begun > MOST_EVER or len(self._subscriptions) >= MOST_ACTIVE:
            raise Refused(-2042, "Maximum subscription ID reached for this connection.")
        number, self._begun = self._begun, self._begun + 1
        cancel = self.exchange.listen(key.account, lambda event: self._tell(number, event))
        self._subscriptions[number] = Subscription(key.account, cancel, of_session)
        return {"subscriptionId": number}

    def _unsubscribe(self, request: Request) -> dict[str, Any]:
        given = parameters.read((Parameter("subscriptionId", whole),), request.sent, _STEERING)
        numbers = [given["subscriptionId"]] if given else list(self._subscriptions)
        if not numbers or any(number not in self._subscriptions for number in numbers):
            raise Refused(-2036, "User Data Stream subscription not active.")
        for number in numbers:
            self._end(number)
        return {}

    def _list(self, request: Request) -> list[dict[str, Any]]:
        parameters.read((), request.sent, _STEERING)
        return [{"subscriptionId": number} for number in self._subscriptions]

    def _end(self, number: int) -> None:
        self._subscriptions.pop(number).cancel()
        event = documents.ended(self.exchange.now_ns(), self.unit)
        self.send_json({"subscriptionId": number, "event": event})

    def _tell(self, number: int, event: AccountEvent) -> None:
        frame = {"subscriptionId": number, "event": self._event(event)}
        if self.exchange.faults.strike("malformed", "userDataStream"):
            self.send(b'{"subscriptionId":')
        self.send_json(frame)

    def _event(self, event: AccountEvent) -> dict[str, Any]:
        now = self.exchange.now_ns()
        if isinstance(event, Reported):
            return documents.report(event, now, self.unit)
        if isinstance(event, BalancesChanged):
            return documents.position(event, now, self.unit)
        return documents.deposit(event, now, self.unit)


# --- reading a message --------------------------------------------------------------------------


def _request(text: str) -> Request:
    try:
        # It refuses what the other one takes: lone surrogates, NaN and nesting without end.
        orjson.loads(text)
        document = json.loads(text, parse_float=_Raw)
        if isinstance(document, dict):
            return _read(cast("dict[str, Any]", document))
    except (ValueError, RecursionError):
        pass
    raise Refused(-1135, "Invalid JSON Request")


def _read(document: dict[str, Any]) -> Request:
    request_id, method, params = document.get("id", False), document.get("method"), document.get("params", {})
    if isinstance(request_id, bool | _Raw | list | dict) or not isinstance(method, str):
        raise Refused(-1135, "Invalid JSON Request")
    if isinstance(request_id, int) and not -(2**63) <= request_id < 2**63:
        raise Refused(-1135, "Invalid JSON Request")
    if not isinstance(params, dict):
        raise Refused(-1135, "Invalid JSON Request")
    given = cast("dict[str, Any]", params)
    wanted = given.get("returnRateLimits")
    sent = {name: _text(value) for name, value in given.items() if value is not None}
    shown = wanted if isinstance(wanted, bool) else None
    return Request(request_id, method.removeprefix(_VERSION), sent, shown)


def _text(value: object) -> str:
    """A parameter as it is signed: words and numbers as they are, truth in lower case, lists as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value)
