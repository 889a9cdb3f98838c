"""The reader of long documents against the decoder it gives pieces to."""

from __future__ import annotations

import json as plain
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.primitives import json, json_reader
from tracedesk.primitives.json_reader import Limits, Reader, count_values, cut_of, has_more_values, is_deeper

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([",", '"},', "\\", "]["])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner), max_leaves=40
)
EDITS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["", ",", "]", "{", '"', "\\", "x", " ", ":"]))
)


def _scan(text: str, place: int) -> tuple[Any, int]:
    return plain.JSONDecoder(object_pairs_hook=json_unique).scan_once(text, place)  # pyright: ignore


def json_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("an object repeats a member name")
    return dict(pairs)


def _read(text: str, limits: Limits, *, counting: bool = False) -> Any:
    most = limits.values if counting else None
    return Reader(text, _scan, limits, most=most, pause=lambda: None).read()


@contextmanager
def small_pieces(size: int) -> Generator[None]:
    """The reader with pieces of so many characters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "PIECE", size)
        patch.setattr(json_reader, "_STEP", 3)
        patch.setattr(json_reader, "_LONG_TEXT", 2)
        yield


def _edited(text: str, edits: list[tuple[int, str]]) -> str:
    for place, inserted in edits[:3]:
        at = place % (len(text) + 1)
        text = text[:at] + inserted + text[at + (not inserted) :]
    return text


def _outcome(read: Any) -> Any:
    try:
        return ("read", read())
    except (ValueError, StopIteration, RecursionError):
        return ("refused", None)


@pytest.mark.parametrize("piece", [1, 3, 8, 50])
@given(value=VALUES, edits=EDITS, is_ascii=st.booleans(), indent=st.sampled_from([None, 1]))
def test_pieces_are_read_as_the_whole_is(
    piece: int, value: Any, edits: list[tuple[int, str]], is_ascii: bool, indent: int | None
) -> None:
    text = _edited(plain.dumps(value, ensure_ascii=is_ascii, indent=indent), edits)
    decoder = plain.JSONDecoder(object_pairs_hook=json_unique)
    with small_pieces(piece):
        found = _outcome(lambda: _read(text, Limits(250)))
    assert found == _outcome(lambda: decoder.decode(text))


@pytest.mark.parametrize("piece", [1, 3, 8, 50])
@given(value=VALUES, levels=st.integers(1, 5), most=st.integers(1, 30))
def test_what_passes_a_limit_is_marked_and_nothing_else_is(
    piece: int, value: Any, levels: int, most: int
) -> None:
    text = plain.dumps(value)
    with small_pieces(piece):
        assert bool(cut_of(_read(text, Limits(levels)))) == is_deeper(value, levels)
        is_cut = _outcome(lambda: cut_of(_read(text, Limits(250, values=most), counting=True)))
    if isinstance(value, (dict, list)):
        assert (is_cut != ("read", None)) == (count_values(value) > most)


@given(value=VALUES, step=st.integers(8, 200), indent=st.sampled_from([None, 1]))
def test_values_counted_beforehand_are_never_more_than_there_are(
    value: Any, step: int, indent: int | None
) -> None:
    raw = plain.dumps(value, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "_STEP", step)
        assert not has_more_values(raw, count_values(value), lambda: None)


def test_a_document_with_too_many_values_is_refused_without_holding_them() -> None:
    text = b'{"n":1,"x":[' + b",".join([b"1.5"] * 900_000) + b'],"y":{}}'
    tracemalloc.start()
    try:
        value = json.read(text, Limits(64, 500_000))
        _, largest = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cut_of(value) == "has more than 500000 values"
    assert value["n"] == 1
    assert largest < 3 * len(text)


def test_a_document_cut_in_its_arguments_keeps_its_envelope() -> None:
    text = b'{"a":1,"p":{"n":"t","x":{"y":' + b"[" * 100 + b"]" * 100 + b'}},"id":7}'
    found = json.read(text, Limits(66, envelope=2))
    assert (found["a"], found["id"], found["p"]["n"]) == (1, 7, "t")
    assert cut_of(found["p"]["x"]) == "nests deeper than 64 levels"


@pytest.mark.parametrize(
    "text", ["é" * 300_000, "a\\u00e9\\ud83d\\ude00" * 60_000, "\\\\" * 200_000, '\\"' * 200_000]
)
def test_long_texts_are_read_exactly(text: str) -> None:
    document = f'{{"a":["{text}",1]}}'.encode()
    assert json.read(document, Limits(64)) == plain.loads(document)


@pytest.mark.parametrize("text", ["x" * 300_000 + "\n", "\\u00e9" * 60_000 + "\\x", "\\ud83d" * 60_000])
def test_long_texts_that_are_not_strict_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"control|escape|surrogate"):
        json.read(f'{{"a":"{text}"}}'.encode(), Limits(64))


@pytest.mark.parametrize("levels", [64, 65])
def test_others_documents_are_refused_beyond_64_levels_and_our_own_beyond_250(levels: int) -> None:
    document = b"[" * levels + b"]" * levels
    assert _outcome(lambda: json.loads(document, levels=json.DEEPEST))[0] == (
        "read" if levels <= 64 else "refused"
    )
    assert json.loads(document)
    with pytest.raises(ValueError, match="250 levels"):
        json.loads(b"[" * 251 + b"]" * 251)
