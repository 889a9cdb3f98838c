"""Ids of runs and events. An event's id is its run and its seq, so neither way needs a look-up."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final
from uuid import UUID

from tracedesk.primitives.ids import dashed, is_uuid

_SEQ_BYTES: Final = 6
_LARGEST_SEQ: Final = (1 << 40) - 1


@lru_cache(maxsize=256)
def _head(run_id: str) -> str:
    """The first 20 hex digits of every id of a run, dashed, with version 8 and the variant in place."""
    digest = bytearray(hashlib.sha256(run_id.encode()).digest()[:10])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:]}-"


def event_id(run_id: str, seq: int) -> str:
    """The id of an event: a UUID of version 8, its last six bytes the seq."""
    return f"{_head(run_id)}{seq:012x}"


def id_bytes(run_id: str, seq: int) -> bytes:
    """The same as bytes, for answers that are put together of bytes."""
    return b"%s%012x" % (_head_bytes(run_id), seq)


@lru_cache(maxsize=256)
def _head_bytes(run_id: str) -> bytes:
    return _head(run_id).encode()


def seq_of(run_id: str, text: str) -> int | None:
    """The seq of an event's derived id; None when the id is another run's, or not derived at all."""
    if not is_uuid(text):
        return None
    id = text.lower()
    if not id.startswith(_head(run_id)):
        return None
    seq = int(id[-2 * _SEQ_BYTES :], 16)
    return seq if 0 < seq <= _LARGEST_SEQ else None


def guid_bytes(text: str) -> bytes:
    """The sixteen bytes of a GUID, dashed or bare; ValueError when it is none."""
    return bytes.fromhex(dashed(text).replace("-", ""))


def guid_text(raw: bytes) -> str:
    """A GUID's sixteen bytes as lower-case dashed text."""
    return str(UUID(bytes=raw))


def run_id_of(text: str) -> str:
    """A run's id in its one form, lower-case and dashed; ValueError when it is no GUID."""
    return dashed(text)
