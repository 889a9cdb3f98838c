"""The life of a campaign: its own process, its journal and files, and every way it can end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import ENDLESS, VAULT, Started, agent, lines, no_host_left, started, starting, vault
from tests.judges.size import Size
from tests.support import BOUND, run, until
from tracedesk.errors import ToolError
from tracedesk.fuzz import audit, corpus_files, diary
from tracedesk.fuzz.folder import KIND, Folder, folders
from tracedesk.fuzz.host import NICE
from tracedesk.fuzz.session import (
    HITS,
    KEEP,
    SHARE,
    WORKERS_NICE,
    Session,
    _Report,  # pyright: ignore[reportPrivateUsage]
)
from tracedesk.home import Home
from tracedesk.hosts import find
from tracedesk.journal import Journal, verify
from tracedesk.primitives.time import ManualClock


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    with no_host_left(tmp_path / "home"):
        yield tmp_path / "home"


def seen(
    home: Path, condition: Callable[[Any], bool], tool: str = "campaign_status", **arguments: Any
) -> Any:
    """What a tool says once it is as wanted."""

    async def main() -> Any:
        async with agent(home) as found:
            return await found.until(tool, condition, **arguments)

    return run(main())


def asked(home: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The answers of several tools, one after the other."""

    async def main() -> list[Any]:
        async with agent(home) as found:
            return [await found.call(tool, **arguments) for tool, arguments in calls]

    return run(main())


def on_disk(condition: Callable[[], bool]) -> None:
    """Wait, bounded, for what a campaign writes; reports rest a hundred times as long as the last took."""
    run(until(condition, 2 * BOUND))


def is_solved(answer: Any, name: str = "echidna_fee_is_not_13") -> bool:
    return any(test["name"] == name and test["status"] == "solved" for test in answer["tests"])


READS: list[tuple[str, dict[str, Any]]] = [
    ("read_logs", {"count": 2_500, "eventType": "PropertyFalsified"}),
    ("show_coverage", {}),
    ("get_corpus_size", {}),
    ("inspect_corpus_transactions", {"limit": 100}),
    ("find_transaction_in_corpus", {"functionSignature": "set_fee(uint256)"}),
    ("get_reproducers", {"test": "echidna_fee_is_not_13"}),
    ("target", {}),
]


# --- the process ---------------------------------------------------------------------------------


def test_a_campaign_outlives_the_desk_that_started_it_and_another_desk_steers_it(home: Path) -> None:
    source = vault(home.parent)

    async def begin() -> str:
        async with agent(home) as found:
            told = await found.call("start_campaign", path=str(source), workers=1, timeout=120)
            assert told["success"] is True
            assert told["tests"] == ["echidna_fee_is_not_13", "echidna_total_is_held", "echidna_stays_locked"]
            return told["campaign_id"]

    id = run(begin())
    status, told = asked(
        home, ("campaign_status", {}), ("prioritize_function", {"functionSignature": "fee()"})
    )
    assert (status["campaign_id"], status["state"]) == (id, "running")
    assert told["success"] is True


def test_a_campaign_survives_the_death_of_the_process_that_started_it(home: Path) -> None:
    source = vault(home.parent)
    code = (
        "import asyncio, os, signal, sys\n"
        "from tests.fuzz.desks import starting\n"
        "from pathlib import Path\n"
        f"asyncio.run(starting(Path({str(home)!r}), Path({str(source)!r})))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=BOUND, check=False)
    assert done.returncode == -signal.SIGKILL
    assert seen(home, is_solved)["state"] == "running"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how nice a thread is")
def test_the_host_is_nice_and_its_workers_are_nicer(home: Path) -> None:
    campaign = started(home, vault(home.parent), workers=2)
    seen(home, lambda answer: answer["calls"] > 0)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    tasks = Path(f"/proc/{campaign.info.pid}/task")
    nice: dict[str, int] = {}
    for task in tasks.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended since it was listed
            nice[(task / "comm").read_text().strip()] = os.getpriority(os.PRIO_PROCESS, int(task.name))
    workers = [value for name, value in nice.items() if name.startswith("fuzz-")]
    assert os.getpriority(os.PRIO_PROCESS, campaign.info.pid) == min(19, own + NICE)
    assert len(workers) == 2
    assert all(value == min(19, own + NICE + WORKERS_NICE) for value in workers)


# --- ends ----------------------------------------------------------------------------------------


def test_a_stopped_campaign_ends_in_good_order_and_answers_as_before(home: Path) -> None:
    campaign = started(home, vault(home.parent))
    seen(home, is_solved)
    [told] = asked(home, ("stop_campaign", {}))
    assert told == {
        "success": True,
        "message": "The campaign has ended.",
        "campaign_id": campaign.id,
        "state": "ended",
    }
    campaign.wait()
    assert diary.status(campaign.folder.journal, campaign.id) == "ended"
    [status, *_] = asked(home, ("campaign_status", {}))
    assert (status["state"], status["endReason"]) == ("ended", "it was told to stop")
    first, second = asked(home, *READS), asked(home, *READS)
    assert first == second
    assert first[2]["size"] == first[3]["total"] > 0


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"testLimit": 3_000}, "the limit of calls was reached"),
        ({"stopOnFail": True}, "a test failed, and stopOnFail is set"),
    ],
)
def test_a_campaign_ends_by_itself_and_says_why(home: Path, keys: dict[str, Any], reason: str) -> None:
    campaign = started(home, vault(home.parent), **keys)
    campaign.wait()
    [status] = asked(home, ("campaign_status", {}))
    assert (status["state"], status["endReason"]) == ("ended", reason)
    if "testLimit" in keys:
        assert status["calls"] == 3_000


def test_a_campaign_ends_when_its_time_is_over_counted_from_its_start(home: Path) -> None:
    # A busy machine may need more than the first of these to compile: then it says so, and begins nothing.
    tried = ((seconds, _in_time(home, seconds)) for seconds in (5, 20, 80))
    seconds, campaign = next((seconds, found) for seconds, found in tried if found is not None)
    campaign.wait()
    [status] = asked(home, ("campaign_status", {}))
    assert (status["state"], status["endReason"]) == ("ended", "the time was over")
    # The workers had what compiling and deploying left of it.
    assert 0 < status["elapsedSeconds"] < seconds


def _in_time(home: Path, seconds: int) -> Started | None:
    try:
        return started(home, vault(home.parent), timeout=seconds)
    except ToolError as refusal:
        if f"timeout: the {seconds} s of the campaign were over during" not in refusal.message:
            raise
        return None


def test_a_killed_host_leaves_a_campaign_that_reads_still_answer_on(home: Path) -> None:
    campaign = started(home, vault(home.parent))
    seen(home, is_solved)
    # State and coverage are written now and then: what is on the disk now was true a moment ago.
    on_disk(lambda: _has_solved(campaign) and json.loads(campaign.folder.coverage.read_bytes())["calls"] > 0)
    campaign.kill()
    answers = dict(zip((tool for tool, _ in READS), asked(home, *READS), strict=True))
    [falsified, *_] = answers["read_logs"]["events"][::-1]
    assert falsified["data"]["property"] == "echidna_fee_is_not_13"
    assert answers["get_corpus_size"]["size"] == answers["inspect_corpus_transactions"]["total"] > 0
    assert answers["get_reproducers"]["reproducers"][0]["calls"][-1]["call"] == "set_fee(13)"
    [status] = asked(home, ("campaign_status", {}))
    assert (status["state"], status["calls"] > 0) == ("crashed", True)
    assert diary.status(campaign.folder.journal, campaign.id) == "crashed"
    assert verify(campaign.folder.journal).is_sound


def test_a_killed_campaign_answers_with_the_coverage_it_had_a_moment_before_and_says_as_of_when(
    home: Path,
) -> None:
    campaign = started(home, vault(home.parent))
    live = seen(home, lambda answer: answer["overallCoverage"] > 50, "show_coverage")
    on_disk(
        lambda: json.loads(campaign.folder.coverage.read_bytes())["summary"]["linesHit"] >= live["linesHit"]
    )
    campaign.kill()
    shown, lcov, status = asked(home, ("show_coverage", {}), ("dump_lcov", {}), ("campaign_status", {}))
    assert shown["linesHit"] >= live["linesHit"]
    assert status["startedAt"] < shown["asOf"]
    assert shown["asOf"].endswith("Z")
    assert lcov.startswith("TN:as_of_20")
    assert status["startedAt"] < status["asOf"]


def test_reports_are_written_when_more_was_covered_and_rest_a_hundred_times_as_long_as_they_took() -> None:
    clock, written = ManualClock(), list[int]()
    session = Session.__new__(Session)  # with what its reports need, and no campaign
    session._clock, session._reported = clock, _Report()  # pyright: ignore[reportPrivateUsage]

    def write() -> None:
        written.append(round(clock.monotonic()))
        clock.advance(2.5 * KEEP / SHARE)

    session._write_reports = write  # pyright: ignore[reportPrivateUsage]
    for second in range(25):
        clock.advance(second * KEEP - clock.monotonic())
        points = min(second, 5)
        session._report_when_due({"coverage_points": points}, clock.monotonic())  # pyright: ignore[reportPrivateUsage]
    assert written == [0, 3, 6, 6 + HITS + 1]


def test_a_campaign_killed_before_it_wrote_its_coverage_does_not_call_it_zero(home: Path) -> None:
    campaign = started(home, vault(home.parent))
    seen(home, lambda answer: answer["calls"] > 0)
    campaign.kill()
    campaign.folder.write(campaign.folder.coverage, {"asOf": "", "calls": 0, "summary": {}})

    async def main() -> None:
        async with agent(home) as found:
            for tool in ("show_coverage", "dump_lcov"):
                error = await found.refused(tool)
                assert error["details"]["kind"] == "NO_REPORT"
                assert "was killed before" in error["message"]

    run(main())


def _has_solved(campaign: Started) -> bool:
    return is_solved(json.loads(campaign.folder.state.read_bytes())["status"])


def test_a_falsification_is_on_the_disk_when_it_can_be_read(home: Path) -> None:
    campaign = started(home, vault(home.parent))
    answer = seen(home, lambda a: bool(a["events"]), "read_logs", eventType="PropertyFalsified")
    os.kill(campaign.info.pid, signal.SIGKILL)
    seq = int(answer["events"][-1]["data"]["ref"].rpartition("/")[2])
    event = diary.event(campaign.folder.journal, campaign.id, seq)
    assert event is not None
    assert event.kind == "PropertyFalsified"


@pytest.mark.parametrize("way", ["ended", "killed"])
def test_a_campaign_that_has_ended_cannot_be_steered_and_says_so(home: Path, way: str) -> None:
    campaign = started(home, vault(home.parent), testLimit=2_000 if way == "ended" else ENDLESS)
    seen(home, lambda answer: answer["calls"] > 0)
    if way == "killed":
        campaign.kill()
    campaign.wait()
    injected, prioritized, cleared, avoided, sampled, stopped = asked(
        home,
        ("inject_transaction", {"sequence": ["deposit()"]}),
        ("prioritize_function", {"functionSignature": "deposit()"}),
        ("clear_priorities", {}),
        ("avoid_function", {"functionSignature": "deposit()"}),
        ("sample_function", {"functionSignature": "deposit()"}),
        ("stop_campaign", {}),
    )
    assert (injected["success"], injected["injectedCount"]) == (False, 0)
    assert "has ended" in injected["message"]
    assert (prioritized["success"], prioritized["prioritizedFunctions"]) == (False, [])
    assert (cleared["success"], cleared["clearedCount"]) == (False, 0)
    assert (avoided["success"], avoided["avoidedFunctions"]) == (False, [])
    assert sampled["function"] is None
    assert stopped["success"] is True


def test_commands_given_while_a_campaign_ends_are_applied_or_told_the_end(home: Path) -> None:
    campaign = started(home, vault(home.parent), testLimit=20_000)

    async def main() -> list[bool]:
        told: list[bool] = []
        async with agent(home) as found, asyncio.timeout(2 * BOUND):
            while not told or told[-1]:
                told.append((await found.call("inject_transaction", sequence=["deposit()"]))["success"])
        return told

    told = run(main())
    assert told[-1] is False
    record = campaign.folder.path / "corpus" / "mcp-commands.jsonl"
    assert len(lines(record)) == told.count(True)


def test_sequences_are_executed_on_an_ended_campaign_too(home: Path) -> None:
    started(home, vault(home.parent), testLimit=2_000).wait()
    [told] = asked(home, ("execute_sequence", {"sequence": ["set_fee(13)"], "trace": True}))
    assert told["transactions"][0]["status"] == "success"
    assert told["failures"][0]["test"] == "Vault.echidna_fee_is_not_13"


def test_a_host_that_is_told_to_end_by_a_signal_seals_its_campaign(home: Path) -> None:
    campaign = started(home, vault(home.parent))
    seen(home, lambda answer: answer["calls"] > 0)
    os.kill(campaign.info.pid, signal.SIGTERM)
    campaign.wait()
    assert diary.status(campaign.folder.journal, campaign.id) == "ended"
    [status] = asked(home, ("campaign_status", {}))
    assert (status["state"], status["endReason"]) == ("ended", "it was told to stop")


def test_a_campaign_that_is_being_prepared_is_not_meant_and_not_taken_for_dead(home: Path) -> None:
    done = started(home, vault(home.parent), testLimit=500)
    done.wait()
    preparing = Folder(Home(home).campaign("vault-preparing"))
    preparing.path.mkdir()
    preparing.write(preparing.plan, done.folder.read_plan().document())
    preparing.own()
    diary.Diary(preparing.journal, preparing.id, {}).close()
    [status] = asked(home, ("campaign_status", {}))
    assert status["campaign_id"] == done.id
    assert diary.status(preparing.journal, preparing.id) == "running"


def test_events_that_were_pruned_are_gone_and_the_rest_still_answers(home: Path) -> None:
    campaign = started(home, vault(home.parent), testLimit=2_000)
    campaign.wait()
    with Journal(campaign.folder.journal) as journal:
        journal.prune(campaign.id)
    logs, status = asked(home, ("read_logs", {}), ("campaign_status", {}))
    assert logs == {"events": [], "totalCount": 0}
    assert status["state"] == "ended"


@pytest.mark.judge
@pytest.mark.timeout(600)
def test_many_campaigns_are_started_and_stopped_without_a_leak_or_a_hang(home: Path, size: Size) -> None:
    source = vault(home.parent)

    async def main() -> None:
        async with agent(home) as found:
            for number in range(size.of(judge=50, prove=300)):
                before = len(os.listdir("/proc/self/fd"))
                id = (await found.call("start_campaign", path=str(source), workers=2))["campaign_id"]
                assert (await found.call("stop_campaign", campaign_id=id))["success"] is True
                await found.until("campaign_status", lambda a: a["state"] == "ended", campaign_id=id)
                if number > 10:
                    assert len(os.listdir("/proc/self/fd")) <= before + 4

    asyncio.run(asyncio.wait_for(main(), size.of(judge=550, prove=6_000)))
    assert find(home, KIND) == []


# --- beginnings that fail ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "keys", "kind", "word"),
    [
        ("def f(:\n", {}, None, "does not compile"),
        (VAULT.replace("echidna_", "check_"), {}, "NO_TESTS", "echidna_"),
        (VAULT, {"testMode": "optimization"}, "NO_TESTS", "int256"),
        (
            '# pragma version ~=0.4.0\n@deploy\ndef __init__():\n    raise "never"\n@external\n@view\n'
            "def echidna_x() -> bool:\n    return True\n",
            {},
            "DEPLOYMENT_FAILED",
            "never",
        ),
        (
            "# pragma version ~=0.4.0\nx: uint256\n@deploy\ndef __init__(a: uint256):\n    self.x = a\n"
            "@external\n@view\ndef echidna_x() -> bool:\n    return True\n",
            {},
            "CONSTRUCTOR_ARGUMENTS",
            "constructorArgs",
        ),
    ],
)
def test_a_campaign_that_cannot_begin_is_refused_and_leaves_nothing(
    home: Path, text: str, keys: dict[str, Any], kind: str | None, word: str
) -> None:
    source = vault(home.parent)
    source.write_text(text)
    with pytest.raises(ToolError) as refusal:
        started(home, source, **keys)
    assert refusal.value.code == "INVALID_INPUT"
    assert word in refusal.value.message
    if kind is not None:
        assert (refusal.value.details or {})["kind"] == kind
    assert folders(Home(home)) == []
    assert find(home, KIND) == []


def test_constructor_arguments_are_given_as_text(home: Path) -> None:
    source = vault(home.parent)
    source.write_text(
        "# pragma version ~=0.4.0\nx: public(uint256)\n@deploy\ndef __init__(a: uint256, b: String[9]):\n"
        "    self.x = a + len(b)\n@external\n@view\ndef echidna_x() -> bool:\n    return self.x == 45\n"
    )
    campaign = started(home, source, testLimit=500, constructorArgs='42, "a)b"')
    campaign.wait()
    [status] = asked(home, ("campaign_status", {}))
    assert status["tests"][0]["status"] == "passed"


# --- which one is meant --------------------------------------------------------------------------


def test_without_a_campaign_every_tool_says_what_to_do(home: Path) -> None:
    async def main() -> None:
        async with agent(home) as found:
            for tool, arguments in READS:
                error = await found.refused(tool, **arguments)
                assert (error["code"], error["details"]["kind"]) == ("INVALID_INPUT", "NO_CAMPAIGN")
                assert "start_campaign" in error["message"]
            error = await found.refused("inject_transaction", sequence=["f()"])
            assert error["details"]["kind"] == "NO_CAMPAIGN"

    run(main())


def test_the_running_campaign_is_meant_before_a_newer_one_that_ended(home: Path) -> None:
    source = vault(home.parent)
    running = started(home, source)
    ended = started(home, source, testLimit=500)
    ended.wait()
    default, named = asked(home, ("campaign_status", {}), ("campaign_status", {"campaign_id": ended.id}))
    assert (default["campaign_id"], named["campaign_id"]) == (running.id, ended.id)
    running.kill()
    [latest] = asked(home, ("campaign_status", {}))
    assert latest["campaign_id"] == ended.id, "the latest"

    async def main() -> None:
        async with agent(home) as found:
            for id in ("nothing", "../escape", ""):
                error = await found.refused("campaign_status", campaign_id=id)
                assert error["details"]["kind"] == "NO_CAMPAIGN"
                assert ended.id in error["message"]

    run(main())


# --- what an agent may ask -----------------------------------------------------------------------


def test_a_relative_corpus_folder_of_an_agent_is_the_one_below_the_roots(home: Path) -> None:
    source = vault(home.parent)

    async def main() -> str:
        async with agent(home) as found:
            folders = {"corpusDir": "kept", "coverageDir": "covered", "testLimit": 500}
            told = await found.call("start_campaign", path=str(source), workers=1, options=folders)
            await found.until("campaign_status", lambda answer: answer["state"] == "ended")
            return told["campaign_id"]

    plan = Folder(Home(home).campaign(run(main()))).read_plan()
    assert plan.config.corpus_dir == str(home.parent / "kept")
    assert list((home.parent / "kept" / "coverage").glob("*.txt"))
    assert list((home.parent / "covered").glob("covered.*"))
    assert not (home / "kept").exists()
    assert not (home / "covered").exists()


def test_a_campaign_of_an_agent_trusts_no_project_and_reads_below_the_roots_alone(home: Path) -> None:
    source = vault(home.parent / "roots")
    (home.parent / "secret.vy").write_text("# pragma version ~=0.4.0\nSECRET: constant(uint256) = 5\n")
    (home.parent / "roots" / "secret.vy").symlink_to(home.parent / "secret.vy")

    async def main() -> tuple[str, dict[str, Any]]:
        async with agent(home, home.parent / "roots") as found:
            told = await found.call("start_campaign", path=str(source), workers=1)
            source.write_text(VAULT.replace("balances:", "import secret\nbalances:", 1))
            return told["campaign_id"], await found.refused("start_campaign", path=str(source), workers=1)

    id, error = run(main())
    plan = Folder(Home(home).campaign(id)).read_plan()
    assert (plan.trusted, plan.within) == (False, (str(home.parent / "roots"),))
    assert error["details"]["kind"] == "OUTSIDE"


# --- what is kept --------------------------------------------------------------------------------


def test_the_corpus_is_kept_in_echidnas_format_and_a_later_campaign_begins_with_it(home: Path) -> None:
    corpus = home.parent / "corpus"
    first = started(home, vault(home.parent), testLimit=5_000, corpusDir=str(corpus))
    first.wait()
    loaded = corpus_files.load(corpus)
    assert loaded.problems == ()
    assert {name.partition("/")[0] for name in loaded.files} >= {"reproducers", "coverage"}
    reproducer = corpus_files.read(next((corpus / "reproducers").glob("*.txt")).read_bytes())
    assert reproducer[-1]["call"] == {"name": "set_fee", "types": ["uint256"], "args": ["13"]}
    second = started(home, vault(home.parent), corpusDir=str(corpus), seed=99)
    size, found = asked(
        home,
        ("get_corpus_size", {}),
        ("find_transaction_in_corpus", {"functionSignature": "set_fee(uint256)"}),
    )
    assert size["sequences"] >= len(loaded.sequences)
    assert any(row["call"] == "set_fee(13)" for row in found["matches"])
    assert second.folder.corpus(second.folder.read_plan().config) == corpus
    names = {file.name for file in corpus.glob("covered.*")}
    assert names == {"covered.7.txt", "covered.7.html", "covered.7.lcov"}


def test_what_a_corpus_holds_that_cannot_be_run_is_told_and_the_rest_is_used(home: Path) -> None:
    corpus = home.parent / "corpus"
    call = {"name": "set_fee", "types": ["uint256"], "args": ["13"]}
    tx = {
        "to": "0x00a329c0648769a73afac7f9381e08fb43dbea72",
        "from": "0x0000000000000000000000000000000000010000",
        "value": "0",
        "gas": 12_500_000,
        "gas_price": "0",
        "delay": [5, 1],
        "call": call,
    }
    for made in (call, None, {"data": "0xdeadbeef"}, {"name": "gone", "types": ["bool"], "args": [True]}):
        corpus_files.save(corpus, "coverage", [{**tx, "call": made}])
    corpus_files.save(corpus, "coverage", [{**tx, "call": {"create": "0x00"}}])
    (corpus / "coverage" / "bad.txt").write_text("nonsense")
    started(home, vault(home.parent), corpusDir=str(corpus), testLimit=2_000).wait()
    status, found = asked(home, ("campaign_status", {}), ("inspect_corpus_transactions", {"limit": 4}))
    assert status["warnings"] == [
        "corpus: 2 sequences were left out; first «coverage/bad.txt: not JSON: "
        "Expecting value: line 1 column 1 (char 0)».",
        "corpus: no contract has gone(bool); such calls are made as bare data.",
    ]
    calls = sorted(row["call"] for row in found["transactions"])
    assert {"set_fee(13)", "0xdeadbeef", "*wait*"} <= set(calls)
    assert all(row["delay"] == [5, 1] for row in found["transactions"])


def test_one_seed_and_one_worker_give_the_same_reproducers_twice(home: Path) -> None:
    outcomes: list[Any] = []
    for _ in range(2):
        campaign = started(home, vault(home.parent), testLimit=20_000, seed=5)
        campaign.wait()
        arguments = {"campaign_id": campaign.id}
        [found, size] = asked(home, ("get_reproducers", arguments), ("get_corpus_size", arguments))
        outcomes.append(([row["calls"] for row in found["reproducers"]], size))
    assert outcomes[0] == outcomes[1]


def test_commands_are_in_the_audit_log_with_counters_and_in_the_journal_with_their_call(home: Path) -> None:
    campaign = started(home, vault(home.parent), workers=2)
    seen(home, lambda answer: all(worker["calls"] for worker in answer["workers"]))
    asked(
        home,
        ("inject_transaction", {"sequence": ["deposit()", "set_fee(?)"], "value": "5"}),
        ("prioritize_function", {"functionSignature": "deposit()"}),
        ("clear_priorities", {}),
        ("avoid_function", {"functionSignature": "fee()"}),
    )
    path = campaign.folder.path / "corpus" / "mcp-commands.jsonl"
    written = lines(path)
    assert [line["tool"] for line in written] == list(audit.COMMANDS)
    assert written[0]["args"]["sequence"] == ["deposit()", "set_fee(?)"]
    assert written[0]["result"]["injectedCount"] == 2
    assert all(len(line["counters"]) == 2 and all(line["counters"]) for line in written)
    assert [command.seed for command in audit.read(path)] == [7] * 4
    asked(home, ("stop_campaign", {}))
    campaign.wait()
    events = diary.newest(campaign.folder.journal, campaign.id, 10_000)
    commands = [(event.seq, json.loads(event.body)) for event in events if event.kind == "Command"]
    assert [body["tool"] for _, body in commands] == list(audit.COMMANDS)
    source = diary.source(campaign.folder.journal, campaign.id, commands[0][0], "x")
    assert source is not None
    assert [edge.relation for edge in source.edges] == ["campaign", "call"]


def _commanded(home: Path, calls: int) -> tuple[Started, dict[str, Any], Path]:
    """A campaign of so many calls that was given four commands, its keys, and the record of the commands."""
    keys: dict[str, Any] = {"testLimit": calls, "seed": 11, "timeout": 3_600}
    campaign = started(home, vault(home.parent), **keys)
    asked(
        home,
        ("inject_transaction", {"sequence": ["deposit()", "withdraw(1)"], "value": "77"}),
        ("prioritize_function", {"functionSignature": "withdraw(uint256)"}),
        ("avoid_function", {"functionSignature": "fee()"}),
        ("clear_priorities", {}),
    )
    campaign.wait(250)
    return campaign, keys, campaign.folder.path / "corpus" / "mcp-commands.jsonl"


def _all_came(record: Path) -> bool:
    """Whether each command came while the campaign was still running."""
    commands = lines(record) if record.exists() else []
    return len(commands) == 4 and all(line["counters"][0] is not None for line in commands)


@pytest.mark.timeout(600)
def test_recorded_commands_given_again_give_the_same_corpus(home: Path) -> None:
    # A fast machine may have made the first of these many calls before the last command comes.
    tried = (_commanded(home, calls) for calls in (500_000, 5_000_000, 50_000_000))
    first, keys, record = next(found for found in tried if _all_came(found[2]))
    commands = lines(record)
    second = started(home, vault(home.parent), replay=record, **keys)
    second.wait(250)
    again = lines(second.folder.path / "corpus" / "mcp-commands.jsonl")
    shown = ("tool", "args", "counters", "seed")
    assert [[line[key] for key in shown] for line in again] == [
        [line[key] for key in shown] for line in commands
    ]
    one, two = (lines(campaign.folder.rows) for campaign in (first, second))
    assert any(row["value"] == "77" and row.get("injected") for row in one)
    assert one == two


def test_commands_for_another_number_of_workers_are_refused(home: Path) -> None:
    log = audit.AuditLog(home.parent)
    log.add("clear_priorities", {}, {"success": True}, [5, 5])
    log.close()
    with pytest.raises(ToolError, match="set workers to 2"):
        started(home, vault(home.parent), workers=1, replay=log.path)


def test_two_campaigns_of_one_home_run_side_by_side(home: Path) -> None:
    async def both() -> list[Started]:
        source = vault(home.parent)
        return list(await asyncio.gather(starting(home, source), starting(home, source)))

    for campaign in asyncio.run(both()):
        [status] = asked(home, ("campaign_status", {"campaign_id": campaign.id}))
        assert (status["campaign_id"], status["state"]) == (campaign.id, "running")
