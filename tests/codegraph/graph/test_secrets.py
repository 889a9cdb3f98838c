"""Secrets in source text: the quick way takes out exactly what the shared rules take out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import plant
from tracedesk.codegraph.graph.secrets import without_secrets
from tracedesk.primitives.redaction import redact_text

_RANDOM = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
SECRETS = (
    "AKIA" + "Z7Q4" * 4,
    "td_" + _RANDOM + "abc",
    "github_pat_" + _RANDOM,
    "ghp_" + _RANDOM[:36],
    "ghs_" + _RANDOM[:36],
    "glpat-" + _RANDOM[:20],
    "glrt-" + _RANDOM[:20],
    "glcbt-" + _RANDOM[:20],
    "xoxb-" + _RANDOM[:20],
    "xapp-1-" + _RANDOM[:24],
    "https://hooks.slack.com/services/" + _RANDOM,
    "sk_live_" + _RANDOM[:24],
    "rk_test_" + _RANDOM[:24],
    "whsec_" + _RANDOM[:32],
    "sk-ant-" + _RANDOM,
    "sk-" + _RANDOM,
    "AIza" + _RANDOM[:35],
    "ya29." + _RANDOM,
    "GOCSPX-" + _RANDOM[:28],
    "npm_" + _RANDOM[:36],
    "pypi-AgE" + _RANDOM + _RANDOM,
    "hf_" + _RANDOM[:34],
    "eyJ" + _RANDOM[:12] + "." + _RANDOM[:12] + "." + _RANDOM[:12],
    "postgres://somebody:hunter2@db.example.org/x",
    "Authorization: Bearer " + _RANDOM,
    "bearer " + _RANDOM,
    "signature=" + "0123456789abcdef" * 4,
    'password = "correct1horse2"',
    "DB_PASSWD: 'correct1horse2'",
    'passphrase="correct1horse2"',
    'SECRET_ACCESS_KEY\n  = "abc123def456"',
    "api_key = 'abc123def456'",
    "X-API-KEY-ID: abc123def456",
    '"access_key": "abc123def456"',
    'accesskey="abc123def456"',
    'PrivateKey := "abc123def456"',
    "signing-key: abc123def456",
    "CB-ACCESS-SIGN: abc123def456",
    "api-sign: abc123def456",
    "apisign=abc123def456",
    "api_secret: abc123def456",
    "api-token: abc123def456",
    "apikey: abc123def456",
    "private_key='abc123def456'",
    "signingkey='abc123def456'",
    "listen-key: abc123def456",
    "Basic " + _RANDOM,
    "listenKey=abc123def456",
    "token: str = 'abc123def456'",
    "-----BEGIN RSA PRIVATE KEY-----\n" + (_RANDOM + "\n") * 3 + "-----END RSA PRIVATE KEY-----",
)
PLANTED = tuple(text for _, text in plant(80))
_CODE = st.sampled_from(
    (
        "def f(x):",
        "    return api(x)",
        "",
        "token = None",
        "# the secret of it",
        "\tpassword",
        "é = 'ß'",
        "a" * 50,
    )
)


@pytest.mark.parametrize("secret", [*SECRETS, *PLANTED])
def test_every_kind_of_secret_is_taken_out(secret: str) -> None:
    text = f"import os\n\nx = 1  # see below\n{secret}\n\ndef f():\n    return x\n"
    assert redact_text(text) != text, "the shared rules know it"
    assert without_secrets(text) == redact_text(text)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(_CODE, st.sampled_from((*SECRETS, *PLANTED))), max_size=8),
    st.sampled_from(("\n", " ", "\n    ")),
)
def test_text_with_secrets_anywhere_is_cleaned_as_the_shared_rules_clean_it(
    pieces: list[str], between: str
) -> None:
    text = between.join(pieces)
    assert without_secrets(text) == redact_text(text)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_any_text_at_all_is_cleaned_as_the_shared_rules_clean_it(text: str) -> None:
    assert without_secrets(text) == redact_text(text)


def test_a_text_without_secrets_is_itself() -> None:
    text = "def token(api):\n    return api.access(token='x', password=None)\n" * 20
    assert without_secrets(text) is text


_ASSIGNED = st.tuples(
    st.sampled_from(
        ("password", "PASSWD", "passphrase", "secret", "Secret_Access_Key", "token", "api-key", "access_sign")
    ),
    st.sampled_from(("", '"', "\\'", "`")),
    st.sampled_from(
        (":", "=", " := ", "=>", "===", ": str = ", ":   string   =\n  ", ": &str=", "\n  =\n  ")
    ),
    st.sampled_from(("", "'", '\\\\\\"')),
    st.sampled_from(
        ("a1B2c3D", "a1B2c3D4", "a1B2 c3D4e5", "correct1horse2", "abcdefgh", "strings1", "a(1B2c3D4")
    ),
    st.sampled_from(("", "'", '\\"', ",")),
).map("".join)
_CALLED = st.tuples(
    st.sampled_from(("postgres://", "x:/", "https://")),
    st.sampled_from(("", "somebody", "some/body", "a" * 128, "a" * 129)),
    st.sampled_from((":", "", "::")),
    st.sampled_from(("", "hunter2", "hunter/2", "h" * 256, "h" * 257)),
    st.sampled_from(("@", "", " @")),
).map("".join)
_BORNE = st.tuples(
    st.sampled_from(("Bearer", "basic", "BASIC")),
    st.sampled_from((" ", "\t  ", "     ", "\n")),
    st.sampled_from((_RANDOM[:15], _RANDOM[:16], _RANDOM, "a" * 20)),
).map("".join)


@settings(max_examples=400, deadline=None)
@given(_ASSIGNED | _CALLED | _BORNE, _CODE)
def test_what_is_nearly_a_secret_is_judged_as_the_shared_rules_judge_it(text: str, before: str) -> None:
    whole = f"{before}\n    {text}\n{before}"
    assert without_secrets(whole) == redact_text(whole)
