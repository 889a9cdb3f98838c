"""One-time pages on this machine, where a person enters what passes neither model nor client.

The path is unguessable, works for one submission within minutes, answers only to its own host, and is
neither cached nor logged.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tracedesk.primitives.time import Clock

if TYPE_CHECKING:
    from aiohttp import web

LIFE: Final = 300.0
"""Seconds that a page waits for its person."""
_LARGEST: Final = 16_384
TRIES: Final = 5
"""Submissions that are none after which a page is gone."""
_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class BadForm(ValueError):
    """A submission that is refused; its text is shown on the page and repeats nothing that was entered."""


@dataclass(slots=True, eq=False, kw_only=True)
class OneTimePage:
    """One question to a person."""

    deadline: float
    path: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    url: str = ""
    tries: int = 0
    used: bool = False
    """True once the person has answered: the path then leads nowhere."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the answer has come or never will."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


P = TypeVar("P", bound=OneTimePage)


class OneTimePages(Generic[P]):
    """The pages that wait; the small server behind them runs only while there is one."""

    title = ""
    problem = "what was sent"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_path: dict[str, P] = {}
        self._runner: web.AppRunner | None = None
        self._host = ""
        self._starting = asyncio.Lock()

    # --- what each kind of page says for itself

    def form(self, page: P, notice: str) -> str:
        """The body of a page that waits, in HTML; the notice is HTML too."""
        raise NotImplementedError

    def submitted(self, page: P, given: Mapping[str, str]) -> str:
        """Take a submission, or raise `BadForm`; returns what the page says then, in HTML."""
        raise NotImplementedError

    def exhausted(self, page: P) -> None:
        """End a page after too many submissions that were none."""
        self.forget(page)

    def forgotten(self, page: P) -> None:
        """Hear that a page is gone, used or not."""

    # --- life

    async def serve(self, page: P) -> P:
        """Give a page its address, where it answers from now on."""
        async with self._starting:
            await self._serve()
            page.url = f"http://{self._host}/{page.path}"
            self._by_path[page.path] = page
        return page

    @property
    def waiting(self) -> tuple[P, ...]:
        """The pages that are not forgotten."""
        return tuple(self._by_path.values())

    async def sweep(self) -> None:
        """Forget pages whose time is over."""
        now = self._clock.monotonic()
        for page in [p for p in self._by_path.values() if p.deadline <= now]:
            self.forget(page)
        await self.rest()

    async def close(self) -> None:
        for page in self.waiting:
            self.forget(page)
        await self.rest()

    def forget(self, page: P) -> None:
        """End a page; whoever waits for it is woken."""
        if self._by_path.pop(page.path, None) is not None:
            self.forgotten(page)
        page.settled.set()

    async def rest(self) -> None:
        """Stop the server if no page needs it."""
        async with self._starting:
            if not self._by_path and self._runner is not None:
                runner, self._runner = self._runner, None
                await runner.cleanup()

    async def _serve(self) -> None:
        if self._runner is not None:
            return
        from aiohttp import web

        app = web.Application(client_max_size=_LARGEST)
        app.on_response_prepare.append(_seal)
        app.router.add_get("/{path}", self._show)
        app.router.add_post("/{path}", self._take)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._host = f"127.0.0.1:{runner.addresses[0][1]}"
        self._runner = runner

    # --- answering

    def _find(self, request: web.Request) -> P | None:
        """The page that a request may see: by its path, under its own host, from its own origin."""
        if request.headers.getall("Host", []) != [self._host]:
            return None
        if request.headers.get("Origin", f"http://{self._host}") not in (f"http://{self._host}", "null"):
            return None
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return None
        return self._live(request.match_info["path"])

    def _live(self, path: str) -> P | None:
        page = self._by_path.get(path)
        if page is None or page.used or page.deadline <= self._clock.monotonic():
            return None
        return page

    async def _show(self, request: web.Request) -> web.Response:
        page = self._find(request)
        return _gone() if page is None else self._shown(200, page)

    async def _take(self, request: web.Request) -> web.Response:
        from aiohttp import web

        page = self._find(request)
        if page is None:
            return _gone()
        try:
            form = await request.post()
        except web.HTTPRequestEntityTooLarge:
            return self._again(page, f"{self.problem} is too large", 413)
        except Exception:
            # Of whatever kind: neither the log nor an answer without our headers may come of it.
            return self._again(page, f"{self.problem} is no form of this page", 400)
        if self._live(page.path) is not page:
            return _gone()  # answered or ended while the form arrived
        try:
            done = self.submitted(page, {name: str(value) for name, value in form.items()})
        except BadForm as problem:
            return self._again(page, str(problem))
        page.used = True
        page.settled.set()
        return _answer(200, _frame("Done", done))

    def _again(self, page: P, problem: str, status: int = 422) -> web.Response:
        page.tries += 1
        if page.tries >= TRIES:
            self.exhausted(page)
            return _gone()
        return self._shown(status, page, f'<p class="problem" role="alert">{escape(problem)}.</p>')

    def _shown(self, status: int, page: P, notice: str = "") -> web.Response:
        return _answer(status, _frame(self.title, self.form(page, notice)))


def _answer(status: int, body: str) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=body, content_type="text/html")


async def _seal(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer is kept by nobody, also those that are made before ours."""
    response.headers.update(_HEADERS)


def _gone() -> web.Response:
    text = "<p>This page is used up, too old, or was opened under another name. Ask for a new one.</p>"
    return _answer(404, _frame("Not here", text))


_FRAME: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>body{{font:16px/1.5 system-ui;max-width:34rem;margin:3rem auto;padding:0 1rem}}
label{{display:block;margin:1rem 0}}button{{font:inherit;padding:.5rem 1rem}}.problem{{color:#a00}}
code{{overflow-wrap:anywhere}}
input,textarea{{display:block;width:100%;font:inherit;padding:.4rem;box-sizing:border-box}}</style>
<h1>{title}</h1>{body}</html>"""


def _frame(title: str, body: str) -> str:
    return _FRAME.format(title=escape(title), body=body)
