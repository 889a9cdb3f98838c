"""The native parts' own tests, which need no Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from tests.support import ROOT

CRATES = sorted(file.parent for file in (ROOT / "native").glob("*/Cargo.toml"))


def test_each_native_part_is_judged() -> None:
    assert [crate.name for crate in CRATES] == ["code", "evm", "runs"]


@pytest.mark.judge
@pytest.mark.timeout(900)
@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_a_native_part_passes_its_own_tests(crate: Path) -> None:
    cargo = shutil.which("cargo")
    assert cargo, "the native parts are built and tested with Rust: install it"
    command = [cargo, "test", "--locked", "--quiet", "--manifest-path", crate / "Cargo.toml"]
    target = user_cache_path("tracedesk") / "native" / "target"
    done = subprocess.run(command, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=False)
    assert done.returncode == 0
