"""The page where a person confirms one order, with a code that only a file in the home holds.

The code is in no answer, log or record, and no tool opens the file; so a bearer token alone confirms
nothing. Somebody, or some program, that reads the file as this user does confirm.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from tracedesk.exchange.one_time_page import LIFE, TRIES, BadForm, OneTimePage, OneTimePages
from tracedesk.primitives.paths import PRIVATE
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import Clock

_LETTERS: Final = "23456789abcdefghjkmnpqrstuvwxyz"
"""Without those that are taken for each other when they are typed."""
_GROUPS: Final = 4
_KIND: Final = "confirmation"


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class Question(OneTimePage):
    """One order that waits for a person."""

    holder: str
    """The key of the caller whose previews go with it."""
    order: str
    """The order's id at the venue."""
    words: str
    """The order and its terms, as the page shows them."""
    file: Path
    code: str
    approved: bool = False
    declined: bool = False

    @property
    def is_void(self) -> bool:
        """True when it ended by a refusal or by too many wrong codes."""
        return self.declined or (not self.approved and self.tries >= TRIES)


class Questions(OneTimePages[Question]):
    """The orders that wait for a person."""

    title = "Send this order?"

    def __init__(self, home: Path, clock: Clock, secrets: Secrets | None = None) -> None:
        super().__init__(clock)
        self._folder = home / "run" / PRIVATE
        self._secrets = secrets

    def of(self, order: str) -> Question | None:
        """The question about an order that waits, or was just answered."""
        return next((page for page in self.waiting if page.order == order), None)

    async def ask(self, holder: str, order: str, words: str) -> Question:
        """A new question, its code in a new file; raises `OSError` where that cannot be written."""
        await self.sweep()
        code = "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(_GROUPS))
        file = self._written(code)
        if self._secrets is not None:
            self._secrets.add(code, _KIND)
        deadline = self._clock.monotonic() + LIFE
        question = Question(holder=holder, order=order, words=words, file=file, code=code, deadline=deadline)
        try:
            return await self.serve(question)
        except BaseException:
            self.forgotten(question)
            raise

    def drop(self, scope: str) -> None:
        """Forget the questions of a caller that has gone."""
        for page in self.waiting:
            if page.holder == scope:
                self.forget(page)

    def exhausted(self, page: Question) -> None:
        # It stays until its time is over, so that the order is not asked about anew.
        page.used = True
        page.file.unlink(missing_ok=True)
        page.settled.set()

    def forgotten(self, page: Question) -> None:
        page.file.unlink(missing_ok=True)
        if self._secrets is not None:
            self._secrets.discard(page.code, _KIND)

    def form(self, page: Question, notice: str) -> str:
        return _FORM.format(words=escape(page.words), file=escape(str(page.file)), notice=notice)

    def submitted(self, page: Question, given: Mapping[str, str]) -> str:
        if given.get("decision") == "decline":
            page.declined = True
            page.file.unlink(missing_ok=True)
            return "<p>The order is not sent. You can close this page.</p>"
        if not hmac.compare_digest(_digest(given.get("code", "")), _digest(page.code)):
            raise BadForm(f"that is not the code in the file; {TRIES - page.tries - 1} tries are left")
        page.approved = True
        page.file.unlink(missing_ok=True)
        return "<p>The order is confirmed. You can close this page.</p>"

    def _written(self, code: str) -> Path:
        """The file of a code: this user's alone, whole when its name is told."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clear_left()
        file = self._folder / secrets.token_hex(4)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as out:
                out.write(code + "\n")
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return file

    def _clear_left(self) -> None:
        """Remove what desks left that were killed: a code is of use for a few minutes at most."""
        for file in self._folder.iterdir():
            with suppress(OSError):
                # The wall clock itself, for it is what the file's time is by.
                if time.time() - file.stat().st_mtime > 2 * LIFE:
                    file.unlink()


def _digest(code: str) -> bytes:
    """The digest of a code however it was typed: digests have one length, whatever was sent."""
    plain = "".join(letter for letter in code.lower() if letter.isalnum())
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).digest()


_FORM: Final = """<p><b>{words}</b></p>
<p>Nothing is sent yet. To send exactly this order, enter the code that is in this file of your own:</p>
<p><code>{file}</code></p>{notice}
<form method="post" autocomplete="off">
<label>Code<input name="code" required autocomplete="off" autocapitalize="off" spellcheck="false"></label>
<button name="decision" value="send">Send this order</button></form>
<form method="post"><p><button name="decision" value="decline">Do not send it</button></p></form>"""
