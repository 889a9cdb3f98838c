"""`tracedesk fuzz`: run campaigns, replay and shorten what they found, and look at what they covered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, short_path, size_text, table
from tracedesk.cli.fuzz_exit import FALSIFIED, UNDECIDED, FuzzGroup

if TYPE_CHECKING:
    from tracedesk.fuzz.bench import Bench
    from tracedesk.fuzz.config import Config
    from tracedesk.fuzz.desk import Campaigns
    from tracedesk.fuzz.limits import Limits
    from tracedesk.home import Home

T = TypeVar("T")
_ALL: Final = 10**9
_SHOWN: Final = 50
_LONGEST: Final = 600.0
"""Seconds that one sequence may take to be replayed, or to be made shorter."""
_ANY: Final = click.Path(exists=True, path_type=Path)
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_OUT: Final = click.Path(dir_okay=False, path_type=Path)
_MODES: Final = ("property", "assertion", "optimization", "overflow", "exploration", "foundry")

_contract = click.option("--contract", metavar="NAME", help="The contract to test, when there are several.")
_config = click.option("--config", "file", type=_FILE, metavar="FILE", help="An echidna.yaml.")
_trust = click.option(
    "--trust-project",
    "trusted",
    is_flag=True,
    help="Run programs that the project brings or names: its node_modules/solc, --solc, allowFFI.",
)
_campaign = click.option(
    "--campaign", metavar="ID", help="The campaign [default: the one that runs, else the latest]."
)


@click.group(cls=FuzzGroup)
def fuzz() -> None:
    """Fuzz EVM contracts, replay and shorten what broke, and see what was covered."""


@fuzz.command()
@click.argument("path", type=_ANY, default=Path())
@_contract
@_config
@click.option("--test-mode", type=click.Choice(_MODES), help="What counts as a failure [default: property].")
@click.option("--workers", type=int, metavar="N", help="Worker threads [default: the cores, at most 4].")
@click.option("--seed", type=int, metavar="S", help="The seed; one worker and one seed give one outcome.")
@click.option("--test-limit", type=int, metavar="N", help="Calls in all [default: 50000].")
@click.option("--seq-len", type=int, metavar="N", help="Calls of a sequence [default: 100].")
@click.option("--fuzz-runs", type=click.IntRange(1), metavar="N", help="Calls of each Foundry fuzz test.")
@click.option("--timeout", type=int, metavar="S", help="Seconds in all.")
@click.option("--corpus", type=_FOLDER, metavar="DIR", help="A corpus to begin with and to add to.")
@click.option(
    "--replay-commands", "replay", type=_FILE, metavar="FILE", help="Give an mcp-commands.jsonl again."
)
@click.option("--serve", is_flag=True, help="Serve this home to MCP clients while the campaign runs.")
@click.option("--port", type=int, metavar="N", help="The port of --serve [default: 3000].")
@_trust
@pass_console
def run(
    console: Console,
    path: Path,
    contract: str | None,
    file: Path | None,
    test_mode: str | None,
    seq_len: int | None,
    test_limit: int | None,
    fuzz_runs: int | None,
    corpus: Path | None,
    replay: Path | None,
    serve: bool,
    port: int | None,
    trusted: bool,
    **keys: Any,
) -> int:
    """Fuzz PATH: a .sol or .vy file, a Foundry or Hardhat project, or solc's JSON [default: this folder].

    A Foundry project without --contract runs every suite, in turn, and ends with a table. A campaign against
    one contract runs in a process of its own, where `tracedesk serve` of the same home finds it. Ctrl-C ends
    it. Exit code 1 when a test was falsified; 2 when a test has no verdict (an unsupported cheatcode), or the
    run could not begin or did not end properly.
    """
    started = monotonic()
    from tracedesk.fuzz.launch import Request, checked, runs_suites

    given = {"testMode": test_mode, "seqLen": seq_len, "testLimit": test_limit, **keys}
    given["fuzzRuns"] = fuzz_runs
    given["corpusDir"] = None if corpus is None else str(corpus.absolute())
    # What only a campaign has asks for one.
    is_campaign = serve or any(each is not None for each in (contract, corpus, replay))
    all_suites = not is_campaign and runs_suites(path, test_mode, file)
    if all_suites:
        given["testMode"] = "foundry"
    reading = _configured(file, given, path)
    _refuse_foreign(reading.config, trusted)
    request = checked(
        Request(
            path,
            contract,
            reading.config,
            reading.warnings,
            replay,
            trusted=trusted,
            limits=_limits(console),
            outlives=False,
            started=started,
        )
    )
    console.json = console.json or reading.config.output == "json"
    for warning in request.warnings:
        console.note(f"Warning: {warning}")
    if all_suites:
        from tracedesk.cli import fuzz_suites

        return fuzz_suites.run(console, request)
    from tracedesk.cli.fuzz_run import Run

    job = Run(console, _home(console), request, port=port, serve=serve)
    return asyncio.run(job.main())


@fuzz.command()
@click.argument("path", type=_ANY)
@click.argument("files", type=_ANY, nargs=-1, required=True)
@_contract
@_config
@click.option("--trace", is_flag=True, help="Show the tree of calls of each last call.")
@_trust
@pass_console
def replay(
    console: Console,
    path: Path,
    files: tuple[Path, ...],
    contract: str | None,
    file: Path | None,
    trace: bool,
    trusted: bool,
) -> int:
    """Execute recorded sequences on the contract at PATH: files or folders in Echidna's format.

    Exit code 1 when a sequence fails a test, 2 when none could be executed, or a cheatcode is not supported.
    """
    bench = _bench(console, path, contract, file, trusted)
    replayed = _replayed(console, bench, _sequences(console, bench, files), trace)
    failed = [name for name, outcome in replayed if outcome["failures"]]
    document = {"sequences": [{"file": name, **outcome} for name, outcome in replayed], "failed": failed}
    console.answer(document, "\n".join(_replay_lines(replayed)))
    is_open = any(outcome.get("unsupported") for _, outcome in replayed)
    return FALSIFIED if failed else UNDECIDED if is_open else 0


@fuzz.command()
@click.argument("path", type=_ANY)
@click.argument("sequence", type=_FILE)
@_contract
@_config
@click.option("--test", metavar="NAME", help="The test it breaks [default: the first one it does].")
@click.option("--limit", type=int, default=5_000, show_default=True, help="Executions to spend.")
@click.option("--out", type=_OUT, metavar="FILE", help="Write the shorter sequence in Echidna's format.")
@_trust
@pass_console
def shrink(
    console: Console,
    path: Path,
    sequence: Path,
    contract: str | None,
    file: Path | None,
    test: str | None,
    limit: int,
    out: Path | None,
    trusted: bool,
) -> None:
    """Make a recorded sequence that breaks a test of the contract at PATH as short as it gets."""
    from tracedesk.fuzz import corpus_files, reproducers
    from tracedesk.fuzz.outputs import write_report
    from tracedesk.fuzz.result import because

    bench = _bench(console, path, contract, file, trusted)
    [(_, given)] = _sequences(console, bench, (sequence,))
    broken = test or _first_failure(bench, given)
    shrunk = bench.shrink(_test_id(bench, broken), given, limit)
    calls = reproducers.calls(shrunk["sequence"], bench.target, bench.engine)
    if out is not None:
        write_report(out, corpus_files.write(shrunk["sequence"]))
    facts = {"test": broken, "reason": shrunk["reason"], "from": len(given), "to": len(calls), "calls": calls}
    head = f"{broken}: {len(given)} calls became {len(calls)} ({because(shrunk['reason'] or '')})"
    console.answer(facts, "\n".join((head, *(f"  {row['call']}" for row in calls))))


@fuzz.command()
@_campaign
@click.option("--html", type=_OUT, metavar="FILE", help="Write a page with the marked sources.")
@click.option("--lcov", type=_OUT, metavar="FILE", help="Write an LCOV report with branches.")
@pass_console
def coverage(console: Console, campaign: str | None, html: Path | None, lcov: Path | None) -> None:
    """Show what a campaign covered, or write it as a page or an LCOV report."""
    from tracedesk.fuzz.outputs import write_report

    async def ask(campaigns: Campaigns) -> tuple[dict[str, Any], list[tuple[Path, str]]]:
        folder = campaigns.chosen(campaign)
        shown = await campaigns.ask("show_coverage", {"campaign_id": folder.id}, timeout=60.0)
        wanted = [(out, form) for out, form in ((html, "html"), (lcov, "lcov")) if out is not None]
        texts = [(out, await campaigns.report(folder, form)) for out, form in wanted]
        return shown, texts

    shown, texts = _asked(console, ask)
    for out, text in texts:
        write_report(out, text.encode())
        console.note(f"Wrote {short_path(out.absolute())} ({size_text(len(text))}).")
    written = [str(out.absolute()) for out, _ in texts]
    rows = [
        (row["name"], f"{row['lineCoverage']} %", f"{row['branchCoverage']} %") for row in shown["contracts"]
    ]
    text = table(rows, ("CONTRACT", "LINES", "BRANCHES"))
    if "asOf" in shown:
        text += f"\nAs of {shown['asOf']}: the campaign was killed later."
    console.answer(_plain({**shown, "written": written}), text)


@fuzz.group(cls=FuzzGroup)
def corpus() -> None:
    """List, import and export the sequences that a campaign kept."""


@corpus.command("ls")
@_campaign
@click.option(
    "--limit", type=click.IntRange(1), default=_SHOWN, show_default=True, help="Transactions to show."
)
@click.option("--offset", type=click.IntRange(0), default=0, show_default=True, help="Where to begin.")
@pass_console
def ls(console: Console, campaign: str | None, limit: int, offset: int) -> None:
    """List the transactions of a campaign's corpus."""

    async def ask(campaigns: Campaigns) -> dict[str, Any]:
        args = {"campaign_id": campaigns.chosen(campaign).id, "offset": offset, "limit": limit}
        return _plain(await campaigns.ask("inspect_corpus_transactions", args, timeout=60.0))

    page = _asked(console, ask)
    rows = [
        (str(row["index"]), str(row["sequence"]), row["value"], row["sender"], row["call"])
        for row in page["transactions"]
    ]
    text = table(rows, ("INDEX", "SEQUENCE", "VALUE", "SENDER", "CALL"))
    console.answer(page, f"{text}\n{page['total']:,} transactions in all.")


@corpus.command("import")
@click.argument("source", type=_ANY)
@_campaign
@pass_console
def import_(console: Console, source: Path, campaign: str | None) -> None:
    """Add the sequences of SOURCE, a file or folder in Echidna's format, to a campaign.

    A campaign that runs replays them at once; one that has ended keeps them for the next one.
    """
    from tracedesk.cli.fuzz_child import go_on_in_a_child
    from tracedesk.fuzz import corpus_files
    from tracedesk.fuzz.limits import Budget

    go_on_in_a_child(Budget(_limits(console)))
    loaded = corpus_files.load(source)
    for problem in loaded.problems:
        console.note(f"Skipped {problem}.")
    if not loaded.sequences:
        raise _nothing_found(source)

    async def ask(campaigns: Campaigns) -> dict[str, Any]:
        folder = campaigns.chosen(campaign)
        return await campaigns.import_(folder, loaded)

    told = _asked(console, ask)
    for skipped in told["skipped"]:
        console.note(f"Skipped {skipped}.")
    if told["remark"]:
        console.note(f"Warning: {told['remark']}.")
    if len(told["skipped"]) == len(loaded.sequences):
        raise Failed(f"None of the sequences can be used here; {told['skipped'][0]}.")
    text = f"Added {told['sequences']} sequences with {told['transactions']} transactions."
    console.answer({**told, "problems": list(loaded.problems)}, text)


@corpus.command("export")
@click.argument("target", type=_FOLDER)
@_campaign
@pass_console
def export(console: Console, target: Path, campaign: str | None) -> None:
    """Write a campaign's corpus and reproducers into TARGET, in Echidna's format."""
    from tracedesk.fuzz import corpus_files
    from tracedesk.fuzz.desk import Campaigns
    from tracedesk.fuzz.settings import Fuzz

    folder = Campaigns(_home(console), Fuzz()).chosen(campaign)
    source = folder.corpus(folder.read_plan().config)
    count = corpus_files.copy(source, target)
    text = f"Wrote {count} sequences into {short_path(target.absolute())}."
    console.answer({"campaign": folder.id, "sequences": count, "folder": str(target.absolute())}, text)


# --- what the commands share --------------------------------------------------------------------


def _home(console: Console) -> Home:
    from tracedesk.home import Home

    return Home.open(console.settings().home)


def _configured(file: Path | None, keys: dict[str, Any], path: Path) -> Any:
    from tracedesk.fuzz.launch import configured

    return configured(file, keys, path)


def _refuse_foreign(config: Config, trusted: bool) -> None:
    """A configuration lies in the project it is about: running programs needs more than that file."""
    if config.allow_ffi and not trusted:
        raise Misuse("allowFFI: runs programs that the contract names; add --trust-project to allow that.")


def _limits(console: Console) -> Limits:
    from tracedesk.fuzz.settings import BadFuzzSetting, read

    try:
        return read(console.settings().tables.get("fuzz", {})).limits
    except BadFuzzSetting as fault:
        raise Misuse(str(fault)) from None


def _bench(console: Console, path: Path, contract: str | None, file: Path | None, trusted: bool) -> Bench:
    from tracedesk.cli.fuzz_child import go_on_in_a_child
    from tracedesk.fuzz.bench import Bench
    from tracedesk.fuzz.limits import Budget

    budget = Budget(_limits(console))
    go_on_in_a_child(budget)
    config: Config = _configured(file, {}, path).config
    _refuse_foreign(config, trusted)
    bench = Bench.compiled(path, contract, config, budget, trusted=trusted)
    bench.seconds = _LONGEST
    return bench


def _sequences(
    console: Console, bench: Bench, files: tuple[Path, ...]
) -> list[tuple[str, list[dict[str, Any]]]]:
    """What the files hold, as this contract is called; what is left out or strange is told."""
    from tracedesk.fuzz import corpus_files
    from tracedesk.fuzz.replay import loadable

    loaded = [corpus_files.load(file) for file in files]
    fit = loadable([each for one in loaded for each in one.named], bench.target, bench.engine)
    for problem in (*(problem for one in loaded for problem in one.problems), *fit.skipped):
        console.note(f"Skipped {problem}.")
    if not fit.sequences:
        raise _nothing_found(*files)
    if fit.is_foreign:
        raise Misuse(f"The sequences are of another contract: {fit.remark}. Name theirs with --contract.")
    if fit.remark is not None:
        console.note(f"Warning: {fit.remark}.")
    return list(fit.sequences)


def _nothing_found(*files: Path) -> Misuse:
    names = ", ".join(map(str, files))
    return Misuse(f"No sequence was found in {names}; name a file or a corpus folder in Echidna's format.")


def _replayed(
    console: Console, bench: Bench, sequences: list[tuple[str, list[dict[str, Any]]]], trace: bool
) -> list[tuple[str, dict[str, Any]]]:
    """What each sequence did; one that the core refuses is told by its file's name."""
    from tracedesk.errors import ToolError

    done: list[tuple[str, dict[str, Any]]] = []
    refused: list[str] = []
    for name, sequence in sequences:
        try:
            done.append((name, bench.run(sequence, trace, _ALL)))
        except ToolError as fault:
            refused.append(f"{name}: {fault.message}")
            console.note(f"Skipped {refused[-1]}")
    if not done:
        raise Failed(f"None of the sequences can be executed here; {refused[0]}")
    return done


def _first_failure(bench: Bench, sequence: list[dict[str, Any]]) -> str:
    failures = bench.run(sequence, False, _ALL)["failures"]
    if not failures:
        raise Failed("The sequence breaks no test of this contract.")
    return str(failures[0]["test"])


def _test_id(bench: Bench, name: str) -> str:
    return name if "." in name or " " in name else f"{bench.target.main.contract}.{name}"


def _replay_lines(replayed: list[tuple[str, dict[str, Any]]]) -> Generator[str]:
    from tracedesk.fuzz.result import because
    from tracedesk.fuzz.unsupported import words

    for name, outcome in replayed:
        yield name
        for row in outcome["transactions"]:
            reason = f": {because(row['reason'])}" if row.get("reason") else ""
            yield f"  {row['call']}  {row['status']}{reason}, gas {row['gasUsed']}"
        for line in outcome.get("trace", ()):
            yield f"    {line}"
        for failure in outcome["failures"]:
            yield f"  breaks {failure['test']} ({because(failure.get('reason') or '')})"
        for row in outcome.get("unsupported", ()):
            yield f"  cannot judge {row['test']}: {words(row['names'])} is not supported"


def _asked(console: Console, ask: Any) -> Any:
    from tracedesk.fuzz.desk import Campaigns
    from tracedesk.fuzz.settings import Fuzz

    async def main() -> Any:
        campaigns = Campaigns(_home(console), Fuzz())
        try:
            return await ask(campaigns)
        finally:
            await campaigns.close()

    return _now(main())


def _now(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _plain(document: Any) -> dict[str, Any]:
    """A tool's answer as the standard library has JSON."""
    import json

    from tracedesk.primitives.json import dumps

    return json.loads(dumps(document))
