"""`tracedesk forget`, beside a running desk: the bytes are gone from the home, and the record still holds."""

from __future__ import annotations

import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Served, Shell
from tests.planted import plant
from tests.support import ROOT
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.home import Home
from tracedesk.journal import Entry, Journal, Reader, forgetting, verify
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SystemClock

EVENTS = "tracedesk://codegraph/"


def post(served: Served, tool: str, arguments: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{served.url.removesuffix('/mcp')}/tools/{tool}", json.dumps(arguments).encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return json.loads(refused.read())


def unlikely(chance: random.Random, words: int = 6) -> str:
    """Words that nothing else in a home has."""
    return " ".join("".join(chance.choices("bcdfghjklmnpqrstvwxz", k=11)) for _ in range(words))


def log(served: Served, attempt: str, text: str, event_id: str | None = None) -> Any:
    event = {"attempt_id": attempt, "kind": "checkpoint", "payload": {"graph_version": "v1", "message": text}}
    found = post(served, "etg_log_event", {**event, **({"event_id": event_id} if event_id else {})})
    assert "error" not in found, found
    return found


def holding(home: Path, text: str) -> list[str]:
    """Files of the home with these words: together, or one of them."""
    wanted = [text.encode(), *(word.encode() for word in text.split())]
    files = [path for path in home.rglob("*") if path.is_file()]
    return [path.name for path in files if any(word in path.read_bytes() for word in wanted)]


def ref_of(served: Served, event: Any) -> str:
    """The event's reference, by the journal."""
    with Reader(served.shell.home / "trace.db") as reader:
        query = "SELECT s.name, e.id & 1099511627775 FROM event e JOIN stream s ON s.id = e.id >> 40 "
        (found,) = reader.connection.execute(
            query + "WHERE s.kind = 'etg' AND instr(e.body, ?)", (event["event_id"].encode(),)
        )
    return f"{EVENTS}{found[0]}/{found[1]}"


def test_a_forgotten_event_is_gone_from_every_file_and_the_record_still_verifies(served: Served) -> None:
    chance = random.Random(11)
    gone, stays = unlikely(chance), unlikely(chance)
    first = log(served, "attempt-a", gone)
    log(served, "attempt-a", stays)
    ref = ref_of(served, first)
    assert holding(served.shell.home, gone)
    done = served.shell("forget", ref, "--yes", "--json")
    assert done.code == 0, done.err
    assert ref in done.json["forgotten"]
    assert len(done.json["forgotten"]) == 2, "the call that logged it goes too"
    assert holding(served.shell.home, gone) == []
    assert holding(served.shell.home, stays)
    verified = served.shell("trace", "verify", "--json").json["files"][0]
    assert verified["sound"]
    assert verified["forgotten"] >= 2
    for name in (ref, done.json["forgotten"][1]):
        found = post(served, "get_source", {"ref": name})
        assert found["kind"] == "forgotten", found
        assert "forgottenAt" in found["body"]
        assert "uid" in found["body"]["by"]
        assert "forgotten" in served.shell("trace", "show", name).out
    walk = post(served, "trace", {"ref": ref, "depth": 2})
    assert walk["nodes"][0]["kind"] == "forgotten"
    attempt = post(served, "etg_get_attempt", {"attempt_id": "attempt-a"})
    assert gone.split()[0] not in json.dumps(attempt)
    assert stays.split()[0] in json.dumps(attempt)


def test_an_event_too_large_for_its_record_goes_with_its_payload(served: Served) -> None:
    gone = unlikely(random.Random(12))
    event = log(served, "attempt-b", gone + " " + "x" * 70_000)
    ref = ref_of(served, event)
    done = served.shell("forget", ref, "--yes", "--json")
    assert done.code == 0, done.err
    assert done.json["payloads"] >= 1
    assert holding(served.shell.home, gone) == []
    (payload,) = [one for one in done.json["forgotten"] if one.startswith("tracedesk://payloads/")]
    assert post(served, "get_source", {"ref": payload})["kind"] == "forgotten"


def test_forgetting_again_completes_and_reports_it(served: Served) -> None:
    event = log(served, "attempt-c", unlikely(random.Random(13)))
    ref = ref_of(served, event)
    first = served.shell("forget", ref, "--yes", "--json")
    again = served.shell("forget", ref, "--yes", "--json")
    assert (first.code, again.code) == (0, 0)
    assert (first.json["already"], again.json["already"]) == (False, True)
    assert again.json["forgotten"] == first.json["forgotten"]


def test_forgetting_again_leaves_a_payload_that_a_later_record_cites(served: Served) -> None:
    text = unlikely(random.Random(17)) + " " + "z" * 70_000
    ref = ref_of(served, log(served, "attempt-g", text))
    first = served.shell("forget", ref, "--yes", "--json")
    (payload,) = [one for one in first.json["forgotten"] if one.startswith("tracedesk://payloads/")]
    later = ref_of(served, log(served, "attempt-h", text))
    again = served.shell("forget", ref, "--yes", "--json")
    assert (again.code, again.json["already"], again.json["payloads"]) == (0, True, 0)
    assert again.json["notes"] == [f"{payload} stays, for other records cite it."]
    place = served.shell.home / "payloads" / payload[-64:-62] / payload[-64:]
    assert place.exists()
    last = served.shell("forget", later, "--yes", "--json")
    assert (last.code, last.json["payloads"]) == (0, 1)
    assert not place.exists()


def test_a_desk_goes_on_logging_and_rebuilds_without_what_was_forgotten(served: Served) -> None:
    chance = random.Random(14)
    gone, later = unlikely(chance), unlikely(chance)
    event = log(served, "attempt-d", gone)
    assert served.shell("forget", ref_of(served, event), "--yes").code == 0
    log(served, "attempt-d", later)
    found = post(served, "etg_get_attempt", {"attempt_id": "attempt-d"})
    assert later.split()[0] in json.dumps(found)
    assert served.shell("trace", "tail", "-n", "5").code == 0
    assert verify(served.shell.home / "trace.db").is_sound


def test_a_backup_and_a_seal_take_forgotten_bodies_as_they_are(served: Served, tmp_path: Path) -> None:
    gone = unlikely(random.Random(15))
    event = log(served, "attempt-e", gone)
    ref = ref_of(served, event)
    assert served.shell("forget", ref, "--yes").code == 0
    assert served.shell("backup", tmp_path / "copy").code == 0
    assert served.shell("backup", "--verify", tmp_path / "copy").code == 0
    assert holding(tmp_path / "copy", gone) == []
    with Journal(tmp_path / "copy" / "trace.db") as journal:
        journal.seal(ref.split("/")[-2])
    report = verify(tmp_path / "copy" / "trace.db")
    assert (report.is_sound, report.forgotten > 0) == (True, True)


def test_a_stream_of_before_refuses_and_names_prune(shell: Shell) -> None:
    home = Home.open(shell.home)
    with Journal(home.trace) as journal:
        journal.open("etg-2026-10", "etg", framing=2)
        body = b'{"id":"e1","attempt":"a","source":"client","at":5,"payload":{"message":"m"},"hash":"00"}'
        journal.append("etg-2026-10", [Entry("checkpoint", 5, body)])
    done = shell("forget", f"{EVENTS}etg-2026-10/1", "--yes")
    assert done.code == 1
    assert "tracedesk prune" in done.err
    with Reader(home.trace) as reader:
        assert forgetting.records(reader.connection) == []


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("tracedesk://trading/ledger/3", "never forgotten"),
        ("tracedesk://trading/orders/x", "never forgotten"),
        ("tracedesk://exchange/orders-2026-11/4", "never forgotten"),
        ("tracedesk://backtest/run-1/4", "tracedesk prune"),
        ("tracedesk://codegraph/attempts/a", "Name a call"),
        ("not a reference", "Name a call"),
        ("tracedesk://codegraph/etg-2026-01/7", "There is no call or event"),
        ("0192f1aa-1111-7000-8000-000000000009", "There is no call or event"),
        ("tracedesk://payloads/" + "0" * 64, "There is no payload"),
    ],
)
def test_what_cannot_be_forgotten_is_refused_with_what_to_do(served: Served, ref: str, words: str) -> None:
    log(served, "attempt-f", "there is something")
    done = served.shell("forget", ref, "--yes")
    assert done.code == 1
    assert words in done.err


def test_what_a_trade_rests_on_is_not_forgotten(served: Served) -> None:
    id = "0192f1aa-1111-7000-8000-0000000000a"
    quoted = post(served, "get_quotes", {"tool_call_id": id + "1", "symbols": ["AAPL"]})
    trades = [{"symbol": "AAPL", "action": "buy", "quantity": 1, "order_type": "market"}]
    traded = post(served, "trade_execute", {"tool_call_id": id + "2", "trades": trades})
    assert "error" not in quoted, quoted
    assert "error" not in traded, traded
    with sqlite3.connect(served.shell.home / "ledger.db") as ledger:
        calls = [call for (call,) in ledger.execute("SELECT desk_call FROM call")]
        rows = [*ledger.execute("SELECT ref FROM edge"), *ledger.execute("SELECT body FROM entry")]
    text = " ".join(part.decode(errors="replace") if isinstance(part, bytes) else part for (part,) in rows)
    payloads = set(re.findall(r"tracedesk://payloads/[0-9a-f]{64}", text))
    assert calls, "a trade remembers its call"
    assert payloads, "a trade cites what its prices were read from"
    for ref in (*calls, *payloads):
        refused = served.shell("forget", ref, "--yes")
        assert refused.code == 1, (ref, refused.out)
        assert "never forgotten" in refused.err
    assert served.shell("ledger", "verify").code == 0


_KILLED = """
import os, signal, sys
from pathlib import Path
from tracedesk import forget
from tracedesk.codegraph.etg.forgetting import drop, write_out
from tracedesk.home import Home
def end(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "drop":
    drop = end
else:
    setattr(forget, sys.argv[3], end)
forget.forget(Home(Path(sys.argv[1])), sys.argv[2], by="me", drop=drop, tidy=write_out)
"""


@pytest.mark.parametrize(("step", "is_done"), [("drop", False), ("_remove", True), ("_write_out", True)])
def test_a_kill_in_the_middle_leaves_either_state_and_repeating_completes_it(
    shell: Shell, step: str, is_done: bool
) -> None:
    home = Home.open(shell.home)
    text = unlikely(random.Random(16))
    payload = {"graph_version": "v1", "message": text + " " + "x" * 70_000}
    with closing(Etg(home.trace, SystemClock(), Secrets(), Payloads(home.payloads))) as etg:
        logged = etg.log(NewEvent("attempt", "checkpoint", payload))
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, home.path, logged.ref, step], cwd=ROOT, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    report = verify(home.trace)
    assert (report.is_sound, report.forgotten) == (True, int(is_done))
    again = shell("forget", logged.ref, "--yes", "--json")
    assert (again.code, again.json["already"]) == (0, is_done), again.err
    assert holding(home.path, text) == []
    assert list(home.payloads.glob("??/*")) == []
    assert (verify(home.trace).is_sound, verify(home.trace).forgotten) == (True, 1)


def test_without_yes_nothing_is_forgotten(served: Served) -> None:
    done = served.shell("forget", "tracedesk://payloads/" + "0" * 64)
    assert done.code == 2
    assert "--yes" in done.err


def test_no_planted_secret_is_in_the_home_its_log_or_a_backup(served: Served, tmp_path: Path) -> None:
    for number, (_, text) in enumerate(plant(200)):
        log(served, f"planted-{number % 7}", f"note {number}: {text}")
        post(served, "get_source", {"ref": text[:500]})
        if number % 10 == 0:
            post(served, "etg_query_similar_attempts", {"query": text})
            post(served, "graph_search", {"query": text, "project_root": text[:200]})
    large = "\n".join(text for _, text in plant(200)) + "\n" + "filler " * 12_000
    log(served, "planted-large", large)
    assert served.shell("backup", tmp_path / "copy").code == 0
    everything = [
        path.read_bytes()
        for folder in (served.shell.home, tmp_path / "copy")
        for path in folder.rglob("*")
        if path.is_file()
    ]
    for body in list(everything):
        if body[:1] == b"\x78":
            everything.append(zlib.decompress(body))
    found = [secret for secret, _ in plant(200) if any(secret.encode() in body for body in everything)]
    assert found == []
    assert served.shell("trace", "verify").code == 0
