"""Halting: the switch by tool, file or signal, the dead man's timer, and asking about what is in doubt."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Edge
from tracedesk.exchange.orders.presence import Presence
from tracedesk.exchange.orders.sweeping import Sees, Sweep, Sweeping, everything, noted
from tracedesk.primitives.redaction import redact_text
from tracedesk.primitives.supervision import Supervised

if TYPE_CHECKING:
    from tracedesk.contract import Call
    from tracedesk.exchange.orders.desk import OrderDesk
    from tracedesk.exchange.orders.switch import Halt

log = logging.getLogger(__name__)

SIGNAL: Final = signal.SIGUSR1
BY_SIGNAL: Final = ("the signal SIGUSR1", "signal")
"""Reason and origin of a halt by that signal."""


class Halting:
    """What one desk does when it must stop, and what it looks after while nobody calls."""

    def __init__(self, desk: OrderDesk) -> None:
        self._desk = desk
        self._watching: asyncio.Task[None] | None = None
        self._signalled = False
        self.sweeping = Sweeping(desk)
        self._seen: Halt | None = None
        """The halt that everything is cancelled for."""
        self._in_doubt = False
        self._is_new = False
        """Whether orders that only rested are to be asked about too."""
        self._armed = False
        self._presence = Presence(desk.home, desk.clock)
        self._asked = -math.inf

    # --- what the desk tells

    def start(self, *, in_doubt: bool) -> None:
        """`in_doubt` says that orders of an earlier desk are to be asked about first."""
        self._in_doubt = self._is_new = in_doubt
        self._armed = in_doubt and self._desk.settings.mode != "read_only"
        self._signalled = _listen(self._on_signal)
        self._watching = asyncio.create_task(self._watch(), name="order-desk")

    async def stop(self) -> None:
        if self._signalled:
            asyncio.get_running_loop().remove_signal_handler(SIGNAL)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching

    def doubt(self) -> None:
        """An order has no known outcome: it is asked about from now on."""
        self._in_doubt = True

    def arm(self) -> None:
        """An order goes out: from now on somebody must be there."""
        self._armed = True

    def touch(self) -> None:
        self._presence.touch(tell=bool(self._desk.settings.dead_man_seconds))

    def document(self) -> dict[str, Any] | None:
        seconds = self._desk.settings.dead_man_seconds
        return {"seconds": seconds, "armed": self._armed} if seconds else None

    def swept(self, halt: Halt | None, sees: Sees) -> dict[str, Any] | None:
        """How far cancelling everything has come; a halt that nobody has looked at yet has done nothing."""
        if halt is None or halt == self._seen:
            return self.sweeping.document(sees)
        return {"cause": "halt", **Sweep("halt").document(), "cancelled": 0}

    # --- the switch

    async def kill(
        self, reason: str, by: str, call: Call[Any] | None, sees: Sees = everything
    ) -> dict[str, Any]:
        """Throw the switch, cancel everything, say what is left; a full disk keeps it from none of that."""
        halt = self._desk.switch.throw(redact_text(reason, self._desk.secrets), by)
        edges = [] if call is None else [Edge("recorded_as", f"tracedesk://calls/{call.id}")]
        ledger, mode = self._desk.ledger, self._desk.settings.mode
        self._seen = halt
        sweep = self.sweeping.begin("halt")
        whose = {"principal": None if call is None else call.principal}
        body = {**whose, "mode": mode, "halt": halt.document()}
        asked = await noted(partial(ledger.note, "halt", body, edges))
        if asked is not None:
            sweep.edges = [Edge("asked", asked[0])]
        await self.sweeping.attempt(sweep)
        left = await noted(ledger.unresolved)

        def answer(ref: str | None) -> dict[str, Any]:
            said = {"mode": mode, "halted": halt.document(), **sweep.document(sees)}
            said["unresolved"] = [order.shown() for order in left or () if sees(order.account)]
            return {**said, "resume": "tracedesk exchange rearm (the operator's)", "ref": ref}

        news = sweep.news
        edges = [*sweep.edges, *edges]
        # An entry that names accounts of others is the owner's.
        body = sweep.document() if "of_others" in sweep.document(sees) else {**whose, **sweep.document()}
        work = partial(ledger.note, "swept", body, edges, call=call, answer=answer)
        written = await noted(work)
        if written is None:
            return answer(None)
        sweep.written = news
        return written[1]

    # --- watching

    async def _watch(self) -> None:
        desk, looking = self._desk, Supervised("order desk")
        while True:
            await desk.clock.sleep_until(desk.clock.monotonic() + desk.pace.watch)
            with looking.round():
                await self.look()

    async def look(self) -> None:
        """Do what has fallen due: cancel after a halt or a silence, ask about what is in doubt."""
        desk = self._desk
        halt = desk.switch.halt
        if halt is None:
            self._seen = None
            self.sweeping.rearmed()
        elif halt != self._seen:
            await self.kill(halt.reason, halt.by, None)
        if halt is None and self._is_abandoned():
            self._abandon()
        await self.sweeping.go_on()
        if self._in_doubt and desk.clock.monotonic() - self._asked >= desk.pace.settle:
            await self._settle(halt)

    async def _settle(self, halt: Halt | None) -> None:
        self._asked = self._desk.clock.monotonic()
        self._in_doubt = False
        await self._desk.gather()
        signed = {party.account for party in self._desk.parties()}
        left = (await self._desk.reconcile(only_unresolved=not self._is_new))["unresolved"]
        self._is_new = False
        self._in_doubt = any(order["account"] in signed for order in left) or self._in_doubt
        if halt is not None:
            await self.sweeping.anew()

    def _is_abandoned(self) -> bool:
        seconds = self._desk.settings.dead_man_seconds
        return bool(seconds) and self._armed and self._presence.silent() >= seconds

    def _abandon(self) -> None:
        """Nobody has called for so long: what rests is cancelled, and the next order arms the timer again."""
        self._armed = False
        settings = self._desk.settings
        self.sweeping.begin("dead_man", mode=settings.mode, silent_seconds=settings.dead_man_seconds)

    def _on_signal(self) -> None:
        """The next look cancels everything; from this moment on nothing is sent."""
        self._desk.switch.throw(*BY_SIGNAL)


def _listen(react: Any) -> bool:
    """Hear the signal, where this is the thread that signals come to."""
    try:
        asyncio.get_running_loop().add_signal_handler(SIGNAL, react)
    except (RuntimeError, ValueError, NotImplementedError):
        log.warning("the kill signal is not heard here: this is not the main thread")
        return False
    return True
