"""Private keys by position, wallet phrases by checksum, passwords in code and prose; hashes are none."""

from __future__ import annotations

import json
import random
import re
import time

import pytest

from tests.planted import WORDS, hex_key, phrase, plant
from tracedesk.primitives.mnemonics import is_phrase, may_hold_phrase
from tracedesk.primitives.redaction import is_plain, redact, redact_text


def test_every_planted_secret_is_replaced_in_text_and_in_json() -> None:
    kept = [text for secret, text in plant(600) if secret in redact_text(text)]
    assert not kept
    documents = [{"note": text, "rows": [text]} for _, text in plant(600)]
    assert not [d for d in documents if is_plain(json.dumps(d).encode())]
    assert not [s for (s, _), d in zip(plant(600), documents, strict=True) if s in json.dumps(redact(d))]


def test_a_key_is_replaced_under_a_json_key_after_a_flag_and_in_a_list() -> None:
    chance = random.Random(3)
    one, two = hex_key(chance), hex_key(chance)
    for value in (
        {"eth": f"0x{one}"},
        {"deployerKey": one},
        {"DEPLOYER_PK": f"0x{one}"},
        {"privateKeys": [one, two]},
        {"argv": ["cast", "send", "--private-key", f"0x{one}"]},
        {"argv": ["psql", "--password", one[:9]]},
        {"mnem": phrase(chance).split()},
        {"secrets": {"a": [f"PRIVATE_KEYS=0x{one},0x{two}"]}},
    ):
        text = json.dumps(redact(value))
        assert "[redacted:" in text, value
        assert one[:9] not in text, value
        assert two not in text, value
        assert not is_plain(json.dumps(value).encode()), value


@pytest.mark.parametrize("count", [12, 15, 18, 21, 24])
@pytest.mark.parametrize(
    "form",
    [
        "{}", "words before: {}", "abandon {}", "{} zoo", "- {}\n- next", '["{}"]', "A\\n{}\\nB", "  {}\n",
    ],
)  # fmt: skip
def test_a_phrase_is_found_by_its_checksum_wherever_it_stands(count: int, form: str) -> None:
    words = phrase(random.Random(count), count)
    text = form.format(words)
    assert words not in redact_text(text)
    assert "[redacted:mnemonic:" in redact_text(text)
    assert words.split()[3] + " " + words.split()[4] not in redact_text(text)


def test_a_phrase_is_found_numbered_listed_in_capitals_and_over_lines() -> None:
    words = phrase(random.Random(5)).split()
    for text in (
        "\n".join(f"{n}. {word}" for n, word in enumerate(words, 1)),
        " ".join(f"{n}) {word}" for n, word in enumerate(words, 1)),
        json.dumps(words),
        ", ".join(words),
        " ".join(words).upper(),
        " ".join(words[:6]) + "\n" + " ".join(words[6:]),
        json.dumps(" ".join(words[:4]) + "\n\n" + " ".join(words[4:])),
    ):
        assert "[redacted:mnemonic:" in redact_text(text), text
        assert words[5] not in redact_text(text), text


def test_two_phrases_in_a_list_are_both_replaced() -> None:
    chance = random.Random(8)
    one, two = phrase(chance), phrase(chance)
    for text in (json.dumps([one, two]), f"{one}\n{two}\n", f"{one}\\n{two}"):
        assert redact_text(text).count("[redacted:mnemonic:") == 2, text


def test_words_without_the_checksum_and_the_list_itself_are_no_phrase() -> None:
    words = phrase(random.Random(9)).split()
    wrong = [*words[:-1], next(w for w in WORDS if not is_phrase([*words[:-1], w]))]
    assert redact_text(" ".join(wrong)) == " ".join(wrong)
    for listed in ("\n".join(WORDS), " ".join(WORDS), json.dumps(WORDS)):
        assert redact_text(listed) == listed


_VALUE = re.compile("[0-9a-fA-F]{64}")


def _answers(chance: random.Random) -> list[str]:
    """Values that only look like keys, in the shapes of the desk's own answers."""
    value = chance.randbytes(32).hex()
    other = chance.randbytes(32).hex().upper()
    code = chance.randbytes(96).hex()
    shapes = (
        {"txHash": f"0x{value}", "blockHash": f"0x{other}"},
        {"transactionHash": f"0x{value}", "logs": [{"topics": [f"0x{other}"], "data": f"0x{code}"}]},
        {"slot": f"0x{value}", "value": f"0x{other}", "key": f"0x{value}"},
        {"storage": {f"0x{value}": f"0x{other}"}},
        {"sha256": value, "bytes": 312},
        {"result": {"bytes": 5000, "sha256": value}, "hash": other},
        {"bytecode": f"0x{code}", "codeHash": f"0x{value}"},
        {"calldata": f"0xa9059cbb{value}{other}", "selector": "0xa9059cbb"},
        {"args": [f"0x{value}", 7], "function": "commit(bytes32)", "secretHash": f"0x{value}"},
        {"ref": f"tracedesk://payloads/{value}", "graph_version": value, "ethTxHash": f"0x{value}"},
    )  # fmt: skip
    prose = (
        f"tx 0x{value} reverted in block 17 after the deployer signed it; owner 0x{other[:40]}",
        f"file sha256:{value} of the private repository",
        f"sstore(0x{value}, 0x{other}) by owner; keccak256(0x{code}) = 0x{value}",
        f"assertEq(root, 0x{value}); bytes32 constant ADMIN_ROLE = 0x{value};",
        f"eth_getTransactionReceipt 0x{value} and eth tx: 0x{value}",
        f"publicKey: 0x{value} secretHash: {value} private_key_hash={value}",
    )
    texts = [json.dumps(shape) for shape in shapes] + list(prose)
    return [_VALUE.sub(lambda _: chance.randbytes(32).hex(), text) for text in texts]


def test_no_hash_slot_or_code_in_the_shape_of_an_answer_is_taken_for_a_key() -> None:
    chance, checked, changed, values = random.Random(1), 0, list[str](), list[object]()
    while checked < 100_000:
        texts = _answers(chance)
        document = "\n".join(texts)
        if redact_text(document) != document:
            changed += [text for text in texts if redact_text(text) != text]
        if len(values) < 3_000:
            values += [json.loads(text) for text in texts[:10]]
        checked += len(_VALUE.findall(document))
    assert not changed, changed[:3]
    assert not [value for value in values if redact(value) != value]


PASSING = (
    "The password is required and must be entered.",
    "your password is incorrect, try again",
    "my password is not working",
    "our password is hashed with argon2",
    'password: "string", type: "password"',
    'Field(name="password", label="Password", type="password")',
    'password = input("password: ")',
    "password = request.form['password']",
    'error = "Enter your password"',
    'password = "Please enter it"',
    'PASSWORD_FIELD = "password"',
    "password = self.password",
    "if password == other_password:",
    "def login(user, password=None): ...",
    'cmd = ["--password", "$PASSWORD"]',
    "psql --password ${PGPASSWORD}",
    "PWD=/home/user1/project2",
    "private key: see the vault",
    "const privateKey = process.env.PRIVATE_KEY;",
    "private key must be 64 hex digits",
    "eth = web3.eth",
    "able about above absent, and then nothing more of the list",
)


@pytest.mark.parametrize("text", PASSING)
def test_text_about_secrets_passes_unchanged(text: str) -> None:
    assert redact_text(text) == text


def test_redacting_twice_changes_nothing_more() -> None:
    for _, text in plant(200):
        once = redact_text(text)
        assert redact_text(once) == once


HOSTILE = {
    "list words": "zoo ",
    "lines of list words": "zoo " * 29 + "zoo\n",
    "valid phrases": "abandon " * 11 + "about ",
    "words in quotes": '"zoo", ',
    "eleven words": "zoo " * 11 + "qqq ",
    "numbered words": "1. zoo 2. ",
    "first numbers": "1. zoo ",
    "backslashes and list words": "zoo\\n",
    "key names": "private_key",
    "key names assigned": "private_key: ",
    "key names with types": "pk: aaaaaaaaaaaaaaaaaaaaaaaa = ",
    "key names called": 'privateKey = bytes.fromhex("',
    "short hexes": "eth=0x" + "a" * 63 + " ",
    "long hex": "a",
    "hex lists": "eth=" + ("0x" + "a" * 64 + ",") * 20,
    "headings": "private keys\n\n\n\n",
    "flags": "--private-key ",
    "flags of dashes": "--a-a-a-a-a-a-a-a-",
    "passwords": "password = '",
    "passwords that are": "my password is ",
    "passwords with blanks": "password     =    ",
    "password flags": "--password ",
    "underscored": "a_a_a_a_pwd ",
    "quotes": 'password="\\\\\\"',
}


def _seconds(text: str) -> float:
    begin = time.thread_time()
    is_plain(json.dumps({"text": text}).encode())
    redact_text(text)
    return time.thread_time() - begin


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_of_keys_and_phrases_takes_time_in_proportion(name: str) -> None:
    unit = HOSTILE[name]
    small, large = (unit * (size // len(unit)) for size in (1 << 15, 1 << 18))
    # Eight times the text: linear work takes 8 times as long, quadratic 64 times.
    assert min(_seconds(large), _seconds(large)) <= 32 * max(min(_seconds(small), _seconds(small)), 0.002)


def test_prose_is_not_searched_for_phrases_word_by_word() -> None:
    assert not may_hold_phrase(
        b"when in the course of human events it becomes necessary for one people " * 50
    )
    assert may_hold_phrase(b"x: " + phrase(random.Random(1)).encode())
