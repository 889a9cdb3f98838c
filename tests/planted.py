"""Secrets to plant and look for again: private keys, wallet phrases, passwords in code and prose."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import NamedTuple

import tracedesk.primitives

WORDS = (Path(tracedesk.primitives.__file__).parent / "data" / "bip39_english.txt").read_text("ascii").split()


class Planted(NamedTuple):
    """A secret, and a text that holds it as people and programs write it."""

    secret: str
    text: str


def hex_key(chance: random.Random) -> str:
    return chance.randbytes(32).hex()


def phrase(chance: random.Random, count: int = 12) -> str:
    """A wallet phrase with a valid checksum, made as BIP-39 says and not as the product checks it."""
    entropy = chance.randbytes(count * 4 // 3)
    digest = hashlib.sha256(entropy).digest()
    bits = "".join(f"{byte:08b}" for byte in entropy) + f"{digest[0]:08b}"[: count // 3]
    return " ".join(WORDS[int(bits[at : at + 11], 2)] for at in range(0, len(bits), 11))


def password(chance: random.Random) -> str:
    return "".join(chance.choices("abcdefghkmnpqrtuvwxyz", k=6)) + str(chance.randrange(100, 999))


KEYS = (
    '{{"privateKey": "0x{}"}}',
    '{{"eth": "0x{}"}}',
    '{{"accounts": {{"deployer": {{"private_key": "{}"}}}}}}',
    "PRIVATE_KEY={}",
    "export DEPLOYER_PRIVATE_KEY=0x{}",
    "ETH_KEY=0x{}\nRPC_URL=http://127.0.0.1:8545",
    "SIGNER_PK='0x{}'",
    "cast send --private-key 0x{} 0x5FbDB2315678afecb367f032d93F642f64180aa3 'f()'",
    "forge script S --private-key={} --broadcast",
    'const wallet = new ethers.Wallet("0x{}", provider);',
    'account = Account.from_key("{}")',
    "uint256 internal constant deployerKey = 0x{};",
    'const pk: Hex = "0x{}"',
    'let private_key: &str = "{}";',
    "vm.startBroadcast(0x{});",
    "privateKey = bytes.fromhex('{}')",
    "the private key is 0x{}, do not share it",
    "Private Keys\n==================\n\n(0) 0x{}\n",
    'argv = ["cast", "wallet", "import", "--private-key", "0x{}"]',
    "secret: {}",
)
PHRASES = (
    '{{"mnem": "{}"}}',
    "MNEMONIC='{}'",
    "{}",
    "my seed phrase: {}. Keep it.",
    '{{"note": "wallet\\n{}\\nend"}}',
    "cast wallet address --mnemonic '{}'",
)
PASSWORDS = (
    'password = "{}"',
    "my password is {}, please log in",
    "The password is: {}.",
    'db.connect(user="me", password="{}")',
    "DB_PASSWORD={}",
    'const password: string = "{}";',
    "--password {}",
    "the admin password was {}",
    '{{"passphrase": "{}"}}',
    "pwd='{}'",
    "My wifi passphrase is '{}'",
    'PASSWORD := "{}"',
)


def plant(count: int = 200, seed: int = 20_261_118) -> list[Planted]:
    """`count` different secrets of all kinds, the same for the same seed."""
    chance = random.Random(seed)
    found: list[Planted] = []
    for number in range(count):
        kind, form = number % 3, number // 3
        if kind == 0:
            secret, forms = hex_key(chance), KEYS
        elif kind == 1:
            secret, forms = phrase(chance, (12, 15, 18, 21, 24)[form % 5]), PHRASES
        else:
            secret, forms = password(chance), PASSWORDS
        found.append(Planted(secret, forms[form % len(forms)].format(secret)))
    return found
