"""The key that request state is sealed with: one for a home, whoever makes it."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tracedesk.home import HomeError
from tracedesk.wire.sealing import FILE, HomeCodec, home_key

MAKES = """
import sys
from pathlib import Path
from tracedesk.wire.sealing import home_key
sys.stdin.readline()
print(home_key(Path(sys.argv[1])).hex())
"""


def test_desks_that_start_at_once_agree_on_one_key_that_only_their_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "run" / FILE
    words = [sys.executable, "-c", MAKES, str(file)]
    makers = [
        subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("go\n")
        maker.stdin.flush()
    keys = {maker.communicate(timeout=100)[0].strip() for maker in makers}
    assert keys == {home_key(file).hex()}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == [FILE]


def test_state_sealed_by_one_desk_is_opened_by_another_of_the_home_and_by_no_other_home(
    tmp_path: Path,
) -> None:
    one, two, other = (HomeCodec(tmp_path / name) for name in ("home", "home", "elsewhere"))
    assert two.unseal(one.seal(b"state")) == b"state"
    with pytest.raises(Exception, match="unknown key"):
        other.unseal(one.seal(b"state"))


def test_a_damaged_key_is_named_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"short")
    with pytest.raises(HomeError, match=r"request-state\.key is damaged\. Remove it"):
        HomeCodec(tmp_path).seal(b"state")
