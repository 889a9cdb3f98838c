"""Our calendar against exchange_calendars, and New York's time against the time zone database."""

from __future__ import annotations

import json
import subprocess
from datetime import date
from typing import Any, Final

import pytest

from tests.judges.install import MARKET
from tests.market.test_calendar import digest, sha256_on_record
from tracedesk.market import calendar, eastern

pytestmark = pytest.mark.judge

SPAN: Final = (calendar.FIRST.isoformat(), calendar.LAST.isoformat())
_SCHEDULE: Final = """
import json, sys
import exchange_calendars
schedule = exchange_calendars.get_calendar("XNYS", start=sys.argv[1], end=sys.argv[2]).schedule
rows = zip(schedule.index, schedule["open"], schedule["close"])
print(json.dumps([[day.date().isoformat(), opened.value, closed.value] for day, opened, closed in rows]))
"""
_TRANSITIONS: Final = """
import json, sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo
zone, hour = ZoneInfo("America/New_York"), timedelta(hours=1)
at = datetime(int(sys.argv[1][:4]), 1, 1, tzinfo=timezone.utc)
end = datetime(int(sys.argv[2][:4]) + 1, 1, 1, tzinfo=timezone.utc)
found, offset = [], at.astimezone(zone).utcoffset()
while at < end:
    if at.astimezone(zone).utcoffset() != offset:
        offset = at.astimezone(zone).utcoffset()
        found.append(int(at.timestamp()) * 10**9)
    at += hour
print(json.dumps(found))
"""


def _ask(script: str) -> Any:
    # Without a system path, zoneinfo reads the pinned tzdata package.
    command = [str(MARKET.python), "-W", "ignore", "-c", script, *SPAN]
    done = subprocess.run(
        command, env={"PYTHONTZPATH": ""}, check=True, capture_output=True, text=True, timeout=90
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def schedule() -> list[tuple[str, int, int]]:
    return [(day, opened, closed) for day, opened, closed in _ask(_SCHEDULE)]


def test_every_session_open_and_close_equals_exchange_calendars(
    schedule: list[tuple[str, int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    ours = calendar.sessions(calendar.FIRST, calendar.LAST)
    assert [(day.isoformat(), calendar.open_ns(day), calendar.close_ns(day)) for day in ours] == schedule
    with capsys.disabled():
        print(f"\ncalendar: {len(schedule)} sessions equal, {schedule[0][0]} to {schedule[-1][0]}")


def test_the_digest_on_record_is_that_of_exchange_calendars(schedule: list[tuple[str, int, int]]) -> None:
    rows = ((date.fromisoformat(day), opened, closed) for day, opened, closed in schedule)
    assert digest(rows) == sha256_on_record()


def test_every_change_of_new_yorks_clocks_equals_the_time_zone_database() -> None:
    years = range(calendar.FIRST.year, calendar.LAST.year + 1)
    assert [ns for year in years for ns in eastern.summer(year)] == _ask(_TRANSITIONS)
