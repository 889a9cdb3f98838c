"""A desk that is killed while it sends an order."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.exchange.orders.desks import START_NS, Brisk, trader
from tests.exchange.orders.lying import LyingVenue, serving
from tests.support import BOUND, ROOT, run

SCRIPT = """
import asyncio, sys
from pathlib import Path
from tests.exchange.orders.desks import MARKET, START_NS, Brisk, Market, User, make_call, settings
from tracedesk.calls import CallLog
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.exchange.orders.desk import OrderDesk
from tracedesk.exchange.orders.party import Party
from tracedesk.home import Home
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets

async def main(home, address):
    Home.open(home)
    clock = Brisk(START_NS)
    calls = CallLog(home / "trace.db", clock, Secrets(), Payloads(home / "payloads"))
    rest = Client(Endpoints("sim", address, "ws://x", "ws://x")).signed(Credentials.of("k" * 64, "s" * 64))
    party = Party("stdio:1", "sim/main", "main", rest, Market().look)
    desk = OrderDesk(home, settings(), clock, calls, lambda: [party])
    shown = await desk.preview(party, MARKET, None)
    call = make_call(calls, "stdio:1", User(), "place_order")
    await desk.place(party, MARKET, shown["preview_token"], call)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.parametrize("taken", [True, False])
def test_what_a_killed_desk_sent_is_found_by_the_next_and_never_sent_again(
    tmp_path: Path, taken: bool
) -> None:
    async def main() -> None:
        clock = Brisk(START_NS)
        venue = LyingVenue(clock)
        venue.gate = asyncio.Event()
        venue.lies.append("truth" if taken else "drop_before")
        async with serving(venue) as address:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SCRIPT, str(tmp_path), address, cwd=ROOT
            )
            await asyncio.wait_for(venue.arrived.wait(), BOUND)
            child.send_signal(signal.SIGKILL)
            await child.wait()
            venue.gate.set()
            (name,) = venue.posted
            async with asyncio.timeout(BOUND):
                while venue.lies:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        async with trader(tmp_path, venue=venue, clock=clock) as it:
            order = it.desk.ledger.order(name)
            assert order is not None
            assert order.state.status == ("FILLED" if taken else "UNKNOWN")
            it.clock.advance(31)
            assert (await it.desk.reconcile())["unresolved"] == []
            assert it.kinds() == (["intent", "outcome"] if taken else ["intent", "unknown", "outcome"])
            assert venue.posted[name] == 1
            it.assert_sound()

    run(main())
