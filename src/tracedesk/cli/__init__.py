"""The command line. Importing this loads click and nothing heavier; each command loads what it needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tracedesk.cli.frame import LazyGroup, run

tracedesk = LazyGroup(
    "tracedesk",
    {
        "serve": (
            "tracedesk.cli.serve:serve",
            "Serve the desk to MCP clients over HTTP or stdio, or to gateways over gRPC.",
        ),
        "doctor": ("tracedesk.cli.doctor:doctor", "Check this installation, its home and its clients."),
        "install": ("tracedesk.cli.install:install", "Tell an MCP client about this desk."),
        "uninstall": ("tracedesk.cli.install:uninstall", "Take this desk out of a client's configuration."),
        "config": ("tracedesk.cli.config:config", "See the settings in force."),
        "backtest": (
            "tracedesk.cli.backtest:backtest",
            "Import, list, show, export, report and remove recorded backtest runs.",
        ),
        "fuzz": (
            "tracedesk.cli.fuzz:fuzz",
            "Fuzz EVM contracts, replay and shorten what broke, and see what was covered.",
        ),
        "exchange": (
            "tracedesk.cli.exchange:exchange",
            "Run the local exchange, watch a market, and record one.",
        ),
        "graph": (
            "tracedesk.cli.graph:graph",
            "Index code, search it, keep its graph up to date, and see what is known of it.",
        ),
        "market": ("tracedesk.cli.market:market", "See and move the market's replay clock."),
        "ledger": ("tracedesk.cli.ledger:ledger", "See, verify and export the ledger."),
        "trace": (
            "tracedesk.cli.trace:trace",
            "See recorded calls and attempts, import history, and verify the record.",
        ),
        "verify": (
            "tracedesk.cli.verify:verify",
            "Check everything the home has recorded: trace, ledger, runs and campaigns.",
        ),
        "anchor": (
            "tracedesk.cli.anchor:anchor",
            "Write the hashes of all streams, signed, to FILE outside the home, or to the output.",
        ),
        "backup": ("tracedesk.cli.backup:backup", "Copy a home while desks use it, or check such a copy."),
        "prune": ("tracedesk.cli.prune:prune", "Remove old ended streams, leaving their manifests."),
        "forget": ("tracedesk.cli.forget:forget", "Remove the call, event or payload behind REF for good."),
        "token": ("tracedesk.cli.token:token", "List, add and revoke bearer tokens."),
        "hosts": ("tracedesk.cli.hosts:hosts", "List and stop the long-lived processes of a home."),
    },
    help="""One MCP desk where every fact and every act leaves a trace.

    Exit codes: 0 done, 1 failed or unhealthy, 2 the command line or a setting cannot be used as given.
    """,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tracedesk` and return its exit code."""
    return run(tracedesk, sys.argv[1:] if arguments is None else arguments)


def binance_provider(arguments: Sequence[str] | None = None) -> int:
    """Run `binance-provider`: the desk with the exchange toolset alone."""
    rest = sys.argv[1:] if arguments is None else arguments
    return run(tracedesk, ["serve", "--toolsets", "exchange", *rest])
