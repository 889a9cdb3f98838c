"""Whether what has a native part beside its Python uses it."""

from __future__ import annotations

import os
from typing import Final

SWITCH: Final = "TRACEDESK_NATIVE"
"""The environment variable by which `off` leaves the native parts alone; the fuzzer has no other core."""


def is_wanted() -> bool:
    return os.environ.get(SWITCH) != "off"
