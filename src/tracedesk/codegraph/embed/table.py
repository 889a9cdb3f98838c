"""The file of a static table: a header, the words, a whole-number weight for each, eight-bit rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC: Final = b"TDWORDS1"


@dataclass(frozen=True, slots=True)
class Table:
    """`rows[n] * weights[n]` is the vector of `words[n]`; a word met c times counts `damped[c - 1]`."""

    id: str
    words: tuple[str, ...]
    damped: tuple[int, ...]
    weights: NDArray[np.uint8]
    rows: NDArray[np.int8]


def write(path: Path, table: Table, about: dict[str, Any]) -> None:
    """`about` says where the numbers come from, for those who open the file; reading ignores it."""
    words = "\n".join(table.words).encode()
    header = {
        "id": table.id,
        "dim": int(table.rows.shape[1]),
        "words": len(table.words),
        "bytes": len(words),
        "damped": table.damped,
        "about": about,
    }
    head = json.dumps(header, sort_keys=True).encode()
    with path.open("wb") as file:
        file.write(MAGIC + len(head).to_bytes(4, "little") + head + words)
        file.write(table.weights.tobytes() + table.rows.tobytes())


def read(path: Path) -> Table:
    """The table in a file; a file that is none, or not whole, is refused."""
    import numpy as np

    raw = path.read_bytes()
    begin = 12 + int.from_bytes(raw[8:12], "little")
    if raw[:8] != MAGIC or len(raw) < begin:
        raise _broken(path)
    header = json.loads(raw[12:begin])
    count, dim, weights_at = header["words"], header["dim"], begin + header["bytes"]
    if len(raw) != weights_at + count * (1 + dim):
        raise _broken(path)
    return Table(
        header["id"],
        tuple(raw[begin:weights_at].decode().split("\n")),
        tuple(header["damped"]),
        np.frombuffer(raw, np.uint8, count, weights_at),
        np.frombuffer(raw, np.int8, count * dim, weights_at + count).reshape(count, dim),
    )


def _broken(path: Path) -> ValueError:
    return ValueError(f"{path.name} is not a whole table of words; install tracedesk again")
