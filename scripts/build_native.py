"""Builds the native parts and installs them beside this Python: `python -m scripts.build_native`.

Wheels and the compiler's intermediate files are kept in the user's cache, outside the clone. A wheel is found
again by what it was made of: the lock, the sources, the compiler and the platform. Without Rust nothing is
built: all but the fuzz toolset works, recording and indexing by Python alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

NATIVE: Final = Path(__file__).parents[1] / "native"
_REMEDY: Final = (
    "The native parts were not built: cargo is not on the PATH. All but the fuzz toolset works without them, "
    "recording and indexing more slowly. For them install Rust (1.91 or newer) and run `make setup` again."
)


def main() -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        print(_REMEDY, file=sys.stderr)
        return
    for crate in sorted(file.parent for file in NATIVE.glob("*/Cargo.toml")):
        _install(crate, cargo)


def _install(crate: Path, cargo: str) -> None:
    wheel = _wheel(crate, cargo, user_cache_path("tracedesk") / "native")
    _run(
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--force-reinstall",
        wheel,
    )


def _wheel(crate: Path, cargo: str, cache: Path) -> Path:
    """Wheel of the cache, or of a build that no other set-up shares: builds write one target folder."""
    wheels = cache / _key(crate, cargo)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return next(wheels.glob("*.whl"), None) or _build(crate, cargo, cache, wheels)


def _key(crate: Path, cargo: str) -> str:
    """Digest of the wheel's inputs."""
    compiler = subprocess.run([cargo, "version", "--verbose"], check=True, capture_output=True).stdout
    digest = hashlib.sha256(compiler + sysconfig.get_platform().encode())
    for file in sorted(_sources(crate)):
        digest.update(b"\0".join((str(file.relative_to(NATIVE)).encode(), file.read_bytes(), b"")))
    return digest.hexdigest()[:32]


def _sources(crate: Path) -> Iterator[Path]:
    yield from (file for file in crate.iterdir() if file.is_file())
    yield from (file for file in (crate / "src").rglob("*") if file.is_file())


def _build(crate: Path, cargo: str, cache: Path, wheels: Path) -> Path:
    """Build in the cache, and give the folder its name only when the wheel is complete."""
    env = {**os.environ, "CARGO_TARGET_DIR": str(cache / "target")}
    fresh = cache / f"building-{os.getpid()}"
    print(f"Building native/{crate.name}; the first time this takes up to a few minutes.", flush=True)
    # Clones share the target folder, in which cargo may take another clone's library for this one's.
    manifest = ("--manifest-path", crate / "Cargo.toml")
    subprocess.run(
        [cargo, "clean", "--quiet", "--release", "--package", f"tracedesk-{crate.name}", *manifest],
        env=env,
        check=False,
    )
    _run(
        "-m",
        "maturin",
        "build",
        "--release",
        "--locked",
        *manifest,
        "--out",
        fresh,
        env=env,
    )
    shutil.rmtree(wheels, ignore_errors=True)
    fresh.rename(wheels)
    return next(wheels.glob("*.whl"))


def _run(*arguments: str | Path, env: dict[str, str] | None = None) -> None:
    if subprocess.run([sys.executable, *arguments], env=env).returncode:
        raise SystemExit(f"{' '.join(map(str, arguments[1:3]))} failed; its messages are above.")


if __name__ == "__main__":
    main()
