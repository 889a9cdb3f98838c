"""Functions are found by their documentation at least as well as by a plain BM25 over functions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks.codegraph_functions import Okapi, figures, measured, words
from tests.support import ROOT


def test_the_rival_ranks_by_rare_words_and_its_figures_are_of_places() -> None:
    okapi = Okapi(["read the clock", "read the session cookie", "read a basket"])
    assert okapi.ranked("the sessionCookie")[0] == 1
    assert words("sessionCookie of_a") == ["sessioncookie", "session", "cookie", "of_a", "of", "a"]
    assert figures([0, 1, None, 0]) == {"hit@1": 0.5, "mrr": 0.625}


@pytest.mark.judge
@pytest.mark.parametrize("package", ["aiohttp", "rich", "tracedesk"])
def test_functions_of_a_package_are_found_as_well_as_by_a_plain_bm25(package: str, tmp_path: Path) -> None:
    found = measured([_folder(package)], tmp_path, 80)
    (row,) = found["rows"].values()
    assert row["questions"] == 80
    assert row["ours"]["hit@1"] >= row["rival"]["hit@1"], row


def _folder(package: str) -> Path:
    if package == "tracedesk":
        return ROOT / "src" / "tracedesk"
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
