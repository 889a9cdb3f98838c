"""Secrets kept out of records, logs and answers: rules for shapes, and a register of live values."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from decimal import Decimal
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeVar, cast

from tracedesk.primitives.hex_keys import HINTS as HEX_HINTS
from tracedesk.primitives.hex_keys import ONE as HEX_KEY
from tracedesk.primitives.hex_keys import SHORTEST_KEY, has_digits, names_key
from tracedesk.primitives.mnemonics import (
    SHORTEST_PHRASE,
    is_phrase,
    may_hold_phrase,
    phrase_shapes,
    with_plain_blanks,
)
from tracedesk.primitives.secret_rules import (
    FLAG,
    MARKER,
    PUBLIC_TOKEN,
    RULES,
    is_mixed,
    marker,
    named,
    without_keys,
    without_phrases,
)

MIN_SECRET = 6
"""Shorter values are not registered: replacing them everywhere would shred ordinary text."""

MAX_DEPTH = 200
TOO_DEEP = "[redacted:too-deep]"

_Value = TypeVar("_Value")

_SHORTEST: Final = 8
"""No rule matches a shorter text; most keys and many values end here."""


@lru_cache(maxsize=256)
def shown_scope(scope: str) -> str:
    """Return a call's scope as it may be shown: a session's id is all that protects it."""
    kind, _, identity = scope.partition(":")
    if kind != "session":
        return scope
    return f"session:{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def redact_text(text: str, secrets: Secrets | None = None) -> str:
    """Return the text with every registered or recognised secret replaced by its marker."""
    if secrets is not None:
        text = secrets.redact_text(text)
    if len(text) < _SHORTEST:
        return text
    folded = text.lower()
    raw = folded.encode(errors="replace")
    seen = raw.decode()
    if _may_hold_phrase(seen, raw):
        text = without_phrases(text)
    if _may_hold_key(seen, raw):
        text = without_keys(text)
    if _looks().hint(seen):
        for rule in RULES:
            if any(hint in folded for hint in rule.hints):
                text = rule.compiled().sub(rule.replace, text)
    return text


def may_span_lines(folded: str) -> bool:
    """Return whether a text of small letters could hold a secret that goes on in its next lines."""
    raw = folded.encode(errors="replace")
    seen = raw.decode()
    return _may_hold_phrase(seen, raw) or _may_hold_key(seen, raw)


def _may_hold_phrase(seen: str, raw: bytes) -> bool:
    if len(raw) < SHORTEST_PHRASE:
        return False
    plain = with_plain_blanks(seen)
    if not any(look(plain) for look in _looks().phrases):
        return False
    return may_hold_phrase(raw if plain is seen else plain.encode())


def _may_hold_key(seen: str, raw: bytes) -> bool:
    return len(raw) >= SHORTEST_KEY and _looks().hex_hint(seen) and has_digits(raw)


def is_plain(document: bytes, secrets: Secrets | None = None) -> bool:
    """Return whether `redact` would leave this JSON document as it is: one quick look before the long one."""
    if secrets is not None and secrets.occur_in(document):
        return False
    folded = document.decode(errors="replace").lower()
    if _looks().hint(folded):
        return False
    raw = folded.encode()
    if _looks().key(raw.translate(None, _PUNCTUATION).decode("ascii")):
        return False
    return not (_may_hold_key(folded, raw) or _may_hold_phrase(folded, raw))


_FEW: Final = 16
_LONGEST_SIMPLE_KEY: Final = 64
_WHOLE: Final = frozenset({int, bool, type(None)})
_FIGURES: Final = _WHOLE | {float, Decimal}


def is_simple(value: object) -> bool:
    """Return whether `redact` without registered secrets can find nothing, seen without encoding the value:
    a few members with innocent names, each a number or a text that is too short for any rule.
    """
    if type(value) is not dict or len(members := cast("dict[str, object]", value)) > _FEW:
        return False
    for key, item in members.items():
        short = type(item) in _FIGURES or (type(item) is str and len(item) < _SHORTEST)
        if not short or len(key) > _LONGEST_SIMPLE_KEY or not _is_innocent(key):
            return False
    return True


def is_figures(value: object) -> bool:
    """Return whether a value is simple and always has a JSON form: whole numbers and short ASCII texts."""
    if type(value) is not dict or len(members := cast("dict[str, object]", value)) > _FEW:
        return False
    for key, item in members.items():
        short = type(item) in _WHOLE or (type(item) is str and len(item) < _SHORTEST and item.isascii())
        if not short or len(key) > _LONGEST_SIMPLE_KEY or not _is_innocent(key):
            return False
    return True


@lru_cache(maxsize=1_024)
def _is_innocent(key: str) -> bool:
    return is_plain(key.encode(errors="surrogatepass"))


_PUNCTUATION = bytes(set(range(256)) - set(b"abcdefghijklmnopqrstuvwxyz0123456789"))


Look = Callable[[str], bool]


class _Looks(NamedTuple):
    """Searches in a text of small letters, each for what some secrets cannot do without."""

    hint: Look
    key: Look
    hex_hint: Look
    phrases: tuple[Look, ...]


@cache
def _looks() -> _Looks:
    return _Looks(
        hint=any_of(hint for rule in RULES for hint in rule.hints),
        key=any_of((*_SECRET_KEYS, "pwd", "token")),
        hex_hint=any_of(HEX_HINTS),
        phrases=tuple(_search(shape) for shape in phrase_shapes()),
    )


def any_of(words: Iterable[str]) -> Look:
    """Return a search that finds whether any of the words is in a text."""
    return _search("|".join(re.sub(r"([^A-Za-z0-9 =:_/'\"-])", r"\\\1", word) for word in sorted(set(words))))


def _search(pattern: str) -> Look:
    """Return a search for a pattern, done by the expressions of the schema validator.

    They search for many words at once, at memory speed; Python's own take fifty times as long, and every
    call pays for it.
    """
    import jsonschema_rs as schema

    options = schema.RegexOptions()
    return schema.Draft7Validator({"type": "string", "pattern": pattern}, pattern_options=options).is_valid


def redact(value: _Value, secrets: Secrets | None = None) -> _Value:
    """Return a JSON value with secrets replaced: inside texts, and whole under keys that name a secret."""
    return cast(_Value, _walk(value, secrets, None, 0))


def _walk(value: object, secrets: Secrets | None, kind: str | None, depth: int, name: object = "") -> object:
    if depth > MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        kind = kind or _phrase(members.values())
        return {
            _key(key, secrets, kind): _walk(item, secrets, kind or _kind_of(key, item, name), depth + 1, key)
            for key, item in members.items()
        }
    if isinstance(value, list):
        return _items(cast("list[object]", value), secrets, kind, depth)
    if isinstance(value, tuple):
        return tuple(_items(list(cast("tuple[object, ...]", value)), secrets, kind, depth))
    return _leaf(value, secrets, kind)


def _items(items: list[object], secrets: Secrets | None, kind: str | None, depth: int) -> list[object]:
    """Walk a list: the words of a wallet phrase are secret, and what follows a flag that names a secret."""
    kind = kind or _phrase(items)
    clean: list[object] = []
    before: object = None
    for item in items:
        of_flag = named(before.lstrip("-")) if isinstance(before, str) and FLAG.fullmatch(before) else None
        clean.append(_walk(item, secrets, kind or (of_flag if isinstance(item, str) else None), depth + 1))
        before = item
    return clean


def _phrase(values: Collection[object]) -> str | None:
    """Return the kind of a wallet phrase whose words are these values."""
    if 12 <= len(values) <= 24 and is_phrase([value for value in values if isinstance(value, str)]):
        return "mnemonic"
    return None


def _leaf(value: object, secrets: Secrets | None, kind: str | None) -> object:
    if kind is not None and isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
        return _whole(str(value), kind)
    return redact_text(value, secrets) if isinstance(value, str) else value


def _whole(text: str, kind: str) -> str:
    return text if not text or MARKER.fullmatch(text) else marker(text, kind)


def _key(key: object, secrets: Secrets | None, kind: str | None) -> object:
    if kind is not None and isinstance(key, str) and HEX_KEY.fullmatch(key):
        return _whole(key, kind)
    return redact_text(key, secrets) if isinstance(key, str) else key


# Keys are compared without case and punctuation, by how they end: clientSecret, X-MBX-APIKEY, db_password.
_SECRET_KEYS = (
    "password", "passwd", "passphrase", "secret", "secretkey", "secretaccesskey", "apikey", "apisecret",
    "apisign", "privatekey", "signingkey", "authorization", "cookie", "credential", "credentials", "mnemonic",
    "seedphrase", "listenkey", "authtoken", "accesstoken", "refreshtoken", "sessiontoken", "bearertoken",
    "accesspassphrase", "accesskey", "accesssign", "apitoken", "idtoken", "passwords", "passcode",
    "privatekeys", "privkey", "privkeys", "secretkeys", "mnemonics", "seedphrases", "recoveryphrase",
)  # fmt: skip
_PUBLIC_NAME = re.compile(r"withdrawalcredentials|.{0,16}(?:hash|digest|sha256)of.{1,32}")
"""Names that end like a secret's and are public."""
_PASSWORD_AGAIN = re.compile(
    r"[a-z]{0,16}passw(?:or)?d(?:confirm(?:ation)?|confirmed|repeat(?:ed)?|again|new|old|[0-9])"
)
_PAGE_TOKENS = frozenset({"nexttoken", "pagetoken", "nextpagetoken", "continuationtoken", "progresstoken"})


def _kind_of(key: object, value: object, parent: object = "") -> str | None:
    if not isinstance(key, str):
        return None
    name = re.sub(r"[^a-z0-9]", "", key.lower())
    if _PUBLIC_NAME.fullmatch(name):
        return None
    if _PASSWORD_AGAIN.fullmatch(name) or (name == "pass" and isinstance(value, str) and is_mixed(value)):
        return "password"
    if name.endswith(_SECRET_KEYS) or (name.endswith("pwd") and name != "pwd"):
        return named(key)
    if _is_key_at(f"{parent}_{key}" if parent else key, value):
        return "private-key"
    if name.endswith("token") and name not in _PAGE_TOKENS and _may_be_secret(value):
        return named(key)
    return None


def _is_key_at(name: str, value: object) -> bool:
    """Return whether a value under this name is a private key, or a list of some."""
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str) and HEX_KEY.fullmatch(each) for each in values):
        return False
    return names_key(name, many=isinstance(value, list))


def _may_be_secret(value: object) -> bool:
    return isinstance(value, str) and PUBLIC_TOKEN.fullmatch(value) is None


class Secrets:
    """The live secret values of this process, replaced wherever they appear, encoded or not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[tuple[str, str]] = Counter()
        self._forms: tuple[tuple[str, str], ...] = ()
        self._encoded: tuple[bytes, ...] = ()
        self.are_none = True
        """Whether nothing is registered; every call asks."""

    def add(self, value: str, kind: str = "secret") -> bool:
        """Register a value, once per holder; return False if it is too short to be replaced safely."""
        if len(value) < MIN_SECRET:
            return False
        with self._lock:
            self._held[value, named(kind)] += 1
            self._rebuild()
        return True

    def discard(self, value: str, kind: str = "secret") -> None:
        """Let go of one registration of a value; the last one ends its replacement."""
        with self._lock:
            self._held[value, named(kind)] -= 1
            self._held = +self._held
            self._rebuild()

    def redact_text(self, text: str) -> str:
        """Return the text with registered values replaced, plain or in base64, URL, JSON or hex encoding."""
        for form, stand_in in self._forms:
            if form in text:
                text = text.replace(form, stand_in)
        return text

    def occur_in(self, document: bytes) -> bool:
        """Return whether `redact_text` would change the text that these bytes encode."""
        return any(form in document for form in self._encoded) if self._encoded else False

    def _rebuild(self) -> None:
        self.are_none = not self._held
        # Longest first, so that a secret inside another one does not tear it apart.
        pairs = {form: marker(value, kind) for value, kind in self._held for form in set(_forms(value))}
        self._forms = tuple(sorted(pairs.items(), key=lambda pair: (-len(pair[0]), pair[0])))
        self._encoded = tuple(form.encode(errors="surrogatepass") for form in pairs)


def _forms(value: str) -> Iterator[str]:
    import json
    from urllib.parse import quote, quote_plus

    raw = value.encode(errors="surrogatepass")
    yield value
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield from (quoted, re.sub(r"%..", lambda escape: escape[0].lower(), quoted))
    yield from (raw.hex(), raw.hex().upper())
    yield from _base64_forms(raw)


def _base64_forms(raw: bytes) -> Iterator[str]:
    # A secret inside a longer encoded text ("key:secret") starts at one of three bit offsets. The characters
    # it shares with its neighbours are left out.
    from base64 import b64encode, urlsafe_b64encode

    for shift in range(3):
        head, tail = -(-shift * 8 // 6), (shift + len(raw)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(shift) + raw)[head:tail].decode()


class RedactingFilter(logging.Filter):
    """Redacts what a log record will say: its message with arguments, its traceback and its stack.

    Add it to handlers: a logger's own filters do not see the records of its children.
    """

    def __init__(self, secrets: Secrets | None = None) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record in place and let it pass."""
        record.msg, record.args = redact_text(_message(record), self._secrets), None
        if trace := _trace(record):
            record.exc_text, record.exc_info = redact_text(trace, self._secrets), None
        if record.stack_info:
            record.stack_info = redact_text(record.stack_info, self._secrets)
        return True


def _message(record: logging.LogRecord) -> str:
    # A message whose arguments do not fit must still be neither lost nor shown raw.
    try:
        return record.getMessage()
    except Exception:
        return f"{record.msg} {record.args!r}"


def _trace(record: logging.LogRecord) -> str | None:
    if record.exc_text or not record.exc_info:
        return record.exc_text
    return logging.Formatter().formatException(record.exc_info)
