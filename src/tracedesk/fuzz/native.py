"""The one door to the native core, and what to do when it is not there."""

from __future__ import annotations

import importlib
from typing import Any, Final, Protocol, cast

import orjson

from tracedesk.errors import ToolError

REMEDY: Final = (
    "The fuzzer's native core, tracedesk-evm, is not installed. Install Rust (rustup), then run `make setup` "
    "in a checkout of tracedesk. Everything else of the desk works without it."
)


class Campaign(Protocol):
    """A campaign of the native core: JSON text in and out, safe to call from any thread."""

    def start(self, seconds: float | None = None) -> None: ...
    def stop(self) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...
    def status(self) -> str: ...
    def events(self, limit: int) -> str: ...
    def coverage(self) -> str: ...
    def corpus(self, start: int, limit: int) -> str: ...
    def find(self, query: str) -> str: ...
    def load(self, sequences: str) -> str: ...
    def inject(self, sequence: str, at: str | None = None) -> str: ...
    def prioritize(self, functions: str, at: str | None = None) -> str: ...
    def avoid(self, functions: str, at: str | None = None) -> str: ...
    def sample(self, function: str | None) -> str: ...
    def execute(self, sequence: str, trace: bool, seconds: float | None = None) -> str: ...
    def check(self, sequence: str, seconds: float | None = None) -> str: ...
    def shrink(self, test: str, sequence: str, limit: int, seconds: float | None = None) -> str: ...
    def counters(self) -> str: ...


class Engine(Protocol):
    """The module `tracedesk_evm`."""

    SpecError: type[ValueError]
    DeployError: type[RuntimeError]
    UnsupportedError: type[RuntimeError]
    """A `DeployError` by a cheatcode that is not there: its message, and the names."""
    LimitError: type[RuntimeError]

    def Campaign(self, spec: str, seconds: float | None = None) -> Campaign: ...
    def version(self) -> str: ...
    def abi_encode(self, types: str, values: str) -> bytes: ...
    def abi_decode(self, types: str, data: bytes) -> str: ...
    def parse_args(self, types: str, text: str) -> str: ...
    def print_call(self, name: str, types: str, values: str) -> str: ...


class EngineMissing(ToolError):
    """The native core cannot be imported."""

    def __init__(self, why: str) -> None:
        super().__init__("INTERNAL_ERROR", REMEDY, {"kind": "ENGINE_MISSING", "reason": why})


def engine() -> Engine:
    """The native core, imported at its first use; raises `EngineMissing`."""
    try:
        found: Any = importlib.import_module("tracedesk_evm")
    except ImportError as fault:
        raise EngineMissing(str(fault)) from None
    return cast("Engine", found)


def is_there() -> bool:
    """Whether the native core can be used."""
    try:
        engine()
    except EngineMissing:
        return False
    return True


def read(document: str | bytes) -> Any:
    """What the core said; its figures are binary, its amounts are text."""
    return orjson.loads(document)


def text(value: Any) -> str:
    """A value as the core is told it."""
    return orjson.dumps(value).decode()
