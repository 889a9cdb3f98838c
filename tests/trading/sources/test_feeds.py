"""RSS and Atom: read for their text, refused for anything else."""

from __future__ import annotations

import pytest

from tests.trading.sources.parts import at
from tracedesk.trading.sources.feeds import DEEPEST, MOST_ELEMENTS, BadFeed, read

RSS = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>The Wire</title>
<item><title>Acme &amp; Co. &lt;b&gt;wins&lt;/b&gt;</title>
<description><![CDATA[<p>A <a href="http://x">big</a> &lt;script&gt; order\u200b.</p>]]></description>
<pubDate>Mon, 03 Dec 2012 09:15:00 GMT</pubDate></item>
<item><title>Second</title><pubDate>Mon, 03 Dec 2012 04:15:00 EST</pubDate>
<source url="u">Paper</source></item>
</channel></rss>"""

ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title>
<entry><title type="html">Hello</title><summary>Sum</summary><updated>2012-12-03T10:00:00Z</updated>
<published>2012-12-03T09:00:00+01:00</published></entry></feed>"""


def test_rss_is_read_without_markup_and_with_its_source() -> None:
    first, second = read("ACME", RSS.encode())
    assert (first.symbol, first.headline, first.source) == ("ACME", "Acme & Co. wins", "The Wire")
    assert first.summary == "A big order."
    assert first.published_ns == second.published_ns == at("2012-12-03T09:15:00Z")
    assert second.source == "Paper"


def test_atom_takes_the_time_of_publication() -> None:
    (entry,) = read("ACME", ATOM.encode())
    assert (entry.headline, entry.summary, entry.source) == ("Hello", "Sum", "Blog")
    assert entry.published_ns == at("2012-12-03T08:00:00Z")


def _item(inside: str) -> str:
    return f"<rss>\n<channel>\n<item>{inside}</item></channel></rss>"


BOMB = """<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<rss><channel><item><title>&b;</title></item></channel></rss>"""
OUTSIDE = '<!DOCTYPE rss SYSTEM "file:///etc/hostname"><rss/>'
DEEP = "<rss>" + "<a>" * DEEPEST + "</a>" * DEEPEST + "</rss>"
WIDE = "<rss>" + "<a/>" * MOST_ELEMENTS + "</rss>"


@pytest.mark.parametrize("hostile", [BOMB, OUTSIDE, DEEP, WIDE], ids=["bomb", "outside", "deep", "wide"])
def test_what_a_feed_has_no_need_of_is_refused(hostile: str) -> None:
    with pytest.raises(BadFeed) as caught:
        read("ACME", hostile.encode())
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("not xml", 1),
        ("<html><body/></html>", 1),
        (_item("<title>x</title>"), 3),
        (_item("<title>x</title><pubDate>yesterday</pubDate>"), 3),
        (_item("<title>x</title><pubDate>Mon, 03 Dec 2012 09:15:00</pubDate>"), 3),
        (_item("<title> </title><pubDate>Mon, 03 Dec 2012 09:15:00 GMT</pubDate>"), 3),
    ],
)
def test_a_feed_that_does_not_read_is_named_by_its_line(text: str, line: int) -> None:
    with pytest.raises(BadFeed) as caught:
        read("ACME", text.encode())
    assert caught.value.line == line


def test_long_and_odd_text_is_cut_and_cleaned() -> None:
    text = RSS.replace("Second", "x" * 5_000 + "\u202e").replace("The Wire", "W" * 500)
    first, second = read("ACME", text.encode())
    assert (len(second.headline), second.headline[-1], len(first.source)) == (300, "…", 100)
