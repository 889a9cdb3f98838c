"""What the fuzz tools refuse with: the family's codes, and a kind that tells cases of one code apart."""

from __future__ import annotations

from typing import Any

from tracedesk.errors import ToolError


def invalid(kind: str, message: str, **details: Any) -> ToolError:
    """Something in a call, a configuration or a project that cannot be used as given."""
    return ToolError("INVALID_INPUT", message, {"kind": kind, **details})


def no_campaign(message: str = "There is no campaign in this home yet.") -> ToolError:
    """No campaign to speak about."""
    return invalid("NO_CAMPAIGN", f"{message} Call start_campaign with the path of a contract.")


def unknown_campaign(id: str, known: list[str]) -> ToolError:
    """A campaign id that names none of this home."""
    there = ", ".join(known[:8]) or "none yet"
    return invalid(
        "NO_CAMPAIGN",
        f"campaign_id: no campaign {id[:80]!r} in this home. There are: {there}; start_campaign makes one.",
        campaign_id=id[:80],
    )
