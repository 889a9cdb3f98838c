from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tracedesk.exchange.book.recording import Recorder, RecordingError, frames, lines, payload


@pytest.mark.parametrize("name", ["a.gz", "a.log"])
def test_what_was_recorded_is_read_back(tmp_path: Path, name: str) -> None:
    with Recorder(tmp_path / name) as recorder:
        recorder.write(5, b'{"stream":"x@trade","data":{"p":"1.10"}}')
        recorder.write(6, '{"lastUpdateId": 3}')
        recorder.write(7, {"u": 1})
    assert list(lines(tmp_path / name))[1] == (6, b'{"lastUpdateId": 3}')
    read = list(frames(tmp_path / name))
    assert [ns for ns, _ in read] == [5, 6, 7]
    assert [payload(frame) for _, frame in read] == [{"p": "1.10"}, {"lastUpdateId": 3}, {"u": 1}]


def test_the_same_messages_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with Recorder(tmp_path / name) as recorder:
            recorder.write(1, b"{}")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_message_with_line_breaks_stays_on_one_line(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.log") as recorder:
        recorder.write(1, b'{\n"a": 1\r\n}')
        recorder.write(2, b"{}")
    assert list(frames(tmp_path / "a.log")) == [(1, {"a": 1}), (2, {})]


def test_a_recording_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"kept")
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "a.gz")
    assert (tmp_path / "a.gz").read_bytes() == b"kept"


def test_a_cut_recording_gives_what_it_has_and_then_says_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    whole = gzip.compress(b"".join(b'%d {"n":%d}\n' % (n, n * n) for n in range(50_000)))
    path.write_bytes(whole[: len(whole) // 2])
    read: list[int] = []
    with pytest.raises(RecordingError, match=r"a\.gz is cut or damaged after line \d+"):
        read.extend(ns for ns, _ in frames(path))
    assert read == list(range(len(read)))
    assert len(read) > 1_000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"5 {}\nfive {}\n", "line 2: not '<local ns> <JSON>'"),
        (b"5\n", "line 1: not '<local ns> <JSON>'"),
        (b"5 {\n", "line 1: not JSON"),
        (b"5 []\n", "line 1: not a JSON object"),
    ],
)
def test_a_line_that_is_no_message_is_named(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line)
    with pytest.raises(RecordingError, match=problem):
        list(frames(path))
