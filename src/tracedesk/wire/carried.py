"""Credentials that a client brings in the headers of its handshake: into the vault, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.contract import Toolset
from tracedesk.vault import Vault
from tracedesk.wire.request import Refused, Request

_LONGEST: Final = 4_096
_PLAIN: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Carried:
    """Which headers are taken, for which toolset, and whether the way here is safe enough."""

    vault: Vault
    toolsets: tuple[Toolset[Any], ...] = ()
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    private: bool = False
    """Whether nobody on the way can read: this machine alone, or TLS."""

    @classmethod
    def of(
        cls,
        vault: Vault,
        toolsets: Iterable[Toolset[Any]],
        tables: Mapping[str, Mapping[str, Any]],
        private: bool,
    ) -> Carried:
        """For the toolsets that declare such headers."""
        return cls(vault, tuple(t for t in toolsets if t.hooks.headers), tables, private)

    def read(self, request: Request) -> dict[str, str]:
        """The credentials of a handshake by their names in the vault; a refusal where they are not wanted."""
        found: dict[str, str] = {}
        for toolset in self.toolsets:
            found |= self._of(toolset, request)
        return found

    def keep(self, scope: str, credentials: Mapping[str, str]) -> None:
        for name, secret in credentials.items():
            self.vault.put(scope, name, secret)

    def _of(self, toolset: Toolset[Any], request: Request) -> dict[str, str]:
        wanted = toolset.hooks.headers
        sent = [name for name, _ in request.header_lines() if name in wanted]
        if not sent:
            return {}
        self._check_allowed(toolset)
        if sorted(sent) != sorted(wanted):
            raise Refused(400, f"Send the headers {', '.join(wanted)} together, each once")
        for name in wanted:
            if not _PLAIN.fullmatch(request.headers[name]) or len(request.headers[name]) > _LONGEST:
                raise Refused(400, f"The header {name} holds no credential: send it as plain ASCII")
        return {stored: request.headers[name] for name, stored in wanted.items()}

    def _check_allowed(self, toolset: Toolset[Any]) -> None:
        accepts = toolset.hooks.accepts_headers
        if accepts is None or not accepts(self.tables.get(toolset.name, {})):
            raise Refused(
                403,
                f"This desk takes no credentials of {toolset.name} in headers. Its owner can allow it with "
                f"header_credentials = true under [{toolset.name}] in tracedesk.toml",
            )
        if not self.private:
            raise Refused(
                403,
                "Credentials in headers are taken on this machine or over the desk's own TLS only. "
                "Serve with --tls-cert and --tls-key, or leave the headers out",
            )
