"""A one-time page on this machine where a person enters keys, so that they pass neither model nor client.

The path is unguessable, works for one submission within minutes, answers only to its own host, and is
neither cached nor logged.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

from tracedesk.exchange.credentials.keys import BadKeys, Keys, checked
from tracedesk.primitives.time import Clock

if TYPE_CHECKING:
    from aiohttp import web

LIFE: Final = 300.0
"""Seconds that a page waits for its person."""
_LARGEST: Final = 16_384
_TRIES: Final = 5
_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(slots=True, eq=False)
class Page:
    """One question for keys, of one scope."""

    scope: str
    venue: str
    asker: str
    path: str
    deadline: float
    url: str = ""
    tries: int = 0
    used: bool = False
    """Whether the keys have come: the path then leads nowhere."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the keys have come or never will."""

    def __repr__(self) -> str:
        return f"<Page of {self.venue}>"


class Pages:
    """The pages that wait; the small server behind them runs only while there is one."""

    def __init__(self, clock: Clock, deliver: Callable[[str, Keys], None]) -> None:
        self._clock = clock
        self._deliver = deliver
        self._by_path: dict[str, Page] = {}
        self._runner: web.AppRunner | None = None
        self._host = ""
        self._starting = asyncio.Lock()

    async def open(self, scope: str, venue: str, asker: str) -> Page:
        """The page of a scope: the one that waits already or was just used, or a new one."""
        await self.sweep()
        asked = self.of(scope)
        if asked is not None:
            return asked
        async with self._starting:
            await self._serve()
        page = Page(scope, venue, asker, secrets.token_urlsafe(32), self._clock.monotonic() + LIFE)
        page.url = f"http://{self._host}/{page.path}"
        self._by_path[page.path] = page
        return page

    def of(self, scope: str) -> Page | None:
        """The page that a scope has."""
        return next((page for page in self._by_path.values() if page.scope == scope), None)

    async def drop(self, scope: str) -> None:
        """Forget the pages of a scope that has ended."""
        for page in [p for p in self._by_path.values() if p.scope == scope]:
            self._forget(page)
        await self._rest()

    async def sweep(self) -> None:
        """Forget pages whose time is over."""
        now = self._clock.monotonic()
        for page in [p for p in self._by_path.values() if p.deadline <= now]:
            self._forget(page)
        await self._rest()

    async def close(self) -> None:
        for page in tuple(self._by_path.values()):
            self._forget(page)
        await self._rest()

    def _forget(self, page: Page) -> None:
        self._by_path.pop(page.path, None)
        page.settled.set()

    async def _rest(self) -> None:
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

    def _find(self, request: web.Request) -> Page | None:
        """The page that a request may see: by its path, under its own host, from its own origin."""
        if request.headers.getall("Host", []) != [self._host]:
            return None
        if request.headers.get("Origin", f"http://{self._host}") not in (f"http://{self._host}", "null"):
            return None
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return None
        page = self._by_path.get(request.match_info["path"])
        if page is None or page.used or page.deadline <= self._clock.monotonic():
            return None
        return page

    async def _show(self, request: web.Request) -> web.Response:
        page = self._find(request)
        return _gone() if page is None else _answer(200, _form(page))

    async def _take(self, request: web.Request) -> web.Response:
        from aiohttp import web

        page = self._find(request)
        if page is None:
            return _gone()
        try:
            form = await request.post()
        except web.HTTPRequestEntityTooLarge:
            return self._again(page, "what was sent is too large for keys", 413)
        except Exception:
            # Of whatever kind: neither the log nor an answer without our headers may come of it.
            return self._again(page, "what was sent is no form of this page", 400)
        given = {name: str(value) for name, value in form.items()}
        try:
            keys = checked(
                given.get("api_key", ""),
                secret=given.get("secret", ""),
                private_key=given.get("private_key", ""),
            )
        except BadKeys as problem:
            return self._again(page, str(problem))
        if page.used or page.settled.is_set():
            return _gone()
        page.used = True
        self._deliver(page.scope, keys)
        page.settled.set()
        return _answer(200, _frame("Done", "<p>The keys are in use. You can close this page.</p>"))

    def _again(self, page: Page, problem: str, status: int = 422) -> web.Response:
        page.tries += 1
        if page.tries >= _TRIES:
            self._forget(page)
            return _gone()
        return _answer(status, _form(page, problem))


def _answer(status: int, body: str) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=body, content_type="text/html")


async def _seal(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer is kept by nobody, also those that are made before ours."""
    response.headers.update(_HEADERS)


def _gone() -> web.Response:
    text = "<p>This page is used up, too old, or was opened under another name. Ask for a new one.</p>"
    return _answer(404, _frame("Not here", text))


_FORM: Final = """<p>{asker} asks to use an account at <b>{venue}</b>. Go on only if you have just asked for
this. Keys stay in the memory of the desk until the session ends.</p>{notice}
<form method="post" autocomplete="off">
<label>API key<input name="api_key" required autocomplete="off" spellcheck="false"></label>
<label>Secret (HMAC keys)<input name="secret" type="password" autocomplete="off"></label>
<label>or private key (Ed25519, PEM)
<textarea name="private_key" rows="4" spellcheck="false" autocomplete="off"></textarea></label>
<p>Use a key that cannot withdraw.</p><button>Use these keys</button></form>"""

_FRAME: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>body{{font:16px/1.5 system-ui;max-width:34rem;margin:3rem auto;padding:0 1rem}}
label{{display:block;margin:1rem 0}}button{{font:inherit;padding:.5rem 1rem}}.problem{{color:#a00}}
input,textarea{{display:block;width:100%;font:inherit;padding:.4rem;box-sizing:border-box}}</style>
<h1>{title}</h1>{body}</html>"""


def _form(page: Page, problem: str = "") -> str:
    notice = f'<p class="problem" role="alert">{escape(problem)}.</p>' if problem else ""
    body = _FORM.format(asker=escape(page.asker), venue=escape(page.venue), notice=notice)
    return _frame(f"Keys for {page.venue}", body)


def _frame(title: str, body: str) -> str:
    return _FRAME.format(title=escape(title), body=body)
