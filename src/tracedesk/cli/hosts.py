"""`tracedesk hosts`: the long-lived processes of a home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, table
from tracedesk.cli.frame import DeskGroup

if TYPE_CHECKING:
    from tracedesk.hosts import HostInfo, Sighting


@click.group(cls=DeskGroup)
def hosts() -> None:
    """List and stop the long-lived processes of a home."""


@hosts.command("list")
@pass_console
def list_hosts(console: Console) -> None:
    """List the hosts by kind and id: live ones, and stale ones that this removes.

    A stale host ended without saying so; its registration is shown this once.
    """
    from tracedesk.hosts import survey

    found = survey(console.settings().home)
    text = table(map(_row, found), ("KIND", "ID", "STATE", "PID", "STARTED")) if found else "No hosts."
    console.answer({"hosts": [_document(one) for one in found]}, text)


@hosts.command()
@click.argument("kind")
@click.argument("id")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds to wait for its end.",
)
@pass_console
def stop(console: Console, kind: str, id: str, timeout: float) -> None:
    """Stop one host and wait until it has ended.

    What it is doing gets a few seconds to finish, and its last snapshots are kept.
    """
    from tracedesk.hosts import HostError, find_one

    try:
        info = find_one(console.settings().home, kind, id)
    except ValueError as fault:
        raise Misuse(sentence(fault)) from None
    if info is None:
        raise Failed(f"No {kind} {id!r} is running; tracedesk hosts list shows what is.")
    try:
        _stop(info, timeout)
    except HostError as fault:
        raise Failed(f"{sentence(fault)} End process {info.pid} if you must.") from None
    console.answer({"kind": kind, "id": id, "pid": info.pid, "stopped": True}, f"Stopped {kind} {id}.")


def _stop(info: HostInfo, timeout: float) -> None:
    import asyncio

    from tracedesk.hosts import HostClient

    async def main() -> None:
        client = await HostClient.connect(info)
        await client.stop(timeout=timeout)

    asyncio.run(main())


def _row(one: Sighting) -> tuple[str, ...]:
    pid, started = (str(one.info.pid), one.info.started_at) if one.info else ("?", "?")
    return one.kind, one.id, one.state, pid, started


def _document(one: Sighting) -> dict[str, Any]:
    known = one.info.document() if one.info else {"kind": one.kind, "id": one.id}
    return {**known, "state": one.state}
