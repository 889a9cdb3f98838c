"""A close look at one function: how often it is called, why it reverts, what it returns."""

from __future__ import annotations

from typing import Any

from tracedesk.foreign import listed, quoted
from tracedesk.fuzz import native
from tracedesk.fuzz.native import Campaign
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.target import Target, canonical


def sample(campaign: Campaign, target: Target, signature: str | None) -> dict[str, Any]:
    """Watch a function, stop with "off", or without a name read what was seen."""
    chosen: str | None = None
    if signature is not None:
        chosen = "" if signature == "off" else _watched(target, signature)
    told = native.read(campaign.sample(chosen))
    if told["function"] is None:
        return {"function": None, "message": "No function is watched; name one to begin."}
    function = target.function(told["function"])
    name = function.signature if function else told["function"]
    rest = {key: told[key] for key in ("calls", "reverts", "reasons", "outputs")}
    verb = "Began to watch" if chosen else "Watching"
    return {"function": name, **rest, "message": f"{verb} {quoted(name)}."}


def _watched(target: Target, signature: str) -> str:
    wanted = canonical(signature, "functionSignature")
    found = target.matching(wanted)
    if not found:
        known = sorted({f.signature for place in target.places for f in place.functions})[:12]
        message = f"functionSignature: no contract has {wanted}. There are: {listed(known)}."
        raise invalid("UNKNOWN_FUNCTION", message, known=known)
    return found[0].id
