"""A campaign that does not run, to execute sequences on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracedesk.foreign import quoted
from tracedesk.fuzz import native, traces, unsupported
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.native import Campaign, Engine
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.steering import transactions
from tracedesk.fuzz.target import Target


def campaign_of(engine: Engine, document: str, budget: Budget | None = None) -> Campaign:
    """A campaign of the native core; what it refuses is told in the words of the tools."""
    budget = budget or Budget()
    try:
        return engine.Campaign(document, budget.deployment())
    except engine.LimitError as fault:
        raise budget.deployment_stopped(*fault.args) from None
    except engine.UnsupportedError as fault:
        raise unsupported.refusal(*fault.args) from None
    except engine.DeployError as fault:
        raise invalid(
            "DEPLOYMENT_FAILED", f"contract: the deployment failed: {quoted(str(fault))}."
        ) from None
    except engine.SpecError as fault:
        raise invalid("BAD_CONFIG", f"The campaign cannot be set up: {fault}.") from None


class Bench:
    """Executes sequences on the state that a campaign begins with."""

    def __init__(self, document: str, config: Config, budget: Budget | None = None) -> None:
        self.engine = native.engine()
        self.campaign = campaign_of(self.engine, document, budget)
        self.seconds = traces.SECONDS
        """Limits of one sequence and of one shrinking."""
        self.target = Target.of(native.read(document))
        self._config = config

    @classmethod
    def filed(cls, spec: Path, config: Config) -> Bench:
        """Of a campaign that was run."""
        return cls(spec.read_text(encoding="utf-8"), config)

    @classmethod
    def compiled(
        cls, path: Path, contract: str | None, config: Config, budget: Budget, *, trusted: bool = False
    ) -> Bench:
        """Of a contract as it is now."""
        from tracedesk.fuzz.building import options
        from tracedesk.fuzz.compile import compile_project
        from tracedesk.fuzz.spec import build

        engine = native.engine()
        project = compile_project(path, options(config, trusted=trusted, budget=budget)[0])
        made = build(project, config, contract, engine, budget)
        return cls(native.text(made.document), config, budget)

    def execute(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What `execute_sequence` says, but for the campaign's id."""
        sequence = transactions(params, self.target, self._config, self.engine)
        return self.run(sequence, params["trace"], params["budget"])

    def run(self, sequence: Sequence[Mapping[str, Any]], trace: bool, budget: int) -> dict[str, Any]:
        """The same for transactions."""
        told = traces.Asked(trace, budget, self.seconds)
        return traces.executed(self.campaign, self.engine, self.target, sequence, told)

    def shrink(self, test: str, sequence: Sequence[Mapping[str, Any]], limit: int) -> dict[str, Any]:
        """The shortest sequence found that fails a test as this one does."""
        try:
            given = native.text(list(sequence))
            return native.read(self.campaign.shrink(test, given, limit, self.seconds))
        except self.engine.LimitError as fault:
            raise traces.stopped(fault, self.seconds) from None
        except self.engine.SpecError as fault:
            raise invalid("UNKNOWN_TEST", f"test: {fault}.") from None
