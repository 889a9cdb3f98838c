"""Commands that change what a campaign does next: each is applied whole, answered, and written down."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracedesk.foreign import named
from tracedesk.fuzz import native
from tracedesk.fuzz.amounts import wei
from tracedesk.fuzz.audit import AuditLog, Command, Counters
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.corpus_files import Tx
from tracedesk.fuzz.native import Campaign, Engine
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.target import Parsed, Target, canonical

Answer = dict[str, Any]
_TRIES: Final = 20
_WAKING: Final = 0.002
ENDED: Final = "The campaign has ended; start_campaign with the same corpusDir continues it."
DEFAULT_SENDER: Final = "0x0000000000000000000000000000000000010000"


class Steering:
    """The commands of one campaign; any thread may give one, they are applied one after the other."""

    def __init__(
        self, campaign: Campaign, target: Target, config: Config, engine: Engine, audit: AuditLog
    ) -> None:
        self._campaign = campaign
        self._target = target
        self._config = config
        self._engine = engine
        self._audit = audit
        self._lock = threading.Lock()
        self._prioritized: set[str] = set()
        self._avoided: set[str] = set()

    @property
    def prioritized(self) -> list[str]:
        return sorted(self._prioritized)

    @property
    def avoided(self) -> list[str]:
        return sorted(self._avoided)

    def inject(self, args: Mapping[str, Any], at: Counters | None = None) -> Answer:
        """Give a sequence to every worker, to be run as it is and then varied."""
        sequence = transactions(args, self._target, self._config, self._engine)
        with self._lock:
            if self._has_ended():
                return _injected(False, ENDED, 0)
            told = self._inject(native.text(sequence), at)
            message = (
                f"Injected {_count(len(sequence), 'transaction')} to {_count(told['workers'], 'worker')}"
            )
            answer = _injected(True, message + _value_note(args, sequence), len(sequence))
            return self._noted("inject_transaction", args, answer, told["at"])

    def _inject(self, sequence: str, at: Counters | None) -> Mapping[str, Any]:
        """What the core says of a sequence; in a campaign's first moments its workers are still waking up."""
        try:
            told = native.read(self._campaign.inject(sequence, _at(at)))
            for _ in range(_TRIES):
                if told["workers"] or at is not None or self._has_ended():
                    break
                time.sleep(_WAKING)
                told = native.read(self._campaign.inject(sequence, _at(at)))
            return told
        except self._engine.SpecError as fault:
            raise invalid("PARSE_ERROR", f"sequence: {fault}.", argument="sequence") from None

    def prioritize(self, args: Mapping[str, Any], at: Counters | None = None) -> Answer:
        """Give a function 90 % of the newly made calls, together with the others of the set."""
        signature = canonical(args["functionSignature"], "functionSignature")
        with self._lock:
            if self._has_ended():
                return {"success": False, "message": ENDED, "prioritizedFunctions": self.prioritized}
            self._prioritized.add(signature)
            told = native.read(self._campaign.prioritize(self._ids(self._prioritized), _at(at)))
            message = f"Prioritized function {named(signature)}"
            if not self._target.matching(signature):
                message += "; no contract has it yet, so calls stay evenly spread until one does"
            answer: Answer = {"success": True, "message": message, "prioritizedFunctions": self.prioritized}
            return self._noted("prioritize_function", args, answer, told["at"])

    def clear(self, args: Mapping[str, Any], at: Counters | None = None) -> Answer:
        """Spread the calls evenly again."""
        with self._lock:
            if self._has_ended():
                return {"success": False, "message": ENDED, "clearedCount": 0}
            count = len(self._prioritized)
            self._prioritized.clear()
            told = native.read(self._campaign.prioritize("[]", _at(at)))
            message = f"Cleared {_count(count, 'prioritized function')}"
            answer: Answer = {"success": True, "message": message, "clearedCount": count}
            return self._noted("clear_priorities", args, answer, told["at"])

    def avoid(self, args: Mapping[str, Any], at: Counters | None = None) -> Answer:
        """Make no new calls of a function, or make them again."""
        signature = canonical(args["functionSignature"], "functionSignature")
        with self._lock:
            if self._has_ended():
                return {"success": False, "message": ENDED, "avoidedFunctions": self.avoided}
            wanted = self._avoided | {signature} if args["avoid"] else self._avoided - {signature}
            self._refuse_nothing_left(wanted)
            self._avoided = wanted
            told = native.read(self._campaign.avoid(self._ids(wanted), _at(at)))
            message = f"{'Avoiding' if args['avoid'] else 'Calling again'} function {named(signature)}"
            if not self._target.matching(signature):
                message += "; no contract has it yet"
            answer: Answer = {"success": True, "message": message, "avoidedFunctions": self.avoided}
            return self._noted("avoid_function", args, answer, told["at"])

    def close(self) -> None:
        """Close the record; a command that is being applied is written first, later ones find the end."""
        with self._lock:
            self._audit.close()

    def again(self, commands: Sequence[Command]) -> None:
        """Give recorded commands to a campaign before its start, to be obeyed after as many calls as then."""
        for command in commands:
            if len(command.counters) != self._config.worker_count:
                workers = len(command.counters)
                message = f"The commands were given to {_count(workers, 'worker')}; set workers to {workers}."
                raise invalid("BAD_AUDIT_LOG", message, workers=workers)
            if command.result.get("success") is not False:
                self._again(command)

    def _again(self, command: Command) -> Answer:
        match command.tool:
            case "inject_transaction":
                args = {"sender": DEFAULT_SENDER, "value": "0", **command.args}
                return self.inject(args, command.counters)
            case "prioritize_function":
                return self.prioritize(command.args, command.counters)
            case "clear_priorities":
                return self.clear(command.args, command.counters)
            case _:
                return self.avoid({"avoid": True, **command.args}, command.counters)

    def _refuse_nothing_left(self, avoided: set[str]) -> None:
        ids = {f.id for signature in avoided for f in self._target.matching(signature)}
        called = {function.id for place in self._target.places for function in place.functions}
        if called and called <= ids:
            message = (
                "functionSignature: nothing would be left to call; take another function off the list first."
            )
            raise invalid("NOTHING_LEFT", message, avoidedFunctions=self.avoided)

    def _ids(self, signatures: set[str]) -> str:
        found = [f.id for signature in sorted(signatures) for f in self._target.matching(signature)]
        return native.text(found)

    def _has_ended(self) -> bool:
        return native.read(self._campaign.status())["state"] == "ended"

    def _noted(
        self, tool: str, args: Mapping[str, Any], answer: Answer, counters: Sequence[int | None]
    ) -> Answer:
        kept = {key: value for key, value in args.items() if key != "campaign_id"}
        self._audit.add(tool, kept, answer, counters)
        return answer


def _at(counters: Counters | None) -> str | None:
    return None if counters is None else native.text(list(counters))


# --- sequences from text -----------------------------------------------------------------------


def transactions(args: Mapping[str, Any], target: Target, config: Config, engine: Engine) -> list[Tx]:
    """The transactions that a list of call texts spells; the value goes to the payable ones."""
    parsed = [
        target.parse(text, engine, f"sequence[{number}]") for number, text in enumerate(args["sequence"])
    ]
    value = wei(args["value"], "value")
    if value and not any(each.function.payable for each in parsed):
        message = "value: none of these functions is payable; leave value out, or call a payable one."
        raise invalid("NOT_PAYABLE", message, argument="value")
    sender = str(args["sender"]).lower()
    return [_transaction(each, sender, value, config) for each in parsed]


def _transaction(parsed: Parsed, sender: str, value: int, config: Config) -> Tx:
    return {
        "to": parsed.place.address,
        "from": sender,
        "value": str(value if parsed.function.payable else 0),
        "gas": config.tx_gas,
        "gas_price": "0",
        "delay": [0, 0],
        "call": parsed.call(),
    }


def _value_note(args: Mapping[str, Any], sequence: Sequence[Tx]) -> str:
    value = wei(args["value"], "value")
    if not value:
        return ""
    paid = sum(tx["value"] != "0" for tx in sequence)
    return f"; {value} wei with {_count(paid, 'payable call')}, 0 with the others"


def _injected(success: bool, message: str, count: int) -> Answer:
    return {"success": success, "message": message, "injectedCount": count}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
