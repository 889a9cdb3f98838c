"""Results that a handler may return beside plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Any


@dataclass(frozen=True, slots=True)
class Page:
    """Rows that may be cut, whole, to the token budget.

    `body[rows]` is the list; `resume(n)` is the cursor that continues after the first n rows; `more`
    says that rows exist beyond these.
    """

    body: dict[str, Any]
    rows: str
    resume: Callable[[int], str]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Blocks:
    """MCP content blocks sent as they are: pictures, links, embedded resources."""

    blocks: tuple[Mapping[str, Any], ...]
    structured: Json = None


@dataclass(frozen=True, slots=True)
class Linked:
    """A JSON result, links to the resources behind it, and facts about the answer itself."""

    body: Json
    links: tuple[Link, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Goes into `_meta`: what must not change the body, such as that it is a replay."""


@dataclass(frozen=True, slots=True)
class Link:
    """A resource that a result points at."""

    uri: str
    name: str
    mime_type: str = "application/json"

    def block(self) -> dict[str, Any]:
        return {"type": "resource_link", "uri": self.uri, "name": self.name, "mimeType": self.mime_type}
