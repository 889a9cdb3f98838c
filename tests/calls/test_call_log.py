"""Call records: kept for ever, redacted first, and on the disk before a change is answered."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.probe import CHANGES, READS
from tests.support import BOUND, ROOT, Client, desk_client, modern, rpc, run, until
from tracedesk.calls import CallLog, RecordError
from tracedesk.calls.history import after, newest
from tracedesk.calls.log import find, month, prepare
from tracedesk.calls.record import INLINE, LARGEST_ARGUMENTS
from tracedesk.contract import Call, Tool
from tracedesk.errors import STANDARD
from tracedesk.journal import Journal, Reader, verify
from tracedesk.journal.append import Transaction
from tracedesk.payloads import Payloads
from tracedesk.primitives import supervision
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import ManualClock, parse


async def _nothing(args: Any, call: Any) -> None: ...


def _tool(*, changes: bool = False) -> Tool:
    return Tool(
        name="change" if changes else "look",
        toolset="probe",
        description="For the log's tests.",
        input={"type": "object"},
        output=None,
        annotations=CHANGES if changes else READS,
        scope="write" if changes else "read",
        family=STANDARD,
        deadline=1.0,
        handler=_nothing,
    )


def _call(attempt: str | None = None) -> Call[None]:
    missing: Any = None
    return Call(uuid7(), "stdio:1", None, 0.0, None, missing, missing, attempt)


class Desk:
    """A call log with its parts at hand."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(parse("2026-11-15T12:00:00Z").ns)
        self.secrets = Secrets()
        self.payloads = Payloads(folder / "payloads")
        self.log = CallLog(folder / "trace.db", self.clock, self.secrets, self.payloads)

    def record(self, arguments: Any = None, result: bytes = b"{}", attempt: str | None = None) -> str:
        call = _call(attempt)
        record = self.log.open(call, _tool(), arguments)
        self.log.close(record, "ok", None, result, 5)
        return call.id

    def stored(self) -> list[dict[str, Any]]:
        self.log.stop()
        with Reader(self.log.path) as reader:
            return [call.body for call in newest(reader, 10_000)]


def test_records_outlive_the_process_and_verify(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    ids = [desk.record({"n": n}) for n in range(100)]
    assert [body["id"] for body in desk.stored()] == ids
    report = verify(desk.log.path)
    assert report.is_sound
    assert report.events == 100


def test_large_answers_that_wait_for_the_writer_have_a_bound_and_strangers_meet_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    go, put = threading.Event(), desk.payloads.put

    def held(body: bytes) -> object:
        assert go.wait(BOUND)
        return put(body)

    monkeypatch.setattr(desk.payloads, "put", held)
    answer = bytes(1 << 20)

    def fill(*, stranger: bool) -> int:
        """Megabytes that are taken before a call must wait."""
        taken = 0
        while not desk.log.is_full(stranger=stranger):
            desk.record(result=answer)
            taken += 1
        return taken

    assert fill(stranger=True) <= 4
    assert 8 <= fill(stranger=False) <= 12

    async def main() -> None:
        waiting = asyncio.ensure_future(desk.log.room(stranger=True))
        await asyncio.sleep(0)
        assert not waiting.done()
        go.set()
        await asyncio.wait_for(waiting, BOUND)

    run(main())
    assert len(desk.stored()) <= 16
    assert not desk.log.is_full(stranger=True)


def test_a_call_that_changes_state_is_on_the_disk_before_its_answer(tmp_path: Path) -> None:
    async def main() -> None:
        desk = Desk(tmp_path)
        call = _call()
        record = desk.log.open(call, _tool(changes=True), {})
        desk.log.close(record, "ok", None, b"{}", 1)
        await desk.log.settle(record)
        with Reader(desk.log.path) as reader:
            assert find(reader, call.id) is not None
        desk.log.stop()

    run(main())


def test_a_change_answered_over_the_wire_survives_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fixtures.serve", "stdio", str(tmp_path), "probe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(20):
        process.stdin.write(json.dumps(modern("tools/call", {"name": "touch"}, number)).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == number
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with Reader(tmp_path / "trace.db") as reader:
        assert [call.body["tool"] for call in newest(reader, 100)] == ["touch"] * 20
    assert verify(tmp_path / "trace.db").is_sound


def test_a_change_whose_record_cannot_be_written_is_not_answered_as_done(tmp_path: Path) -> None:
    (tmp_path / "trace.db").mkdir()

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            error = (await client.authorised().call("touch")).envelope["error"]
            assert error["code"] == "DATABASE_ERROR"
            assert "its record could not be written" in error["message"]
            assert (await client.call("say")).status == 200
            await until(lambda: client.desk.calls.unwritten >= 2)
            status = (await client.call("desk_status")).structured
            assert status["calls"]["unwritten"] >= 2

    run(main())


def test_a_refusal_is_told_also_when_its_record_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "trace.db").mkdir()

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.authorised().call("touch", {"extra": 1})
            assert reply.envelope["error"]["code"] == "INVALID_PARAMETER"
            assert "tracedesk/call" not in reply.json["result"].get("_meta", {}), "no record, no reference"

    run(main())


def test_secrets_in_arguments_are_redacted_before_anything_is_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.secrets.add("canary-credential-1")
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    desk.record({"note": f"use {key}", "password": "hunter2", "other": "canary-credential-1 here"})
    desk.record({"plain": "text"})
    stored = desk.stored()
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("trace.db*"))
    for secret in (key, "hunter2", "canary-credential-1"):
        assert secret.encode() not in raw
    assert stored[1]["arguments"] == {"plain": "text"}


def test_a_registered_secret_is_not_kept_however_short_the_argument_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.secrets.add("hunter2", "login")
    desk.record({"n": 1, "text": "hunter2"})
    desk.record({"n": 2, "text": "other"})
    first, second = desk.stored()
    assert first["arguments"]["n"] == 1
    assert first["arguments"]["text"].startswith("[redacted:login:")
    assert second["arguments"] == {"n": 2, "text": "other"}


def test_an_ended_call_no_longer_holds_its_arguments(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    record = desk.log.open(_call(), _tool(), {"password": "hunter2"})
    desk.log.close(record, "ok", None, b"", 1)
    assert record.arguments is None
    desk.log.stop()


def test_arguments_too_large_to_keep_are_counted_only(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.record({"text": "x" * LARGEST_ARGUMENTS})
    assert desk.stored()[0]["arguments"] == {
        "omitted": "too large to keep",
        "bytes": LARGEST_ARGUMENTS + len('{"text":""}'),
    }


def test_a_large_result_is_a_payload_of_its_own_and_a_small_one_stays_in_the_record(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    large = json.dumps({"rows": ["x" * 50] * 100}).encode()
    small = b'{"price":1.10}'
    assert len(large) > INLINE
    first, second = desk.record({}, large), desk.record({}, small)
    desk.log.stop()
    with Reader(desk.log.path) as reader:
        source = find(reader, first)
        assert source is not None
        assert [edge.relation for edge in source.edges] == ["result"]
        assert desk.payloads.get(source.edges[0].ref.removeprefix("tracedesk://payloads/")) == large
        inline = find(reader, second)
        assert inline is not None
        assert inline.body["result"]["text"] == small.decode()


def test_a_result_that_is_not_text_is_a_payload_whatever_its_size(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    call = desk.record({}, b"\x89PNG\xff")
    desk.log.stop()
    with Reader(desk.log.path) as reader:
        source = find(reader, call)
        assert source is not None
        assert desk.payloads.get(source.edges[0].ref.removeprefix("tracedesk://payloads/")) == b"\x89PNG\xff"


def test_a_result_that_cites_its_sources_has_edges_to_them(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    call = desk.record({}, b'{"quotes":[],"source_refs":["q1","tracedesk://probe/chain/3"]}')
    desk.log.stop()
    with Reader(desk.log.path) as reader:
        source = find(reader, call)
        assert source is not None
        assert [(e.relation, e.ref) for e in source.edges] == [
            ("cites", "q1"),
            ("cites", "tracedesk://probe/chain/3"),
        ]


def test_calls_are_found_by_attempt(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    ids = [desk.record({}, attempt=name) for name in ("a", "b", "a")]
    desk.log.stop()
    with Reader(desk.log.path) as reader:
        assert [call.body["id"] for call in newest(reader, 10, "a")] == [ids[0], ids[2]]


@given(
    names=st.lists(st.sampled_from("ab-"), min_size=1, max_size=12),
    groups=st.integers(1, 4),
    count=st.integers(1, 6),
)
def test_the_newest_and_the_later_calls_of_an_attempt_are_those_that_were_made(
    names: list[str], groups: int, count: int
) -> None:
    with TemporaryDirectory() as folder:
        made: dict[str, list[str]] = {"a": [], "b": []}
        for part in range(groups):
            desk = Desk(Path(folder))
            for name in names[part::groups]:
                made.setdefault(name, []).append(desk.record({}, attempt=name))
            desk.log.stop()
        with Reader(Path(folder) / "trace.db") as reader:
            for name in "ab":
                calls = newest(reader, 100, name)
                assert [call.body["id"] for call in calls] == made[name]
                assert newest(reader, count, name) == calls[-count:]
                for at, call in enumerate(calls):
                    assert after(reader, call.event, name) == calls[at + 1 :]


def test_calls_that_an_older_desk_indexed_one_by_one_are_found_among_those_of_a_newer_one(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    ids = [desk.record({}, attempt=name) for name in ("a", "b", "a")]
    desk.log.stop()
    with Journal(desk.log.path) as journal, journal.connection:
        journal.connection.execute(
            "CREATE TABLE attempt_index(attempt TEXT, event INTEGER, PRIMARY KEY(attempt, event))"
        )
        journal.connection.execute(
            "INSERT INTO attempt_index SELECT attempt, event FROM attempt_run; DROP TABLE attempt_run"
        )
    with Reader(desk.log.path) as reader:
        assert [call.body["id"] for call in newest(reader, 10, "a")] == [ids[0], ids[2]]
    desk = Desk(tmp_path)
    ids += [desk.record({}, attempt="a") for _ in range(2)]
    desk.log.stop()
    with Reader(desk.log.path) as reader:
        calls = newest(reader, 10, "a")
        assert [call.body["id"] for call in calls] == [ids[0], *ids[2:]]
        assert newest(reader, 3, "a") == after(reader, calls[0].event, "a") == calls[1:]


def test_a_call_stored_with_its_effect_is_found_by_id_and_by_attempt(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    call = _call("a")
    record = desk.log.open(call, _tool(changes=True), {"n": 1})
    with Journal(desk.log.path, desk.clock) as journal:
        prepare(journal)
        with Transaction(journal.connection):
            desk.log.store(journal, record, b"{}")
    record.stored = True
    desk.log.close(record, "ok", None, b"{}", 5)
    others = [desk.record({}, attempt=name) for name in ("a", "b")]
    desk.log.stop()
    with Reader(desk.log.path) as reader:
        assert [found.body["id"] for found in newest(reader, 10, "a")] == [call.id, others[0]]
        assert find(reader, call.id) is not None
        assert find(reader, others[1]) is not None
    assert verify(desk.log.path).is_sound


def test_a_month_ends_with_its_last_nanosecond() -> None:
    end = parse("2026-12-01T00:00:00Z").ns
    assert [month(end - 1), month(end)] == ["calls-2026-11", "calls-2026-12"]


def test_calls_without_a_named_attempt_belong_to_their_scope(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    ids = [desk.record(), desk.record(attempt="a"), desk.record()]
    desk.log.stop()
    with Reader(desk.log.path) as reader:
        assert [call.body["id"] for call in newest(reader, 10, "stdio:1")] == [ids[0], ids[2]]


def test_a_sessions_id_is_not_in_its_records(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            assert session.session is not None
            await session.post("/mcp", rpc("tools/call", {"name": "say"}))
            await _written(client)
            named.append(session.session.encode())

    named: list[bytes] = []
    run(main())
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("trace.db*"))
    assert b"session:" in raw
    assert named[0] not in raw


def _two_months(folder: Path, later: str) -> Path:
    """The log of a call in November and one at a later time."""
    desk = Desk(folder)
    desk.record()
    desk.log.stop()
    desk.clock.set(parse(later).ns)
    again = CallLog(desk.log.path, desk.clock, desk.secrets, desk.payloads)
    record = again.open(_call(), _tool(), {})
    again.close(record, "ok", None, b"", 1)
    again.stop()
    return desk.log.path


def test_each_month_has_its_own_stream(tmp_path: Path) -> None:
    with Reader(_two_months(tmp_path, "2026-12-01T12:00:00Z")) as reader:
        assert [stream.name for stream in reader.streams()] == ["calls-2026-11", "calls-2026-12"]
        assert reader.seal("calls-2026-11") is None


def test_a_past_month_is_sealed_a_day_after_its_end(tmp_path: Path) -> None:
    with Reader(_two_months(tmp_path, "2026-12-02T00:00:01Z")) as reader:
        assert reader.seal("calls-2026-11") is not None
        assert reader.seal("calls-2026-12") is None


def test_several_desks_of_one_home_write_one_trace(tmp_path: Path) -> None:
    logs = [Desk(tmp_path) for _ in range(4)]
    for number in range(50):
        logs[number % 4].record({"n": number})
    for desk in logs:
        desk.log.stop()
    report = verify(tmp_path / "trace.db")
    assert report.is_sound
    assert report.events == 50


def test_a_call_is_found_while_it_runs_and_after(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            running = asyncio.create_task(_hang(session))
            await until(lambda: client.desk.dispatch.in_flight == 1)
            identity = next(iter(client.desk.calls._pending))  # pyright: ignore[reportPrivateUsage]
            source = (await client.call("get_source", {"ref": identity})).structured
            assert source["body"]["outcome"] == "running"
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
            await session.post("/mcp", note)
            await running
            client.desk.calls.stop()
            done = (await client.call("get_source", {"ref": f"tracedesk://calls/{identity}"})).structured
            assert done["body"]["outcome"] == "cancelled"

    run(main())


async def _hang(session: Client) -> None:
    await session.post("/mcp", rpc("tools/call", {"name": "wait_for_release"}, 5))


def test_what_a_handler_cites_is_in_the_record_and_trace_follows_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            result = (await client.call("send_linked")).json["result"]
            ref = result["_meta"]["tracedesk/call"]
            for _ in range(2):  # while it waits to be written, and after
                source = (await client.call("get_source", {"ref": ref})).structured
                assert source["edges"] == [{"relation": "priced_by", "ref": "tracedesk://probe/chain/2"}]
                assert "edges" not in source["body"]
                await _written(client)
            walked = (await client.call("trace", {"ref": ref})).structured
            assert [node["kind"] for node in walked["nodes"]] == ["call", "quote", "file"]

    run(main())


def test_trace_walks_from_a_call_to_what_it_cites(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            await client.call("cite", {"refs": ["tracedesk://probe/chain/3"]})
            with Reader(await _written(client)) as reader:
                identity = newest(reader, 1)[0].body["id"]
            walked = (await client.call("trace", {"ref": identity})).structured
            assert [node["kind"] for node in walked["nodes"]] == ["call", "trade", "quote", "file"]

    run(main())


async def _written(client: Client) -> Path:
    calls = client.desk.calls
    await until(lambda: calls.path.exists() and not calls._pending)  # pyright: ignore[reportPrivateUsage]
    return calls.path


def test_a_payload_is_readable_as_a_resource(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            await client.call("list_rows", {"limit": 5})
            with Reader(await _written(client)) as reader:
                digest = newest(reader, 1)[0].body["result"]["sha256"]
            reply = await client.modern("resources/read", {"uri": f"tracedesk://payloads/{digest}"})
            found = json.loads(reply.json["result"]["contents"][0]["text"])
            assert len(found["body"]["rows"]) == 5

    run(main())


@pytest.mark.parametrize("name", ["", "x", "..", "0" * 63, "G" * 64, "0" * 64])
def test_an_invented_payload_name_finds_nothing(tmp_path: Path, name: str) -> None:
    assert Payloads(tmp_path).get(name) is None


def test_a_payload_that_was_changed_is_not_returned(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path)
    name = payloads.put(b"what was said")
    assert name is not None
    place = next(tmp_path.glob("??/*"))
    place.write_bytes(b"what was not")
    assert payloads.get(name) is None


def test_payloads_keep_to_their_caps_and_the_record_still_has_the_digest(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path, largest=10, all=15)
    assert payloads.put(b"x" * 11) is None
    assert payloads.put(b"x" * 10) is not None
    assert payloads.put(b"y" * 10) is None
    assert Payloads(tmp_path, largest=10, all=15).used() == 10


# --- what nobody foresaw


class _Broken(Payloads):
    """Payloads that fail as if no memory were left, until they are mended."""

    is_broken = True

    def put(self, body: bytes, *, must: bool = False) -> str | None:
        if self.is_broken:
            raise MemoryError
        return super().put(body, must=must)


LARGE = b'"' + b"x" * INLINE + b'"'


def test_a_failure_nobody_foresaw_answers_the_waiting_call_and_the_log_goes_on(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    payloads = desk.log._payloads = _Broken(tmp_path / "payloads")  # pyright: ignore[reportPrivateUsage]

    async def main() -> None:
        async def end(result: bytes) -> None:
            record = desk.log.open(_call(), _tool(changes=True), {})
            desk.log.close(record, "ok", None, result, 1)
            await asyncio.wait_for(desk.log.settle(record), BOUND)

        with pytest.raises(RecordError, match="MemoryError"):
            await end(LARGE)
        assert desk.log.unwritten == 1
        assert supervision.reasons()["call log"] == "MemoryError"
        payloads.is_broken = False
        await end(LARGE)
        assert "call log" not in supervision.reasons()

    run(main())
    assert len(desk.stored()) == 1


def test_one_record_that_cannot_be_written_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.log._payloads = _Broken(tmp_path / "payloads")  # pyright: ignore[reportPrivateUsage]

    async def main() -> None:
        calls = [desk.log.open(_call(), _tool(changes=True), {"n": n}) for n in range(5)]
        for number, record in enumerate(calls):
            desk.log.close(record, "ok", None, LARGE if number == 2 else b"{}", 1)
        ends = await asyncio.gather(*map(desk.log.settle, calls), return_exceptions=True)
        assert [type(end) for end in ends] == [type(None)] * 2 + [RecordError] + [type(None)] * 2

    run(main())
    assert [call["arguments"]["n"] for call in desk.stored()] == [0, 1, 3, 4]


class Panic(BaseException):
    """Stand-in for a panic of native code, which is no `Exception`."""


def test_a_panic_over_one_record_loses_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    commit = desk.log._commit  # pyright: ignore[reportPrivateUsage]

    def panicking(records: Any) -> None:
        if any(record.result == LARGE for record in records):
            raise Panic
        commit(records)

    monkeypatch.setattr(desk.log, "_commit", panicking)

    async def main() -> None:
        calls = [desk.log.open(_call(), _tool(changes=True), {"n": n}) for n in range(5)]
        for number, record in enumerate(calls):
            desk.log.close(record, "ok", None, LARGE if number == 2 else b"{}", 1)
        waiting = asyncio.gather(*map(desk.log.settle, calls), return_exceptions=True)
        ends = await asyncio.wait_for(waiting, 20)
        assert [type(end) for end in ends] == [type(None)] * 2 + [RecordError] + [type(None)] * 2

    run(main())
    assert [call["arguments"]["n"] for call in desk.stored()] == [0, 1, 3, 4]


@pytest.mark.parametrize("part", ["report", "_close_journal", "_lose"])
def test_a_failure_while_a_failure_is_handled_leaves_no_call_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    desk = Desk(tmp_path)
    payloads = desk.log._payloads = _Broken(tmp_path / "payloads")  # pyright: ignore[reportPrivateUsage]
    holder = desk.log._writer if part == "report" else desk.log  # pyright: ignore[reportPrivateUsage]
    handle, left = getattr(holder, part), [1, 2, 3]

    def fail(*given: Any) -> Any:
        if left:
            left.pop()
            raise MemoryError
        return handle(*given)

    monkeypatch.setattr(holder, part, fail)

    async def main() -> None:
        calls = [desk.log.open(_call(), _tool(changes=True), {"n": n}) for n in range(3)]
        for record in calls:
            desk.log.close(record, "ok", None, LARGE, 1)
        waiting = asyncio.gather(*map(desk.log.settle, calls), return_exceptions=True)
        ends = await asyncio.wait_for(waiting, 20)
        assert all(isinstance(end, RecordError) for end in ends)
        payloads.is_broken = False
        later = desk.log.open(_call(), _tool(changes=True), {"n": 9})
        desk.log.close(later, "ok", None, LARGE, 1)
        await asyncio.wait_for(desk.log.settle(later), 20)

    run(main())
    assert [call["arguments"]["n"] for call in desk.stored()] == [9]


def test_a_call_that_ends_after_the_log_is_answered_with_an_error(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def main() -> None:
        record = desk.log.open(_call(), _tool(changes=True), {})
        desk.log.stop()
        desk.log.close(record, "ok", None, b"{}", 1)
        with pytest.raises(RecordError, match="closing"):
            await asyncio.wait_for(desk.log.settle(record), 20)

    run(main())


def test_a_writer_that_ended_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    left = [SystemExit(), GeneratorExit(), KeyboardInterrupt()]

    def taken(records: Any) -> Any:
        if left:
            raise left.pop()
        return commit(records)

    commit = desk.log._commit  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(desk.log, "_commit", taken)

    async def main() -> None:
        for number in range(4):
            record = desk.log.open(_call(), _tool(changes=True), {"n": number})
            desk.log.close(record, "ok", None, b"{}", 1)
            if left:
                with pytest.raises(RecordError):
                    await asyncio.wait_for(desk.log.settle(record), BOUND)
            else:
                await asyncio.wait_for(desk.log.settle(record), BOUND)

    run(main())
    assert [call["arguments"]["n"] for call in desk.stored()] == [3]


@pytest.mark.parametrize("fault", [TypeError("Recursion limit reached"), RecursionError(), MemoryError()])
def test_a_call_whose_arguments_cannot_be_kept_is_recorded_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    desk = Desk(tmp_path)

    def fail(value: Any) -> bool:
        raise fault

    record = desk.log.open(_call(), _tool(), {"text": "x" * 100})
    monkeypatch.setattr("tracedesk.calls.record.is_simple", fail)
    desk.log.close(record, "ok", None, b"{}", 1)
    assert record.arguments is None
    (stored,) = desk.stored()
    assert desk.log.pending(record.id) is None
    assert stored["arguments"] == {"omitted": f"could not be kept ({type(fault).__name__})"}


def test_a_record_that_cannot_be_made_at_all_never_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    record = desk.log.open(_call(), _tool(), {"text": "x" * 100})

    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(record, "seal", fail)
    monkeypatch.setattr(record, "give_up", fail)
    desk.log.close(record, "ok", None, b"{}", 1)
    assert (record.arguments, desk.log.pending(record.id), desk.log.unwritten) == (None, None, 1)
    with pytest.raises(RecordError):
        run(desk.log.settle(record))
    desk.log.stop()


def test_long_arguments_are_redacted_by_the_writer(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.record({"password": "hunter2hunter2", "text": "x" * 20_000})
    (stored,) = desk.stored()
    assert stored["arguments"]["password"].startswith("[redacted:password:")
    assert stored["arguments"]["text"] == "x" * 20_000


def test_a_live_secret_in_long_arguments_is_redacted_although_it_is_let_go_of_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.secrets.add("opensesame", "login")
    record = desk.log.open(_call(), _tool(), {"text": "x" * 20_000 + "opensesame"})
    desk.log.close(record, "ok", None, b"{}", 1)
    desk.secrets.discard("opensesame", "login")
    (stored,) = desk.stored()
    assert "opensesame" not in stored["arguments"]["text"]


def test_arguments_of_very_many_values_are_not_encoded_to_be_counted(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.record({"figures": [1] * 100_000})
    assert desk.stored()[0]["arguments"] == {"omitted": "too large to keep"}


def test_health_is_degraded_while_records_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.request("GET", "/health")).json["status"] == "ok"
            owner = client.authorised()
            with monkeypatch.context() as broken:
                broken.setattr(CallLog, "_commit", fail)
                answer = await owner.post("/tools/touch", {})
                assert answer.status == 500
                assert "was carried out, but its record could not be written" in answer.body.decode()
                health = (await client.request("GET", "/health")).json
                assert health["status"] == "degraded"
                assert [problem["what"] for problem in health["problems"]] == ["call log: MemoryError."]
            assert (await owner.post("/tools/touch", {})).status == 200
            assert (await client.request("GET", "/health")).json["status"] == "ok"
            status = (await client.post("/tools/desk_status", {})).json
            assert status["health"] == {"status": "ok", "problems": []}

    run(main())
