"""What the local exchange refuses, in the codes and words of Binance."""

from __future__ import annotations

from typing import Any, Final

TIMEOUT_TEXT: Final = (
    "Timeout waiting for response from backend server. Send status unknown; execution status unknown."
)


class Refused(Exception):
    """A request that gets an error: the venue's code and text, the HTTP status, and when to come back."""

    def __init__(
        self,
        code: int,
        message: str,
        status: int = 400,
        *,
        data: dict[str, Any] | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.data = data
        self.retry_after_s = retry_after_s

    def document(self) -> dict[str, Any]:
        body: dict[str, Any] = {"code": self.code, "msg": self.message}
        return body if self.data is None else {**body, "data": self.data}


# --- parameters ---------------------------------------------------------------------------------


def illegal_characters(name: str, legal: str) -> Refused:
    return Refused(-1100, f"Illegal characters found in parameter '{name}'; legal range is '{legal}'.")


def too_many_parameters(expected: int, received: int) -> Refused:
    return Refused(-1101, f"Too many parameters; expected '{expected}' and received '{received}'.")


def duplicate_values() -> Refused:
    return Refused(-1101, "Duplicate values for a parameter detected.")


def missing(name: str) -> Refused:
    return Refused(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.")


def neither(one: str, other: str) -> Refused:
    return Refused(-1102, f"Param '{one}' or '{other}' must be sent, but both were empty/null!")


def too_great(name: str, most: int) -> Refused:
    return Refused(-1102, f"'{name}' contains unexpected value. Cannot be greater than {most}.")


def unread(read: int, sent: int) -> Refused:
    return Refused(
        -1104, f"Not all sent parameters were read; read '{read}' parameter(s) but was sent '{sent}'."
    )


def empty(name: str) -> Refused:
    return Refused(-1105, f"Parameter '{name}' was empty.")


def overflowed(name: str) -> Refused:
    return Refused(-1108, f"Parameter '{name}' overflowed.")


def too_precise(name: str) -> Refused:
    return Refused(-1111, f"Parameter '{name}' has too much precision.")


def invalid_time_in_force() -> Refused:
    return Refused(-1115, "Invalid timeInForce.")


def invalid_order_type() -> Refused:
    return Refused(-1116, "Invalid orderType.")


def invalid_side() -> Refused:
    return Refused(-1117, "Invalid side.")


def invalid_interval() -> Refused:
    return Refused(-1120, "Invalid interval.")


def invalid_symbol() -> Refused:
    return Refused(-1121, "Invalid symbol.")


def invalid_symbol_status() -> Refused:
    return Refused(-1122, "Invalid symbolStatus.")


def span_too_long(hours: int) -> Refused:
    return Refused(-1127, f"More than {hours} hours between startTime and endTime.")


def bad_combination() -> Refused:
    return Refused(-1128, "Combination of optional parameters invalid.")


def invalid_data(name: str) -> Refused:
    return Refused(-1130, f"Data sent for parameter '{name}' is not valid.")


def bad_strategy_type() -> Refused:
    return Refused(-1134, "strategyType was less than 1000000.")


def invalid_json(name: str) -> Refused:
    return Refused(-1135, f"JSON sent for parameter '{name}' is not valid")


def invalid_ticker_type() -> Refused:
    return Refused(-1139, "Invalid ticker type.")


def invalid_cancel_restrictions() -> Refused:
    return Refused(-1145, "Invalid cancelRestrictions")


def duplicate_symbols() -> Refused:
    return Refused(-1151, "Symbol is present multiple times in the list.")


def invalid_time_unit() -> Refused:
    return Refused(-1194, "Invalid value for time unit; expected either MICROSECOND or MILLISECOND.")


def status_mismatch() -> Refused:
    return Refused(-1220, "The symbol's status does not match the requested symbolStatus.")


# --- security -----------------------------------------------------------------------------------


def too_old() -> Refused:
    return Refused(-1021, "Timestamp for this request is outside of the recvWindow.")


def too_new() -> Refused:
    return Refused(-1021, "Timestamp for this request was 1000ms ahead of the server's time.")


def bad_signature() -> Refused:
    return Refused(-1022, "Signature for this request is not valid.")


def malformed_key() -> Refused:
    return Refused(-2014, "API-key format invalid.", 401)


def rejected_key() -> Refused:
    return Refused(-2015, "Invalid API-key, IP, or permissions for action.", 401)


# --- limits -------------------------------------------------------------------------------------


def too_much_weight(limit: int, span: str, retry_after_s: int) -> Refused:
    text = (
        f"Too much request weight used; current limit is {limit} request weight per {span}. "
        "Please use WebSocket Streams for live updates to avoid polling the API."
    )
    return Refused(-1003, text, 429, retry_after_s=retry_after_s)


def too_many_requests(limit: int, span: str, retry_after_s: int) -> Refused:
    text = f"Too many requests; current limit is {limit} requests per {span}."
    return Refused(-1003, text, 429, retry_after_s=retry_after_s)


def banned(until_ms: int, retry_after_s: int) -> Refused:
    text = (
        f"Way too much request weight used; IP banned until {until_ms}. "
        "Please use WebSocket Streams for live updates to avoid bans."
    )
    return Refused(-1003, text, 418, retry_after_s=retry_after_s)


def too_many_orders(limit: int, span: str, retry_after_s: int) -> Refused:
    text = f"Too many new orders; current limit is {limit} orders per {span}."
    return Refused(-1015, text, 429, retry_after_s=retry_after_s)


def too_many_connections(limit: int, span: str, retry_after_s: int) -> Refused:
    text = f"Too many connection attempts from IP; current limit is {limit} per '{span}'."
    return Refused(-1034, text, 429, retry_after_s=retry_after_s)


# --- the server ---------------------------------------------------------------------------------


def unknown() -> Refused:
    return Refused(-1000, "An unknown error occurred while processing the request.", 500)


def timed_out() -> Refused:
    return Refused(-1007, TIMEOUT_TEXT, 408)


def disconnected() -> Refused:
    return Refused(-1001, "Internal error; unable to process your request. Please try again.", 500)
