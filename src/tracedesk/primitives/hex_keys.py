"""Private keys of 32 bytes in hexadecimal digits: they look like hashes; their place gives them away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

Span = tuple[int, int]

_KEY: Final = r"(?:0x)?[0-9a-f]{64}(?![0-9a-z])"
_QUOTE: Final = r"(?:\\{0,15}[\"'`]|%22|%27)?"
_BREAKS: Final = r"(?:\s|\\n){0,16}"
_ITEM: Final = r"(?:\n|\\n)[ \t]{0,16}-[ \t]{1,4}"
_KEYS: Final = rf"(?P<keys>{_KEY}(?:{_QUOTE}(?:\s{{0,8}},{_BREAKS}|{_ITEM}){_QUOTE}{_KEY})*)"
_BLOCK: Final = r"[|>][-+]?(?:\n|\\n)[ \t]{1,16}"
_OPENS: Final = rf"(?:{_BLOCK}|[\w.:!]{{1,40}}[(]\s{{0,8}})?(?:\[{_BREAKS}|{_ITEM})?{_QUOTE}"
_TYPED: Final = r"(?::\s{0,3}[a-z0-9_&'\[\]; ]{1,24}\s{0,3})?"
_ASSIGNED: Final = rf"{_QUOTE}\s{{0,4}}{_TYPED}(?:=>|:=|={{1,3}}|[:>]|%3d|%3a)(?:\s|%20){{0,4}}"
_FLAGGED: Final = rf"{_QUOTE}(?:\s{{1,4}}|\s{{0,4}},\s{{0,4}})"
_OF: Final = r"\s(?:for|of)\s[\w .'-]{1,32}?(?:\s(?:is|was)\s|:\s)"
_SPOKEN: Final = (
    rf"(?:{_OF}|\s{{0,3}}(?:[(][0-9]{{1,3}}[)]\s{{0,3}})?(?:(?:is|was|are)\s{{0,3}})?[:|]?)\s{{0,3}}"
)
_NO_SECRET: Final = (
    r"(?![a-z0-9_-]{0,24}(?:hash|digest|public|address|commit|root|slot|salt|topic|sha|tx|trans))"
)
_NUMBER: Final = "[0-9]{0,2}"
_KIND: Final = r"(?:[_-]?(?:key|pk|priv|wallet|account|signer|secret))?"
_HOLDERS: Final = (
    "wallet", "signer", "deployer", "relayer", "funder", "faucet", "operator", "owner", "admin", "sender",
    "minter", "keeper",
)  # fmt: skip
_CALLS: Final = (
    "wallet(", "from_key(", "fromkey(", "signingkey(", "startbroadcast(", "rememberkey(", "vm.addr(",
    "vm.sign(", "ecdsa(",
)  # fmt: skip
_ENDS: Final = ('"', "'", "\\", "=", ":", " =", "_", "-")

_PATTERNS: Final = (
    ("priv", rf"priv(?:ate)?(?:[ _-]?keys?|[_-]?(?:hex|seed)){_NO_SECRET}[a-z0-9_-]{{0,16}}{_ASSIGNED}"),
    # With no word for a key behind it, "private" stands before inputs, recipients and much else.
    ("priv", rf"priv(?:ate)?{_NUMBER}{_ASSIGNED}"),
    ("priv", rf"priv(?:ate)?[ _-]?keys?(?:{_FLAGGED}|{_SPOKEN})"),
    ("priv", r"privatekey\w{0,24}[(]\s{0,8}"),
    ("secret", rf"secret{_NO_SECRET}[a-z0-9_-]{{0,16}}{_ASSIGNED}"),
    ("-secret", rf"-secret(?:-key)?{_FLAGGED}"),
    ("-pk", rf"-pk{_FLAGGED}"),
    *((name + end, rf"{name}{_KIND}{_NUMBER}{_ASSIGNED}") for name in ("eth", "evm") for end in _ENDS),
    ("ethereum", rf"ethereum{_KIND}{_NUMBER}{_ASSIGNED}"),
    *((f"pk{end}", rf"pk{_NUMBER}{_ASSIGNED}") for end in (*_ENDS, *"123456789")),
    *((name, rf"{name}[_-]?(?:key|pk){_NUMBER}{_ASSIGNED}") for name in _HOLDERS),
    ("accounts", rf"accounts{_ASSIGNED}(?=\[)"),
    *((call, rf"{call}[(][^()\n]{{1,80}},\s{{0,8}}") for call in ("sign_transaction", "signtransaction")),
    *((call, re.escape(call) + r"\s{0,8}") for call in _CALLS),
)
"""Words that stand in a text of small letters, and words that stand before a key."""

_WHOLE_WORDS: Final = ("eth", "evm", "pk", "accounts")
_BEFORE: Final = 24
_OF_HASH: Final = re.compile(r"(?:hash|digest|sha256|(?<![a-z])txs?|transactions?)[a-z0-9_-]{0,8}\Z")
"""Words before a name that make it the name of a hash, such as `hashOfSecret` and `tx_eth`."""

# As Anvil and Hardhat print theirs: a heading, and then numbered lines.
_HEADING: Final = "private keys"
_LISTED: Final = (
    rf"{_HEADING}(?:[\s=]|\\n){{1,80}}"
    rf"(?P<keys>(?:[(][0-9]{{1,3}}[)]\s{{1,4}}{_KEY}(?:\s|\\n){{0,8}}){{1,256}})"
)
HINTS: Final = frozenset((_HEADING, *(hint for hint, _ in _PATTERNS)))
ONE: Final = re.compile(rf"\s*{_KEY}\s*", re.IGNORECASE)

SHORTEST_KEY: Final = 64
_RUN: Final = b"h" * SHORTEST_KEY
_DIGITS: Final = bytes(104 if byte in b"0123456789abcdef" else 46 for byte in range(256))
_SMALL: Final = {capital: capital + 32 for capital in range(65, 91)}


def has_digits(folded: bytes) -> bool:
    """Return whether 64 hexadecimal digits stand in a row: without them no key is there."""
    return _RUN in folded.translate(_DIGITS)


def names_key(name: str, *, many: bool = False) -> bool:
    """Return whether 32 bytes in hexadecimal digits under this name, or a list of such, are private keys."""
    return len(name) <= 64 and bool(keys(f"{name}={'[' if many else ''}{'0' * 64}"))


def keys(text: str) -> list[Span]:
    """Return where the keys of a text stand, in order and apart from each other."""
    folded = text.lower()
    if len(folded) != len(text):
        folded = text.translate(_SMALL)
    found: set[Span] = set()
    for pattern in dict.fromkeys(pattern for hint, pattern in _PATTERNS if hint in folded):
        found.update(_matched(_compiled(pattern + _OPENS + _KEYS), text, folded))
    if _HEADING in folded:
        found.update(_matched(_compiled(_LISTED), text, folded))
    return sorted(found)


def _matched(pattern: re.Pattern[str], text: str, folded: str) -> Iterator[Span]:
    for match in pattern.finditer(folded):
        if match[0].startswith(_WHOLE_WORDS) and not _begins_word(text, match.start()):
            continue
        if _OF_HASH.search(folded, max(0, match.start() - _BEFORE), match.start()):
            continue
        for one in _compiled(_KEY).finditer(folded, *match.span("keys")):
            yield one.span()


def _begins_word(text: str, at: int) -> bool:
    """Return whether a word begins here, also inside camelCase."""
    before = text[at - 1 : at]
    return not before.isalnum() or (text[at].isupper() and not before.isupper())


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
