"""Credentials of the environment: read once, wiped from the process, and unknown to its children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tracedesk.surroundings import API_KEY, SECRETS, credential_names, for_children, take

KEPT = "T_SURROUNDINGS_KEPT"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at itself through /proc")
def test_what_is_taken_is_wiped_from_what_a_listing_of_processes_shows() -> None:
    script = f"""
import os, subprocess
from pathlib import Path
from tracedesk.surroundings import take
listed = Path("/proc/self/environ").read_bytes()
assert b"=very-secret" in listed and b"=quite-secret" in listed
os.environ["{KEPT}"] = "moved"  # the C library now has a table of its own
assert take(["BINANCE_SECRET_KEY", "T_OWN", "T_UNSET"]) == {{
    "BINANCE_SECRET_KEY": "very-secret", "T_OWN": "quite-secret"
}}
assert take(["T_OWN"]) == {{}}
listed = Path("/proc/self/environ").read_bytes()
assert b"very-secret" not in listed and b"quite-secret" not in listed
assert b"{KEPT}=here" in listed and b"PATH=" in listed
told = subprocess.run(["env"], capture_output=True, check=True).stdout
assert b"secret" not in told and b"BINANCE_SECRET_KEY" not in told and b"{KEPT}=moved" in told
print("done")
"""
    given = {"BINANCE_SECRET_KEY": "very-secret", "T_OWN": "quite-secret", KEPT: "here"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **given},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_child_gets_none_of_the_names_also_when_they_are_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY, "a")
    monkeypatch.setenv("T_TAKEN", "b")
    monkeypatch.setenv(KEPT, "c")
    assert take(["T_TAKEN"]) == {"T_TAKEN": "b"}
    monkeypatch.setenv("T_TAKEN", "d")
    seen = for_children()
    assert (seen.get(API_KEY), seen.get("T_TAKEN"), seen.get(KEPT)) == (None, None, "c")


def test_the_names_are_those_of_the_venue_and_of_every_profile() -> None:
    table = {"profiles": {"a": {"api_key_env": "A_KEY", "secret_env": "A_SECRET"}, "b": {"file": "b.keys"}}}
    fixed = [API_KEY, *SECRETS]
    assert credential_names(table) == [*fixed, "A_KEY", "A_SECRET"]
    for wrong in ({}, {"profiles": 5}, {"profiles": {"a": "x"}}, {"profiles": {"a": {"secret_env": 7}}}):
        assert credential_names(wrong) == fixed
