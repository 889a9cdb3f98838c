import base64
import hashlib
import json
import logging
import re
import time
from decimal import Decimal
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.primitives import redaction
from tracedesk.primitives.redaction import (
    RedactingFilter,
    Secrets,
    any_of,
    is_plain,
    is_simple,
    redact,
    redact_text,
)

MARKER = re.compile(r"\[redacted:[a-z0-9-]+:[0-9a-f]{8}\]")
ALNUM = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0fG" * 4
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
HEX = hashlib.sha256(b"a signature").hexdigest()

# Built from parts, so that no scanner takes this file for a leak.
PROVIDERS = {
    "aws": "AKIA" + "QYLPMN5HHHFPZAM2",
    "aws temporary": "ASIA" + "QYLPMN5HHHFPZAM2",
    "github": "ghp" + "_" + ALNUM[:36],
    "github server": "ghs" + "_" + ALNUM[:36],
    "github fine": "github" + "_pat_" + ALNUM[:22] + "_" + ALNUM[:59],
    "gitlab": "glpat" + "-" + ALNUM[:20],
    "slack bot": "xoxb" + "-123456789012-1234567890123-" + ALNUM[:24],
    "slack app": "xapp" + "-1-A0123456789-1234567890123-" + ALNUM[:40],
    "stripe": "sk" + "_live_" + ALNUM[:24],
    "stripe restricted": "rk" + "_test_" + ALNUM[:24],
    "stripe webhook": "whsec" + "_" + ALNUM[:32],
    "openai": "sk" + "-" + ALNUM[:48],
    "openai project": "sk" + "-proj-" + ALNUM[:60] + "_-" + ALNUM[:20],
    "anthropic": "sk" + "-ant-api03-" + ALNUM[:80] + "-AA",
    "google": "AIza" + ALNUM[:35],
    "google oauth": "ya29" + "." + ALNUM[:60],
    "google client": "GOCSPX" + "-" + ALNUM[:28],
    "npm": "npm" + "_" + ALNUM[:36],
    "pypi": "pypi" + "-AgEIcHlwaS5vcmc" + ALNUM[:80],
    "huggingface": "hf" + "_" + ALNUM[:34],
    "jwt": JWT,
}


def hash8(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


def pem(label: str, lines: int = 3) -> str:
    body = "\n".join([ALNUM[:64]] * lines)
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize(
    "frame", ["{}", "key: {} ", '{{"k": "{}"}}', "a={}&b=1", "line\\n{}\\nnext", "({})", "see {}."]
)
def test_a_provider_key_is_replaced_wherever_it_stands(name: str, frame: str) -> None:
    secret = PROVIDERS[name]
    text = redact_text(frame.format(secret))
    assert secret not in text
    assert len(MARKER.findall(text)) == 1
    kind = name.split()[0]
    assert f"[redacted:{kind}:" in text


def test_a_marker_carries_the_kind_and_the_hash_of_the_secret() -> None:
    secret = PROVIDERS["github"]
    assert redact_text(f"token {secret}!") == f"token [redacted:github:{hash8(secret)}]!"


@pytest.mark.parametrize(
    "text",
    [
        'class="sk-estimator-doc-link sk-toggleable-content-label"',
        "sk-loading-indicator-container-with-a-long-name",
        "AKIAlowercaseisnotakey",
        "hf_hub_download_the_model_from_somewhere",
        "npm_config_registry=https://registry.example/",
        "password = forms.CharField(widget=forms.PasswordInput)",
        "self.cleaned_data.get('password1')",
        'password = self.cleaned_data["password2"]',
        "def check_password(password, encoded, setter=None, preferred='default'):",
        "token = get_token(request)",
        "secret = hashlib.sha256",
        "api_key = os.environ['API_KEY_2024']",
        "const apiKey = process.env.BINANCE_API_KEY2",
        "api_key: your-api-key-here-123",
        'password: "Enter your password 2 times"',
        "max_tokens=8192, tokens: 128000",
        "address token = 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48;",
        "tokenizer = AutoTokenizer.from_pretrained('bert-base-uncased-2019')",
        "https://example.com:8080/path@home and ssh://git@github.com/x/y",
        'f"postgres://{user}:{password}@{host}/db"',
        "Basic internationalization and bearer instruments",
        "the ball bearer understandably-left",
        "-----BEGIN PRIVATE KEY----- is the first line of such a file, and then its body follows",
        '_START = b"-----BEGIN OPENSSH PRIVATE KEY-----"\n_END = b"-----END OPENSSH PRIVATE KEY-----"',
        "private_key: Ed25519PrivateKey | Ed448PrivateKey",
        "password2 = password1, token=accessToken2",
        'publicKeyToken="1fc8b3b9a1e18e3b"',
        "https://user:pass@host:port/path and https://username:password@host",
        "PWD=/home/user1/project2",
        "eyJ is how a JSON object begins in base64",
    ],
)
def test_ordinary_text_and_code_pass_unchanged(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "secret", "kind"),
    [
        ("Authorization: Bearer abc.def-123", "abc.def-123", "authorization"),
        ("authorization: basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "authorization"),
        ('{"Authorization": "Bearer q1w2e3r4t5"}', "q1w2e3r4t5", "authorization"),
        ('{\\"Authorization\\": \\"Bearer q1w2e3r4t5\\"}', "q1w2e3r4t5", "authorization"),
        ("curl -H 'Proxy-Authorization: Basic QWxhZGRpbg=='", "QWxhZGRpbg==", "authorization"),
        ("sent bearer a1b2c3d4e5f6g7h8i9", "a1b2c3d4e5f6g7h8i9", "bearer"),
        (f"X-MBX-APIKEY: {ALNUM[:64]}", ALNUM[:64], "apikey"),
        (f'"x-mbx-apikey":"{ALNUM[:64]}"', ALNUM[:64], "apikey"),
        (f"CB-ACCESS-PASSPHRASE={ALNUM[:12]}", ALNUM[:12], "passphrase"),
        (f"APCA-API-SECRET-KEY: {ALNUM[:40]}", ALNUM[:40], "secret-key"),
        (f"CB-ACCESS-SIGN: {ALNUM[:44]}", ALNUM[:44], "access-sign"),
        (f"APCA-API-KEY-ID: {ALNUM[:20]}", ALNUM[:20], "api-key-id"),
        (f"apiKey = '{ALNUM[:32]}'", ALNUM[:32], "apikey"),
        (f'secretKey: "{ALNUM[:32]}"', ALNUM[:32], "secretkey"),
        (f"BINANCE_API_SECRET={ALNUM[:64]}", ALNUM[:64], "api-secret"),
        (f"aws_secret_access_key = {ALNUM[:40]}", ALNUM[:40], "secret-access-key"),
        (f'API_KEY: str = "{ALNUM[:32]}"', ALNUM[:32], "api-key"),
        ("password=hunter2-horse", "hunter2-horse", "password"),
        ('DB_PASSWORD="p4ss/w0rd;x"', "p4ss/w0rd;x", "password"),
        ('{\\"password\\": \\"s3cr3t-pa55\\"}', "s3cr3t-pa55", "password"),
        ("password := `b4ck-t1ck5`", "b4ck-t1ck5", "password"),
        ('password: "back\\\\sl4sh\\\\es99"', "back\\\\sl4sh\\\\es99", "password"),
        ('token = "a1b2c3.d4e5f6"', "a1b2c3.d4e5f6", "token"),
        ("?token=9f8e7d6c5b4a&x=1", "9f8e7d6c5b4a", "token"),
        ("private_key: 0x" + HEX, "0x" + HEX, "private-key"),
        (f"symbol=BTCUSDT&signature={HEX}", HEX, "signature"),
        ("postgres://bob:s3cret@db.internal/x", "bob:s3cret", "url-credentials"),
        ("redis://:pa55@cache:6379", ":pa55", "url-credentials"),
        ("https://hooks.slack.com/services/T000/B000/abcdefghijkl", "T000/B000/abcdefghijkl", "slack"),
    ],
)
def test_a_secret_is_recognised_by_what_surrounds_it(text: str, secret: str, kind: str) -> None:
    assert redact_text(text) == text.replace(secret, f"[redacted:{kind}:{hash8(secret)}]")


@pytest.mark.parametrize(
    "label",
    [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ],
)
def test_a_private_key_block_is_replaced_whole(label: str) -> None:
    block = pem(label)
    assert redact_text(f"before\n{block}\nafter") == f"before\n[redacted:private-key:{hash8(block)}]\nafter"
    escaped = json.dumps(block)
    assert ALNUM[:20] not in redact_text(escaped)


def test_a_private_key_cut_off_before_its_end_is_still_replaced() -> None:
    cut = pem("RSA PRIVATE KEY").rpartition("\n-----END")[0]
    assert ALNUM[:20] not in redact_text(cut + "\n\nplain words follow")
    assert redact_text(cut + "\n\nplain words follow").endswith("\n\nplain words follow")


def test_a_public_key_or_certificate_is_no_secret() -> None:
    for label in ("PUBLIC KEY", "CERTIFICATE"):
        assert redact_text(pem(label)) == pem(label)


def test_a_key_with_headers_is_replaced_to_its_end() -> None:
    block = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n" + ALNUM[:64]
    )
    block += "\n-----END RSA PRIVATE KEY-----"
    assert redact_text(block) == f"[redacted:private-key:{hash8(block)}]"


def test_values_under_keys_that_name_a_secret_are_replaced_whole() -> None:
    value = {
        "password": "a b",
        "apiSecret": "x",
        "X-MBX-APIKEY": "short",
        "Authorization": "Bearer t",
        "db_passwd": 1234,
        "pin_secret": Decimal("12.5"),
        "credentials": {"key": "k", "list": ["l", 2, None, True]},
        "token": "abc123",
        "userPwd": "p",
    }
    clean = redact(value)
    leaves = re.findall(r"'([^']*)'", str(list(clean.values())))
    assert clean["password"] == f"[redacted:password:{hash8('a b')}]"
    assert clean["db_passwd"] == f"[redacted:db-passwd:{hash8('1234')}]"
    assert clean["credentials"]["list"][2:] == [None, True]  # pyright: ignore[reportIndexIssue, reportArgumentType, reportCallIssue, reportUnknownVariableType]
    assert all(MARKER.fullmatch(leaf) for leaf in leaves if leaf not in ("key", "list"))


def test_harmless_values_keep_their_types_and_identity() -> None:
    value = {
        "price": Decimal("1.50"),
        "n": 3,
        "ok": True,
        "none": None,
        "items": [1, ("a", 2.5)],
        "password": None,
        "secret": "",
        "token_count": 12,
        "max_tokens": 8000,
        "nextPageToken": "abcdef123456",
        "pwd": "/home/x",
        "token": "USDC",
        "baseToken": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        "quoteToken": {"symbol": "USDC", "decimals": 6},
        7: "seven",
    }
    assert redact(value) == value


def test_secrets_inside_nested_texts_and_keys_are_replaced() -> None:
    secret = PROVIDERS["anthropic"]
    clean = redact({"rows": [{"note": f"use {secret}"}], secret: 1})
    assert secret not in json.dumps(clean)
    assert len(MARKER.findall(json.dumps(clean))) == 2


def test_the_given_value_is_not_changed() -> None:
    value = {"password": "x", "list": ["y"]}
    redact(value)
    assert value == {"password": "x", "list": ["y"]}


def test_a_bottomless_value_is_cut_off_instead_of_overflowing() -> None:
    value: object = "hunter2-horse"
    for _ in range(5_000):
        value = [value]
    assert redaction.TOO_DEEP in str(redact(value))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
pieces = st.sampled_from([*PROVIDERS.values(), "hunter2-horse", "u:p4@h", "9f8e7d6c5b4a"]) | st.text(
    max_size=4
)
joints = st.sampled_from(
    [" ", "\n", '"', "\\n", ", ", " password=", ' "token": "', "://", "Bearer ", "Authorization: "]
)
fragments = st.lists(st.tuples(joints, pieces).map("".join), max_size=8).map(" ".join)


@given(json_values)
def test_redacting_keeps_the_shape_of_a_value(value: object) -> None:
    clean = redact(value)
    assert type(clean) is type(value)
    assert len(json.dumps(clean)) >= 0


@given(st.dictionaries(fragments, fragments | st.lists(fragments, max_size=2), max_size=3))
def test_a_document_that_is_called_plain_has_nothing_to_redact(value: dict[str, object]) -> None:
    if is_plain(json.dumps(value, ensure_ascii=False).encode()):
        assert redact(value) == value


names = st.sampled_from(["n", "symbol", "token", "api-key", "pass_word", "A Cookie", "pwd", "hf_", "×" * 70])
simple = st.integers() | st.floats(allow_nan=False) | st.none() | st.booleans() | st.text(max_size=9)


@given(st.dictionaries(names | fragments, simple | fragments | st.lists(st.text()), max_size=3))
def test_a_value_that_is_called_simple_has_nothing_to_redact(value: dict[str, object]) -> None:
    if is_simple(value):
        assert redact(value) == value


def test_a_few_figures_and_short_texts_are_simple() -> None:
    assert is_simple({"symbol": "AAPL", "limit": 5, "price": Decimal("1.5"), "all": True, "after": None})
    assert not is_simple({"api_key": "AAPL"})
    assert not is_simple({"note": "eight or more characters"})
    assert not is_simple({"inner": {}})


words = st.sets(st.text("aekps_2:/", min_size=1, max_size=5), min_size=1, max_size=6)


@given(words, st.lists(st.text("aekps_2:/", max_size=6), max_size=4), st.data())
def test_one_search_finds_any_of_the_words_and_nothing_else(
    words: set[str], others: list[str], data: st.DataObject
) -> None:
    parts = data.draw(st.lists(st.sampled_from([*sorted(words), *others, "k"]), max_size=4))
    text = "".join(parts)[data.draw(st.integers(0, 2)) :]
    found = any_of(words)(text)
    assert found == any(word in text for word in words)


@given(fragments)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once
    value = {"password": text, "note": text}
    assert redact(redact(value)) == redact(value)


@given(st.text(max_size=30), st.sampled_from(sorted(PROVIDERS)), st.text(max_size=30))
def test_a_key_between_spaces_is_found_in_any_surroundings(before: str, name: str, after: str) -> None:
    assert PROVIDERS[name] not in redact_text(f"{before} {PROVIDERS[name]} {after}")


@given(st.text(min_size=6, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_a_registered_secret_never_survives_in_any_encoding(secret: str, before: str, after: str) -> None:
    secrets = Secrets()
    assert secrets.add(secret)
    raw = secret.encode()
    for form in (secret, quote(secret, safe=""), quote_plus(secret), raw.hex(), json.dumps(secret)[1:-1]):
        assert secrets.redact_text(f"<{form}>") == f"<[redacted:secret:{hash8(secret)}]>"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(before.encode() + raw + after.encode()).decode()
        assert f"[redacted:secret:{hash8(secret)}]" in secrets.redact_text(whole)


def test_a_registered_secret_is_found_inside_basic_credentials() -> None:
    secrets = Secrets()
    secrets.add("correct horse battery", "password")
    header = "Basic " + base64.b64encode(b"alice:correct horse battery").decode()
    assert "[redacted:password:" in secrets.redact_text(header)


def test_the_longest_registered_secret_wins() -> None:
    secrets = Secrets()
    secrets.add("horse-battery")
    secrets.add("correct-horse-battery-staple")
    assert (
        secrets.redact_text("correct-horse-battery-staple")
        == f"[redacted:secret:{hash8('correct-horse-battery-staple')}]"
    )


def test_values_too_short_to_be_replaced_safely_are_not_registered() -> None:
    secrets = Secrets()
    assert not secrets.add("abc")
    assert not secrets.add("")
    assert secrets.redact_text("abc") == "abc"


def test_a_secret_is_forgotten_when_its_last_holder_lets_go() -> None:
    secrets = Secrets()
    secrets.add("shared-secret")
    secrets.add("shared-secret")
    secrets.discard("shared-secret")
    assert "shared-secret" not in secrets.redact_text("shared-secret")
    secrets.discard("shared-secret")
    secrets.discard("never-registered")
    assert secrets.redact_text("shared-secret") == "shared-secret"


def test_registered_secrets_are_replaced_in_values_and_keys() -> None:
    secrets = Secrets()
    secrets.add("live-session-key")
    assert "live-session-key" not in json.dumps(
        redact({"a": ["x live-session-key"], "live-session-key": 1}, secrets)
    )


class Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> tuple[logging.Logger, Collected, Secrets]:
    secrets, handler = Secrets(), Collected()
    handler.addFilter(RedactingFilter(secrets))
    logger = logging.Logger("redacted")
    logger.addHandler(handler)
    return logger, handler, secrets


Log = tuple[logging.Logger, Collected, Secrets]


def test_a_log_line_is_redacted_after_its_arguments_are_put_in(log: Log) -> None:
    logger, handler, secrets = log
    secrets.add("live-session-key")
    logger.warning("calling %s with %s=%s", "live-session-key", "password", "hunter2-horse")
    logger.warning("mapping %(key)s", {"key": PROVIDERS["openai"]})
    assert "live-session-key" not in handler.lines[0]
    assert "hunter2-horse" not in handler.lines[0]
    assert PROVIDERS["openai"] not in handler.lines[1]


def test_a_logged_traceback_and_stack_are_redacted(log: Log) -> None:
    logger, handler, secrets = log
    secrets.add("live-session-key")
    try:
        raise RuntimeError("failed with live-session-key")
    except RuntimeError:
        logger.exception("oops", stack_info=True)
    assert "RuntimeError: failed with [redacted:secret:" in handler.lines[0]
    assert "live-session-key" not in handler.lines[0].replace('"failed with live-session-key"', "")
    assert "Stack (most recent call last)" in handler.lines[0]


def test_a_log_call_with_wrong_arguments_is_still_redacted_and_kept(log: Log) -> None:
    logger, handler, _ = log
    logger.warning("one %s two %s", PROVIDERS["openai"])
    assert handler.lines[0].startswith("one %s two %s")
    assert PROVIDERS["openai"] not in handler.lines[0]


def test_a_log_message_without_arguments_keeps_its_percent_signs(log: Log) -> None:
    logger, handler, _ = log
    logger.warning("100% done %s")
    assert handler.lines == ["100% done %s"]


HOSTILE = {
    "begin lines without end": "-----BEGIN RSA PRIVATE KEY-----\n",
    "key marker and dashes": "-----BEGIN PRIVATE KEY----- - - -- --- ----",
    "jwt starts": "eyJ",
    "jwt segments": "eyJabcdefgh.",
    "jwt escaped": "\\neyJabcdefgh",
    "schemes": "a://",
    "schemes with users": "a://b:c",
    "colons": "://a:" + "b:" * 200,
    "assignments": "token=",
    "assignments to calls": "token=x(",
    "quoted assignments": 'token="',
    "backslashes": 'token="\\\\\\',
    "spaces after names": "password    ",
    "openai starts": "sk-",
    "gitlab starts": "glpat-",
    "slack starts": "xoxb-",
    "headers": "x-mbx-apikey:",
    "authorization": "authorization: bearer ",
    "bearer": "bearer bearer\t",
    "markers": "[redacted:secret:",
    "finished markers": "[redacted:secret:1a2b3c4d]",
    "google starts": "AIzaAIza",
    "one letter": "a",
    "dashes": "-",
    "equals": "=",
    "words": "secret_token_password_api_key_",
    "signature": "signature=0123456789abcdef",
}


def seconds_of(text: str) -> float:
    best = float("inf")
    for _ in range(2):
        begin = time.thread_time()
        redact_text(text)
        best = min(best, time.thread_time() - begin)
    return best


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_time_in_proportion_to_its_length(name: str) -> None:
    unit = HOSTILE[name]
    small, large = (unit * (size // len(unit)) for size in (1 << 16, 1 << 20))
    # Sixteen times the text: linear work takes 16 times as long, quadratic 256 times.
    assert seconds_of(large) <= 80 * max(seconds_of(small), 0.001)
