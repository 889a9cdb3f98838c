"""Named accounts: which there are, and their keys from environment variables or private files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tracedesk.errors import ToolError
from tracedesk.exchange.credentials.environment import API_KEY, PROCESS, SECRETS, Environment
from tracedesk.exchange.credentials.keys import BadKeys, Keys, checked
from tracedesk.exchange.settings import Exchange, Profile
from tracedesk.primitives.redaction import Secrets

FROM_ENVIRONMENT: Final = "environment"
"""The profile of BINANCE_API_KEY and BINANCE_SECRET_KEY (or BINANCE_API_SECRET)."""
_LARGEST: Final = 16_384


def variables(settings: Exchange) -> list[str]:
    """The environment variables that may hold keys."""
    named = (v for p in settings.profiles.values() for v in (p.api_key_env, p.secret_env) if v)
    return [API_KEY, *SECRETS, *named]


class Profiles:
    """The accounts that the operator named; their keys are read when first used."""

    def __init__(
        self, settings: Exchange, home: Path, secrets: Secrets, environment: Environment = PROCESS
    ) -> None:
        self._settings = settings
        self._home = home
        self._secrets = secrets
        self._environment = environment
        self._keys: dict[str, Keys] = {}
        environment.take(variables(settings))

    @property
    def names(self) -> tuple[str, ...]:
        """The profiles that fit the mode."""
        fitting = tuple(n for n, p in self._settings.profiles.items() if p.mode == self._settings.venue)
        return (*((FROM_ENVIRONMENT,) if self._environment.get(API_KEY) else ()), *fitting)

    @property
    def default(self) -> str | None:
        """The profile of a caller that chose none."""
        if self._settings.profile:
            return self._settings.profile
        return FROM_ENVIRONMENT if self._environment.get(API_KEY) else None

    def keys(self, name: str) -> Keys:
        """The keys of a profile; raises `ToolError` with the remedy when it has none."""
        if name not in self._keys:
            try:
                found = self._read(name)
            except BadKeys as problem:
                raise _refused(f"Profile {name!r}: {problem}.") from None
            self.hide(found)
            self._keys[name] = found
        return self._keys[name]

    def hide(self, keys: Keys) -> None:
        """From now on these are redacted wherever they would appear."""
        for secret in (keys.api_key, keys.secret, keys.private_key):
            if secret:
                self._secrets.add(secret)

    def _read(self, name: str) -> Keys:
        if name == FROM_ENVIRONMENT and name not in self._settings.profiles:
            return _of_environment(self._environment)
        profile = self._settings.profiles.get(name)
        if profile is None:
            raise _refused(f"There is no profile {name!r}; there are: {', '.join(self.names) or 'none'}.")
        if profile.mode != self._settings.venue:
            raise _refused(
                f"Profile {name!r} is an account at {profile.mode}, but this desk is at "
                f"{self._settings.venue}; choose another profile or set exchange.mode."
            )
        return self._of_profile(profile)

    def _of_profile(self, profile: Profile) -> Keys:
        if profile.file:
            return _of_file(self._place(profile.file))
        api_key = self._variable(profile.api_key_env)
        if profile.private_key_file:
            return checked(api_key, private_key=_private_text(self._place(profile.private_key_file)))
        return checked(api_key, secret=self._variable(profile.secret_env))

    def _variable(self, name: str) -> str:
        value = self._environment.get(name)
        if not value:
            raise BadKeys(f"the environment variable {name} is not set; set it and start the desk again")
        return value

    def _place(self, name: str) -> Path:
        return self._home / Path(name).expanduser()


def _refused(message: str) -> ToolError:
    return ToolError("CREDENTIALS_REQUIRED", message, {"remedy": "exchange.profiles in tracedesk.toml"})


def _of_environment(environment: Environment) -> Keys:
    """The origin knew both names of the secret; two that differ cannot both be right."""
    given = {name: environment.get(name) for name in SECRETS if environment.get(name)}
    if len(set(given.values())) > 1:
        raise BadKeys(f"{' and '.join(given)} differ; unset one of them")
    if not environment.get(API_KEY) or not given:
        raise BadKeys(f"set {API_KEY} and {SECRETS[0]} (or {SECRETS[1]}) and start the desk again")
    return checked(environment.get(API_KEY), secret=next(iter(given.values())))


def _of_file(path: Path) -> Keys:
    fields = _fields(_private_text(path))
    if unknown := sorted(set(fields) - {"api_key", "secret", "private_key_file"}):
        raise BadKeys(
            f"{path.name} has lines that are none of api_key, secret, private_key_file: {len(unknown)}"
        )
    private = fields.get("private_key_file")
    pem = _private_text(path.parent / Path(private).expanduser()) if private else ""
    return checked(fields.get("api_key", ""), secret=fields.get("secret", ""), private_key=pem)


def _fields(text: str) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if line.strip() and line.strip()[0] != "#")
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _private_text(path: Path) -> str:
    """A file's text, if nobody but its owner can read it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        raise BadKeys(f"{path.name} cannot be read: {problem.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise BadKeys(
                f"{path.name} must be a file of yours that nobody else can read; run chmod 600 on it"
            )
        body = file.read(_LARGEST + 1)
    if len(body) > _LARGEST:
        raise BadKeys(f"{path.name} is too large for a key")
    try:
        return body.decode("ascii")
    except UnicodeDecodeError:
        raise BadKeys(f"{path.name} is not plain text") from None
