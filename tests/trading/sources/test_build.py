"""The providers that the settings name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tracedesk.trading.settings import BadTradingSetting, Providers
from tracedesk.trading.sources.build import make

_LIGHT = """
import sys
from pathlib import Path
from tracedesk.trading.settings import Providers
from tracedesk.trading.sources.build import make
from tracedesk.trading.sources.gate import Gate
make(Providers(quotes=("yahoo", "embedded", "http://127.0.0.1:9")), Path("nowhere"), True)
print(sorted({"yfinance", "numpy", "pandas"} & set(sys.modules)))
"""


def test_each_named_provider_is_made_once(tmp_path: Path) -> None:
    made = make(Providers(history=("files", "embedded")), tmp_path, False)
    assert sorted(made) == ["embedded", "files"]
    assert {name: provider.name for name, provider in made.items()} == {
        "embedded": "embedded",
        "files": "files",
    }


@pytest.mark.parametrize(
    ("folder", "shown"),
    [("market", "market/bars/A.csv"), ("my/data", "my/data/bars/A.csv"), (".", "bars/A.csv")],
)
def test_files_are_told_by_their_place_in_the_home(tmp_path: Path, folder: str, shown: str) -> None:
    for name in (folder, str(tmp_path / folder)):
        files = make(Providers(folder=name), tmp_path, False)["files"]
        error = asyncio.run(files.daily(["A"], 2, 0)).failures["A"]
        assert f"looked for in {shown} in the home" in error.message


def test_an_address_is_a_provider(tmp_path: Path) -> None:
    address = "http://127.0.0.1:9999/market"
    assert make(Providers(quotes=(address,)), tmp_path, False)[address].name == address


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            Providers(quotes=("bloomberg",)),
            "quotes names 'bloomberg'; there are embedded, files, yahoo and http",
        ),
        (Providers(news=("embedded",)), "news names 'embedded', which has only quotes, history"),
        (Providers(quotes=("http://me:secret@host",)), "must not carry a name or password"),
        (Providers(quotes=("http://",)), "is not an address"),
        (Providers(folder="../elsewhere"), "must name a folder in the home"),
        (Providers(folder="/etc"), "must name a folder in the home"),
        (Providers(folder=""), "must name a folder in the home"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(tmp_path: Path, settings: Providers, problem: str) -> None:
    with pytest.raises(BadTradingSetting, match=problem):
        make(settings, tmp_path, False)


def test_making_them_imports_no_heavy_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIGHT], check=True, capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "[]\n"
