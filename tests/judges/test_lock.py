"""The locks of the judges: exact, and free of any one registry."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.judges.install import EVERY, LOCKS, NODE


def test_every_locked_package_has_a_digest_and_no_address() -> None:
    lock: dict[str, Any] = json.loads((LOCKS / "npm" / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


def test_every_judge_is_pinned_to_one_version() -> None:
    package: dict[str, Any] = json.loads((LOCKS / "npm" / "package.json").read_text(encoding="utf-8"))
    assert [v for v in package["dependencies"].values() if not v[0].isdigit()] == []


def test_every_package_that_pip_brings_is_pinned_by_version_and_digest() -> None:
    for judge in EVERY:
        for lock in () if judge is NODE else judge.lock_files:
            lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if line.strip()]
            blocks = re.split(r"\n(?=[^\s#])", "\n".join(line for line in lines if line[0] != "#"))
            assert [block for block in blocks if not re.match(r"[\w.-]+==[^\s;]+", block)] == [], lock.name
            assert [block for block in blocks if "--hash=sha256:" not in block] == [], lock.name
