"""Asking a person before an order goes out: on a page of this machine, never by the client's own answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracedesk.contract import Call, Url
from tracedesk.errors import ClientCannot, ToolError
from tracedesk.exchange.orders.confirm_page import Question, Questions
from tracedesk.exchange.orders.previews import Preview, Previews, invalid
from tracedesk.exchange.settings import Exchange
from tracedesk.exchange.units import decimal
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import Clock


def is_needed(settings: Exchange) -> bool:
    """Live orders are confirmed by a person, unless the operator has consented in the settings."""
    return settings.confirm == "always" or (settings.confirm == "live" and settings.mode == "live")


class Confirmations:
    """The orders of one desk that wait for a person, or have one's word."""

    def __init__(
        self, home: Path, settings: Exchange, previews: Previews, clock: Clock, secrets: Secrets | None = None
    ) -> None:
        self.questions = Questions(home, clock, secrets)
        self._asking = asyncio.Lock()
        self._settings = settings
        self._previews = previews

    async def confirm(self, preview: Preview, call: Call[Any], patience: float) -> None:
        """Return when a person has confirmed the order; raise a `ToolError` where nobody has.

        It comes before anything is done, because the call may be run again from its start. The client only
        shows where to confirm: whatever it answers, the desk looks at what was entered on its own page.
        """
        if preview.confirmed or not is_needed(self._settings):
            return
        await self._previews.hold(preview)
        words = _words(self._settings, preview)
        async with self._asking:  # two calls about one order ask one question
            question = self.questions.of(preview.client_order_id) or await self._asked(preview, words)
        if not question.settled.is_set():
            await self._shown(question, preview, call)
            await _answered(question, call, patience)
        await self._decide(question, preview, words)

    async def _asked(self, preview: Preview, words: str) -> Question:
        try:
            return await self.questions.ask(preview.holder, preview.client_order_id, words)
        except OSError as problem:
            message = (
                f"Nothing was sent: the file with the code that confirms it could not be written "
                f"({problem.strerror}). Make room in the home, or make it writable, then try again."
            )
            raise ToolError("DATABASE_ERROR", message) from None

    async def _shown(self, question: Question, preview: Preview, call: Call[Any]) -> None:
        """Have the client send its user to the page; what the user refuses there is refused."""
        message = (
            f"{question.words} To send this order, open the page and enter the code from the file "
            f"{question.file} of this machine."
        )
        try:
            answer = await call.elicit(
                Url(message, question.url, question.path[:16]), key=f"confirm-{preview.client_order_id}"
            )
        except ClientCannot:
            self.questions.forget(question)
            raise
        if answer.action != "accept":
            question.declined = True
            self.questions.forget(question)

    async def _decide(self, question: Question, preview: Preview, words: str) -> None:
        """Let the order go on if this very order was confirmed."""
        if question.is_void or question.words != words:
            self.questions.forget(question)
            await self._previews.burn(preview)
            raise invalid("declined", "the user did not confirm the order, and nothing was sent.")
        if not question.approved:
            raise _pending(question)
        await self._previews.confirm(preview)
        self.questions.forget(question)

    def drop(self, scope: str) -> None:
        """Forget the questions of a caller that has gone."""
        self.questions.drop(scope)

    async def sweep(self) -> None:
        """Forget the questions that nobody can answer any more."""
        await self.questions.sweep()

    async def close(self) -> None:
        await self.questions.close()


async def _answered(question: Question, call: Call[Any], patience: float) -> None:
    """Wait a while for the person, who may still be typing."""
    with call.user_time(), suppress(TimeoutError):
        await asyncio.wait_for(question.settled.wait(), patience)


def _pending(question: Question) -> ToolError:
    message = (
        f"The order is not confirmed yet, and nothing was sent. Enter the code from {question.file} at "
        f"{question.url}, then call place_order again with the same arguments."
    )
    return ToolError("APPROVAL_PENDING", message, {"reason": "unconfirmed", "url": question.url})


def _words(settings: Exchange, preview: Preview) -> str:
    ticket = preview.ticket
    terms = [f"{ticket.side} {decimal(ticket.quantity)} {ticket.symbol}", ticket.order_type]
    if ticket.price is not None:
        terms.append(f"at {decimal(ticket.price)}")
    if ticket.stop_price is not None:
        terms.append(f"stop {decimal(ticket.stop_price)}")
    if ticket.time_in_force is not None:
        terms.append(ticket.time_in_force)
    where = f"Mode {settings.mode.upper()}, account {preview.account}"
    return f"Send this order? {where}: {' '.join(terms)}. {preview.summary}"
