"""`tracedesk config show`: each value and the layer that decided it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tracedesk.config import BadSetting, load


def test_every_setting_is_shown_with_the_layer_that_decided_it(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "tracedesk.toml").write_text('port = 4000\nmax_tokens = 500\ntoolsets = ["desk"]\n')
    settings = shell("config", "show", "--json", TRACEDESK_MAX_TOKENS="600").json["settings"]
    assert settings["port"] == {"value": 4000, "source": "tracedesk.toml"}
    assert settings["max_tokens"] == {"value": 600, "source": "environment"}
    assert settings["toolsets"] == {"value": ["desk"], "source": "tracedesk.toml"}
    assert settings["home"] == {"value": str(shell.home), "source": "environment"}
    assert settings["host"] == {"value": "127.0.0.1", "source": "default"}
    shown = shell("config", "show").out
    assert all(name in shown for name in settings)


def test_a_secret_in_a_value_is_not_shown(shell: Shell) -> None:
    secret = "https://me:" + "hunter2hunter2" + "@host"
    done = shell("config", "show", "--json", TRACEDESK_HOST=secret)
    assert "hunter2" not in done.out
    assert "redacted" in done.json["settings"]["host"]["value"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("port = ", "tracedesk.toml: not TOML"),
        ("prot = 1", "unknown setting 'prot'; there are home, toolsets"),
        ("port = 'x'", "port must be a port from 0 to 65535, not 'x'"),
        ("log_level = 'LOUD'", "log_level must be one of DEBUG, INFO, WARNING, ERROR, not 'LOUD'"),
        ("host = 5", "host must be text, not 5"),
        ("trading = 5", "trading must be a table, [trading]"),
        ("tables = 5", "unknown setting 'tables'"),
    ],
)
def test_a_bad_settings_file_exits_2_and_names_the_place(shell: Shell, text: str, sentence: str) -> None:
    shell.home.mkdir()
    (shell.home / "tracedesk.toml").write_text(text)
    done = shell("config", "show")
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", -1),
        ("port", 65536),
        ("port", 80.5),
        ("max_bytes", 0),
        ("max_tokens", True),
        ("idle_seconds", math.nan),
        ("max_bytes", math.inf),
        ("read_only", "perhaps"),
        ("host", ["a"]),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BadSetting, match=f"flag: {name} must be"):
        load({name: value}, {})


def test_a_log_level_may_be_written_in_lower_case() -> None:
    assert load({"log_level": "debug"}, {}).log_level == "DEBUG"


def test_a_toolsets_table_is_its_own_and_a_flag_changes_one_value_of_it(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "tracedesk.toml").write_text('[trading]\ncash = 5\nclock = "system"\n')
    shown = shell("config", "show", "--json").json["settings"]
    assert shown["trading.cash"] == {"value": "5", "source": "tracedesk.toml"}
    assert shown["trading.clock"] == {"value": "system", "source": "tracedesk.toml"}
    flagged = load({"home": shell.home, "tables": {"trading": {"clock": "replay"}}}, {})
    assert flagged.tables == {"trading": {"cash": 5, "clock": "replay"}}


# --- variables that are none ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("TRACEDESK_READONLY", "is not a variable of tracedesk. Did you mean TRACEDESK_READ_ONLY?"),
        ("tracedesk_read_only", "Did you mean TRACEDESK_READ_ONLY?"),
        ("Tracedesk_Readonly", "Did you mean TRACEDESK_READ_ONLY?"),
        ("TRACEDESK_PROT", "Did you mean TRACEDESK_PORT?"),
        ("TRACEDESK_CODEGRAPH_ROOT", "Did you mean TRACEDESK_CODEGRAPH_ROOTS?"),
        ("TRACEDESK_EXCHANGE_MODE", "Settings of [exchange] have none: write mode under [exchange]"),
        ("TRACEDESK_TRADING_CASH", "Settings of [trading] have none: write cash under [trading]"),
        ("TRACEDESK_ZZZ", "Unset it; settings that have one are TRACEDESK_HOME, TRACEDESK_TOOLSETS"),
    ],
)
@pytest.mark.parametrize("words", [("serve", "--stdio"), ("serve", "--port", "0"), ("config", "show")])
def test_a_variable_that_is_none_is_refused_with_its_remedy(
    shell: Shell, name: str, sentence: str, words: tuple[str, ...]
) -> None:
    done = shell(*words, **{name: "1"})
    assert (done.code, done.out) == (2, "")
    assert name.lower() in done.err.lower()  # a sentence begins with a capital
    assert sentence in done.err


def test_doctor_names_a_variable_that_is_none(shell: Shell) -> None:
    done = shell("doctor", TRACEDESK_READONLY="1")
    assert done.code == 1
    assert "Did you mean TRACEDESK_READ_ONLY?" in done.out


def test_a_variable_that_a_profile_names_may_have_our_prefix(shell: Shell) -> None:
    shell.home.mkdir()
    profile = '[exchange.profiles.main]\napi_key_env = "TRACEDESK_MAIN_KEY"\nsecret_env = "TRACEDESK_MAIN"\n'
    (shell.home / "tracedesk.toml").write_text(profile)
    given = {"TRACEDESK_MAIN_KEY": "k", "TRACEDESK_MAIN": "s", "TRACEDESK_NATIVE": "off"}
    assert shell("config", "show", **given).code == 0
    assert shell("config", "show", **given, TRACEDESK_MAINN="s").code == 2


def test_a_shell_completes_commands_all_the_same(shell: Shell) -> None:
    done = shell(_TRACEDESK_COMPLETE="bash_source")
    assert "_tracedesk_completion" in done.out


def test_every_setting_of_a_table_is_shown_with_its_layer_and_a_wrong_one_is_refused(shell: Shell) -> None:
    shell.home.mkdir()
    file = shell.home / "tracedesk.toml"
    file.write_text("[exchange]\nwarm = true\n[exchange.caps]\nmax_open_orders = 7\n[trading]\nwindow = 99\n")
    settings = shell("config", "show", "--json").json["settings"]
    assert settings["exchange.warm"] == {"value": True, "source": "tracedesk.toml"}
    assert settings["exchange.caps.max_open_orders"] == {"value": 7, "source": "tracedesk.toml"}
    assert settings["exchange.caps.collar_bps"]["source"] == "default"
    assert settings["trading.window"] == {"value": 99, "source": "tracedesk.toml"}
    assert settings["codegraph.roots"] == {"value": [], "source": "default"}
    file.write_text("[exchange]\nmod = 'sim'\n")
    assert "exchange.mod is not a setting" in shell("config", "show").err
    file.write_text("[exchnage]\nmode = 'sim'\n")
    assert (
        "unknown table [exchnage]. Did you mean exchange? There are [backtest]" in shell("config", "show").err
    )


def test_a_table_that_the_environment_sets_is_not_said_to_come_from_the_file(shell: Shell) -> None:
    shell.home.mkdir()
    file = shell.home / "tracedesk.toml"
    file.write_text('[codegraph]\nroots = ["/from/the/file"]\nmax_files = 9\n[fuzz.limits]\n')
    settings = shell("config", "show", "--json", TRACEDESK_CODEGRAPH_ROOTS="/code").json["settings"]
    assert settings["codegraph.roots"] == {"value": ["/code"], "source": "environment"}
    assert settings["codegraph.max_files"] == {"value": 9, "source": "tracedesk.toml"}
    assert settings["codegraph.max_line"]["source"] == "default"
    assert {row["source"] for name, row in settings.items() if name.startswith("fuzz.")} == {"default"}


def test_a_wrong_name_in_any_table_is_refused(shell: Shell) -> None:
    shell.home.mkdir()
    for text, sentence in (
        ("[backtest]\nanything = 1\n", "backtest.anything is not a setting"),
        ("[codegraph]\nroot = []\n", "codegraph.root is not a setting"),
        ("[fuzz.limits]\nbogus = 1\n", "fuzz.limits.bogus is not a setting"),
        ("[exchange.caps]\nmax_open = 7\n", "exchange.caps.max_open is not a setting"),
        ("[exchange.sim]\npace = 1\n", "exchange.sim.pace is not a setting"),
        ("[exchange.profiles.main]\nkey = 'x'\n", "exchange.profiles.main.key is not a setting"),
        ("[trading.limits]\nmax_order = 7\n", "trading.limits.max_order is not a setting"),
    ):
        (shell.home / "tracedesk.toml").write_text(text)
        done = shell("config", "show")
        assert (done.code, done.out) == (2, ""), text
        assert sentence in done.err, text
    (shell.home / "tracedesk.toml").write_text("[backtest]\nanything = 1\n")
    served = shell("serve", "--port", "0")
    assert (served.code, served.out) == (2, "")
    assert "backtest.anything is not a setting" in served.err
