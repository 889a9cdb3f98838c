"""Building the native parts, where two set-ups of one user run at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts import build_native


def test_two_setups_at_once_build_a_wheel_in_turn_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crate, built = tmp_path / "crate", list[Path]()
    crate.mkdir()
    both = threading.Barrier(2)

    def key(*_: object) -> str:
        both.wait(30)
        return "sources"

    def build(_crate: Path, _cargo: str, _cache: Path, wheels: Path) -> Path:
        with (tmp_path / "building").open("x"):  # fails where another build is under way
            built.append(wheels)
        wheels.mkdir()
        (wheels / "part.whl").touch()
        (tmp_path / "building").unlink()
        return wheels / "part.whl"

    monkeypatch.setattr(build_native, "_key", key)
    monkeypatch.setattr(build_native, "_build", build)
    with ThreadPoolExecutor(2) as setups:
        ends = [setups.submit(build_native._wheel, crate, "cargo", tmp_path / "cache") for _ in range(2)]  # pyright: ignore[reportPrivateUsage]
        wheels = {end.result(60) for end in ends}
    assert wheels == {tmp_path / "cache" / "sources" / "part.whl"}
    assert len(built) == 1
