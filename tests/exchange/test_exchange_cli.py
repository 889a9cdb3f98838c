"""`tracedesk exchange` as a user types it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import signal
import subprocess
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.conftest import COMMAND, Shell, make_shell
from tests.support import BOUND
from tracedesk.exchange.book.recording import frames, payload

RECORDINGS: Final = Path(__file__).parent / "recordings"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Generator[Shell]:
    """A home whose exchange runs with one market."""
    made = make_shell(tmp_path_factory.mktemp("exchange"))
    begun = made("exchange", "serve", "--symbol", "btcusdt", "--json")
    assert begun.code == 0, begun.err
    yield made
    assert made("exchange", "stop").code == 0


def test_status_says_where_it_is_and_what_it_trades(shell: Shell) -> None:
    told = shell("exchange", "status")
    assert told.code == 0
    assert "http://127.0.0.1:" in told.out
    assert "seeded flow, seed 1, pace 0.3" in told.out
    document = shell("exchange", "status", "--json").json
    assert document["running"] is True
    assert [market["symbol"] for market in document["markets"]] == ["BTCUSDT"]


def test_a_second_exchange_is_refused_and_the_first_named(shell: Shell) -> None:
    done = shell("exchange", "serve")
    assert done.code == 1
    assert "is running as process" in done.err


def test_keys_shows_one_accounts_secret_and_lists_all_without(shell: Shell) -> None:
    key = shell("exchange", "keys", "me", "--json").json
    assert set(key) == {"account", "api_key", "secret"}
    listed = shell("exchange", "keys")
    assert key["api_key"] in listed.out
    assert key["secret"] not in listed.out
    refused = shell("exchange", "keys", "not a name")
    assert (refused.code, refused.out) == (2, "")
    assert "name: use letters" in refused.err


def test_watch_shows_book_flow_and_trades_once(shell: Shell) -> None:
    done = shell("exchange", "watch", "btcusdt", "--once", "--levels", "5", COLUMNS="80")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("BTCUSDT  ")
    for words in ("Book", "Flow of", "Trades", "spread", "Bought", "sim: synced"):
        assert words in done.out
    assert max(map(len, lines)) <= 80


def test_watch_as_json_is_a_line_a_picture_until_interrupted(shell: Shell) -> None:
    process = shell.start("exchange", "watch", "BTCUSDT", "--json", "--every", "0.2")
    assert process.stdout is not None
    pictures = (json.loads(line) for line in process.stdout)
    first = next(pictures)
    later = next(picture for picture in pictures if picture["lastUpdateId"] != first["lastUpdateId"])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND)
    assert process.returncode == 0
    assert (first["state"], later["state"]) == ("synced", "synced")
    assert later["lastUpdateId"] > first["lastUpdateId"]
    bids, asks = first["bids"], first["asks"]
    assert (len(bids), len(asks)) == (12, 12)


def test_without_a_terminal_watch_prints_one_picture_after_the_other(shell: Shell) -> None:
    process = shell.start("exchange", "watch", "BTCUSDT", "--every", "0.2")
    assert process.stdout is not None
    feet = 0
    while feet < 2:
        line = process.stdout.readline()
        assert line, "it ended"
        feet += "sim: synced" in line
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND)
    assert process.returncode == 0


def test_on_a_terminal_the_picture_is_painted_until_ctrl_c(shell: Shell) -> None:
    outer, inner = os.openpty()
    command = [COMMAND, "exchange", "watch", "BTCUSDT", "--every", "0.2"]
    environment = shell.environment(TERM="xterm-256color", COLUMNS="80", LINES="40")
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment)
    os.close(inner)
    seen = b""
    try:
        while seen.count(b"sim: synced") < 2:
            seen += os.read(outer, 65_536)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            with contextlib.suppress(OSError):  # the terminal goes with its last process
                seen += os.read(outer, 65_536)
    finally:
        process.kill()
        process.wait(BOUND)
        os.close(outer)
    assert process.returncode == 0
    assert b"Book" in seen
    assert b"Traceback" not in seen
    assert b"\x1b[?1049l" in seen, "the screen that was there before is shown again"


def test_an_unknown_symbol_is_refused_with_the_exit_code_of_misuse(shell: Shell) -> None:
    done = shell("exchange", "watch", "NOSUCH", "--once", "--json")
    assert done.code == 2
    assert "NOSUCH" in done.json["error"]["message"]


def test_the_running_exchange_can_be_recorded_and_the_recording_replayed(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "live.gz"
    done = shell("exchange", "record", file, "--running", "--seconds", "3", "--json")
    assert done.code == 0, done.out
    assert done.json["messages"]["snapshot"] == 1
    told = [payload(frame) for _, frame in frames(file) if "depth@" in frame.get("stream", "")]
    assert len(told) == done.json["messages"]["depth@100ms"] > 1
    assert [event["U"] for event in told[1:]] == [event["u"] + 1 for event in told[:-1]], "none is missing"
    other = make_shell(tmp_path)
    begun = other("exchange", "serve", "--replay", file, "--loop", "--json")
    assert begun.code == 0, begun.out
    assert (begun.json["source"], begun.json["loop"]) == ("replay", True)
    assert "replay of live.gz" in other("exchange", "status").out
    assert other("exchange", "stop").code == 0


def test_people_read_where_the_book_of_a_replay_begins(tmp_path: Path) -> None:
    cut, other = tmp_path / "cut.gz", make_shell(tmp_path)
    with gzip.open(RECORDINGS / "btcusdt_local.gz") as source, gzip.open(cut, "wb") as out:
        out.writelines(line for line in source if b"lastUpdateId" not in line)
    begun = other("exchange", "serve", "--replay", cut, "--as-recorded")
    assert begun.code == 0, begun.err
    [book] = other("exchange", "status", "--json").json["books"]
    row = f"BTCUSDT from the first moment with a bid and an ask, {book['at']}"
    for told in (begun, other("exchange", "status")):
        shown = [line.split(maxsplit=1)[1] for line in told.out.splitlines() if line.startswith("Book ")]
        assert shown == [row]
    assert other("exchange", "stop").code == 0


def test_recording_a_market_in_which_nothing_happens_ends_in_time_and_says_so(tmp_path: Path) -> None:
    short, file = tmp_path / "short.gz", tmp_path / "live.gz"
    with gzip.open(RECORDINGS / "btcusdt_local.gz") as source, gzip.open(short, "wb") as out:
        out.writelines(islice(source, 300))
    other = make_shell(tmp_path)
    assert other("exchange", "serve", "--replay", short, "--speed", "1000", "--json").code == 0
    while not other("exchange", "status", "--json").json["ended"]:
        pass
    done = other("exchange", "record", file, "--running", "--seconds", "1", "--json")
    assert other("exchange", "stop").code == 0
    assert done.code != 0
    assert "No depth of BTCUSDT came within 1 s" in done.json["error"]["message"]


# --- without one that runs ---------------------------------------------------------------------


@pytest.fixture
def quiet(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


def test_without_an_exchange_status_says_so_and_fails(quiet: Shell) -> None:
    told = quiet("exchange", "status")
    assert (told.code, told.out) == (1, "No local exchange is running; tracedesk exchange serve starts it.\n")
    assert quiet("exchange", "status", "--json").json == {"running": False}
    assert quiet("exchange", "stop").code == 1
    assert "start it with tracedesk exchange serve" in quiet("exchange", "keys").err


def test_recording_a_seed_twice_makes_the_same_file(quiet: Shell) -> None:
    for name in ("one.gz", "two.gz"):
        done = quiet("exchange", "record", name, "--seconds", "2", "--seed", "7", "--json")
        assert done.code == 0, done.out
    one, two = (quiet.project / name for name in ("one.gz", "two.gz"))
    assert one.read_bytes() == two.read_bytes()
    again = quiet("exchange", "record", "one.gz")
    assert again.code == 2
    assert "exists already" in again.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["serve", "--speed", "2"], "name a recording with --replay"),
        (["serve", "--replay", str(RECORDINGS / "btcusdt_local.gz"), "--seed", "2"], "leave them out"),
        (["serve", "--symbol", "DOGEUSDT"], "DOGEUSDT is not listed"),
        (["record", "x.gz", "--start", "yesterday"], "is not a time"),
        (["record", "x.gz", "--running", "--seed", "1"], "not of --running"),
        (["record", "x.gz", "--symbol", "DOGEUSDT"], "DOGEUSDT is not listed"),
        (["serve", "--pace", "0"], "--pace"),
    ],
)
def test_what_does_not_fit_is_misuse_and_says_the_remedy(
    quiet: Shell, words: list[str], sentence: str
) -> None:
    done = quiet("exchange", *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_rearming_says_what_had_halted_the_orders(quiet: Shell) -> None:
    assert quiet("exchange", "rearm", "--json").json == {"rearmed": False}
    (quiet.home / "exchange.halt").touch()
    assert quiet("exchange", "rearm", "--json").json["rearmed"] is True
    assert not (quiet.home / "exchange.halt").exists()


# --- the picture -------------------------------------------------------------------------------


def drawn(seen: dict[str, Any]) -> str:
    from rich.console import Console

    from tracedesk.cli.exchange_watch import picture

    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(picture(seen))
    return out.getvalue()


SEEN: Final[dict[str, Any]] = {
    "symbol": "BTCUSDT",
    "venue": "sim",
    "state": "synced",
    "ageMs": 12,
    "lastUpdateId": 7,
    "resyncs": 0,
    "spread": "0.01",
    "spreadBps": 0.002,
    "imbalance": 0.25,
    "bids": [("100.00", "4.00000"), ("99.00", "1.00000")],
    "asks": [("100.01", "1.00000")],
    "ticker": None,
    "flow": {"status": "insufficient_data", "window_covered": {"seconds": 0}},
    "trades": [{"time": "2026-01-01T00:00:00.5Z", "side": "BUY", "price": "100.01", "quantity": "1"}],
    "mids": ["100.00", "101.00"],
}


def test_the_ladder_has_asks_above_bids_and_bars_by_size() -> None:
    lines = [line for line in drawn(SEEN).splitlines() if "│" in line]
    ladder = [line.split("│")[1].split() for line in lines]
    prices = [row[0] for row in ladder if row]
    assert prices[:4] == ["100.01", "spread", "100.00", "99.00"]
    bars = {row[0]: len(row[-1]) for row in ladder if row and "█" in row[-1]}
    assert bars["100.00"] == 2 * bars["99.00"]


def test_a_market_that_was_just_opened_is_drawn_with_what_is_known() -> None:
    text = drawn(SEEN)
    assert "not enough seen yet" in text
    assert "▁█" in text
    empty: dict[str, Any] = {
        **SEEN,
        "bids": [],
        "asks": [],
        "spread": None,
        "spreadBps": None,
        "imbalance": None,
        "mids": [],
    }
    assert "–" in drawn(empty)


def test_names_from_outside_cannot_steer_the_terminal() -> None:
    hostile = {**SEEN, "symbol": "[red]X[/red]\x1b[2J", "venue": "\x1b]0;x\x07"}
    text = drawn(hostile)
    assert "\x1b" not in text
    assert "[red]X[/red]" in text
