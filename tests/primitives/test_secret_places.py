"""Places where secrets stand that only look like hashes or words, and names that hashes stand under."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

import pytest

from tracedesk.primitives.mnemonics import is_phrase
from tracedesk.primitives.redaction import is_plain, redact

DIGITS = "1f9a07c44be5d2683a7e905bc6d1f80e2b4d69a5c7380fe1d2946ab85c07e3f1"
KEY = f"0x{DIGITS}"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow".split()  # noqa: SIM905
PASSWORD = "hunter2hunter2"


def _nested(value: Any, times: int) -> str:
    for _ in range(times):
        value = json.dumps(value)
    return value


KEYS: dict[str, Any] = {
    "accounts of a network": {"networks": {"sepolia": {"accounts": [KEY]}}},
    "accounts in code": f"accounts: ['{DIGITS}'],",
    "in a folded block": f"private_key: >-\n  {KEY}",
    "in a list": f"private_keys:\n  - {DIGITS}\n  - {DIGITS[::-1]}",
    "in an element": f"<privateKey>{KEY}</privateKey>",
    "in a table": f"| private key | {KEY} |",
    "for somebody": f"the private key for the deployer is {KEY}",
    "of something": f"Private key of wallet 3: {KEY}",
    "as the second argument": f'w3.eth.account.sign_transaction(tx, "{KEY}")',
    "in a query": f"https://h/?{quote(f'private_key={KEY}&b=1', safe='')}",
    "in an encoded body": quote(json.dumps({"privateKey": KEY})),
    "quoted four times": _nested({"privateKey": KEY}, 4),
    "as a name": {"privateKeys": {KEY: "alice"}},
    "under two names": {"private": {"key": KEY}},
    "extended": "xprv9s21ZrQH143K3" + "QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxW" * 2,
}
KEYS["extended"] = KEYS["extended"][:111]

PHRASES: dict[str, Any] = {
    **{
        name: mark.join(WORDS)
        for name, mark in (("-", "-"), ("_", "_"), ("bars", " | "), ("/", " / "), (";", "; "))
    },
    **{
        name: mark.join(WORDS)
        for name, mark in (("+", "+"), ("%20", "%20"), ("wide", "\u3000"), ("fixed", "\u00a0"))
    },
    "bullets": "\n".join(f"- {word}" for word in WORDS),
    "figures": "\n".join(f"{number} {word}" for number, word in enumerate(WORDS, 1)),
    "columns": "\n".join(f"{n + 1}. {WORDS[n]}   {n + 7}. {WORDS[n + 6]}" for n in range(6)),
    "members": {f"word{number}": word for number, word in enumerate(WORDS, 1)},
}

PASSWORDS: dict[str, Any] = {
    "again": {"passwordConfirm": PASSWORD},
    "again in text": f'{{"passwordConfirm":"{PASSWORD}"}}',
    "short name": {"pass": PASSWORD},
    "short name in code": f"auth: {{ user: 'bob', pass: '{PASSWORD}' }}",
    "in an element": f"<password>{PASSWORD}</password>",
    "typed": f'let password: String = "{PASSWORD}".into();',
    "optional": f'password: str | None = "{PASSWORD}"',
    "three quotes": f"password = '''{PASSWORD}'''",
    "in a query": f"password%3D{PASSWORD}",
    "set": f"set password to {PASSWORD}",
}


def _all() -> list[Any]:
    groups = (KEYS, PHRASES, PASSWORDS)
    return [pytest.param(value, id=f"{name}") for group in groups for name, value in group.items()]


@pytest.mark.parametrize("value", _all())
def test_a_secret_is_replaced_in_every_place_it_is_written_in(value: Any) -> None:
    document = {"message": value}
    assert not is_plain(json.dumps(document, ensure_ascii=False).encode())
    kept = json.dumps(redact(document), ensure_ascii=False)
    assert "[redacted:" in kept
    assert DIGITS not in kept
    assert PASSWORD not in kept
    assert sum(word in kept for word in WORDS) < 3


NAMES = (
    "private_inputs", "privateInputs", "privateFor", "private_tx", "privateTransaction", "privacyMarker",
    "hashOfSecret", "hash_of_secret", "withdrawalCredentials", "withdrawal_credentials", "tx_eth", "keyHash",
    "storageKey", "secretHash", "publicKeyHash", "ADMIN_SLOT", "merkleKey", "key",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_hash_keeps_its_digits_under_names_that_sound_like_a_secret(name: str) -> None:
    chance = random.Random(name)
    for _ in range(50):
        digits = f"{chance.getrandbits(256):064x}"
        for value in (digits, f"0x{digits}"):
            for document in (
                {name: value},
                {name: [value, value]},
                {"message": f'{name} = "{value}"'},
                {"message": f"{name}: {value}"},
                {"message": json.dumps({name: value})},
                {"message": f"the private key of account 3 signed {value}"},
                {"txHashes": {"eth": value}},
            ):
                assert redact(document) == document


def test_the_words_are_a_phrase() -> None:
    assert is_phrase(WORDS)
