"""The lock of the node judges: exact, and free of any one registry."""

from __future__ import annotations

import json
from typing import Any

from tests.judges.install import LOCKED


def test_every_locked_package_has_a_digest_and_no_address() -> None:
    lock: dict[str, Any] = json.loads((LOCKED / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


def test_every_judge_is_pinned_to_one_version() -> None:
    package: dict[str, Any] = json.loads((LOCKED / "package.json").read_text(encoding="utf-8"))
    assert [v for v in package["dependencies"].values() if not v[0].isdigit()] == []
