"""Contexts: never more tokens than asked for, every file in its place, and nothing cut in silence."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk import contracts
from tracedesk.codegraph.context import Draft, Status, pack
from tracedesk.foreign import block
from tracedesk.primitives import json, tokens
from tracedesk.primitives.tokens import at_most, count, estimate

MOST = 1 << 20
VERSION = "cg1-abcdefghijklmnopqrstuvwxyz"
STATUSES: tuple[Status, ...] = ("fresh", "updated", "stale", "unindexed", "skipped", "missing")
SCHEMA = jsonschema_rs.validator_for(contracts.load("codegraph", "graph_context_for_files").output or {})

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
lines = st.lists(st.text(st.sampled_from('abc_()"\\ \té漢\x01'), max_size=60), max_size=60)


def outlined(lines: list[str]) -> Any:
    """An outline as the graph's own: the first whole lines within the tokens it is given."""

    def outline(tokens: int) -> str:
        kept: list[str] = []
        for line in lines:
            if estimate("\n".join([*kept, line])) > tokens:
                break
            kept.append(line)
        return "\n".join(kept)

    return outline


drafts = st.builds(
    Draft,
    file=texts,
    status=st.sampled_from(STATUSES),
    head=texts,
    outline=st.none() | st.builds(outlined, lines),
    symbols=st.lists(texts, max_size=30),
)


@given(
    given=st.lists(drafts, max_size=20),
    max_tokens=st.integers(128, 6_000),
    version=st.none() | st.just(VERSION),
)
def test_no_context_ever_exceeds_its_tokens(given: list[Draft], max_tokens: int, version: str | None) -> None:
    body = pack(given, max_tokens, MOST, version)
    document = json.dumps(body)
    assert at_most(document.decode()) <= body["estimated_tokens"] <= max_tokens
    SCHEMA.validate(json.loads(document))


@given(given=st.lists(drafts, max_size=12), max_tokens=st.integers(128, 2_000))
def test_files_keep_their_order_and_what_is_missing_is_counted(given: list[Draft], max_tokens: int) -> None:
    body = pack(given, max_tokens, MOST, VERSION)
    names = [entry["file"] for entry in body["contexts"]]
    assert names == [draft.file for draft in given[: len(names)]]
    assert body.get("omitted", 0) == len(given) - len(names)


@given(given=st.lists(drafts, max_size=12), max_tokens=st.integers(128, 4_000))
def test_what_is_not_marked_as_cut_is_whole(given: list[Draft], max_tokens: int) -> None:
    body = pack(given, max_tokens, MOST, VERSION)
    marked = [entry.get("truncated", False) for entry in body["contexts"]]
    assert body["truncated"] == (any(marked) or "omitted" in body)
    for draft, entry in zip(given, body["contexts"], strict=False):
        if not entry.get("truncated"):
            outline = draft.outline(1 << 30) if draft.outline else ""
            assert draft.head in entry["summary"]
            assert entry["summary"].endswith(block(outline) if outline else "")
            assert entry.get("symbols", []) == list(draft.symbols)


def test_a_short_file_leaves_its_share_to_the_long_ones() -> None:
    long = Draft("long.py", "fresh", "long", outlined([f"{n}: def f{n}(): ..." for n in range(400)]))
    short = Draft("short.py", "fresh", "short")
    alone = pack([long], 600, MOST, VERSION)["contexts"][0]["summary"]
    before = pack([long, short], 600, MOST, VERSION)["contexts"][0]["summary"]
    after = pack([short, long], 600, MOST, VERSION)["contexts"][1]["summary"]
    assert len(before) > 0.9 * len(alone)
    assert abs(len(before) - len(after)) < 40


def test_a_crowd_degrades_to_names_and_then_is_counted() -> None:
    many = [
        Draft(f"package/module_{n}.py", "fresh", "A module.", outlined(["1: def f(): ..."] * 50), ["f", "g"])
        for n in range(100)
    ]
    by_name = pack(many, 3_300, MOST, VERSION)
    assert len(by_name["contexts"]) == 100
    assert all("def f" not in entry["summary"] for entry in by_name["contexts"])
    few = pack(many, 128, MOST, VERSION)
    assert few["omitted"] == 100 - len(few["contexts"]) > 90


STRANGE = {
    "hex": "0123456789abcdef9f8e7d6c" * 400,
    "base64": "aGVsbG8gd29ybGQhIQ9x7Zk3/+qL" * 400,
    "emoji": "\U0001f600\U0001f9ff\U0001f52d" * 400,
    "rare script": "\u1401\u1402\U00012000\U00010400" * 400,
    "signs": "!@#$%^&*()[]{};:<>?" * 400,
    "han": "\u6f22\u5b57\u8a9e" * 400,
    "prose": "The session ends when its time is over. " * 200,
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("max_tokens", [128, 256, 1_000])
@pytest.mark.parametrize("installed", [True, False])
def test_texts_that_cost_more_tokens_than_bytes_suggest_are_within_the_budget_too(
    name: str, max_tokens: int, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tokens.method() == "cl100k_base", "the vocabulary is the judge here"
    if not installed:
        monkeypatch.setattr(tokens, "_encoding", lambda: None)
    text = STRANGE[name]
    draft = Draft(
        f"{name}.txt", "fresh", text[:80], outlined([text[at : at + 60] for at in range(0, 2_000, 60)])
    )
    document = json.dumps(pack([draft, draft], max_tokens, MOST, VERSION)).decode()
    monkeypatch.undo()
    assert count(document) <= max_tokens


@pytest.mark.parametrize("max_tokens", [10**6, 10**12])
def test_a_boundless_budget_ends_at_the_cap_of_an_answer(max_tokens: int) -> None:
    huge = [Draft(f"{n}.py", "fresh", "x" * 20_000) for n in range(20)]
    body = pack(huge, max_tokens, 100_000, VERSION)
    assert len(json.dumps(body)) <= 100_000
    assert body["truncated"] is True
