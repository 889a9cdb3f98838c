"""A campaign that does not run, to execute sequences on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracedesk.fuzz import native, traces
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.native import Campaign, Engine
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.steering import transactions
from tracedesk.fuzz.target import Target


def campaign_of(engine: Engine, document: str) -> Campaign:
    """A campaign of the native core; what it refuses is told in the words of the tools."""
    try:
        return engine.Campaign(document)
    except engine.DeployError as fault:
        raise invalid("DEPLOYMENT_FAILED", f"contract: the deployment failed: {fault}.") from None
    except engine.SpecError as fault:
        raise invalid("BAD_CONFIG", f"The campaign cannot be set up: {fault}.") from None


class Bench:
    """Executes sequences on the state that a campaign begins with."""

    def __init__(self, document: str, config: Config) -> None:
        self.engine = native.engine()
        self.campaign = campaign_of(self.engine, document)
        self.target = Target.of(native.read(document))
        self._config = config

    @classmethod
    def filed(cls, spec: Path, config: Config) -> Bench:
        """Of a campaign that was run."""
        return cls(spec.read_text(encoding="utf-8"), config)

    @classmethod
    def compiled(cls, path: Path, contract: str | None, config: Config) -> Bench:
        """Of a contract as it is now."""
        from tracedesk.fuzz.building import options
        from tracedesk.fuzz.compile import compile_project
        from tracedesk.fuzz.spec import build

        engine = native.engine()
        made = build(compile_project(path, options(config, trusted=True)[0]), config, contract, engine)
        return cls(native.text(made.document), config)

    def execute(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What `execute_sequence` says, but for the campaign's id."""
        sequence = transactions(params, self.target, self._config, self.engine)
        return self.run(sequence, params["trace"], params["budget"])

    def run(self, sequence: Sequence[Mapping[str, Any]], trace: bool, budget: int) -> dict[str, Any]:
        """The same for transactions."""
        return traces.executed(self.campaign, self.engine, self.target, sequence, trace, budget)

    def shrink(self, test: str, sequence: Sequence[Mapping[str, Any]], limit: int) -> dict[str, Any]:
        """The shortest sequence found that fails a test as this one does."""
        try:
            return native.read(self.campaign.shrink(test, native.text(list(sequence)), limit))
        except self.engine.SpecError as fault:
            raise invalid("UNKNOWN_TEST", f"test: {fault}.") from None
