"""What the table learns from: pairs of words and code, from sources that may be used and are not tried on."""

from __future__ import annotations

import re

import pytest

from scripts.embeddings.corpus import sources
from scripts.embeddings.pairs import Pair, pairs
from scripts.train_embeddings import counted
from tracedesk.codegraph.embed.static import FILE
from tracedesk.codegraph.embed.table import read

PYTHON = '''class Cache:
    def get(self, key):
        """Return the value of a key.

        Or nothing.
        """
        return self.values.get(key)

    def put(self, key): self.values[key] = 1
'''
TYPESCRIPT = """/**
 * Opens a socket to the host.
 * @param host where
 */
export function connect(host: string) {
  return new Socket(host)
}
"""
RUST = """/// Reads the next frame.
#[inline]
pub fn next(&mut self) -> Frame {
    self.frames.pop()
}
"""
GO = """// Copy copies src to dst until EOF.
func Copy(dst Writer, src Reader) error {
	return copyBuffer(dst, src)
}
"""


def test_a_docstring_is_paired_with_the_code_without_it() -> None:
    found = list(pairs("cache.py", PYTHON))
    assert (
        Pair("Return the value of a key.", "Cache\ndef get(self, key):\n    return self.values.get(key)")
        in found
    )
    assert "" in {pair.said for pair in found}


@pytest.mark.parametrize(
    ("path", "text", "said", "name"),
    [
        ("a.ts", TYPESCRIPT, "Opens a socket to the host.", "connect"),
        ("a.rs", RUST, "Reads the next frame.", "pub fn next"),
        ("a.go", GO, "Copy copies src to dst until EOF.", "copyBuffer"),
    ],
)
def test_a_comment_is_paired_with_the_definition_below(path: str, text: str, said: str, name: str) -> None:
    (pair,) = pairs(path, text)
    assert pair.said == said
    assert name in pair.code
    assert said not in pair.code


def test_a_file_that_does_not_parse_has_no_pairs() -> None:
    assert list(pairs("a.py", "def (")) == []


def test_every_source_has_a_version_and_a_permissive_licence() -> None:
    assert len(sources()) > 300
    for source in sources():
        assert source.version, source
        choices = source.licence.split(" OR ")
        assert any(not re.search(r"GPL|MPL|GNU|^\?*$", choice) for choice in choices), source


def test_no_source_is_one_that_retrieval_is_tried_on() -> None:
    tried = r"django|qwen|gemini|flask|pytest|celery|scrapy|aiohttp|^vite|trpc|^tokio|prometheus"
    assert [source.id for source in sources() if re.search(tried, source.name, re.I)] == []


def test_words_are_counted_once_per_text() -> None:
    assert counted(["getValue get", "get"]) == {"get": 2, "value": 1}


def test_the_table_knows_the_words_of_code_and_each_of_them_once() -> None:
    words = read(FILE).words
    assert len(set(words)) == len(words)
    assert {"http", "async", "query", "decorator", "mutex", "iterator", "a", "7"} <= set(words)
