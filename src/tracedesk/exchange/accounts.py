"""Accounts that this desk can sign for: the operator's profiles, and keys that a scope brought itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracedesk.errors import ToolError
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.credentials.keys import API_KEY, API_SECRET, PRIVATE_KEY, BadKeys, Keys, checked
from tracedesk.exchange.credentials.profiles import Profiles
from tracedesk.exchange.link import Link, Site
from tracedesk.exchange.orders.identity import Identity, of_key, place_of
from tracedesk.exchange.settings import NAME, Exchange
from tracedesk.hosts import HostInfo
from tracedesk.vault import Vault

if TYPE_CHECKING:
    from tracedesk.exchange.client.rest import Rest
    from tracedesk.exchange.client.signing import Credentials

DEFAULT = "default"
"""The account of callers that chose none, at the local exchange."""


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """An account at the venue, as this desk sees it."""

    name: str
    """Its public name, the same in every process: `sim/default`, `live/main`."""
    profile: str | None
    """The profile it signs by; None for keys that a scope brought."""
    credentials: Credentials
    rest: Rest
    site: Site

    @property
    def identity(self) -> Identity:
        """What its limits are kept by, whatever it is called."""
        return Identity(self.name, (of_key(self.credentials.api_key),))

    @property
    def place(self) -> str:
        """Where its venue is."""
        return place_of(self.site.endpoints.rest)


class Accounts:
    """Which account a caller uses."""

    def __init__(self, settings: Exchange, link: Link, profiles: Profiles, vault: Vault) -> None:
        self._settings = settings
        self._link = link
        self._profiles = profiles
        self._vault = vault
        self._chosen: dict[str, str] = {}
        self._sim_keys: dict[str, tuple[HostInfo | None, Keys]] = {}
        self._open: dict[str, Account] = {}
        self._own: dict[str, str] = {}

    @property
    def is_private(self) -> bool:
        """Whether the operator's accounts hold more than play money."""
        return self._settings.venue != "sim"

    @property
    def opened(self) -> tuple[Account, ...]:
        """Every account that was used and still can be."""
        return tuple(self._open.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The profiles that can be chosen."""
        return self._profiles.names if self.is_private else (self._settings.profile or DEFAULT,)

    def choose(self, caller: Caller, profile: str) -> None:
        """Let a scope use a profile from now on; raises `ToolError` when it has no keys."""
        if not NAME.fullmatch(profile):
            raise ToolError("INVALID_PARAMETER", "profile must be a name of letters, digits, - and _.")
        if self.is_private:
            self._profiles.keys(profile)
        self._chosen[caller.scope] = profile

    def bring(self, scope: str, keys: Keys) -> list[Account]:
        """Keep keys that a person entered for a scope, instead of those it had; they go with it.

        Returns the accounts that nobody has keys for now.
        """
        for name in (API_KEY, API_SECRET, PRIVATE_KEY):
            self._vault.drop(scope, name)
        self._vault.put(scope, API_KEY, keys.api_key)
        if keys.secret:
            self._vault.put(scope, API_SECRET, keys.secret)
        else:
            self._vault.put(scope, PRIVATE_KEY, keys.private_key)
        return self._disowned(scope)

    def knows(self, caller: Caller, account: str) -> bool:
        """Whether a caller may be told of the orders of an account, by its name."""
        if account == self._own.get(caller.scope):
            return True
        venue, _, name = account.partition("/")
        # An account that a scope brought the keys of is named longer than a profile can be.
        is_profile = NAME.fullmatch(name) is not None
        return is_profile and caller.may_read and (caller.is_known or venue == self._settings.venue == "sim")

    def source(self, caller: Caller) -> str:
        """Where the caller's keys come from: `own`, `profile` or `none`."""
        if self.has_brought(caller.scope):
            return "own"
        return "none" if self._profile(caller) is None else "profile"

    def _profile(self, caller: Caller) -> str | None:
        if not caller.may_read:
            return None
        if caller.scope in self._chosen:
            return self._chosen[caller.scope]
        if not self.is_private:
            return self._settings.profile or DEFAULT
        return self._profiles.default if caller.is_known else None

    def has_brought(self, scope: str) -> bool:
        """True when a scope has keys of its own."""
        return self._vault.get(scope, API_KEY) is not None

    async def of(self, caller: Caller) -> Account:
        """The caller's account; raises `ToolError` with the remedy when there is none."""
        if self.has_brought(caller.scope):
            return self._brought(caller, await self._link.site())
        profile = self._profile(caller)
        if profile is None:
            raise self._nobody(caller)
        if self.is_private and not caller.is_known:
            raise _needs_token()
        return await self.profile(profile)

    async def profile(self, name: str) -> Account:
        """The account of a profile of the operator's."""
        site = await self._link.site()
        keys = self._profiles.keys(name) if self.is_private else await self._sim(name)
        return self._opened(f"{self._settings.venue}/{name}", name, keys, site)

    async def _sim(self, account: str) -> Keys:
        """The keys of an account at the local exchange; another process may be another exchange."""
        host, keys = self._sim_keys.get(account, (None, None))
        if keys is None or host != self._link.host:
            keys = await self._link.sim_keys(account)
            self._profiles.hide(keys)
            self._sim_keys[account] = (self._link.host, keys)
        return keys

    def _brought(self, caller: Caller, site: Site) -> Account:
        """At once: keys that are gone meanwhile open nothing."""
        found = {
            name: self._vault.get(caller.scope, name) or "" for name in (API_KEY, API_SECRET, PRIVATE_KEY)
        }
        try:
            keys = checked(found[API_KEY], secret=found[API_SECRET], private_key=found[PRIVATE_KEY])
        except BadKeys as problem:
            raise ToolError("CREDENTIALS_REQUIRED", f"The keys of this session: {problem}.") from None
        name = f"{self._settings.venue}/key-{keys.credentials().fingerprint}"
        self._own[caller.scope] = name
        return self._opened(name, None, keys, site)

    def _opened(self, name: str, profile: str | None, keys: Keys, site: Site) -> Account:
        known, credentials = self._open.get(name), keys.credentials()
        if known is None or known.site is not site or known.credentials != credentials:
            known = Account(name, profile, credentials, site.client.signed(credentials), site)
            self._open[name] = known
        return known

    def end(self, scope: str) -> list[Account]:
        """Forget what a scope chose and brought; returns the accounts that nobody has keys for now."""
        self._chosen.pop(scope, None)
        self._vault.wipe(scope)
        return self._disowned(scope)

    def _disowned(self, scope: str) -> list[Account]:
        name = self._own.pop(scope, None)
        if name is None or name in self._own.values() or name not in self._open:
            return []
        account = self._open.pop(name)
        if all(each.credentials != account.credentials for each in self._open.values()):
            account.site.client.forget(account.credentials)
        return [account]

    def _nobody(self, caller: Caller) -> ToolError:
        if not caller.may_read or (not caller.is_known and self._profiles.default is not None):
            return _needs_token()
        ways = ["connect with enter_keys true asks the user on a page of this machine"]
        if self._profiles.names:
            ways.insert(0, f"connect with profile {' or '.join(self._profiles.names)}")
        else:
            ways.append("or the operator names a profile in [exchange.profiles] of tracedesk.toml")
        message = f"This needs an account at {self._settings.venue}: {', '.join(ways)}."
        return ToolError("CREDENTIALS_REQUIRED", message, self._details())

    def _details(self) -> dict[str, Any]:
        return {"venue": self._settings.venue, "profiles": list(self._profiles.names)}


def _needs_token() -> ToolError:
    return ToolError(
        "CREDENTIALS_REQUIRED",
        "The operator's account is shown only to callers with a bearer token; send one in Authorization, or "
        "call connect with enter_keys true to use an account of your own.",
        {"field": "Authorization"},
    )
