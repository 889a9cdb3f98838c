"""The campaigns of one home: which one a call means, and whether its host or its files answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from tracedesk.contract import Source
from tracedesk.errors import ToolError
from tracedesk.foreign import quoted
from tracedesk.fuzz import corpus_files, diary, native
from tracedesk.fuzz.archive import Archive
from tracedesk.fuzz.bench import Bench
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.corpus_files import Loaded
from tracedesk.fuzz.folder import KIND, TEXT, Folder, folders
from tracedesk.fuzz.launch import Request, checked, configured, start
from tracedesk.fuzz.outputs import fitting_lcov, write_lcov
from tracedesk.fuzz.refusals import invalid, no_campaign, unknown_campaign
from tracedesk.fuzz.replay import load, loadable
from tracedesk.fuzz.settings import Fuzz
from tracedesk.home import Home
from tracedesk.hosts import HostClient, HostError, HostGone, HostTimeout, find, find_one
from tracedesk.jobs import whatever_happens
from tracedesk.journal import JournalError
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.primitives import json
from tracedesk.primitives.paths import Jail, PathRefused

MOST_ARCHIVES: Final = 8
LARGEST_LCOV: Final = 4 << 20
"""Bytes of LCOV that one answer carries, where the desk's own cap allows that many."""
APPLYING: Final = 10.0
"""Seconds to learn what became of a command that was sent, whatever the caller's deadline."""
_TRIES: Final = 2
"""A connection that broke is made anew once; a host that ended is then read from its files."""
_KEYS: Final = ("testMode", "testLimit", "timeout", "workers", "seed", "seqLen")
_PATHS: Final = {"corpusDir": "corpus_dir", "coverageDir": "coverage_dir"}


class Campaigns:
    """What the fuzz tools share."""

    def __init__(
        self, home: Home, settings: Fuzz, *, read_only: bool = False, max_bytes: int = 1 << 20
    ) -> None:
        self.home = home
        self.settings = settings
        self._max_bytes = max_bytes
        self._read_only = read_only
        self._clients: dict[str, HostClient] = {}
        self._archives: OrderedDict[str, Archive] = OrderedDict()
        self._connecting: dict[str, asyncio.Lock] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    # --- which campaign

    def chosen(self, id: str | None) -> Folder:
        """The campaign that a call names; else the newest that runs, else the newest."""
        there = folders(self.home)
        if id is not None:
            for folder in there:
                if folder.id == id:
                    return folder
            raise unknown_campaign(id, [folder.id for folder in there]) if there else _none_at_all()
        running = {info.id for info in find(self.home.path, KIND)}
        for folder in there:
            if folder.id in running:
                return folder
        if not there:
            raise _none_at_all()
        return there[0]

    # --- asking it

    async def ask(self, tool: str, args: Mapping[str, Any], *, timeout: float, **more: Any) -> Any:
        """What the campaign that `args` names says to a tool."""
        folder = self.chosen(args.get("campaign_id"))
        params = {key: value for key, value in args.items() if key != "campaign_id"} | more
        for _ in range(_TRIES):
            client = await self._client(folder)
            if client is None:
                break
            try:
                return self._whole(await client.call(tool, params, timeout=timeout))
            except HostGone:
                self._clients.pop(folder.id, None)
            except HostTimeout:
                raise _slow(tool, timeout) from None
            except ToolError as error:
                if error.code != "HOST_STOPPING":
                    raise _of_the_family(error) from None
                break
        return await asyncio.to_thread(self._filed, folder, tool, params)

    def _whole(self, answer: Any) -> Any:
        """An answer; one that came as text stays as it is, unless it is too long and must be cut."""
        if not isinstance(answer, dict) or TEXT not in answer:
            return cast("Any", answer)
        document = cast("dict[str, str]", answer)[TEXT].encode()
        return json.Raw(document) if len(document) <= self._max_bytes else json.loads(document)

    async def apply(self, tool: str, args: Mapping[str, Any], **more: Any) -> Any:
        """The same for a command: it is applied and answered, or it is not applied."""
        return await whatever_happens(self._apply(tool, args, more))

    async def _apply(self, tool: str, args: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
        folder = self.chosen(args.get("campaign_id"))
        params = {**{key: value for key, value in args.items() if key != "campaign_id"}, **more}
        info = find_one(self.home.path, KIND, folder.id)
        try:
            if info is not None:
                # A connection of its own, so that a broken one is noticed before anything is sent.
                async with await HostClient.connect(info) as client:
                    return await client.call(tool, params, timeout=APPLYING)
        except HostTimeout:
            raise _slow(tool, APPLYING) from None
        except HostError:
            pass
        except ToolError as error:
            if error.code != "HOST_STOPPING":
                raise _of_the_family(error) from None
        return await asyncio.to_thread(self._filed, folder, tool, params)

    async def lcov(self, args: Mapping[str, Any], *, timeout: float) -> tuple[str, Path | None]:
        """LCOV text up to the cap, and the file that holds all of it when there is one."""
        folder = self.chosen(args.get("campaign_id"))
        name: str | None = args.get("outputPath")
        whole = (await self.ask("lcov", {"campaign_id": folder.id}, timeout=timeout))["text"]
        text = fitting_lcov(whole, min(LARGEST_LCOV, self._max_bytes))
        if name is not None:
            config = (await asyncio.to_thread(folder.read_plan)).config
            writing = asyncio.to_thread(write_lcov, folder.output(config), name, whole.encode())
            return text, await whatever_happens(writing)
        # The campaign's own file is the whole report, as of a few seconds ago.
        return text, None if len(text) == len(whole) else folder.lcov

    async def report(self, folder: Folder, form: str) -> str:
        """The coverage of a campaign as a whole file, however long it takes."""
        info = find_one(self.home.path, KIND, folder.id)
        with suppress(HostError):
            if info is not None:
                async with await HostClient.connect(info) as client:
                    return (await client.call("report", {"format": form}, timeout=None))["text"]
        file = folder.page if form == "html" else folder.lcov
        if not file.exists():
            message = f"campaign_id: {folder.id} was killed before it wrote this report. Run it again."
            raise invalid("NO_REPORT", message)
        return await asyncio.to_thread(file.read_text, encoding="utf-8")

    async def import_(self, folder: Folder, loaded: Loaded) -> dict[str, Any]:
        """Add recorded sequences to a campaign: to be replayed where it runs, else to its corpus folder."""
        info = find_one(self.home.path, KIND, folder.id)
        with suppress(HostError):
            if info is not None:
                async with await HostClient.connect(info) as client:
                    given = {"files": loaded.files, "sequences": loaded.sequences}
                    return await client.call("load", given, timeout=None)
        return await asyncio.to_thread(_added, folder, loaded)

    def _filed(self, folder: Folder, tool: str, params: Mapping[str, Any]) -> Any:
        """The answer of a campaign's files."""
        archive = self._archives.get(folder.id)
        if archive is None:
            # A process may live on for a moment after it has written and sealed everything.
            owned = diary.status(folder.journal, folder.id) == "running" and folder.is_owned()
            if not owned and not self._read_only:
                diary.settle(folder.journal, folder.id)
            archive = Archive(folder, owned=owned)
            if not owned:
                self._archives[folder.id] = archive
                while len(self._archives) > MOST_ARCHIVES:
                    self._archives.popitem(last=False)
        return archive.answer(tool, params)

    async def _client(self, folder: Folder) -> HostClient | None:
        """A connection to a campaign that runs."""
        if folder.id in self._archives:
            return None
        async with self._connecting.setdefault(folder.id, asyncio.Lock()):
            known = self._clients.get(folder.id)
            if known is not None:
                return known
            info = find_one(self.home.path, KIND, folder.id)
            if info is None:
                return None
            try:
                client = self._clients[folder.id] = await HostClient.connect(info)
            except HostError:
                return None
            return client

    # --- starting one

    async def start(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Start a campaign as an agent asks, within what the operator allows."""
        native.engine()
        request = await asyncio.to_thread(self._request, args)
        folder, _ = await start(self.home, request)
        status = await self.ask("campaign_status", {"campaign_id": folder.id}, timeout=30.0, budget=100_000)
        tests = [test["name"] for test in status["tests"]]
        message = (
            f"Campaign {folder.id} runs {quoted(status['contract'])} with {len(status['workers'])} workers"
        )
        return {
            "success": True,
            "message": f"{message}, seed {status['seed']}; call campaign_status to follow it.",
            "campaign_id": folder.id,
            "contract": status["contract"],
            "tests": tests[:100],
            "warnings": list(status.get("warnings", ())),
            "ref": status["ref"],
        }

    def _request(self, args: Mapping[str, Any]) -> Request:
        jail = self._jail()
        path = _inside(jail, args["path"], "path")
        file = _inside(jail, args["config"], "config") if "config" in args else None
        keys = {key: args.get(key) for key in _KEYS}
        reading = configured(
            file,
            {**args.get("options", {}), **{k: v for k, v in keys.items() if v is not None}},
            path,
            self.settings.folders(),
        )
        config = self._allowed(jail, reading.config)
        request = Request(
            path,
            args.get("contract"),
            config,
            reading.warnings,
            trusted=self.settings.project_compilers,
            within=self.settings.folders(),
            limits=self.settings.limits,
        )
        return checked(request)

    def _jail(self) -> Jail:
        folders = self.settings.folders()
        if not folders:
            message = (
                "path: no folder is allowed, for this desk was started outside a project. The operator names "
                "one with `serve --root DIR`, or as fuzz.roots in tracedesk.toml."
            )
            raise invalid("BAD_PATH", message)
        try:
            return Jail(folders)
        except PathRefused as refused:
            raise invalid("BAD_PATH", f"fuzz.roots: {refused}.") from None

    def _allowed(self, jail: Jail, config: Config) -> Config:
        """The configuration with the folders that were allowed, not with words that mean others elsewhere."""
        given = {name: (key, getattr(config, name)) for key, name in _PATHS.items()}
        paths = {name: str(_inside(jail, at, key)) for name, (key, at) in given.items() if at is not None}
        if config.allow_ffi and not self.settings.ffi:
            message = "allowFFI: programs may be run only where the operator sets ffi = true in [fuzz]."
            raise invalid("NOT_ALLOWED", message, key="allowFFI")
        if config.worker_count > self.settings.max_workers:
            message = (
                f"workers: at most {self.settings.max_workers} here; the operator may raise fuzz.max_workers."
            )
            raise invalid("NOT_ALLOWED", message, key="workers")
        return replace(config, **paths)

    # --- references

    def source(self, ref: str, campaign: str, seq: int) -> Source | None:
        """What a reference to an event of a campaign points at."""
        try:
            folder = Folder(self.home.campaign(campaign))
        except ValueError:
            return None
        if not folder.journal.exists():
            return None
        with suppress(JournalError, SQLiteError):
            return diary.source(folder.journal, campaign, seq, ref)
        return None


def _added(folder: Folder, loaded: Loaded) -> dict[str, Any]:
    """Write sequences into the corpus of a campaign that has ended, those that it could be given."""
    config = folder.read_plan().config
    bench = Bench.filed(folder.spec, config)
    fit = loadable(loaded.named, bench.target, bench.engine)
    taken = load(bench.campaign, fit.sequences)
    names = set(taken.names)
    usable = [sequence for name, sequence in loaded.named if name in names]
    corpus = folder.corpus(config)
    added = [each for each in usable if corpus_files.save(corpus, "coverage", each) is not None]
    return {
        "sequences": len(added),
        "transactions": sum(map(len, added)),
        "skipped": [*fit.skipped, *taken.skipped],
        "remark": fit.remark,
    }


def _none_at_all() -> ToolError:
    """Starting one is the remedy, unless the core is missing: then that comes first."""
    native.engine()
    return no_campaign()


def _inside(jail: Jail, path: str, argument: str) -> Path:
    try:
        return Path(jail.resolve(None, path).path)
    except PathRefused as refused:
        message = f"{argument}: {refused}. The operator may add folders as fuzz.roots."
        raise invalid("BAD_PATH", message, argument=argument, reason=refused.reason) from None


def _slow(tool: str, seconds: float) -> ToolError:
    message = f"Tool {tool} exceeded {round(seconds * 1000)}ms. Ask for less, or retry later."
    return ToolError("EXECUTION_TIMEOUT", message, {"tool": tool, "deadlineMs": round(seconds * 1000)})


def _of_the_family(error: ToolError) -> ToolError:
    """A host's own refusals under the codes of the fuzz family."""
    codes = {"RATE_LIMITED": "EXECUTION_TIMEOUT", "RESULT_TOO_LARGE": "INVALID_INPUT"}
    known = ("INVALID_INPUT", "TOOL_NOT_FOUND", "EXECUTION_TIMEOUT", "INTERNAL_ERROR")
    code = codes.get(error.code, error.code if error.code in known else "INTERNAL_ERROR")
    return ToolError(code, error.message, error.details)
