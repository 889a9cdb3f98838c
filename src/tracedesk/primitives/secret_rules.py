"""Shapes of secrets: what each looks like, what must surround it, and which look-alikes are none."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from tracedesk.primitives.hex_keys import keys
from tracedesk.primitives.mnemonics import phrases

MARKER: Final = re.compile(r"\[redacted:[a-z0-9-]+:[0-9a-f]{8}\]")


def marker(secret: str, kind: str) -> str:
    """Return what stands in for a secret: its kind and eight digits that let equal secrets be recognised."""
    digest = hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
    return f"[redacted:{kind}:{digest[:8]}]"


def named(key: str) -> str:
    """Return the kind of a secret that stands under this name."""
    return re.sub(r"[^a-z0-9]+", "-", key.lower()[:40]).strip("-") or "secret"


# On a trading desk a "token" is as often a coin as a credential; addresses and tickers are public.
PUBLIC_TOKEN = re.compile(r"0x[0-9a-fA-F]{40}|[A-Z][A-Z0-9]{0,9}")


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
        return named(match["name"]) if "name" in match.re.groupindex else self.kind


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_code(match: re.Match[str]) -> bool:
    if "call" not in match.re.groupindex or match["quote"]:
        return False
    return match["call"] is not None or _NAMES_IN_CODE.fullmatch(match["secret"]) is not None


def _in_marker(match: re.Match[str]) -> bool:
    begin = match.string.rfind("[redacted:", max(0, match.start() - 64), match.start() + 1)
    found = MARKER.match(match.string, begin) if begin >= 0 else None
    return found is not None and found.end() > match.start()


def without_phrases(text: str) -> str:
    """Return the text with its wallet phrases replaced."""
    return _replaced(text, phrases(text), "mnemonic")


def without_keys(text: str) -> str:
    """Return the text with its private keys in hexadecimal digits replaced."""
    return _replaced(text, keys(text), "private-key")


def _replaced(text: str, spans: Sequence[tuple[int, int]], kind: str) -> str:
    for start, end in reversed(spans):
        text = text[:start] + marker(text[start:end], kind) + text[end:]
    return text


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
    if len(text) < 8 or PUBLIC_TOKEN.fullmatch(text):
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
    r"(?::\s{0,3}(?:[A-Za-z&|][\w\[\]&|]{0,31}+[ ]?+){1,4}+=|=>|:=|={1,3}|:|%3[AaDd])\s{0,4}"
)
# Inside quotes a backslash belongs to the value unless it escapes the closing quote.
_ASSIGNED = (
    r"(?P<secret>(?(quote)(?:[^\s\"'`\\]++|\\++(?![\"'`]))++|[^\s\"'`\\,;&(){}\[\]<>|]++))"
    r"(?P<call>[(\[])?"
)
# Exchange headers end in these names too: X-MBX-APIKEY, CB-ACCESS-SIGN, APCA-API-KEY-ID.
_SECRET_NAMES = (
    r"(?i:(?<!publickey)(?<!hashof)(?<!hash_of_)(?<!digestof)(?<!sha256of)(?P<name>passw(?:or)?d|passphrase|secret(?:[_-]?access)?(?:[_-]?key)?|token"
    r"|api[_-]?(?:key(?:-id)?|secret|token|sign)|access[_-](?:key|sign)|accesskey"
    r"|private[_-]?key|signing[_-]?key|listen[_-]?key))"
)

FLAG: Final = re.compile(
    r"--?[A-Za-z0-9-]{0,24}?(?:private-keys?|pk|passw(?:or)?d|passphrase|secret(?:-key)?|mnemonic)"
)

_QUOTE_MARK: Final = r"\\{0,3}[\"'`]?"
_PASSWORD_HINTS: Final = ("passw", "passphrase", "passcode")
_PASSWORD: Final = r"(?P<name>(?i:passw(?:or)?d|passphrase|passcode))"
_FIELD_WORDS: Final = frozenset(
    ("password", "passwd", "passphrase", "passcode", "secret", "user", "username", "field", "input", "text",
     "string", "hidden", "type", "name", "value", "label", "none", "null", "true", "false", "undefined",
     "required", "optional", "empty", "number", "boolean", "object", "current", "confirm")
)  # fmt: skip
_SPOKEN: Final = frozenset(
    ("needed", "incorrect", "wrong", "correct", "invalid", "missing", "weak", "strong", "long", "short",
     "same", "different", "visible", "safe", "secure", "still", "never", "always", "very", "that", "this",
     "also", "then", "when", "where", "what", "only", "just", "been", "from", "with", "your", "their", "kept",
     "there", "here", "unknown", "public", "private", "blank", "plain", "okay", "good", "fine", "something",
     "somewhere", "nowhere", "under", "inside", "below", "above", "about", "gone", "lost", "taken", "sent",
     "mine", "ours", "more", "less", "least", "most", "part", "case", "mandatory")
)  # fmt: skip
_SPOKEN_ENDS: Final = ("ed", "ing", "able", "ible", "ly", "ory", "ful", "less", "ent", "ant", "en")
_OF_MESSAGES: Final = frozenset(("enter", "your", "must", "please", "is", "the", "for", "not"))


def _is_placeholder(folded: str) -> bool:
    return any(word in folded for word in _PLACEHOLDERS)


def _is_password(text: str) -> bool:
    """Judge a quoted value: a word that names a field, a type or a placeholder is none."""
    folded = text.lower()
    if _is_placeholder(folded) or text[0] in "$<%" or "{" in text:
        return False
    words = re.split(r"[^a-z]+", folded)
    return not all(word in _FIELD_WORDS for word in words if word) and not _NAMES_IN_CODE.fullmatch(text)


def _is_passphrase(text: str) -> bool:
    """Judge several quoted words that are assigned: a message to a person is none."""
    words = re.findall(r"[a-z]+", text.lower())
    is_message = text[-1] in ".:?!…" or any("pass" in word or word in _OF_MESSAGES for word in words)
    return " " in text and "{" not in text and not is_message and not _is_placeholder(text.lower())


def is_mixed(text: str) -> bool:
    """Return whether a value has letters and figures in one piece, as no word of code or prose has."""
    mixed = any(map(str.isalpha, text)) and any(map(str.isdigit, text))
    return 6 <= len(text) <= 128 and mixed and entropy(text) >= 2.2 and not any(map(str.isspace, text))


def _is_short_password(text: str) -> bool:
    """Judge an unquoted value."""
    return is_mixed(text) and text[0] not in "$%/<" and not _is_placeholder(text.lower())


def _is_spoken(text: str) -> bool:
    """Judge the word after "my password is"."""
    folded = text.lower()
    if _is_placeholder(folded) or folded in _FIELD_WORDS or folded in _SPOKEN:
        return False
    return not (folded.isalpha() and folded.endswith(_SPOKEN_ENDS))


def _is_marked(text: str) -> bool:
    """Judge the word after "the password is": it must have more than letters in it."""
    plain = text.replace("-", "").replace("'", "").isalpha()
    return _is_spoken(text) and not plain and len(text) >= 6 and any(map(str.isalpha, text))


_IS: Final = r"[ \t]+(?:is|was|will[ \t]be|(?:set[ \t]|changed[ \t])?to)[ \t]*:?[ \t]+\\{0,3}[\"'`“]?"
_SAID: Final = r"(?P<secret>[^\s\"'`“”\\]{3,127}[^\s\"'`“”\\.,;:!?)\]}])"
_AGAIN: Final = r"(?i:[_-]?(?:confirm(?:ation)?|repeat|again|new|old|[0-9]))?"
_CODE: Final = r"(?P<secret>[^\s\"'`\\]{6,128})\\{0,3}[\"'`]"
_PASSWORD_RULES: Final = (
    Rule(
        "password",
        (*_PASSWORD_HINTS, "pwd"),
        r"(?P<name>(?i:passw(?:or)?d|passphrase|passcode|(?<![a-z])(?:[a-z]{1,24}_)?pwd))"
        rf"{_AGAIN}{_BETWEEN}\\{{0,3}}[\"'`]{{1,3}}(?P<secret>[^\s\"'`\\]{{4,128}})\\{{0,3}}[\"'`]",
        _is_password,
    ),
    Rule(
        "password",
        ("pass:", 'pass"', "pass'", "pass=", "pass =", "pass\\"),
        rf"(?<![A-Za-z])(?P<name>pass|PASS){_BETWEEN}\\{{0,3}}[\"'`]{_CODE}",
        _is_short_password,
    ),
    Rule(
        "password",
        ("password>", "passwd>"),
        r"(?i:passw(?:or)?d)>(?P<secret>[^\s<>]{4,128})</",
        _is_password,
    ),
    Rule(
        "password",
        _PASSWORD_HINTS,
        rf"{_PASSWORD}\s{{0,3}}(?::\s{{0,3}}[A-Za-z&]{{1,12}}\s{{0,3}})?={{1,3}}\s{{0,4}}"
        r"\\{0,3}[\"'`](?P<secret>[^\"'`\\\n]{8,80})\\{0,3}[\"'`]",
        _is_passphrase,
    ),
    Rule(
        "password",
        _PASSWORD_HINTS,
        r"(?P<name>PASSWORD|PASSWD|PASSPHRASE)=(?P<secret>[^\s\"'`$(){}\\]{4,128})",
        _is_password,
    ),
    Rule("password", _PASSWORD_HINTS, _PASSWORD + _BETWEEN + _QUOTE + _ASSIGNED, _is_short_password),
    Rule(
        "password",
        _PASSWORD_HINTS,
        rf"--{_PASSWORD}{_QUOTE_MARK}(?:[ \t]{{1,4}}|\s{{0,4}},\s{{0,4}}){_QUOTE_MARK}"
        r"(?P<secret>[^\s\"'`\\$<\[-][^\s\"'`\\]{3,128})",
        _is_password,
    ),
    Rule("password", _PASSWORD_HINTS, _PASSWORD + _IS + _SAID, _is_marked),
    Rule(
        "password",
        _PASSWORD_HINTS,
        r"(?i:(?<![a-z])(?:my|our|his|her|their|admin|root|database|wifi|wi-fi|login|account)[ \t]+"
        rf"(?:[a-z-]{{1,20}}[ \t]+)?){_PASSWORD}{_IS}{_SAID}",
        _is_spoken,
    ),
)

RULES = (
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
    Rule("extended-key", ("prv",), r"(?<![A-Za-z0-9])[xtyzuv]prv[1-9A-HJ-NP-Za-km-z]{107}(?![A-Za-z0-9])"),
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
    *_PASSWORD_RULES,
    Rule(
        "secret",
        ("passw", "passphrase", "secret", "token", "api", "access", "private", "signing", "listen"),
        _SECRET_NAMES + _BETWEEN + _QUOTE + _ASSIGNED,
        _is_assigned_secret,
    ),
)
