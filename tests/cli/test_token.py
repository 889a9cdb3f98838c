"""`tracedesk token`: list, add, revoke."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Served, Shell
from tracedesk.wire.auth import Tokens


def test_a_token_is_added_shown_once_listed_and_revoked(shell: Shell) -> None:
    added = shell("token", "add", "ci", "--scopes", "write,read")
    secret = added.out.strip()
    assert added.code == 0
    assert secret.startswith("td_")
    token = Tokens(shell.home).verify(secret)
    assert token is not None
    assert token.scopes == {"read", "write"}

    listed = shell("token", "list")
    assert "ci" in listed.out
    assert "read,write" in listed.out
    assert secret not in listed.out
    entry = {"name": "ci", "scopes": ["read", "write"], "id": token.digest[:8]}
    assert shell("token", "list", "--json").json == {"tokens": [entry]}

    assert shell("token", "revoke", "ci").out == "Revoked ci.\n"
    assert Tokens(shell.home).verify(secret) is None


def test_the_running_desks_owner_is_listed(served: Served) -> None:
    tokens = served.shell("token", "list", "--json").json["tokens"]
    assert [(t["name"], t["scopes"]) for t in tokens] == [("owner", ["read", "write", "trade"])]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["add", "x", "--scopes", "admin"], 2, "--scopes takes any of read,write,trade, not 'admin'."),
        (["add", "x", "--scopes", ","], 2, "--scopes takes any of"),
        (["add", "a b"], 2, "'a b' is no token name"),
        (["add", "owner"], 2, "made by the desk itself"),
        (["revoke", "nobody"], 1, "There is no token named 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said(shell: Shell, words: list[str], code: int, sentence: str) -> None:
    done = shell("token", *words)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err


def test_a_second_token_of_one_name_is_refused(shell: Shell) -> None:
    Tokens(shell.home).issue("ci", ["read"])
    done = shell("token", "add", "ci", "--json")
    assert done.code == 1
    assert done.json["error"] == {
        "code": "FAILED",
        "message": "A token named 'ci' exists; revoke it first.",
    }


def test_a_damaged_table_is_named(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "tokens.json").write_text("{")
    done = shell("token", "list")
    assert done.code == 1
    assert f"{shell.home / 'tokens.json'} is damaged." in done.err
