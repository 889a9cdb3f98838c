"""The locks of the judges: exact, and free of any one registry."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.judges.install import EVERY, FORGE, LOCKS, NODE, OTLP, QWEN

NPM = {"npm": NODE, "fuzz": FORGE, "qwen": QWEN, "otlp": OTLP}


@pytest.mark.parametrize("folder", NPM)
def test_every_locked_package_has_a_digest_and_no_address(folder: str) -> None:
    lock: dict[str, Any] = json.loads((LOCKS / folder / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


@pytest.mark.parametrize("folder", NPM)
def test_every_judge_is_pinned_to_one_version(folder: str) -> None:
    package: dict[str, Any] = json.loads((LOCKS / folder / "package.json").read_text(encoding="utf-8"))
    pins = {**package["dependencies"], **package.get("optionalDependencies", {})}
    assert [pin for pin in pins.values() if not pin[0].isdigit()] == []


def test_every_package_that_pip_brings_is_pinned_by_version_and_digest() -> None:
    for judge in EVERY:
        for lock in () if judge in NPM.values() else judge.lock_files:
            lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if line.strip()]
            blocks = re.split(r"\n(?=[^\s#])", "\n".join(line for line in lines if line[0] != "#"))
            assert [block for block in blocks if not re.match(r"[\w.-]+==[^\s;]+", block)] == [], lock.name
            assert [block for block in blocks if "--hash=sha256:" not in block] == [], lock.name
