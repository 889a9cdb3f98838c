"""`tracedesk doctor`: checks of this installation, each with its remedy where something is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import click

from tracedesk.cli.console import Console, pass_console
from tracedesk.cli.frame import DeskCommand
from tracedesk.cli.health import Finding, examine


@click.command(cls=DeskCommand)
@pass_console
def doctor(console: Console) -> int:
    """Check this installation, its home and its clients.

    Looks at Python and packages, settings, the home with its permissions and space, tokens, the port, the
    temporary folder, and client configurations. Each toolset does a piece of its work in a temporary
    home: it parses a file, runs a contract, starts and stops the local exchange, reads a bar. Then a desk
    of its own is asked.
    Exit code 1 means that something is broken; warnings do not count.
    """
    findings = tuple(examine(console.home))
    healthy = all(finding.status != "fail" for finding in findings)
    document = {"healthy": healthy, "checks": [finding.document() for finding in findings]}
    console.answer(document, _report(findings))
    return 0 if healthy else 1


def _report(findings: Iterable[Finding]) -> str:
    findings = tuple(findings)
    lines = [line for finding in findings for line in _lines(finding)]
    return "\n".join((*lines, "", _verdict(Counter(finding.status for finding in findings))))


def _lines(finding: Finding) -> list[str]:
    first = f"{finding.status:<4}  {finding.check:<9}  {finding.detail}"
    return [first, f"{'':17}{finding.remedy}"] if finding.remedy else [first]


def _verdict(counts: Counter[str]) -> str:
    warned = f", {counts['warn']} to look at" if counts["warn"] else ""
    if counts["fail"]:
        return f"{counts['fail']} broken{warned}."
    return f"Nothing is broken{warned}."
