"""The URIs of the resources: `binance://category/identifier`, and what is wrong with one that is none."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from tracedesk.errors import ToolError

SCHEME: Final = "binance"
_FORMS: Final = (
    "binance://market/{symbol}, binance://account/balances, binance://account/holdings, "
    "binance://orders/open, binance://orders/history/{symbol}"
)
_FIXED: Final = {"account": ("balances", "holdings"), "orders": ("open",)}
_WHOLE: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<category>[^/?#]*)(?P<path>/[^?#]*)?)?(?P<rest>.*)", re.S
)
_ENCODED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f/\\?#%]")
_LONGEST: Final = 200


def canonical(uri: str) -> str | None:
    """The one form of a `binance:` URI, all in lower case; None for other schemes.

    Raises `ToolError` with the remedy for one that names no resource.
    """
    found = _WHOLE.fullmatch(uri)
    if found is None or found["scheme"].lower() != SCHEME:
        return None
    if len(uri) > _LONGEST:
        raise _bad(uri, f"is longer than {_LONGEST} characters")
    category = (found["category"] or "").lower()
    if found["rest"]:
        raise _bad(
            uri, "has a query or fragment, and no resource here has one" if category else "has no category"
        )
    segments = [_segment(uri, text) for text in (found["path"] or "").split("/")[1:]]
    return _named(uri, category, segments)


def _segment(uri: str, text: str) -> str:
    if _ENCODED.search(text):
        raise _bad(uri, "has a % that begins no encoded character")
    try:
        plain = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise _bad(uri, "is not UTF-8") from None
    if _UNFIT.search(plain) or plain in (".", ".."):
        raise _bad(uri, "hides a slash, space, percent or control character in a segment")
    return plain


def _named(uri: str, category: str, segments: list[str]) -> str:
    if category == "market":
        return f"{SCHEME}://market/{_symbol(uri, segments)}"
    if category == "orders" and segments and segments[0].lower() == "history":
        return f"{SCHEME}://orders/history/{_symbol(uri, segments[1:])}"
    if category not in _FIXED:
        raise _bad(uri, f"has the category {category[:40]!r}, which is none of market, account, orders")
    if len(segments) != 1 or segments[0].lower() not in _FIXED[category]:
        raise _bad(uri, f"names nothing under {category}")
    return f"{SCHEME}://{category}/{segments[0].lower()}"


def _symbol(uri: str, segments: list[str]) -> str:
    if not segments or not segments[0]:
        raise _bad(uri, "names no symbol")
    if len(segments) > 1:
        raise _bad(uri, "has a segment too many")
    return quote(segments[0].lower(), safe="")


def _bad(uri: str, problem: str) -> ToolError:
    shown = uri[:80]
    return ToolError(
        "INVALID_PARAMETER", f"uri {shown!r} {problem}. Use one of {_FORMS}.", {"field": "uri", "uri": shown}
    )
