"""One running campaign: the native core, what it tells, and everything that is kept of it."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tracedesk.foreign import quoted
from tracedesk.fuzz import answers, audit, corpus_files, coverage, native, reproducers, unsupported
from tracedesk.fuzz.audit import AuditLog
from tracedesk.fuzz.bench import campaign_of
from tracedesk.fuzz.beside import Beside
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.coverage import CoverageView
from tracedesk.fuzz.diary import Diary
from tracedesk.fuzz.folder import Folder, Plan
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.native import Campaign, Engine
from tracedesk.fuzz.project import Project
from tracedesk.fuzz.replay import load, loadable
from tracedesk.fuzz.ring import Ring
from tracedesk.fuzz.rows import CorpusKeeper
from tracedesk.fuzz.spec import Spec
from tracedesk.fuzz.steering import Steering
from tracedesk.fuzz.target import Target
from tracedesk.primitives.time import Clock, SystemClock, format

log = logging.getLogger(__name__)

POLL: Final = 0.05
"""Seconds between looks at what the workers have told."""
KEEP: Final = 1.0
"""Seconds between writings of the state and of what is new in the corpus."""
SHARE: Final = 100
"""Reports are written again only after this many times as long as the last one took."""
HITS: Final = 10 * KEEP
"""Seconds between reports of a campaign that finds nothing new: only how often lines were hit changes."""
EVENTS: Final = 1_000
JOURNALED: Final = 2.0
"""Executed transactions a second that go into the journal; the ring sees all that the core tells."""
WORKERS_NICE: Final = 12
"""How much nicer than the host its workers are, so that questions are answered first."""
_WINDOW: Final = 10
_HIDDEN: Final = ("id", "kind", "sequence")
_STOPPED_ON_FAIL: Final = "a test failed, and stopOnFail is set"


class _Report(NamedTuple):
    """When reports were written, of how many points, and how long they rest."""

    at: float = -math.inf
    points: int = 0
    pause: float = 0.0


class Session:
    """A campaign from its start to its end; `run` is one thread's work, all else may be asked from any."""

    def __init__(
        self,
        folder: Folder,
        plan: Plan,
        project: Project,
        spec: Spec,
        engine: Engine,
        clock: Clock | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.folder = folder
        self.plan = plan
        self.config: Config = plan.config
        self.target = Target.of(spec.document)
        self._clock = clock or SystemClock()
        self.engine = engine
        self.spec = spec
        self._budget = budget or Budget(plan.limits, plan.config.timeout_s)
        self.campaign: Campaign = campaign_of(engine, native.text(spec.document), self._budget)
        self.ring = Ring()
        self.ring_lock = threading.Lock()
        corpus = folder.corpus(plan.config)
        record = AuditLog(corpus, spec.seed, self._clock)
        self.steering = Steering(self.campaign, self.target, self.config, engine, record)
        self._corpus = corpus
        self._keeper = CorpusKeeper(self.campaign, folder.rows, corpus, self.target, engine)
        self.coverage = CoverageView(self.campaign, project, spec, self.config)
        self._diary = Diary(folder.journal, folder.id, self._meta(), self._clock)
        self._rates: deque[tuple[float, int]] = deque(maxlen=_WINDOW)
        self._found: dict[str, int] = {}
        self._saved: set[int] = set()
        self._warnings = [*plan.warnings, *project.warnings, *spec.warnings]
        self._tested = frozenset(test["function"] for test in spec.document["tests"] if test["function"])
        self._beside = Beside.of(project, spec, self.config, engine, self._budget)
        self._executed_at = 0.0
        self._reported = _Report()
        self._end_reason: str | None = None
        self.ended = threading.Event()
        """Set when everything is written."""

    # --- the thread that runs it

    def prepare(self) -> None:
        """Everything that must be there before anyone may ask."""
        self.folder.write(self.folder.spec, self.spec.document)
        self._diary.note("CampaignStarted", self._clock.now_ns(), self._meta(), None)
        self._load_corpus()
        if self.plan.replay is not None:
            self.steering.again(audit.read(Path(self.plan.replay)))
        self._write_reports()
        self._publish()

    def run(self) -> None:
        """Start the workers and keep what they find until they have ended."""
        try:
            self._beside.run(self._note_beside)
            if self.config.stop_on_fail and self._beside.failures:
                self.stop(_STOPPED_ON_FAIL)
            self._start_workers()
            self._watch()
            self._finish()
        finally:
            self._close()
            self.ended.set()

    def _watch(self) -> None:
        kept_at = -math.inf
        while not self.campaign.wait(POLL):
            self._drain()
            now = self._clock.monotonic()
            if now - kept_at >= KEEP:
                self._report_when_due(self._publish(), now)
                kept_at = now

    def _report_when_due(self, status: Mapping[str, Any], now: float) -> None:
        """Write reports when more was covered, and now and then how often; never all the time."""
        last = self._reported
        has_grown = status["coverage_points"] > last.points
        if now - last.at >= max(last.pause, KEEP if has_grown else HITS):
            self._write_reports()
            done = self._clock.monotonic()
            self._reported = _Report(done, status["coverage_points"], SHARE * (done - now))

    def _note_beside(self, failure: Mapping[str, Any]) -> None:
        """Keep a test that failed beside the invariants as the failures of the workers are kept."""
        now = self._clock.now_ns()
        own = next(test for test in self._beside.tests if test["id"] == failure["test"])
        calls = reproducers.calls(failure["sequence"], self.target, self.engine)
        data = {
            "property": own["name"],
            "test": own["id"],
            "contract": own["contract"],
            "type": failure["kind"],
            "reason": failure["reason"],
            "counterexample": [row["call"] for row in calls],
            "shrunk": True,
        }
        seq = self._diary.note("PropertyFalsified", now, {"worker": 0, **data})
        self._found.setdefault(failure["test"], seq)
        self._diary.flush()
        with self.ring_lock:
            self.ring.push("PropertyFalsified", 0, now, {**data, "ref": self._diary.ref(seq)})

    def _start_workers(self) -> None:
        """Threads inherit how nice their maker is: the workers are made by one that steps back first."""

        def start() -> None:
            if sys.platform == "linux":
                me = threading.get_native_id()
                nice = min(19, os.getpriority(os.PRIO_PROCESS, me) + WORKERS_NICE)
                os.setpriority(os.PRIO_PROCESS, me, nice)
            self.campaign.start(self._budget.left())

        maker = threading.Thread(target=start)
        maker.start()
        maker.join()

    def _load_corpus(self) -> None:
        loaded = corpus_files.load(self._corpus)
        fit = loadable(loaded.named, self.target, self.engine)
        problems = (*loaded.problems, *fit.skipped, *load(self.campaign, fit.sequences).skipped)
        for problem in problems:
            log.warning("campaign %s: %s", self.folder.id, problem)
        if problems:
            self._warnings.append(
                f"corpus: {len(problems)} sequences were left out; first {quoted(problems[0])}."
            )
        if fit.remark is not None:
            self._warnings.append(f"corpus: {fit.remark}.")

    def _drain(self) -> None:
        """Take what the workers told; a falsification is on the disk before anyone can read of it."""
        while events := native.read(self.campaign.events(EVENTS)):
            noted = [(event, self._noted(event)) for event in events]
            if any(event["kind"] == "PropertyFalsified" for event in events):
                self._save_reproducers(native.read(self.campaign.status()))
                self._diary.flush()
            with self.ring_lock:
                for event, data in noted:
                    self.ring.push(event["kind"], event["worker"], event["t_ns"], data)
            if len(events) < EVENTS:
                break

    def _noted(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An event's data, with its reference where it goes into the journal."""
        kind, data = event["kind"], self._shown(event["data"])
        if kind == "TransactionExecuted" and not self._may_journal():
            return data
        seq = self._diary.note(kind, event["t_ns"], {"worker": event["worker"], **data})
        if kind == "PropertyFalsified":
            self._found.setdefault(data["test"], seq)
        return {**data, "ref": self._diary.ref(seq)}

    def _shown(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """An event's facts without what goes without saying."""
        shown = {key: value for key, value in data.items() if value is not None and key != "function"}
        if shown.get("to") == self.target.main.address:
            del shown["to"]
        return shown

    def _may_journal(self) -> bool:
        now = self._clock.monotonic()
        if now - self._executed_at < 1 / JOURNALED:
            return False
        self._executed_at = now
        return True

    # --- what is kept

    def _publish(self) -> Mapping[str, Any]:
        """Write what a reader needs should this process die now; returns the status that was written."""
        status = native.read(self.campaign.status())
        self._rates.append((self._clock.monotonic(), status["calls"]))
        self._save_reproducers(status)
        self._keeper.keep()
        self._diary.flush()
        self.folder.write(self.folder.state, {**self.state(status), "asOf": format(self._clock.now_ns())})
        return status

    def _write_reports(self) -> None:
        found = self.coverage.refresh()
        written = {"asOf": format(self._clock.now_ns()), "calls": self.coverage.calls}
        self.folder.write(self.folder.coverage, {**written, "summary": coverage.summary(found)})
        self.folder.write(self.folder.lcov, coverage.report(found, "lcov"))

    def _save_reproducers(self, status: Mapping[str, Any]) -> None:
        """Failing sequences and best values as files: as found, and again when they were made shorter."""
        for failure in (*status["failures"], *self._beside.failures):
            part = "reproducers" if failure["shrunk_by"] is not None else "reproducers-unshrunk"
            self._save(part, failure["sequence"])
        for test in status["tests"]:
            if test["kind"] == "optimization" and test.get("sequence"):
                self._save("reproducers-optimizations", test["sequence"])

    def _save(self, part: str, sequence: Sequence[Any]) -> None:
        mark = hash((part, native.text(list(sequence))))
        if mark not in self._saved:
            self._saved.add(mark)
            corpus_files.save(self._corpus, part, sequence)

    def _finish(self) -> None:
        self._drain()
        status = native.read(self.campaign.status())
        self._end_reason = self._end_reason or _end_of(
            status, self.config, self._budget, self.spec.document["test_limit"]
        )
        summary = {"calls": status["calls"], "reason": self._end_reason}
        verdicts = {test["name"]: test["status"] for test in (*status["tests"], *self._beside.tests)}
        self._diary.note("CampaignEnded", self._clock.now_ns(), {**summary, "tests": verdicts})
        self._publish()
        self._write_reports()
        self._write_coverage_files()
        self.folder.write(self.folder.points, coverage.points(self.campaign))
        self._diary.seal("ended", summary)

    def _write_coverage_files(self) -> None:
        """Echidna's files, named after the seed; the page also lies in the campaign's own folder."""
        found = self.coverage.refresh()
        page = coverage.report(found, "html")
        self.folder.write(self.folder.page, page)
        folder = Path(self.config.coverage_dir or self.config.corpus_dir or self._corpus)
        folder.mkdir(parents=True, exist_ok=True)
        for form in self.config.coverage_formats:
            document = page if form == "html" else coverage.report(found, form)
            corpus_files.put(folder / f"covered.{self.spec.seed}.{form}", document)

    def _close(self) -> None:
        self._keeper.close()
        self._diary.close()
        self.steering.close()

    def stop(self, reason: str) -> None:
        """Ask the workers to end; `run` returns when they have."""
        self._end_reason = self._end_reason or reason
        self._beside.stop()
        self.campaign.stop()

    # --- what tools ask

    def state(self, status: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Everything that answers are made from."""
        now = status or native.read(self.campaign.status())
        known = (*now["tests"], *self._beside.tests)
        tests = [{**self._test(test), "sequence": test.get("sequence")} for test in known]
        return {
            "status": self._status(now, tests),
            "tests": tests,
            "failures": [*now["failures"], *self._beside.failures],
            "source": self.spec.contract.path,
        }

    def _status(self, now: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        shown = [{k: v for k, v in test.items() if k not in _HIDDEN} for test in tests]
        warnings = [*self._warnings, *unsupported.warnings(now["functions"], self._tested)]
        return {
            "campaign_id": self.folder.id,
            "contract": self.target.main.contract,
            "mode": self.config.mode,
            "state": now["state"],
            **({"endReason": self._end_reason} if self._end_reason and now["state"] == "ended" else {}),
            "seed": self.spec.seed,
            "startedAt": format(self.plan.created_ns),
            "elapsedSeconds": round(now["elapsed_s"], 1),
            "calls": now["calls"],
            "testLimit": self.spec.document["test_limit"],
            "callsPerSecond": self._rate(now),
            "sequences": now["sequences"],
            "reverts": now["reverts"],
            "coveragePoints": now["coverage_points"],
            "corpusSequences": now["corpus_sequences"],
            "corpusTransactions": now["corpus_transactions"],
            "secondsSinceNewCoverage": _rounded(now["since_new_coverage_s"]),
            "workers": [_worker(worker) for worker in now["workers"]],
            "tests": shown,
            "prioritizedFunctions": self.steering.prioritized,
            "avoidedFunctions": self.steering.avoided,
            **({"warnings": warnings} if warnings else {}),
            "ref": self._diary.ref(1),
        }

    def _rate(self, now: Mapping[str, Any]) -> float:
        """Calls a second over the last seconds; over the whole when it has ended."""
        if len(self._rates) < 2 or now["state"] == "ended":
            return round(now["calls"] / max(now["elapsed_s"], 1e-3), 1)
        (t0, c0), (t1, c1) = self._rates[0], self._rates[-1]
        return round((c1 - c0) / max(t1 - t0, 1e-3), 1)

    def _test(self, test: Mapping[str, Any]) -> dict[str, Any]:
        found = self._found.get(test["id"])
        is_open = test["status"] == answers.UNSUPPORTED
        row = {
            "name": test["name"],
            "contract": test["contract"],
            "type": test["kind"],
            "status": "skipped" if unsupported.is_skip(test["unsupported"]) and is_open else test["status"],
            "reason": test.get("reason"),
            "value": test.get("value"),
            "calls": test.get("calls_at"),
            "length": len(test["sequence"]) if test.get("sequence") else None,
            "ref": self._diary.ref(found) if found else None,
            "unsupported": test["unsupported"] or None,
        }
        kept = {key: value for key, value in row.items() if value is not None}
        return {**kept, "id": test["id"], "kind": test["kind"]}

    def note_command(self, tool: str, call: str | None, answer: Mapping[str, Any]) -> None:
        """Keep in the journal who steered the campaign, and how."""
        told = {key: answer.get(key) for key in ("success", "message")}
        self._diary.note("Command", self._clock.now_ns(), {"tool": tool, "call": call, **told})

    def facts(self) -> dict[str, Any]:
        """What does not change while the campaign runs."""
        return {
            "senders": list(self.config.senders),
            "deployer": self.config.deployer,
            "source": f"{self.spec.contract.path}:{self.spec.contract.name}",
        }

    def _meta(self) -> dict[str, Any]:
        return {
            "name": self.spec.contract.name,
            "engine": self.engine.version(),
            "contract": self.spec.contract.name,
            "path": self.plan.path,
            "mode": self.config.mode,
            "seed": self.spec.seed,
            "workers": self.config.worker_count,
            "tests": self.spec.tests,
        }


def _end_of(status: Mapping[str, Any], config: Config, budget: Budget, limit: int) -> str:
    if status["calls"] >= limit:
        return "the limit of calls was reached"
    if budget.is_over():
        return "the time was over"
    if config.stop_on_fail and any(test["status"] == "solved" for test in status["tests"]):
        return _STOPPED_ON_FAIL
    return "every test was decided"


def _worker(worker: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: worker[key] for key in ("id", "calls", "state")}
    return {**shown, "error": worker["error"]} if worker.get("error") else shown


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
