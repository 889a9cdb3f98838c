"""Frames over a pipe: whole again however they were cut."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tracedesk.codegraph.graph.frames import Frames, packed, unpacked


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers() | st.text() | st.none(), max_size=5), min_size=1, max_size=4),
    st.integers(1, 50),
)
def test_frames_come_whole_in_whatever_pieces_they_were_written(values: list[Any], piece: int) -> None:
    data = b"".join(map(packed, values))
    reading, writing = os.pipe()
    frames, found = Frames(), list[Any]()
    try:
        for at in range(0, len(data), piece):
            left = len(data[at : at + piece])
            os.write(writing, data[at : at + piece])
            while left and len(found) < len(values):
                body = frames.read(reading)
                left = _waiting(reading)
                if body is not None:
                    found.append(unpacked(body))
        os.close(writing)
        assert found == values
        assert frames.read(reading) is None
        assert frames.is_ended
    finally:
        os.close(reading)


def _waiting(fd: int) -> int:
    import array
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]
