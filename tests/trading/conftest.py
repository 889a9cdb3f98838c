"""What a test gets for itself: a ledger and its file, a venue, an id of a call."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from zlib import crc32

import pytest

from tests.trading.ledgers import open_ledger
from tests.trading.loopback_broker import Venue, venue
from tracedesk.trading.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Generator[Ledger]:
    with open_ledger(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Venue]:
    with venue(tmp_path_factory.mktemp("venue") / "orders.jsonl") as found:
        yield found


@pytest.fixture
def at(shared: Venue) -> Venue:
    """The venue, as quick as it can be; the ids of a test are its own."""
    shared.tell()
    return shared


@pytest.fixture
def id(request: pytest.FixtureRequest) -> str:
    """A tool_call_id that no other test uses."""
    return f"t{crc32(request.node.nodeid.encode())}"
