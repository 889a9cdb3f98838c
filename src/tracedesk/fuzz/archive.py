"""A campaign that no longer runs, answered from its files: ended in good order, or killed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from tracedesk.fuzz import answers, coverage, diary, native, rows
from tracedesk.fuzz.bench import Bench
from tracedesk.fuzz.folder import KIND, Folder
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.ring import TYPES, Ring
from tracedesk.fuzz.steering import ENDED
from tracedesk.fuzz.target import Target
from tracedesk.hosts import confined
from tracedesk.hosts.launch import last_words, log_path
from tracedesk.primitives import json

Params = Mapping[str, Any]
Answer = dict[str, Any]
_LOOKED_AT: Final = 20_000
"""Events of the journal from which the ring is filled again."""
KILLED: Final = "the campaign's process was killed"
_CRASH: Final = re.compile(r"Fatal Python error: ([\w ]+)")


class Archive:
    """The files of one campaign, each read once; they change no more."""

    def __init__(self, folder: Folder, *, owned: bool = False) -> None:
        self.folder = folder
        self.plan = folder.read_plan()
        self._owned = owned
        """Whether its process is alive: about to answer, or about to end."""

    def answer(self, tool: str, params: Params) -> Answer:
        """What a tool says of this campaign."""
        return getattr(self, tool)(params)

    @cached_property
    def _state(self) -> Mapping[str, Any]:
        """As last written; a campaign that was killed says so, whatever it said of itself."""
        document = native.read(self.folder.state.read_bytes())
        if self._owned:
            document["status"]["state"] = "stopping"
        elif self._was_killed:
            killed = {"state": "crashed", "endReason": self._end, "asOf": document["asOf"]}
            document["status"] |= killed
        return document

    @cached_property
    def _was_killed(self) -> bool:
        return not self._owned and diary.status(self.folder.journal, self.folder.id) != "ended"

    @cached_property
    def _end(self) -> str:
        """Why a process that did not end in good order ended."""
        output = log_path(self.folder.home, KIND, self.folder.id)
        words = last_words(output) if output.exists() else ""
        limit = f"{self.plan.limits.memory_mb:,} MiB of memory (memory_mb in [fuzz.limits])"
        if confined.is_out_of_memory(words):
            return f"the campaign's process reached its limit of {limit}"
        if (crash := _CRASH.search(words)) is not None:
            return f"the campaign's process crashed ({crash[1]}), as some do at their limit, here {limit}"
        return KILLED

    @cached_property
    def _covered(self) -> Mapping[str, Any]:
        """The last coverage that was written; none that was is no coverage of zero."""
        written = json.loads(self.folder.coverage.read_bytes()) if self.folder.coverage.exists() else None
        if written is None or (self._was_killed and not written["calls"]):
            message = (
                f"campaign_id: {self.folder.id} was killed before it wrote what it covered. Start it again."
            )
            raise invalid("NO_REPORT", message, campaign_id=self.folder.id)
        return written

    @cached_property
    def _target(self) -> Target:
        return Target.of(native.read(self.folder.spec.read_bytes()))

    @cached_property
    def _rows(self) -> list[rows.Row]:
        return rows.read(self.folder.rows)

    @cached_property
    def _ring(self) -> Ring:
        ring = Ring()
        for event in diary.newest(self.folder.journal, self.folder.id, _LOOKED_AT):
            if event.kind in TYPES:
                body = json.loads(event.body)
                data = {key: value for key, value in body.items() if key != "worker"}
                data["ref"] = diary.ref(self.folder.id, event.seq)
                ring.push(event.kind, body["worker"], event.time_ns, data)
        return ring

    @cached_property
    def _bench(self) -> Bench:
        return Bench.filed(self.folder.spec, self.plan.config)

    # --- one method a tool

    def read_logs(self, params: Params) -> Answer:
        return self._ring.answer(params["count"], params.get("eventType"), params.get("workerId"))

    def show_coverage(self, params: Params) -> Answer:
        shown = coverage.chosen(self._covered["summary"], params.get("contract"))
        return {**shown, "asOf": self._covered["asOf"]} if self._was_killed else shown

    def lcov(self, params: Params) -> Answer:
        as_of = self._covered["asOf"]
        text = self.folder.lcov.read_text(encoding="utf-8")
        # The format names a test with letters, digits and _ alone.
        name = f"as_of_{re.sub(r'[^0-9A-Za-z]', '_', as_of)}"
        return {"text": re.sub(r"^TN:$", f"TN:{name}", text, flags=re.M) if self._was_killed else text}

    def get_corpus_size(self, params: Params) -> Answer:
        sequences = {row["sequence"] for row in self._rows}
        return {"size": len(self._rows), "sequences": len(sequences)}

    def inspect_corpus_transactions(self, params: Params) -> Answer:
        return rows.page(self._rows, params["offset"], params["limit"])

    def find_transaction_in_corpus(self, params: Params) -> Answer:
        return rows.find(self._rows, self._target, rows.Wanted.of(params))

    def campaign_status(self, params: Params) -> Answer:
        return answers.status(self._state, params["budget"])

    def state(self, params: Params) -> Answer:
        return dict(self._state)

    def target(self, params: Params) -> Answer:
        config = self.plan.config
        facts = {"senders": list(config.senders), "deployer": config.deployer}
        return answers.target(self._target, self._state, facts, params["budget"])

    def get_reproducers(self, params: Params) -> Answer:
        return answers.reproduced(
            self._state,
            self._target,
            native.engine(),
            name=params.get("test"),
            form=params["format"],
            budget=params["budget"],
            source=self._state.get("source", self.plan.path),
            deployer=self.plan.config.deployer,
        )

    def execute_sequence(self, params: Params) -> Answer:
        return {"campaign_id": self.folder.id, **self._bench.execute(params)}

    def sample_function(self, params: Params) -> Answer:
        return {"campaign_id": self.folder.id, "function": None, "message": ENDED}

    # --- steering what has ended

    def inject_transaction(self, params: Params) -> Answer:
        return {"success": False, "message": ENDED, "injectedCount": 0}

    def prioritize_function(self, params: Params) -> Answer:
        return {**_REFUSED, "prioritizedFunctions": self._state["status"]["prioritizedFunctions"]}

    def clear_priorities(self, params: Params) -> Answer:
        return {**_REFUSED, "clearedCount": 0}

    def avoid_function(self, params: Params) -> Answer:
        return {**_REFUSED, "avoidedFunctions": self._state["status"]["avoidedFunctions"]}

    def stop_campaign(self, params: Params) -> Answer:
        state = self._state["status"]["state"]
        message = f"The campaign {_ENDINGS.get(state, 'has ended already')}."
        return {"success": True, "message": message, "campaign_id": self.folder.id, "state": state}


_ENDINGS: Final = {"stopping": "is about to end", "crashed": "was killed"}
_REFUSED: Final[Answer] = {"success": False, "message": ENDED}
