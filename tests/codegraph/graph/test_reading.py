"""Files read one after the other, and lines that no person wrote."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.reading import Reading, Source, flaw
from tracedesk.primitives.paths import Jail


def _content(found: Source | str) -> bytes | str:
    return found.data if isinstance(found, Source) else found


def test_each_file_is_read_from_its_own_folder_in_whatever_order(tmp_path: Path) -> None:
    names = ["a/b/c/1.py", "a/b/2.py", "a/b/c/3.py", "x/c/4.py", "5.py", "a/b/c/d/6.py", "x/7.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with Reading(Jail([tmp_path]), str(tmp_path), Limits()) as reading:
        for name in [*names, "a/none/1.py", *reversed(names)]:
            expected = "missing" if "none" in name else name.encode()
            assert _content(reading.read(name)) == expected
    if before:
        assert len(os.listdir("/proc/self/fd")) == before, "no folder stays open"


def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "real").mkdir(parents=True)
    (root / "real" / "a.py").write_text("a")
    (tmp_path / "out.py").write_text("secret")
    with Reading(Jail([root]), str(root), Limits()) as reading:
        assert _content(reading.read("real/a.py")) == b"a"
        (root / "link").symlink_to(tmp_path)
        assert reading.read("link/out.py") == "outside"


@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 10))
def test_a_line_is_too_long_when_it_has_more_signs_than_allowed(lengths: list[int], most: int) -> None:
    data = b"\n".join(b"x" * length for length in lengths)
    expected = "minified" if max(lengths, default=0) > most else None
    assert flaw(data, Limits(line_chars=most)) == expected
