"""The folder of one campaign: what it was told, what it found, and where each thing lies."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from tracedesk.fuzz import config as configs
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.limits import Limits
from tracedesk.fuzz.refusals import invalid
from tracedesk.home import Home
from tracedesk.hosts.processes import system_processes
from tracedesk.primitives import json
from tracedesk.primitives.ids import short, uuid7

KIND: Final = "campaign"
"""The kind of the host that runs a campaign."""
TEXT: Final = "json"
"""The one member of a host's answer that is JSON already."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign was told when it was made."""

    id: str
    path: str
    contract: str | None
    config: Config
    created_ns: int
    warnings: tuple[str, ...] = ()
    replay: str | None = None
    """A record of commands to be given again at the same counters."""
    trusted: bool = True
    """Whether the project may bring the program that compiles it."""
    within: tuple[str, ...] = ()
    """Folders that every source must lie in; none allows any."""
    limits: Limits = field(default_factory=Limits)

    def document(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": self.path,
            "contract": self.contract,
            "config": configs.document(self.config),
            "createdNs": self.created_ns,
            "warnings": list(self.warnings),
            "replay": self.replay,
            "trusted": self.trusted,
            "within": list(self.within),
            "limits": asdict(self.limits),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Plan:
        return cls(
            document["id"],
            document["path"],
            document["contract"],
            configs.restored(document["config"]),
            document["createdNs"],
            tuple(document["warnings"]),
            document["replay"],
            document["trusted"],
            tuple(document["within"]),
            # Campaigns of earlier versions have none.
            Limits(**document.get("limits", {})),
        )


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the files of one campaign are."""

    path: Path
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.path.name)

    @property
    def home(self) -> Path:
        return self.path.parents[1]

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def spec(self) -> Path:
        """What the native core was given."""
        return self.path / "spec.json"

    @property
    def state(self) -> Path:
        """The last known state; at most a second old while the campaign runs."""
        return self.path / "state.json"

    @property
    def coverage(self) -> Path:
        return self.path / "coverage.json"

    @property
    def lcov(self) -> Path:
        return self.path / "coverage.lcov"

    @property
    def page(self) -> Path:
        return self.path / "coverage.html"

    @property
    def points(self) -> Path:
        """The places covered in each code, as Echidna's result lists them."""
        return self.path / "points.json"

    @property
    def rows(self) -> Path:
        """The corpus, one transaction a line, as the tools show it."""
        return self.path / "corpus.jsonl"

    @property
    def journal(self) -> Path:
        return self.path / "campaign.db"

    @property
    def owner(self) -> Path:
        """Which process runs the campaign, from before it can be found as a host."""
        return self.path / "owner.json"

    @property
    def failure(self) -> Path:
        """Why the campaign could not begin."""
        return self.path / "failure.json"

    @property
    def phase(self) -> Path:
        """Words for the phase that the campaign's process is in."""
        return self.path / "phase"

    def enter(self, phase: str) -> None:
        """Note what comes next, for who finds this process dead."""
        self.write(self.phase, phase.encode())

    def last_phase(self) -> str:
        """Last phase of the campaign's process."""
        return self.phase.read_text(encoding="utf-8") if self.phase.exists() else "its start"

    def corpus(self, config: Config) -> Path:
        """The corpus in Echidna's format."""
        return Path(config.corpus_dir) if config.corpus_dir else self.path / "corpus"

    def output(self, config: Config) -> Path:
        """The only folder that tools write reports into."""
        return Path(config.coverage_dir or config.corpus_dir or self.path / "reports")

    def make_outputs(self, config: Config) -> None:
        """Make the folders that a campaign writes into, and refuse those it cannot."""
        for key, given in (("corpusDir", config.corpus_dir), ("coverageDir", config.coverage_dir)):
            if given is not None:
                _make(Path(given), key)

    def own(self) -> None:
        """Note that this process runs the campaign."""
        pid = os.getpid()
        self.write(self.owner, {"pid": pid, "started": system_processes().started(pid)})

    def is_owned(self) -> bool:
        """Whether the process that runs the campaign is alive, be it before or after it can be found."""
        try:
            owner = json.loads(self.owner.read_bytes())
        except FileNotFoundError:
            return False
        return system_processes().started(owner["pid"]) == owner["started"]

    def read_plan(self) -> Plan:
        return Plan.of(json.loads(self.plan.read_bytes()))

    def write(self, file: Path, value: Any) -> None:
        """Replace one of the files whole."""
        put(file, json.dumps(value) if not isinstance(value, bytes) else value)


def _make(folder: Path, key: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        message = f"{key}: {folder} cannot be written: {fault.strerror or fault}. Name another folder."
        raise invalid("BAD_PATH", message, argument=key) from None


def put(file: Path, document: bytes) -> None:
    """Replace a file whole, for its owner alone."""
    fresh = file.with_name(f".{file.name}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as writer:
        writer.write(document)
    fresh.replace(file)


_STEM: Final = 12
"""Characters of a contract's name in an id: an id is written without quotation, so no sentence may fit."""


def new_id(name: str) -> str:
    """An id that people can read: what is tested, and digits that no other campaign has."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_STEM].strip("-")
    return f"{stem or 'campaign'}-{short(uuid7())}"


def folders(home: Home) -> list[Folder]:
    """The campaigns of a home that have begun, newest first; one that is being prepared has not."""
    made: list[tuple[int, Folder]] = []
    for path in home.campaigns.iterdir() if home.campaigns.is_dir() else ():
        folder = Folder(path)
        try:
            if folder.state.exists():
                made.append((folder.plan.stat().st_mtime_ns, folder))
        except OSError:
            continue
    return [folder for _, folder in sorted(made, key=lambda item: (-item[0], item[1].id))]
