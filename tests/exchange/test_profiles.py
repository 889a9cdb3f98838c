"""Keys of profiles: from variables and private files, checked, hidden and never shown."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tracedesk.errors import ToolError
from tracedesk.exchange import settings
from tracedesk.exchange.credentials.environment import Environment
from tracedesk.exchange.credentials.keys import BadKeys, Keys, checked
from tracedesk.exchange.credentials.profiles import Profiles
from tracedesk.primitives.redaction import Secrets

KEY = "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"
SECRET = "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j"


def pem(key: Any) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def profiles(
    tmp_path: Path, variables: dict[str, str], table: dict[str, Any] | None = None
) -> tuple[Profiles, Secrets]:
    environment, secrets = Environment(), Secrets()
    os.environ |= variables
    read = settings.read({"mode": "testnet", **(table or {})})
    return Profiles(read, tmp_path, secrets, environment), secrets


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("name", ["BINANCE_SECRET_KEY", "BINANCE_API_SECRET"])
def test_either_name_of_the_secret_is_taken_and_both_leave_the_environment(tmp_path: Path, name: str) -> None:
    found, secrets = profiles(tmp_path, {"BINANCE_API_KEY": KEY, name: SECRET})
    assert found.default == "environment"
    keys = found.keys("environment")
    assert (keys.api_key, keys.secret) == (KEY, SECRET)
    assert "BINANCE_API_KEY" not in os.environ
    assert name not in os.environ
    assert secrets.redact_text(f"{KEY} {SECRET}").count("[redacted:") == 2


def test_two_secrets_that_differ_are_refused_and_two_that_agree_are_one(tmp_path: Path) -> None:
    both = {"BINANCE_API_KEY": KEY, "BINANCE_SECRET_KEY": SECRET, "BINANCE_API_SECRET": SECRET[::-1]}
    with pytest.raises(ToolError, match="differ; unset one") as refused:
        profiles(tmp_path, both)[0].keys("environment")
    assert refused.value.code == "CREDENTIALS_REQUIRED"
    assert SECRET not in str(refused.value)
    agreeing = {**both, "BINANCE_API_SECRET": SECRET}
    assert profiles(tmp_path, agreeing)[0].keys("environment").secret == SECRET


def test_a_key_without_its_secret_names_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="set BINANCE_API_KEY and BINANCE_SECRET_KEY"):
        profiles(tmp_path, {"BINANCE_API_KEY": KEY})[0].keys("environment")


def test_a_profile_names_its_own_variables(tmp_path: Path) -> None:
    table = {"profiles": {"second": {"api_key_env": "H_TEST_KEY", "secret_env": "H_TEST_SECRET"}}}
    found, _ = profiles(tmp_path, {"H_TEST_KEY": KEY, "H_TEST_SECRET": SECRET}, table)
    assert found.names == ("second",)
    assert found.default is None
    assert found.keys("second").secret == SECRET
    assert "H_TEST_SECRET" not in os.environ


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    table = {"profiles": {"second": {"api_key_env": "H_TEST_NONE", "secret_env": "H_TEST_NO_SECRET"}}}
    with pytest.raises(ToolError, match="H_TEST_NONE is not set"):
        profiles(tmp_path, {}, table)[0].keys("second")


def test_a_file_of_ones_own_is_read_and_one_that_others_can_read_is_not(tmp_path: Path) -> None:
    path = private(tmp_path / "keys", f"# mine\napi_key = {KEY}\nsecret = '{SECRET}'\n")
    table = {"profiles": {"main": {"file": "keys"}}}
    assert profiles(tmp_path, {}, table)[0].keys("main").secret == SECRET
    for mode in (0o640, 0o604, 0o644):
        path.chmod(mode)
        with pytest.raises(ToolError, match="chmod 600"):
            profiles(tmp_path, {}, table)[0].keys("main")


def test_an_ed25519_key_signs_and_another_kind_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "key.pem", pem(Ed25519PrivateKey.generate()))
    table = {"profiles": {"main": {"api_key_env": "H_TEST_KEY", "private_key_file": "key.pem"}}}
    keys = profiles(tmp_path, {"H_TEST_KEY": KEY}, table)[0].keys("main")
    assert keys.credentials().kind == "Ed25519"
    private(tmp_path / "key.pem", pem(generate_private_key(65537, 2048)))
    with pytest.raises(ToolError, match="must be an Ed25519 key"):
        profiles(tmp_path, {"H_TEST_KEY": KEY}, table)[0].keys("main")


def test_an_account_of_another_venue_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "keys", f"api_key = {KEY}\nsecret = {SECRET}\n")
    table = {"profiles": {"real": {"mode": "live", "file": "keys"}}}
    found, _ = profiles(tmp_path, {}, table)
    assert found.names == ()
    with pytest.raises(ToolError, match="is an account at live, but this desk is at testnet"):
        found.keys("real")


def test_a_profile_that_does_not_exist_names_those_that_do(tmp_path: Path) -> None:
    found, _ = profiles(tmp_path, {"BINANCE_API_KEY": KEY, "BINANCE_SECRET_KEY": SECRET})
    with pytest.raises(ToolError, match="there are: environment"):
        found.keys("main")


def test_keys_show_nothing_of_themselves() -> None:
    keys = Keys(KEY, secret=SECRET)
    assert repr(keys) == "<Keys HMAC>"
    assert f"{keys}" == "<Keys HMAC>"
    with pytest.raises(TypeError):
        pickle.dumps(keys)
    environment = Environment()
    os.environ["H_TEST_SECRET"] = SECRET
    environment.take(["H_TEST_SECRET"])
    assert SECRET not in repr(environment)


@pytest.mark.parametrize(
    ("api_key", "secret", "private_key", "problem"),
    [
        ("", SECRET, "", "missing or too short"),
        (KEY, "", "", "either the secret"),
        (KEY, SECRET, "-----BEGIN", "not both"),
        (KEY, "short", "", "too short"),
        (KEY + "\u00e9", SECRET, "", "visible ASCII"),
        (KEY, "a b" * 20, "", "without spaces"),
        (KEY, "", "no pem", "unencrypted PEM"),
        (KEY * 9, SECRET, "", "at most 256"),
    ],
)
def test_what_cannot_be_keys_is_refused_without_repeating_it(
    api_key: str, secret: str, private_key: str, problem: str
) -> None:
    with pytest.raises(BadKeys, match=problem) as refused:
        checked(api_key, secret=secret, private_key=private_key)
    assert SECRET not in str(refused.value)
    assert KEY not in str(refused.value)
