"""The page where a person enters keys, so that they pass neither model nor client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from tracedesk.exchange.credentials.keys import BadKeys, Keys, checked
from tracedesk.exchange.one_time_page import LIFE, BadForm, OneTimePage, OneTimePages
from tracedesk.primitives.time import Clock


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class Page(OneTimePage):
    """One question for keys, of one scope."""

    scope: str
    venue: str
    asker: str


class Pages(OneTimePages[Page]):
    """The pages for keys that wait."""

    title = "Keys for your account"

    def __init__(self, clock: Clock, deliver: Callable[[str, Keys], None]) -> None:
        super().__init__(clock)
        self._deliver = deliver

    async def open(self, scope: str, venue: str, asker: str) -> Page:
        """The page of a scope: the one that waits already or was just used, or a new one."""
        await self.sweep()
        asked = self.of(scope)
        if asked is not None:
            return asked
        deadline = self._clock.monotonic() + LIFE
        return await self.serve(Page(scope=scope, venue=venue, asker=asker, deadline=deadline))

    def of(self, scope: str) -> Page | None:
        """The page that a scope has."""
        return next((page for page in self.waiting if page.scope == scope), None)

    async def drop(self, scope: str) -> None:
        """Forget the pages of a scope that has ended."""
        for page in [p for p in self.waiting if p.scope == scope]:
            self.forget(page)
        await self.rest()

    def form(self, page: Page, notice: str) -> str:
        return _FORM.format(asker=escape(page.asker), venue=escape(page.venue), notice=notice)

    def submitted(self, page: Page, given: Mapping[str, str]) -> str:
        try:
            keys = checked(
                given.get("api_key", ""),
                secret=given.get("secret", ""),
                private_key=given.get("private_key", ""),
            )
        except BadKeys as problem:
            raise BadForm(str(problem)) from None
        self._deliver(page.scope, keys)
        return "<p>The keys are in use. You can close this page.</p>"


_FORM: Final = """<p>{asker} asks to use an account at <b>{venue}</b>. Go on only if you have just asked for
this. Keys stay in the memory of the desk until the session ends.</p>{notice}
<form method="post" autocomplete="off">
<label>API key<input name="api_key" required autocomplete="off" spellcheck="false"></label>
<label>Secret (HMAC keys)<input name="secret" type="password" autocomplete="off"></label>
<label>or private key (Ed25519, PEM)
<textarea name="private_key" rows="4" spellcheck="false" autocomplete="off"></textarea></label>
<p>Use a key that cannot withdraw.</p><button>Use these keys</button></form>"""
