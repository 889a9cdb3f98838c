"""`tracedesk ledger`: what the accounts have and how they came by it, the proof of it, and its export."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, short_path, table
from tracedesk.cli.frame import DeskGroup
from tracedesk.primitives.text import sanitize_terminal

if TYPE_CHECKING:
    from tracedesk.cli.progress import Bar
    from tracedesk.trading.audit import Report
    from tracedesk.trading.export import Table
    from tracedesk.trading.ledger import Entry, LedgerReader
    from tracedesk.trading.model import Portfolio, Position

_ENTRIES: Final = ("ENTRY", "MARKET TIME", "ACCOUNT", "KIND", "WHAT")
_TABLES: Final = ("postings", "entries", "fills")


@click.group(cls=DeskGroup)
def ledger() -> None:
    """See, verify and export the ledger."""


@ledger.command()
@click.option("--account", metavar="NAME", help="Only this account.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(0), help="How many entries.")
@pass_console
def show(console: Console, account: str | None, limit: int) -> None:
    """Show what each account has, and the newest entries."""
    with _reading(console) as reader:
        accounts = reader.accounts()
        if account is not None and account not in accounts:
            raise Failed(
                f"No account {account!r} is in the ledger. There are {', '.join(accounts) or 'none'}."
            )
        portfolios = [reader.portfolio(name) for name in accounts if account in (None, name)]
        entries = reader.newest(limit, account)
        document = _document(reader, portfolios, entries)
    console.answer(document, "\n\n".join(filter(None, (*map(_holding, portfolios), _listed(entries)))))


@ledger.command()
@pass_console
def verify(console: Console) -> None:
    """Check every entry, every sum and the cache; exit 1 if anything is not as it was written.

    Also finds a ledger that is older than trace.db has stored, such as a copy put back.
    """
    from tracedesk.cli.progress import Bar
    from tracedesk.rollback import LEDGER
    from tracedesk.rollback import check as losses

    home = console.settings().home
    lost = losses(home, (LEDGER,))
    with Bar("verify") as bar:
        report = _audited(home / LEDGER if lost else _path(console), bar)
    for loss in lost:
        report.blame(loss.seq, loss.problem_by)
    console.answer(_findings(report), _verdict(report))
    if not report.is_sound:
        raise Failed("The ledger is not what was written; the faults are listed above.")


@ledger.command()
@click.option(
    "--format", "form", required=True, type=click.Choice(["beancount", "csv"]), help="What to write."
)
@click.option("--table", "name", type=click.Choice(_TABLES), help="What the CSV lists [default: postings].")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
@pass_console
def export(console: Console, form: str, name: Table | None, out: Path | None) -> None:
    """Write the ledger for another program, to FILE or to the output.

    As beancount, every trade, split and dividend is a transaction that balances, and the last lines state
    what each account has, so that `bean-check` proves them. FILE appears when it is complete.
    """
    if form == "beancount" and name is not None:
        raise Misuse("--table is for --format csv; a beancount file holds everything.")
    with _reading(console) as reader:
        lines = _lines(reader, form, name or "postings")
        facts = {"format": form, "table": name or "postings" if form == "csv" else None, **_head(reader)}
        if out is not None:
            size = _keep(lines, out)
            text = f"Wrote {facts['entries']:,} entries to {short_path(out.absolute())}."
            console.answer({**facts, "file": str(out.absolute()), "bytes": size}, text)
        elif console.json:
            console.answer({**facts, "text": "".join(lines)}, "")
        else:
            _print(lines)


def _audited(path: Path, bar: Bar) -> Report:
    from tracedesk.trading.audit import Report, verify

    return verify(path, progress=bar.show) if path.exists() else Report()


# --- the file ----------------------------------------------------------------------------------


def _path(console: Console) -> Path:
    path = console.settings().home / "ledger.db"
    if not path.exists():
        raise Failed(f"There is no ledger in {path.parent} yet; the first trade opens it.")
    return path


@contextmanager
def _reading(console: Console) -> Generator[LedgerReader]:
    """The ledger as it is at one moment."""
    from tracedesk.trading.ledger import Ledger, LedgerError

    try:
        with Ledger.read_only(_path(console)) as reader, reader.at_once():
            yield reader
    except LedgerError as problem:
        raise Failed(sentence(problem)) from None


def _lines(reader: LedgerReader, form: str, name: Table) -> Iterator[str]:
    from tracedesk.trading import export as exporting

    return exporting.beancount(reader) if form == "beancount" else exporting.table(reader, name)


def _print(lines: Iterable[str]) -> None:
    """Raw for a pipe; on a terminal, nothing in a name may move the cursor."""
    shown = map(sanitize_terminal, lines) if sys.stdout.isatty() else lines
    for line in shown:
        click.echo(line, nl=False)


def _keep(lines: Iterable[str], out: Path) -> int:
    """Write a file whole or not at all, for its owner only; its size."""
    handle, fresh = tempfile.mkstemp(prefix=".", dir=out.absolute().parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            size = _fill(file, lines)
        os.replace(fresh, out)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    return size


def _fill(file: TextIO, lines: Iterable[str]) -> int:
    file.writelines(lines)
    file.flush()
    os.fsync(file.fileno())
    return os.fstat(file.fileno()).st_size


# --- what is said ------------------------------------------------------------------------------


def _head(reader: LedgerReader) -> dict[str, Any]:
    seq, digest = reader.head()
    return {"entries": seq, "head": digest.hex()}


def _document(reader: LedgerReader, portfolios: list[Portfolio], entries: list[Entry]) -> dict[str, Any]:
    from tracedesk.primitives.time import format

    clock = reader.clock_ns()
    return {
        **_head(reader),
        "clock": None if clock is None else format(clock),
        "accounts": [_account(portfolio) for portfolio in portfolios],
        "shown": [_entry(entry) for entry in entries],
    }


def _account(portfolio: Portfolio) -> dict[str, Any]:
    from tracedesk.trading.units import money

    sums = {name: str(money(getattr(portfolio, name))) for name in ("cash", "realised", "fees", "dividends")}
    positions = [
        dict(zip(("symbol", "quantity", "avgPrice"), _position(held), strict=True))
        for held in portfolio.positions.values()
    ]
    return {"account": portfolio.account, "version": portfolio.version, **sums, "positions": positions}


def _position(held: Position) -> tuple[str, str, str]:
    from tracedesk.trading.book import average
    from tracedesk.trading.units import price, quantity

    return held.symbol, f"{quantity(held.quantity):f}", f"{price(average(held)):f}"


def _entry(entry: Entry) -> dict[str, Any]:
    from tracedesk.primitives.time import format

    return {
        "entry": entry.seq,
        "kind": entry.kind,
        "account": entry.account or None,
        "marketTime": format(entry.clock_ns),
        "writtenAt": format(entry.at_ns),
        "what": _what(entry),
        "call": entry.call.tool_call_id if entry.call else None,
        "code": entry.call.code if entry.call else None,
        "hash": entry.hash.hex(),
    }


def _what(entry: Entry) -> str:
    from tracedesk.primitives.time import format
    from tracedesk.trading.export import summary

    if entry.kind not in ("clock", "open-clock"):
        return summary(entry)
    if entry.kind == "open-clock" or "from_ns" not in entry.body:
        return f"the clock stands at {format(entry.body['to_ns'])}"
    return f"the clock moved here from {format(entry.body['from_ns'])}"


def _holding(portfolio: Portfolio) -> str:
    facts = _account(portfolio)
    earned = f"realised {facts['realised']}, dividends {facts['dividends']}, fees {facts['fees']}"
    heading = f"{portfolio.account}: cash {facts['cash']} ({earned})"
    held = [_position(one) for one in portfolio.positions.values()]
    return "\n".join(
        filter(None, (heading, table(held, ("SYMBOL", "QUANTITY", "AVG PRICE")) if held else ""))
    )


def _listed(entries: list[Entry]) -> str:
    facts = map(_entry, entries)
    rows = [(str(f["entry"]), f["marketTime"], f["account"] or "-", f["kind"], f["what"]) for f in facts]
    return table(rows, _ENTRIES) if rows else ""


def _findings(report: Report) -> dict[str, Any]:
    faults = [{"entry": fault.seq, "problem": fault.problem} for fault in report.faults]
    return {"sound": report.is_sound, "entries": report.entries, "head": report.head, "faults": faults}


def _verdict(report: Report) -> str:
    if report.is_sound:
        return f"{report.entries:,} entries are sound; the head is {report.head}."
    return "\n".join(f"entry {f.seq}: {f.problem}" if f.seq else f.problem for f in report.faults)
