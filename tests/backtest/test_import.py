"""Import: nothing is lost on the way in, nothing comes in twice, and nothing half done is seen."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backtest.files import OTHER, RUN, event, exported, faults, guid, objects, opened, write
from tests.support import BOUND, ROOT
from tracedesk.backtest import importing, intake, lines, native, runs, schema
from tracedesk.backtest.importing import ImportRefused, import_file
from tracedesk.backtest.model import EventType
from tracedesk.backtest.recorder import Recorder
from tracedesk.catalog import Catalog
from tracedesk.home import Home
from tracedesk.journal import Journal, Reader
from tracedesk.journal.verify import verify
from tracedesk.primitives import json

GRACE: Final = BOUND


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a dozen lines take several transactions."""
    monkeypatch.setattr(intake, "BATCH", 3)


TRADE: Final = '{"OrderId":"o-1","SecuritySymbol":"AAPL","Quantity":100,"Price":175.50,"Commission":1.00}'
CHAIN: Final = [
    event(1, "OrderPlaced", '{"OrderId":"o-1","SecuritySymbol":"AAPL","Quantity":100}', category="Execution"),
    event(2, "TradeExecution", TRADE, parent=guid(1), category="Execution"),
    event(3, "PositionUpdate", '{"SecuritySymbol":"AAPL","Quantity":100}', parent=guid(2)),
    event(4, "RiskEvent", '{"RiskType":"Margin"}', severity="Error", category="Risk", parent=guid(2)),
    event(5, parent=guid(1), category="Portfolio"),
]


# --- what comes in ----------------------------------------------------------------------------


def test_an_imported_file_comes_out_byte_for_byte(home: Home, file: Path) -> None:
    (found,) = import_file(home, write(file, CHAIN))
    assert (found.id, found.name, found.events, found.invalid, found.is_new) == (RUN, "events", 5, 0, True)
    assert exported(home) == CHAIN


_NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?\Z")
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8).map(lambda text: json.dumps(text).decode())
_VALUES = st.recursive(
    _NUMBERS | _TEXTS | st.sampled_from(["true", "false", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.dictionaries(_TEXTS, inner, max_size=3).map(
            lambda members: "{" + ",".join(f"{name}:{value}" for name, value in members.items()) + "}"
        )
    ),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_TEXTS.filter(lambda name: name != '"_raw"'), _VALUES, max_size=4).map(
    lambda members: "{" + ",".join(f"{name}:{value}" for name, value in members.items()) + "}"
)


@given(found=_OBJECTS, blank=st.sampled_from(["", " ", "\t", " \r "]))
@settings(max_examples=150, deadline=None)
def test_properties_keep_every_digit_whatever_blanks_and_order_the_line_has(found: str, blank: str) -> None:
    usual = lines.read(event(1, properties=found).strip())
    assert usual.body.decode() == found
    turned = f'{{{blank}"properties"{blank}:{blank}{found}{blank},"eventType":"StateChange"}}'.encode()
    assert lines.read(turned).body.decode() == found


def test_blanks_between_the_tokens_of_properties_go_and_those_in_texts_stay() -> None:
    body = lines.read(b'{"eventType":"RiskEvent","properties": { "a b" : [ 1.50 , "x  \\" y" ] } }').body
    assert body == b'{"a b":[1.50,"x  \\" y"]}'


def test_a_nested_member_called_properties_is_not_taken_for_the_events_own() -> None:
    decoy = b'{"eventType":"RiskEvent","extra":{"properties":{"a":1.0},"parentEventId":null}'
    raw = decoy + b',"properties":{"a":1.00}}'
    assert lines.read(raw).body == b'{"a":1.00}'


def test_parents_are_resolved_within_a_batch_and_across_batches(home: Home, file: Path) -> None:
    import_file(home, write(file, CHAIN))
    with opened(home) as recording:
        rows = recording.connection.execute("SELECT parent FROM event ORDER BY id")
        assert [parent for (parent,) in rows] == [None, 1, 2, 2, 1]


def test_an_export_imports_without_storing_its_ids(tmp_path: Path, home: Home, file: Path) -> None:
    bare = [line.replace(f'"eventId":"{guid(n)}",'.encode(), b"") for n, line in enumerate(CHAIN, 1)]
    orphans = [
        line.replace(f'"{guid(n)}"'.encode(), b"null") for n, line in zip((1, 1, 2, 2, 1), bare, strict=True)
    ]
    import_file(home, write(file, orphans))
    first = exported(home)
    again = Home.open(tmp_path / "again")
    import_file(again, write(tmp_path / "export.jsonl", first))
    assert exported(again) == first
    with opened(again) as recording:
        assert next(recording.connection.execute("SELECT count(*) FROM fact WHERE guid IS NOT NULL"))[0] == 0


def test_several_runs_in_one_file_become_one_run_each(home: Home, file: Path) -> None:
    mixed = [event(1), event(2, run=OTHER), event(3, run=None), event(4)]
    found = import_file(home, write(file, mixed), name="sweep")
    assert [(run.id, run.name, run.events) for run in found] == [(RUN, "sweep", 2), (OTHER, "sweep 2", 2)]
    assert [one["eventId"] for one in objects(home, OTHER)] == [guid(2), guid(3)]


def test_a_parent_in_another_run_is_not_found(home: Home, file: Path) -> None:
    import_file(home, write(file, [event(1), event(2, run=OTHER, parent=guid(1))]))
    (stray,) = objects(home, OTHER)
    assert stray["parentEventId"] is None
    assert guid(1) in faults(stray)["ParentEventId"]


def test_a_file_that_names_no_run_gets_an_id_from_its_content(tmp_path: Path, home: Home, file: Path) -> None:
    (one,) = import_file(home, write(file, [event(1, run=None)]))
    (same,) = import_file(Home.open(tmp_path / "b"), file)
    (other,) = import_file(home, write(file, [event(2, run=None)]))
    assert one.id == same.id != other.id


def test_a_given_run_id_takes_the_place_of_the_files_own(home: Home, file: Path) -> None:
    (found,) = import_file(home, write(file, CHAIN), run_id=OTHER.upper())
    assert found.id == OTHER
    assert exported(home, OTHER) == [line.replace(RUN.encode(), OTHER.encode()) for line in CHAIN]


def test_a_given_run_id_cannot_name_several_runs(home: Home, file: Path) -> None:
    with pytest.raises(ImportRefused, match="holds several"):
        import_file(home, write(file, [event(1), event(2, run=OTHER)]), run_id=guid(9))
    assert left_in(home) == []


def test_an_imported_run_is_sound_and_its_tables_equal_a_rebuild(home: Home, file: Path) -> None:
    import_file(home, write(file, [*CHAIN, b"not json\n", event(2), event(9, parent=guid(77))]))
    path = home.run_file(RUN)
    assert verify(path).is_sound
    with Journal(path) as journal:
        before = tables(journal)
        runs.index(journal, journal.open(RUN, "backtest"))
        assert tables(journal) == before


def tables(journal: Journal) -> dict[str, list[Any]]:
    """Every derived row; where a row tells of many events, which batch it began in does not matter."""
    found: dict[str, list[Any]] = {}
    native.attach(journal.connection)
    for name in schema.DERIVED:
        rows = list(journal.connection.execute(f"SELECT * FROM {name}"))
        found[name] = sorted((row[:-1] for row in rows) if name in ("tally", "used") else rows, key=repr)
    return found


# --- what is not as it should be --------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "field", "problem"),
    [
        (b"{nope", "Line", "Error: Malformed JSON"),
        (b"[1,2]", "Line", "Error: Not a JSON object"),
        (b"\xff\xfe", "Line", "Error: Malformed JSON"),
        (b'{"eventType":"Guess","properties":{"a":1}}', "EventType", "Error: Unknown event type 'Guess'"),
        (b'{"properties":{"a":1}}', "EventType", "Error: Unknown event type"),
    ],
)
def test_a_line_that_is_no_event_is_kept_whole(
    home: Home, file: Path, raw: bytes, field: str, problem: str
) -> None:
    (found,) = import_file(home, write(file, [event(1), raw + b"\n", event(2)]))
    assert (found.events, found.invalid, found.malformed) == (3, 1, 1)
    kept = objects(home)[1]
    assert (kept["eventType"], kept["severity"]) == ("StateChange", "Error")
    assert kept["properties"]["_raw"] == raw.decode("utf-8", "backslashreplace")
    assert faults(kept)[field].startswith(problem)


@pytest.mark.parametrize(
    ("old", "new", "field", "problem"),
    [
        (b'"2025-06-15T00:00:02Z"', b'"soon"', "Timestamp", "Error: 'soon' is not an ISO 8601 time"),
        (b'"2025-06-15T00:00:02Z"', b"null", "Timestamp", "Error: Missing required field"),
        (b'"2025-06-15T00:00:02Z"', b'"2025-06-15T00:00:02"', "Timestamp", "Warning: No zone; taken as UTC"),
        (b'"Info"', b'"Loud"', "Severity", "Warning: Unknown severity 'Loud'"),
        (b'"Performance"', b"7", "Category", "Warning: Unknown category '7'"),
        (b'{"StateType":"Mode"}', b"null", "Properties", "Error: Missing required field"),
        (b'{"StateType":"Mode"}', b'"text"', "Properties", "Error: Not a JSON object"),
        (b'{"StateType":"Mode"}', b'{"a":1,"a":2}', "Properties", "Error: Not strict JSON"),
        (guid(2).encode(), b"event-2", "EventId", "Warning: 'event-2' is not a GUID"),
        (b'"validationErrors":null', b'"validationErrors":["odd"]', "ValidationErrors", 'Error: "odd"'),
    ],
)
def test_an_event_that_is_not_as_it_should_be_is_kept_and_says_so(
    home: Home, file: Path, old: bytes, new: bytes, field: str, problem: str
) -> None:
    damaged = event(2).replace(old, new)
    assert damaged != event(2)
    (found,) = import_file(home, write(file, [event(1), damaged]))
    assert (found.events, found.invalid) == (2, 1)
    assert any(one.startswith(problem) for one in all_faults(objects(home)[1], field))


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "member", ["timestamp", "severity", "eventId", "parentEventId", "runId", "eventType"]
)
@pytest.mark.parametrize("depth", [65, 300, 1_000, 20_000])
def test_a_line_with_a_member_that_nests_too_deeply_is_kept_whole(
    home: Home, file: Path, member: str, depth: int
) -> None:
    given = rb'"%s":(?:"[^"]*"|null)' % member.encode()
    raw = re.sub(given, rb'"%s":%s' % (member.encode(), nested(depth)), event(2))
    (found,) = import_file(home, write(file, [event(1), raw, event(3)]))
    assert (found.events, found.invalid, found.malformed) == (3, 1, 1)
    kept = objects(home)[1]
    assert kept["properties"] == {"_raw": raw.decode().strip()}
    assert "deep" in faults(kept)["Line"]


@pytest.mark.parametrize("depth", [65, 300, 800])
@pytest.mark.parametrize("shape", [b'{"a":%s}', b"%s"])
def test_properties_that_nest_too_deeply_are_kept_as_their_text(
    home: Home, file: Path, depth: int, shape: bytes
) -> None:
    text = shape % nested(depth)
    (found,) = import_file(home, write(file, [event(1, "RiskEvent", text.decode())]))
    assert (found.events, found.invalid, found.malformed) == (1, 1, 1)
    (kept,) = objects(home)
    assert (kept["eventType"], kept["properties"]) == ("RiskEvent", {"_raw": text.decode()})
    assert "Error: Nests deeper than 64 levels" in all_faults(kept, "Properties")


def test_properties_that_nest_as_deeply_as_they_may_are_kept_as_they_are(home: Home, file: Path) -> None:
    text = b'{"a":%s}' % nested(63)
    (found,) = import_file(home, write(file, [event(1, "StateChange", text.decode())]))
    assert (found.invalid, found.malformed) == (0, 0)
    assert b'"properties":' + text in exported(home)[0]


def all_faults(event: dict[str, Any], field: str) -> list[str]:
    return [
        f"{one['Severity']}: {one['Error']}" for one in event["validationErrors"] if one["Field"] == field
    ]


def test_what_was_said_of_an_event_survives_further_exports(tmp_path: Path, home: Home, file: Path) -> None:
    odd = [
        event(1).replace(b'"Info"', b'"Loud"'),
        b"not json\n",
        event(3, "TradeExecution", "{}").replace(b"00:00:03Z", b"00:00:03"),
        event(3, parent=guid(55)),
    ]
    import_file(home, write(file, odd))
    first = exported(home)
    for number in range(2):
        again = Home.open(tmp_path / str(number))
        import_file(again, write(file, first))
        assert exported(again) == first


def test_required_fields_are_checked(home: Home, file: Path) -> None:
    import_file(home, write(file, [event(1, "OrderRejection", '{"OrderId":"o-1"}')]))
    assert faults(objects(home)[0]) == {"Properties.RejectionReason": "Error: Missing required field"}


def test_an_event_without_a_time_has_that_of_the_one_before(home: Home, file: Path) -> None:
    timeless = [b'{"eventType":"RiskEvent","properties":{}}\n', event(7), b"junk\n", event(5), b"junk\n"]
    import_file(home, write(file, timeless))
    assert [one["timestamp"][-3:] for one in objects(home)] == ["07Z", "07Z", "07Z", "05Z", "05Z"]


def test_forward_and_unknown_parents_become_validation_errors(home: Home, file: Path) -> None:
    import_file(
        home, write(file, [event(1, parent=guid(2)), event(2, parent=guid(2)), event(3, parent=guid(9))])
    )
    for one, missing in zip(objects(home), (2, 2, 9), strict=True):
        assert one["parentEventId"] is None
        assert faults(one) == {"ParentEventId": f"Error: {guid(missing)} is not an earlier event of this run"}


def test_a_second_event_with_the_same_id_is_kept_under_another(home: Home, file: Path) -> None:
    import_file(home, write(file, [event(1), event(2), event(3), event(4), event(1, second=9)]))
    found = objects(home)
    assert len({one["eventId"] for one in found}) == 5
    assert "is the id of event 1 already" in faults(found[4])["EventId"]


def test_an_id_that_looks_derived_never_shadows_the_one_of_a_nameless_event(home: Home, file: Path) -> None:
    from tracedesk.backtest.ids import event_id

    nameless = event(9).replace(f'"eventId":"{guid(9)}",'.encode(), b"")
    claimed = event(1).replace(guid(1).encode(), event_id(RUN, 5).encode())
    import_file(home, write(file, [claimed, event(2), event(3), event(4), nameless]))
    found = [one["eventId"] for one in objects(home)]
    assert found[0] == event_id(RUN, 5)
    assert len(set(found)) == 5


def test_ids_of_another_form_still_name_parents(home: Home, file: Path) -> None:
    child = event(2).replace(guid(2).encode(), b"fill-2").replace(b'EventId":null', b'EventId":"order-1"')
    import_file(home, write(file, [event(1).replace(guid(1).encode(), b"order-1"), child]))
    parent, found = objects(home)
    assert found["parentEventId"] == parent["eventId"]


def test_a_byte_order_mark_and_empty_lines_are_no_events(home: Home, file: Path) -> None:
    import_file(home, write(file, [b"\xef\xbb\xbf", event(1), b"\n", b"  \r\n", event(2).strip()]))
    assert exported(home) == [event(1), event(2)]


# --- only once, whole or not at all -----------------------------------------------------------


def left_in(home: Home) -> list[str]:
    """What is in the folder of runs, but for the lock and what readers of a run keep beside it."""
    passing = (".import.lock", "-wal", "-shm")
    return sorted(path.name for path in home.runs.iterdir() if not path.name.endswith(passing))


def test_importing_the_same_again_changes_nothing(home: Home, file: Path) -> None:
    import_file(home, write(file, [*CHAIN, event(8, run=OTHER)]))
    before = {name: (home.runs / name).read_bytes() for name in left_in(home)}
    again = import_file(home, file)
    assert [(run.id, run.events, run.is_new) for run in again] == [(RUN, 5, False), (OTHER, 1, False)]
    assert {name: (home.runs / name).read_bytes() for name in left_in(home)} == before


def test_a_packed_file_and_a_plain_one_with_the_same_content_are_the_same(tmp_path: Path, home: Home) -> None:
    packed = tmp_path / "events.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(CHAIN)))
    assert import_file(home, packed)[0].is_new
    assert not import_file(home, write(tmp_path / "renamed.txt", CHAIN))[0].is_new


def test_other_content_under_the_same_run_id_is_refused(home: Home, file: Path) -> None:
    import_file(home, write(file, CHAIN))
    with pytest.raises(ImportRefused, match="--run-id"):
        import_file(home, write(file, CHAIN[:2]))
    assert exported(home) == CHAIN


def once(words: str, act: Callable[[], object]) -> importing.Progress:
    """Progress that acts when it is first told these words."""
    done: list[object] = []

    def progress(read: float, total: float | None, told: str | None) -> None:
        if told == words and not done:
            done.append(act())

    return progress


def test_an_import_never_takes_the_place_of_a_run_that_was_begun_meanwhile(
    home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "REPORT_EVERY", 1)
    live: list[Recorder] = []

    def begin() -> None:
        live.append(Recorder(home, "live", run_id=RUN))
        live[0].risk("2025-06-15T00:00:00Z", "drawdown")
        live[0].flush()

    with pytest.raises(ImportRefused, match="--run-id"):
        import_file(home, write(file, CHAIN), progress=once("importing, line 2", begin))
    live[0].risk("2025-06-15T00:00:01Z", "drawdown")
    live[0].close()
    assert [one["eventType"] for one in objects(home)] == ["RiskEvent"] * 2
    assert [name for name in left_in(home) if name.startswith(".import-")] == []


def test_of_two_imports_under_one_id_the_second_to_end_is_refused(
    tmp_path: Path, home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "REPORT_EVERY", 1)
    other = write(tmp_path / "other.jsonl", [event(9)])
    with pytest.raises(ImportRefused, match="other content"):
        import_file(
            home, write(file, CHAIN), progress=once("importing, line 2", lambda: import_file(home, other))
        )
    assert len(exported(home)) == 1


def test_when_one_of_several_runs_finds_its_name_taken_none_takes_its_place(
    tmp_path: Path, home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "REPORT_EVERY", 1)
    other = write(tmp_path / "other.jsonl", [event(9, run=OTHER)])
    both = write(file, [event(1), event(2, run=OTHER), event(3)])
    with pytest.raises(ImportRefused, match=OTHER):
        import_file(home, both, progress=once("importing, line 2", lambda: import_file(home, other)))
    assert left_in(home) == [f"{OTHER}.db"]
    with Catalog(home) as catalog:
        assert [run.id for run in catalog.list()] == [OTHER]


def test_a_pipe_is_imported_like_a_file(home: Home, tmp_path: Path) -> None:
    content = b"".join(CHAIN)
    for number, sent in enumerate((content, gzip.compress(content))):
        pipe = tmp_path / f"pipe{number}"
        os.mkfifo(pipe)
        writer = Thread(target=pipe.write_bytes, args=(sent,))
        writer.start()
        (found,) = import_file(home, pipe)
        writer.join(GRACE)
        assert (found.name, found.events, found.is_new) == ("pipe0", 5, number == 0)
    assert exported(home) == CHAIN


def test_a_run_that_is_gone_comes_back_and_the_others_stay(home: Home, file: Path) -> None:
    import_file(home, write(file, [event(1), event(2, run=OTHER)]))
    home.run_file(OTHER).unlink()
    with Catalog(home) as catalog:
        catalog.forget(OTHER)
    again = import_file(home, file)
    assert [(run.id, run.is_new) for run in again] == [(RUN, False), (OTHER, True)]


def test_a_run_that_took_its_place_before_the_catalog_knew_is_recognised(home: Home, file: Path) -> None:
    import_file(home, write(file, CHAIN))
    with Catalog(home) as catalog:
        catalog.forget(RUN)
    assert [run.is_new for run in import_file(home, file)] == [False]


def test_a_file_without_lines_is_refused(home: Home, file: Path) -> None:
    with pytest.raises(ImportRefused, match="no lines"):
        import_file(home, write(file, [b"\n"]))
    assert left_in(home) == []


def test_a_packed_file_that_breaks_off_leaves_nothing(home: Home, tmp_path: Path) -> None:
    packed = tmp_path / "events.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(CHAIN * 50))[:-20])
    with pytest.raises(ImportRefused, match="damaged after line"):
        import_file(home, packed)
    assert left_in(home) == []


def test_a_line_past_all_bounds_is_refused(home: Home, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "LONGEST_LINE", 100)
    with pytest.raises(ImportRefused, match="line 1 is longer"):
        import_file(home, write(file, CHAIN))


def test_a_file_with_too_many_runs_is_refused(
    home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MOST_RUNS", 2)
    with pytest.raises(ImportRefused, match="more than 2 runs"):
        import_file(home, write(file, [event(n, run=guid(n)) for n in range(1, 4)]))
    assert left_in(home) == []


def test_a_file_that_changes_meanwhile_is_refused(
    home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, CHAIN)
    monkeypatch.setattr(importing, "REPORT_EVERY", 1)

    def grow(done: float, total: float | None, words: str | None) -> None:
        if words == "importing, line 2":
            with file.open("ab") as more:
                more.write(event(6))

    with pytest.raises(ImportRefused, match="changed while it was read"):
        import_file(home, file, progress=grow)
    assert left_in(home) == []


def test_progress_reaches_the_size_of_the_file(
    home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "REPORT_EVERY", 1)
    told: list[tuple[float, float | None]] = []
    import_file(home, write(file, CHAIN), progress=lambda done, total, words: told.append((done, total)))
    assert told[-1] == (file.stat().st_size, file.stat().st_size)


@pytest.fixture
def half_way(home: Home, file: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[subprocess.Popen[str]]:
    """A process that has imported thousands of lines of a file and waits in the middle of it."""
    monkeypatch.undo()
    write(file, (event(n, second=n % 3600) for n in range(1, 12_001)))
    command = [sys.executable, "-m", "tests.backtest.import_worker", str(home.path), str(file), "9000"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "importing, line 9,000":
            break
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    yield process
    process.kill()
    process.communicate(timeout=GRACE)


def test_a_killed_import_leaves_no_run_and_the_next_one_is_whole(
    home: Home, file: Path, half_way: subprocess.Popen[str]
) -> None:
    (aside,) = left_in(home)
    written = (home.runs / aside / "runs").glob(f"{RUN}.db*")
    assert sum(path.stat().st_size for path in written) > 1_000_000
    with Catalog(home) as catalog:
        assert catalog.list() == []
    half_way.send_signal(signal.SIGKILL)
    half_way.wait(GRACE)
    (found,) = import_file(home, file)
    assert (found.events, found.is_new) == (12_000, True)
    assert left_in(home) == [f"{RUN}.db"]
    assert hashlib.sha256(b"".join(exported(home))).digest() == hashlib.sha256(file.read_bytes()).digest()


def test_two_processes_do_not_import_the_same_at_once(
    home: Home, file: Path, half_way: subprocess.Popen[str], tmp_path: Path
) -> None:
    with pytest.raises(ImportRefused, match="another process"):
        import_file(home, file)
    (other,) = import_file(home, write(tmp_path / "b.jsonl", [event(1, run=OTHER)]))
    assert other.is_new
    half_way.communicate("\n\n", timeout=GRACE)
    assert half_way.returncode == 0
    assert not import_file(home, file)[0].is_new


def test_an_imported_run_says_where_it_came_from(home: Home, file: Path) -> None:
    import_file(home, write(file, CHAIN), engine="mine 1.0", config={"fast": Decimal("0.10")})
    with Catalog(home) as catalog:
        run = catalog.get(RUN)
    assert (run.kind, run.status, run.events) == ("mine 1.0", "ended", 5)
    assert run.meta["config"] == {"fast": Decimal("0.10")}
    assert run.meta["source"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    with Reader(home.run_file(RUN)) as reader:
        assert {each.kind for each in reader.events(RUN)} <= set(EventType.__members__)
