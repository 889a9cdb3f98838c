"""The process of one campaign: `python -m tracedesk.fuzz.host HOME campaign ID`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.fuzz import native, spec
from tracedesk.fuzz.building import options
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.folder import TEXT, Folder, Plan
from tracedesk.fuzz.limits import MIB, Budget
from tracedesk.fuzz.live import Live
from tracedesk.fuzz.session import Session
from tracedesk.home import Home
from tracedesk.hosts import Host, HostCall, Method, serve_host
from tracedesk.hosts.starting import Beginning
from tracedesk.jobs import in_thread
from tracedesk.primitives import json

Params = dict[str, Any]
PATIENCE: Final = 0.04
"""Seconds that a reader waits for coverage to be brought up to date; then it gets the last one."""
GRACE: Final = 20.0
"""Seconds that a campaign told to stop gets to finish its sequences and write everything."""
NICE: Final = 2
"""How nice the process is: it answers questions; its workers, which compute, step back much further."""
SWITCH: Final = 0.001
"""Seconds after which a thread that computes lets one that answers have its turn."""
_PAGES: Final = ("read_logs", "inspect_corpus_transactions", "find_transaction_in_corpus")
"""Answers that may be long: they travel as text, so that nobody on the way takes them apart."""
_READS: Final = (
    "get_corpus_size",
    "campaign_status",
    "state",
    "target",
    "get_reproducers",
    "execute_sequence",
    "sample_function",
    "load",
)


class CampaignHost:
    """The methods of a campaign's host, and the work beside them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._live = Live(session)
        self._refreshing: asyncio.Future[None] | None = None

    def methods(self) -> dict[str, Method]:
        steering = self._session.steering
        commands = {
            "inject_transaction": steering.inject,
            "prioritize_function": steering.prioritize,
            "clear_priorities": steering.clear,
            "avoid_function": steering.avoid,
        }
        return {
            **{name: _in_thread(getattr(self._live, name)) for name in _READS},
            **{name: _as_text(getattr(self._live, name)) for name in _PAGES},
            **{name: self._command(name, work) for name, work in commands.items()},
            "show_coverage": self.show_coverage,
            "lcov": self.lcov,
            "report": self.report,
            "stop_campaign": self.stop_campaign,
        }

    async def work(self, host: Host) -> None:
        """Run the campaign; the host ends when it has ended, and it ends when the host is told to."""

        async def heed() -> None:
            await host.stopping.wait()
            self._session.stop("it was told to stop")

        heeding = asyncio.ensure_future(heed())
        try:
            await in_thread(self._session.run)
        finally:
            heeding.cancel()

    def _command(self, name: str, work: Callable[[Params], dict[str, Any]]) -> Method:
        async def run(params: Params, call: HostCall) -> dict[str, Any]:
            caller = params.pop("call", None)
            # Once begun it is applied and answered: a caller that leaves does not cut it in two.
            answer = await asyncio.shield(in_thread(lambda: work(params)))
            self._session.note_command(name, caller, answer)
            return answer

        return run

    async def show_coverage(self, params: Params, call: HostCall) -> dict[str, Any]:
        await self._bring_up(hits=False)
        return await call.run(lambda: self._live.show_coverage(params))

    async def lcov(self, params: Params, call: HostCall) -> dict[str, Any]:
        await self._bring_up(hits=True)
        return {"text": await call.run(lambda: self._live.report("lcov"))}

    async def report(self, params: Params, call: HostCall) -> dict[str, Any]:
        """The coverage of now as a file, however long it takes."""
        await call.run(lambda: self._live.refresh(True))
        return {"text": await call.run(lambda: self._live.report(params["format"]))}

    async def stop_campaign(self, params: Params, call: HostCall) -> dict[str, Any]:
        self._session.stop("it was told to stop")
        await call.run(lambda: self._session.ended.wait(float(params["patience"])))
        state = "ended" if self._session.ended.is_set() else "stopping"
        message = "The campaign has ended." if state == "ended" else "The campaign is about to end."
        return {"success": True, "message": message, "campaign_id": self._session.folder.id, "state": state}

    async def _bring_up(self, *, hits: bool) -> None:
        """Compute the coverage of now, but let no reader wait long for it; one computation serves all."""
        if await in_thread(lambda: self._live.is_current(hits)):
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(in_thread(lambda: self._live.refresh(hits)))
        await asyncio.wait((self._refreshing,), timeout=PATIENCE)
        if self._refreshing.done():
            self._refreshing.result()


def _in_thread(work: Callable[[Params], dict[str, Any]]) -> Method:
    def run(params: Params, call: HostCall) -> Awaitable[dict[str, Any]]:
        return call.run(lambda: work(params))

    return run


def _as_text(work: Callable[[Params], dict[str, Any]]) -> Method:
    def run(params: Params, call: HostCall) -> Awaitable[dict[str, Any]]:
        return call.run(lambda: {TEXT: json.dumps(work(params)).decode()})

    return run


def prepare(folder: Folder, plan: Plan, budget: Budget) -> Session:
    """Compile, deploy and load: all that can fail before a campaign runs."""
    folder.own()
    engine = native.engine()
    folder.make_outputs(plan.config)
    folder.enter("the compilation")
    chosen, _ = options(plan.config, trusted=plan.trusted, budget=budget)
    bounds = tuple(map(Path, plan.within))
    project = compile_project(Path(plan.path), replace(chosen, within=bounds))
    folder.enter("the deployment")
    made = spec.build(project, plan.config, plan.contract, engine, budget)
    session = Session(folder, plan, project, made, engine, budget=budget)
    folder.enter("the loading of the corpus")
    session.prepare()
    budget.spare(folder.last_phase(), 0)
    folder.enter("the campaign")
    return session


def _prepared(folder: Folder, plan: Plan, budget: Budget) -> Session:
    try:
        return prepare(folder, plan, budget)
    except MemoryError:
        refusal = budget.out_of_memory(folder.last_phase())
    # Out of the handler, what filled the memory is gone.
    raise refusal


def main() -> None:
    home, kind, id, started = sys.argv[1:]
    sys.setswitchinterval(SWITCH)
    folder = Folder(Home(Path(home)).campaign(id))
    plan = folder.read_plan()
    budget = Budget(plan.limits, plan.config.timeout_s, float(started))
    beginning = Beginning(plan.limits.memory_mb * MIB)
    try:
        session = _prepared(folder, plan, budget)
    except ToolError as refusal:
        # The pipe carries only words; whoever started this host reads the code and details here.
        error = {"code": refusal.code, "message": refusal.message, "details": refusal.details}
        folder.write(folder.failure, error)
        raise SystemExit(refusal.message) from None
    campaign = CampaignHost(session)
    serve_host(
        Path(home),
        kind,
        id,
        campaign.methods(),
        work=campaign.work,
        nice=NICE,
        grace=GRACE,
        beginning=beginning,
    )


if __name__ == "__main__":
    main()
