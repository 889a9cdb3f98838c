"""Any bytes at all: no exception, spans inside the file, parents around children, the same answer twice."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.graph.sources import ONE_OF_EACH, read
from tracedesk.codegraph.graph.chunks import contexts
from tracedesk.codegraph.graph.extract import extract
from tracedesk.codegraph.graph.languages import SUPPORTED
from tracedesk.codegraph.graph.model import Extract

LANGUAGES = st.sampled_from((*SUPPORTED, "text", "markdown"))


def _check(found: Extract, text: bytes) -> None:
    for place, symbol in enumerate(found.symbols):
        span = symbol.span
        assert 0 <= span.start_byte <= span.end_byte <= len(text)
        assert 1 <= span.start <= span.end <= max(1, found.lines)
        assert len(symbol.signature) <= 200
        assert len(symbol.doc) <= 200
        assert "\n" not in symbol.signature + symbol.doc
        if symbol.parent is not None:
            assert symbol.parent < place
            around = found.symbols[symbol.parent].span
            assert around.start_byte <= span.start_byte
            assert span.end_byte <= around.end_byte
    for use in found.references:
        assert 1 <= use.line <= max(1, found.lines)
        assert use.holder is None or use.holder < len(found.symbols)
    for chunk in found.chunks:
        assert chunk.text
        assert 0 <= chunk.span.start_byte < chunk.span.end_byte <= len(text)
    assert len(contexts(found.symbols, found.chunks)) == len(found.symbols)


@settings(max_examples=200, deadline=None)
@given(LANGUAGES, st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(language: str, text: bytes) -> None:
    found = extract("file.h", text, language)
    _check(found, text)
    assert extract("file.h", text, language) == found


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(SUPPORTED), st.data())
def test_damaged_source_never_raises(language: str, data: st.DataObject) -> None:
    text = "\n".join(
        data.draw(st.lists(st.sampled_from([*ONE_OF_EACH.values()]), min_size=1, max_size=4))
    ).encode()
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        text = text[:start] + data.draw(st.binary(max_size=8)) + text[end:]
    _check(extract("file", text, language), text)


@pytest.mark.parametrize("language", SUPPORTED)
def test_windows_lines_and_a_byte_order_mark_change_no_name_and_no_line(language: str) -> None:
    plain = ONE_OF_EACH[language].encode()
    changed = b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")
    before, after = extract("f", plain, language), extract("f", changed, language)
    assert after.problem is None

    def said(found: Extract) -> list[tuple[str, str, int, int, str]]:
        return [(s.qualified, s.signature, s.span.start, s.span.end, s.doc) for s in found.symbols]

    assert said(after) == said(before)
    assert [chunk.text for chunk in after.chunks] == [chunk.text for chunk in before.chunks]


def test_text_that_is_not_utf8_is_read_with_replacements_and_says_so() -> None:
    found = extract("f.py", b"# caf\xe9\ndef f():\n    return '\xff'\n", "python")
    assert found.problem == "undecodable"
    assert [symbol.name for symbol in found.symbols] == ["f"]
    assert "�" in found.chunks[-1].text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("javascript", b'"' * 200_000),
        ("cpp", b"a:b?c:" * 30_000),
        ("bash", b"(" * 200_000),
        ("c", b"{" * 200_000),
    ],
    ids=["quotes", "ternaries", "parentheses", "braces"],
)
def test_nonsense_that_would_take_minutes_is_given_up_and_kept_as_text(language: str, text: bytes) -> None:
    begun = time.thread_time()
    found = extract("f", text, language, timeout_s=0.2)
    assert time.thread_time() - begun < 2
    assert (found.problem, found.symbols) == ("parse_timeout", ())
    assert len(found.chunks) == 1


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", b"x = [\n" * 20_000),
        ("python", b"".join(b" " * depth + b"def f():\n" for depth in range(1500))),
        ("java", b"a." * 100_000),
        ("javascript", b"f(" * 50_000),
        ("java", b"class A {\n" * 20_000),
    ],
    ids=["brackets", "functions", "members", "calls", "classes"],
)
def test_deep_nesting_is_read_without_recursion(language: str, text: bytes) -> None:
    begun = time.thread_time()
    found = extract("f", text, language)
    assert time.thread_time() - begun < 10
    _check(found, text)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("c", b"class\n" * 40_000),
        ("vyper", b"event A:\n" + b"\n" * 50_000 + b"x: uint256\n"),
        ("vyper", b"for x:" + b" " * 200_000 + b"\n"),
        ("python", b"from" + b" " * 30_000 + b"x$ import y\n"),
        ("typescript", b"import {" + b"/*" * 40_000),
        ("python", b"#" * 500_000 + b"\n" + b"a = 1;" * 2000),
    ],
    ids=["headers", "blank-lines", "loops", "from", "comments", "long-line"],
)
def test_no_pattern_of_ours_takes_long_on_text_made_to_slow_it(language: str, text: bytes) -> None:
    begun = time.thread_time()
    _check(extract("f.h", text, language, timeout_s=0.5), text)
    assert time.thread_time() - begun < 4


def test_a_line_of_ten_megabytes_is_read() -> None:
    text = b'x = "' + b"a" * 10_000_000 + b'"\ndef after(): pass\n'
    found = extract("f.py", text, "python", timeout_s=20)
    assert [(symbol.name, symbol.span.start) for symbol in found.symbols] == [("x", 1), ("after", 2)]
    assert all(len(chunk.text) <= 1200 for chunk in found.chunks)
    _check(found, text)


def test_tabs_and_blanks_are_no_names() -> None:
    found = read("python", "class A:\n\tdef m(self,\t a):\n\t\treturn 1\n")
    assert [symbol.signature for symbol in found.symbols] == ["class A", "def m(self, a)"]
