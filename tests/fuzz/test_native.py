"""The core's own tests, which need no Python."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from platformdirs import user_cache_path

from tests.support import ROOT


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_the_core_passes_its_own_tests() -> None:
    cargo = shutil.which("cargo")
    assert cargo, "the fuzzer's core is built and tested with Rust: install it"
    command = [cargo, "test", "--locked", "--quiet", "--manifest-path", ROOT / "native" / "Cargo.toml"]
    target = user_cache_path("tracedesk") / "native" / "target"
    done = subprocess.run(command, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=False)
    assert done.returncode == 0
