"""What a user was asked and answered, bound together while it travels through a stateless client."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tracedesk.primitives import json
from tracedesk.shared import SharedStore

STATE_SECONDS: Final = 600.0
"""Time in which a client must come back with answers."""

_SKEW_SECONDS: Final = 120.0
"""Clocks that seal and forget may differ; a used consent is remembered for longer than its state is valid."""

_KIND: Final = "consent"


@dataclass(slots=True)
class Consent:
    """The questions of one call and the answers to exactly those.

    It is sealed into the protocol's request state. An answer counts only if its question was asked, in the
    same words, in a state this desk sealed; so consent to one price is not consent to another.
    """

    trusting: bool = False
    """For what only reads: an answer sent along unasked is taken, for it can do no harm."""
    nonce: str = ""
    asked: dict[str, str] = field(default_factory=dict[str, str])
    answers: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def resumed(cls, state: Any, responses: Any, *, trusting: bool) -> Consent:
        """The consent in an unsealed state, with the client's new answers to what it asked."""
        consent = cls(trusting)
        if isinstance(state, str):
            told = cast("dict[str, Any]", json.loads(state))
            consent = cls(trusting, told["nonce"], told["asked"], told["answers"])
        if isinstance(responses, dict):
            fresh = cast("dict[str, Any]", responses)
            consent.answers.update({k: v for k, v in fresh.items() if trusting or k in consent.asked})
        return consent

    def answer(self, key: str, request: Mapping[str, Any]) -> Any:
        """The answer to this very question, or None."""
        asked = self.asked.get(key)
        fits = asked == digest(request) or (self.trusting and asked is None)
        return self.answers.get(key) if fits else None

    def state(self, requests: Mapping[str, Mapping[str, Any]]) -> str:
        """What the client carries until it has answered `requests` too."""
        asked = {**self.asked, **{key: digest(request) for key, request in requests.items()}}
        answers = {key: value for key, value in self.answers.items() if key not in requests}
        nonce = self.nonce or secrets.token_hex(8)
        return json.dumps({"nonce": nonce, "asked": asked, "answers": answers}).decode()


def digest(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request)).hexdigest()[:32]


class Spent:
    """The consents that calls which change state have used: none is used twice, on any desk of the home."""

    def __init__(self, shared: SharedStore) -> None:
        self._shared = shared

    async def claim(self, holder: str, nonce: str) -> bool:
        """Use a consent; False where a call has used it."""
        seconds = STATE_SECONDS + _SKEW_SECONDS
        return await self._shared.run(lambda shared: shared.claim(holder, _KIND, nonce, seconds))

    async def give_back(self, holder: str, nonce: str) -> None:
        """Let a consent be used by the call that answers what is still to be asked."""
        await self._shared.run(lambda shared: shared.remove(holder, _KIND, nonce))
