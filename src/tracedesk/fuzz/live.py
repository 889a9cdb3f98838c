"""What a running campaign answers, one method a tool; any thread may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracedesk.fuzz import answers, coverage, native, rows, sampling, traces
from tracedesk.fuzz.config import Format
from tracedesk.fuzz.replay import load, loadable
from tracedesk.fuzz.session import Session
from tracedesk.fuzz.steering import transactions

Params = Mapping[str, Any]
Answer = dict[str, Any]


class Live:
    """The answers of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._campaign = session.campaign
        self._target = session.target
        self._engine = session.engine

    def read_logs(self, params: Params) -> Answer:
        with self._session.ring_lock:
            return self._session.ring.answer(params["count"], params.get("eventType"), params.get("workerId"))

    def get_corpus_size(self, params: Params) -> Answer:
        page = native.read(self._campaign.corpus(0, 0))
        return {"size": page["total"], "sequences": page["sequences"]}

    def inspect_corpus_transactions(self, params: Params) -> Answer:
        page = native.read(self._campaign.corpus(params["offset"], params["limit"]))
        shown = [rows.row(found, self._target, self._engine) for found in page["transactions"]]
        return {"transactions": shown, "total": page["total"]}

    def find_transaction_in_corpus(self, params: Params) -> Answer:
        wanted = rows.Wanted.of(params)
        query = {"sender": wanted.sender, "min_value": None if wanted.least is None else str(wanted.least)}
        plain = {key: value for key, value in query.items() if value is not None}
        queries = [plain]
        if wanted.signature is not None:
            queries = [{**plain, "function": f.id} for f in self._target.matching(wanted.signature)]
        found = [native.read(self._campaign.find(native.text(each))) for each in queries]
        some = [each for answer in found for each in answer["transactions"][: rows.MOST_MATCHES]]
        some.sort(key=lambda each: each["index"])
        shown = [rows.row(each, self._target, self._engine) for each in some[: rows.MOST_MATCHES]]
        return rows.matches(shown, sum(answer["total"] for answer in found))

    def campaign_status(self, params: Params) -> Answer:
        return answers.status(self._session.state(), params["budget"])

    def state(self, params: Params) -> Answer:
        return self._session.state()

    def target(self, params: Params) -> Answer:
        return answers.target(self._target, self._session.state(), self._session.facts(), params["budget"])

    def get_reproducers(self, params: Params) -> Answer:
        session = self._session
        return answers.reproduced(
            session.state(),
            self._target,
            self._engine,
            name=params.get("test"),
            form=params["format"],
            budget=params["budget"],
            source=session.spec.contract.path,
            deployer=session.config.deployer,
        )

    def execute_sequence(self, params: Params) -> Answer:
        sequence = transactions(params, self._target, self._session.config, self._engine)
        asked = traces.Asked(params["trace"], params["budget"])
        told = traces.executed(self._campaign, self._engine, self._target, sequence, asked)
        return {"campaign_id": self._session.folder.id, **told}

    def sample_function(self, params: Params) -> Answer:
        told = sampling.sample(self._campaign, self._target, params.get("functionSignature"))
        return {"campaign_id": self._session.folder.id, **told}

    def load(self, params: Params) -> Answer:
        """Add recorded sequences to the corpus, to be replayed by the workers."""
        sequences: Sequence[Sequence[Mapping[str, Any]]] = params["sequences"]
        fit = loadable(zip(params["files"], sequences, strict=True), self._target, self._engine)
        taken = load(self._campaign, fit.sequences)
        return {
            "sequences": taken.sequences,
            "transactions": taken.transactions,
            "skipped": [*fit.skipped, *taken.skipped],
            "remark": fit.remark,
        }

    # --- coverage, which may take longer than a reader waits

    def refresh(self, hits: bool) -> None:
        self._session.coverage.refresh(hits=hits)

    def is_current(self, hits: bool) -> bool:
        return self._session.coverage.is_current(hits=hits)

    def show_coverage(self, params: Params) -> Answer:
        return coverage.chosen(coverage.summary(self._latest()), params.get("contract"))

    def report(self, form: Format) -> str:
        return coverage.report(self._latest(), form).decode()

    def _latest(self) -> coverage.Coverage:
        return self._session.coverage.latest or self._session.coverage.refresh()
