"""The providers that the settings name, made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from tracedesk.trading.settings import BadTradingSetting, Providers

KINDS: Final = ("quotes", "history", "news", "fundamentals")
NAMES: Final = ("embedded", "files", "yahoo")
_ADDRESSES: Final = ("http://", "https://")


class Provider(Protocol):
    """A source of one or more kinds of facts; the sources of `seam` say how each is asked."""

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> tuple[str, ...]: ...


def make(settings: Providers, home_path: Path, system_clock: bool) -> dict[str, Any]:
    """Return each provider that `[trading.providers]` names, by its name; nothing is read or reached yet.

    A name is `embedded`, `files`, `yahoo`, or the address of a service that speaks the wire told in `http`.
    Raises `BadTradingSetting` for another name, or one that does not have what it is named for.
    """
    made: dict[str, Any] = {}
    for kind in KINDS:
        for name in getattr(settings, kind):
            if name not in made:
                made[name] = _made(name, kind, settings, home_path, system_clock)
            _check_offers(made[name], name, kind)
    return made


def _made(name: str, kind: str, settings: Providers, home_path: Path, system_clock: bool) -> Provider:
    if name.lower().startswith(_ADDRESSES):
        return _service(name, kind)
    makers: dict[str, Callable[[], Provider]] = {
        "embedded": lambda: _embedded(settings, home_path, system_clock),
        "files": lambda: _files(home_path, settings.folder),
        "yahoo": lambda: _yahoo(system_clock, settings.timeout_ms),
    }
    if name not in makers:
        raise BadTradingSetting(
            f"trading.providers.{kind} names {name!r}; there are {', '.join(NAMES)} and http addresses"
        )
    return makers[name]()


def _check_offers(provider: Provider, name: str, kind: str) -> None:
    if kind not in provider.kinds:
        offers = ", ".join(provider.kinds)
        raise BadTradingSetting(f"trading.providers.{kind} names {name!r}, which has only {offers}")


def _embedded(settings: Providers, home_path: Path, system_clock: bool) -> Provider:
    from tracedesk.trading.sources.embedded import Embedded

    return Embedded(is_replay=not system_clock, own_bars=own_bars(settings, home_path))


def _files(home_path: Path, folder: str) -> Provider:
    from tracedesk.trading.sources.files import Files

    return Files(*files_folder(home_path, folder))


def own_bars(settings: Providers, home_path: Path) -> Path | None:
    """Return the folder whose files of bars price their symbols alone; None where embedded bars come first.

    A file does so in every answer or in none, so `files` must be a provider of quotes and of history.
    """
    if "files" not in settings.quotes or "files" not in settings.history:
        return None
    return files_folder(home_path, settings.folder)[0] / "bars"


def files_folder(home_path: Path, folder: str) -> tuple[Path, str]:
    """Return the folder of dropped files, and its place in the home."""
    home, place = home_path.resolve(), (home_path / folder).resolve()
    if not folder or not place.is_relative_to(home):
        raise BadTradingSetting(f"trading.providers.folder must name a folder in the home, not {folder!r}")
    return place, place.relative_to(home).as_posix()


def _yahoo(system_clock: bool, timeout_ms: int) -> Provider:
    from tracedesk.trading.sources.yahoo import Yahoo

    return Yahoo(system_clock=system_clock, timeout_s=timeout_ms / 1000)


def _service(address: str, kind: str) -> Provider:
    from tracedesk.trading.sources.http import BadAddress, Http

    try:
        return Http(address)
    except BadAddress as error:
        raise BadTradingSetting(f"trading.providers.{kind}: {error}") from None
