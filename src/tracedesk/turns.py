"""One call at a time, of this desk and of others on its home: a file lock that ends with its holder."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tracedesk.primitives.locks import try_lock

_RETRY_S: Final = 0.005


@asynccontextmanager
async def turn(
    home: Path, kind: str, of: str, seconds: float, refusal: Callable[[], Exception]
) -> AsyncGenerator[None]:
    """Hold the lock of that kind on whatever `of` names; raises the refusal when it is not free in time."""
    folder = home / "run"
    folder.mkdir(exist_ok=True, mode=0o700)
    name = f"{kind}-{hashlib.sha256(of.encode()).hexdigest()[:16]}.lock"
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = asyncio.get_running_loop().time() + seconds
        while not try_lock(descriptor):
            if asyncio.get_running_loop().time() >= until:
                raise refusal()
            await asyncio.sleep(_RETRY_S)
        yield
    finally:
        os.close(descriptor)
