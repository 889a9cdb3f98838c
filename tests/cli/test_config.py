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
    shown = shell("config", "show", "--json").json["settings"]["tables"]
    assert shown == {"value": {"trading": {"cash": 5, "clock": "system"}}, "source": "tracedesk.toml"}
    flagged = load({"home": shell.home, "tables": {"trading": {"clock": "replay"}}}, {})
    assert flagged.tables == {"trading": {"cash": 5, "clock": "replay"}}
