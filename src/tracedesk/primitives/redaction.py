"""Secrets kept out of records, logs and answers: rules for shapes, and a register of live values."""

from __future__ import annotations

import hashlib
import logging
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Final, TypeVar, cast

MIN_SECRET = 6
"""Shorter values are not registered: replacing them everywhere would shred ordinary text."""

MAX_DEPTH = 200
TOO_DEEP = "[redacted:too-deep]"

_Value = TypeVar("_Value")
_MARKER = re.compile(r"\[redacted:[a-z0-9-]+:[0-9a-f]{8}\]")


_SHORTEST: Final = 8
"""No rule matches a shorter text; most keys and many values end here."""


def marker(secret: str, kind: str) -> str:
    """Return what stands in for a secret: its kind and eight digits that let equal secrets be recognised."""
    digest = hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
    return f"[redacted:{kind}:{digest[:8]}]"


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
    for rule in _RULES:
        if any(hint in folded for hint in rule.hints):
            text = rule.compiled().sub(rule.replace, text)
    return text


def is_plain(document: bytes, secrets: Secrets | None = None) -> bool:
    """Return whether `redact` would leave this JSON document as it is: one quick look before the long one."""
    if secrets is not None and secrets.occur_in(document):
        return False
    folded = document.lower() if document.isascii() else document.decode().lower().encode()
    return not (_any_hint().search(folded) or _any_key().search(folded.translate(None, _PUNCTUATION)))


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


@cache
def _any_hint() -> re.Pattern[bytes]:
    return any_of({hint for rule in _RULES for hint in rule.hints})


@cache
def _any_key() -> re.Pattern[bytes]:
    return any_of({*_SECRET_KEYS, "pwd", "token"})


_RARE_FIRST: Final = "/zqjxkvbypwgfcmu_-=.9dlhrnisoat:e"


def any_of(words: set[str]) -> re.Pattern[bytes]:
    """A pattern found in a text if and only if one of the words is in it, though not always where it begins.

    Each word is looked for by its rarest character, so that the search can pass over most of a text, then by
    what follows, and last by what is before; a word that has another one within it need not be looked for.
    """
    branches: dict[str, list[str]] = {}
    for word in sorted(words):
        if any(other in word for other in words - {word}):
            continue
        place = min(range(len(word)), key=lambda at: _RARE_FIRST.find(word[at]))
        after = re.escape(word[place + 1 :])
        branches.setdefault(word[place], []).append(f"{after}(?<={re.escape(word)})" if place else after)
    return re.compile(
        "|".join(f"{re.escape(c)}(?:{'|'.join(ends)})" for c, ends in branches.items()).encode()
    )


def redact(value: _Value, secrets: Secrets | None = None) -> _Value:
    """Return a JSON value with secrets replaced: inside texts, and whole under keys that name a secret."""
    return cast(_Value, _walk(value, secrets, None, 0))


def _walk(value: object, secrets: Secrets | None, kind: str | None, depth: int) -> object:
    if depth > MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value).items()
        return {
            _key(key, secrets): _walk(item, secrets, kind or _kind_of(key, item), depth + 1)
            for key, item in entries
        }
    if isinstance(value, list):
        return [_walk(item, secrets, kind, depth + 1) for item in cast("list[object]", value)]
    if isinstance(value, tuple):
        return tuple(_walk(item, secrets, kind, depth + 1) for item in cast("tuple[object, ...]", value))
    return _leaf(value, secrets, kind)


def _leaf(value: object, secrets: Secrets | None, kind: str | None) -> object:
    if kind is not None and isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
        return _whole(str(value), kind)
    return redact_text(value, secrets) if isinstance(value, str) else value


def _whole(text: str, kind: str) -> str:
    return text if not text or _MARKER.fullmatch(text) else marker(text, kind)


def _key(key: object, secrets: Secrets | None) -> object:
    return redact_text(key, secrets) if isinstance(key, str) else key


# Keys are compared without case and punctuation, by how they end: clientSecret, X-MBX-APIKEY, db_password.
_SECRET_KEYS = (
    "password", "passwd", "passphrase", "secret", "secretkey", "secretaccesskey", "apikey", "apisecret",
    "apisign", "privatekey", "signingkey", "authorization", "cookie", "credential", "credentials", "mnemonic",
    "seedphrase", "listenkey", "authtoken", "accesstoken", "refreshtoken", "sessiontoken", "bearertoken",
    "accesspassphrase", "accesskey", "accesssign", "apitoken", "idtoken",
)  # fmt: skip
_PAGE_TOKENS = frozenset({"nexttoken", "pagetoken", "nextpagetoken", "continuationtoken", "progresstoken"})
# On a trading desk a "token" is as often a coin as a credential; addresses and tickers are public.
_PUBLIC_TOKEN = re.compile(r"0x[0-9a-fA-F]{40}|[A-Z][A-Z0-9]{0,9}")


def _kind_of(key: object, value: object) -> str | None:
    if not isinstance(key, str):
        return None
    name = re.sub(r"[^a-z0-9]", "", key.lower())
    if name.endswith(_SECRET_KEYS) or (name.endswith("pwd") and name != "pwd"):
        return _named(key)
    if name.endswith("token") and name not in _PAGE_TOKENS and _may_be_secret(value):
        return _named(key)
    return None


def _may_be_secret(value: object) -> bool:
    return isinstance(value, str) and _PUBLIC_TOKEN.fullmatch(value) is None


def _named(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", key.lower()[:40]).strip("-") or "secret"


@dataclass(frozen=True, slots=True)
class Rule:
    """A shape of secret: hints that must occur, a pattern, and a gate that judges each match.

    The pattern must take time linear in the text: whatever it can scan before failing must not contain
    another place where it could begin.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: str
    gate: Callable[[str], bool] | None = None

    def compiled(self) -> re.Pattern[str]:
        """Return the compiled pattern."""
        return _compiled(self.pattern)

    def replace(self, match: re.Match[str]) -> str:
        """Return the match with its secret replaced, or unchanged where the gate or a marker says so."""
        group = "secret" if "secret" in match.re.groupindex else 0
        secret = match[group]
        if (self.gate and not self.gate(secret)) or _is_code(match) or _in_marker(match):
            return match[0]
        start, end = (place - match.start() for place in match.span(group))
        return match[0][:start] + marker(secret, self._kind(match)) + match[0][end:]

    def _kind(self, match: re.Match[str]) -> str:
        return _named(match["name"]) if "name" in match.re.groupindex else self.kind


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_code(match: re.Match[str]) -> bool:
    if "call" not in match.re.groupindex or match["quote"]:
        return False
    return match["call"] is not None or _NAMES_IN_CODE.fullmatch(match["secret"]) is not None


def _in_marker(match: re.Match[str]) -> bool:
    begin = match.string.rfind("[redacted:", max(0, match.start() - 64), match.start() + 1)
    found = _MARKER.match(match.string, begin) if begin >= 0 else None
    return found is not None and found.end() > match.start()


# A dotted path such as settings.KEY2, or a name that itself speaks of a secret such as accessToken2.
_NAMES_IN_CODE = re.compile(
    r"(?i)[a-z_]\w*+(?:(?:\.|::|->)[a-z_]\w*+)++|(?=\w{0,24}(?:key|token|secret|passw))[a-z_]\w{0,31}"
)
_PLACEHOLDERS = ("example", "your", "xxxx", "changeme", "placeholder", "redacted", "dummy", "****", "....")


def entropy(text: str) -> float:
    """Return the Shannon entropy of the text's characters, in bits per character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())


def _is_dense(text: str) -> bool:
    return any(map(str.isalpha, text)) and any(map(str.isdigit, text)) and entropy(text) >= 2.9


def _has_key_body(text: str) -> bool:
    return re.search(r"[A-Za-z0-9+/]{32}", text) is not None


def _is_login(text: str) -> bool:
    return text.partition(":")[2].lower() not in ("pass", "password")


def _is_assigned_secret(text: str) -> bool:
    if len(text) < 8 or _PUBLIC_TOKEN.fullmatch(text):
        return False
    folded = text.lower()
    return not any(word in folded for word in _PLACEHOLDERS) and _is_dense(text)


def _is_random_key(text: str) -> bool:
    return _is_dense(text) and text.lower() != text


def _starts(literal: str) -> str:
    # A word begins here, or follows an escaped line break inside quoted text. Looking back after the literal
    # lets the regex engine search for the literal first.
    return rf"{literal}(?:(?<![A-Za-z0-9_-]{literal})|(?<=\\[nrt]{literal}))"


_ENDS = r"(?![A-Za-z0-9_-])"
_QUOTE = r"(?P<quote>\\{0,3}[\"'`])?"
_BETWEEN = (
    r"\\{0,3}[\"'`]?\s{0,4}"
    r"(?::\s{0,3}(?:str|string|&str)\s{0,3}=|=>|:=|={1,3}|:)\s{0,4}"
)
# Inside quotes a backslash belongs to the value unless it escapes the closing quote.
_ASSIGNED = (
    r"(?P<secret>(?(quote)(?:[^\s\"'`\\]++|\\++(?![\"'`]))++|[^\s\"'`\\,;&(){}\[\]<>|]++))"
    r"(?P<call>[(\[])?"
)
# Exchange headers end in these names too: X-MBX-APIKEY, CB-ACCESS-SIGN, APCA-API-KEY-ID.
_SECRET_NAMES = (
    r"(?i:(?<!publickey)(?P<name>passw(?:or)?d|passphrase|secret(?:[_-]?access)?(?:[_-]?key)?|token"
    r"|api[_-]?(?:key(?:-id)?|secret|token|sign)|access[_-](?:key|sign)|accesskey"
    r"|private[_-]?key|signing[_-]?key|listen[_-]?key))"
)

_RULES = (
    Rule(
        "private-key",
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{32,}+)++)",
        _has_key_body,
    ),
    Rule(
        "aws",
        ("akia", "asia", "abia", "acca"),
        r"(?:AKIA|ASIA|ABIA|ACCA)(?<![A-Z0-9]....)[A-Z0-9]{16}" + _ENDS,
    ),
    Rule("tracedesk", ("td_",), r"(?<![A-Za-z0-9_-])td_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    Rule("github", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,}+"),
    Rule("github", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,}+"),
    Rule(
        "gitlab",
        ("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-"),
        r"gl(?:pat|ptt|dt|rt|cbt)-[A-Za-z0-9_.-]{20,}+",
    ),
    Rule("slack", ("xox",), r"xox[abceoprs]-[A-Za-z0-9-]{10,}+", _is_dense),
    Rule("slack", ("xapp-",), r"xapp-[0-9]-[A-Za-z0-9-]{20,}+"),
    Rule(
        "slack",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/_-]{20,}+)",
    ),
    Rule("stripe", ("k_live_", "k_test_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    Rule("stripe", ("whsec_",), r"whsec_[A-Za-z0-9+/=]{24,}+"),
    Rule("anthropic", ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{20,}+"),
    Rule("openai", ("sk-",), _starts("sk-") + r"[A-Za-z0-9_-]{20,}+", _is_random_key),
    Rule("google", ("aiza",), _starts("AIza") + r"[0-9A-Za-z_-]{35}" + _ENDS),
    Rule("google", ("ya29.",), _starts("ya29") + r"\.[0-9A-Za-z_-]{20,}+"),
    Rule("google", ("gocspx-",), r"GOCSPX-[A-Za-z0-9_-]{20,}+"),
    Rule("npm", ("npm_",), r"npm_[A-Za-z0-9]{36,}+"),
    Rule("pypi", ("pypi-age",), r"pypi-AgE[A-Za-z0-9_-]{40,}+"),
    Rule("huggingface", ("hf_",), _starts("hf_") + r"[A-Za-z0-9]{30,}+", _is_random_key),
    Rule(
        "jwt",
        ("eyj",),
        _starts("eyJ") + r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+",
    ),
    Rule(
        "url-credentials",
        ("://",),
        r"://(?P<secret>[^\s/:@\[\]\"'`<>{}\\]{0,128}+:[^\s/@\"'`<>{}\\]{1,256}+)@",
        _is_login,
    ),
    Rule(
        "authorization",
        ("authorization",),
        r"(?i:authorization)" + _BETWEEN + r"(?:\\{0,3}[\"'`])?"
        r"(?i:bearer|basic|token|digest|apikey|hmac-sha256)[ \t]{1,4}(?P<secret>[A-Za-z0-9._~+/=:-]{4,}+)",
    ),
    Rule(
        "bearer",
        ("bearer", "basic"),
        r"(?i:bearer|basic)[ \t]{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,}+)",
        _is_dense,
    ),
    Rule("signature", ("signature=",), r"(?i:signature)=(?P<secret>[0-9a-fA-F]{64})" + _ENDS),
    Rule(
        "secret",
        ("passw", "passphrase", "secret", "token", "api", "access", "private", "signing", "listen"),
        _SECRET_NAMES + _BETWEEN + _QUOTE + _ASSIGNED,
        _is_assigned_secret,
    ),
)


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
            self._held[value, _named(kind)] += 1
            self._rebuild()
        return True

    def discard(self, value: str, kind: str = "secret") -> None:
        """Let go of one registration of a value; the last one ends its replacement."""
        with self._lock:
            self._held[value, _named(kind)] -= 1
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
