"""What capture asks of the atlas: attempts like a prompt, the project of a folder, and files read again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tracedesk.codegraph import finding, indexing
from tracedesk.codegraph.capture.desk import Capture, Needs
from tracedesk.codegraph.capture.reminder import Similar
from tracedesk.codegraph.desk import CATCHING_SECONDS, Atlas
from tracedesk.codegraph.rank.attempts import Asked
from tracedesk.errors import ToolError
from tracedesk.jobs import JobCancelled

log = logging.getLogger(__name__)

MOST = 5
LEAST_SCORE = 0.2


def needs(atlas: Atlas) -> Needs:
    """The atlas as capture sees it."""

    async def similar(prompt: str, project: str | None) -> Sequence[Similar]:
        await atlas.caught_up(CATCHING_SECONDS)
        found = await finding.matching(atlas, Asked(prompt, (), project), MOST, LEAST_SCORE)
        return [_similar(each) for each in found]

    async def touched(root: str, files: Sequence[str]) -> None:
        if root not in atlas.indexed():
            return
        try:
            await indexing.brought(atlas, root, list(files), [], indexing.Silent())
        except (ToolError, JobCancelled) as refused:
            log.info("files that a client changed were not read again: %s", refused)

    return Needs(similar=similar, touched=touched, project_of=atlas.world.holding)


def _similar(found: finding.Similar) -> Similar:
    brief = found.brief
    return Similar(
        attempt_id=brief.attempt_id,
        score=found.match.score,
        summary=brief.summary,
        outcome=brief.verdict.shown,
        files=brief.files,
        started_ns=brief.started_ns,
    )


def capture_of(atlas: Atlas) -> Capture:
    """Capture of a desk that takes things in; a desk that only reads refuses them."""
    if atlas.capture is None:
        message = "This desk only reads, so it records nothing. Send it to a desk without --read-only."
        raise ToolError("EXECUTION_DISABLED", message)
    return atlas.capture
