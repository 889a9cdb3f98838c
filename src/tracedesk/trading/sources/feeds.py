"""RSS and Atom feeds as stories, read so that a hostile file can do no harm.

A document type and entities are refused, and depth, elements and stories are bounded. Markup in a text is
taken out. Only plain text, a time and a source's name are kept; no link is followed.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, NoReturn
from xml.parsers import expat

from tracedesk.foreign import quoted
from tracedesk.primitives.time import MICROSECOND
from tracedesk.trading.sources.seam import Story
from tracedesk.trading.sources.shapes import HEADLINE, SOURCE, SUMMARY, BadShape, clean, instant

DEEPEST: Final = 32
MOST_ELEMENTS: Final = 100_000
MOST_STORIES: Final = 2_000

_MARKUP: Final = re.compile(r"<[^<>]{0,2000}>")


class BadFeed(ValueError):
    """A feed that cannot be read, with the line and why."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(slots=True)
class _Element:
    """An element by its local name."""

    name: str
    line: int
    pieces: list[str] = field(default_factory=list[str])
    children: list[_Element] = field(default_factory=list["_Element"])

    def all(self, name: str) -> list[_Element]:
        return [child for child in self.children if child.name == name]

    def text(self, *names: str) -> str:
        """The text of the first child that has one of the names, tried in order."""
        for name in names:
            for child in self.all(name):
                return "".join(child.whole()).strip()
        return ""

    def whole(self) -> list[str]:
        return [*self.pieces, *(piece for child in self.children for piece in child.whole())]


class _Tree:
    """Builds elements from the parser's events and refuses what a feed has no need of."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self.root = _Element("", 0)
        self._open = [self.root]
        self._count = 0

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        line = self.parser.CurrentLineNumber
        if len(self._open) > DEEPEST or self._count > MOST_ELEMENTS:
            raise BadFeed(line, f"more than {DEEPEST} levels or {MOST_ELEMENTS} elements")
        element = _Element(name.rpartition("}")[2], line)
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, name: str) -> None:
        self._open.pop()

    def _characters(self, data: str) -> None:
        self._open[-1].pieces.append(data)

    def _refuse(self, *declared: Any) -> NoReturn:
        line = self.parser.CurrentLineNumber
        raise BadFeed(line, "a document type or entity is declared, which a feed may not")


def read(symbol: str, content: bytes) -> list[Story]:
    """Return the feed's stories about the symbol; raises `BadFeed`."""
    top = _parsed(content)
    if top.name == "rss" or top.name == "RDF":
        channels = top.all("channel")
        name = channels[0].text("title") if channels else ""
        entries = [item for part in (*channels, top) for item in part.all("item")]
        times = ("pubDate", "date")
    elif top.name == "feed":
        name, entries, times = top.text("title"), top.all("entry"), ("published", "updated")
    else:
        raise BadFeed(top.line, f"<{quoted(top.name[:80])}> is neither an RSS nor an Atom feed")
    if len(entries) > MOST_STORIES:
        raise BadFeed(entries[MOST_STORIES].line, f"more than {MOST_STORIES} stories")
    return [_story(symbol, entry, times, name) for entry in entries]


def _parsed(content: bytes) -> _Element:
    tree = _Tree()
    try:
        tree.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise BadFeed(error.lineno, f"it is not XML ({expat.ErrorString(error.code)})") from None
    return tree.root.children[0]


def _story(symbol: str, entry: _Element, times: tuple[str, ...], feed: str) -> Story:
    headline = clean(_plain(entry.text("title")), HEADLINE)
    if not headline:
        raise BadFeed(entry.line, "a story has no title")
    summary = clean(_plain(entry.text("description", "summary", "content")), SUMMARY)
    return Story(symbol, headline, summary, _published(entry, times), clean(_source(entry) or feed, SOURCE))


def _source(entry: _Element) -> str:
    sources = entry.all("source")
    return (sources[0].text("title") or "".join(sources[0].pieces).strip()) if sources else ""


def _published(entry: _Element, times: tuple[str, ...]) -> int:
    written = entry.text(*times)
    try:
        return instant(written, times[0]) if written[:4].isdigit() else _mail_time(written)
    except (BadShape, ValueError):
        raise BadFeed(entry.line, f"a story's time {quoted(written[:40])} is not one with a zone") from None


def _mail_time(written: str) -> int:
    moment = parsedate_to_datetime(written)
    if moment.tzinfo is None:
        raise ValueError
    return round(moment.timestamp() * 1_000_000) * MICROSECOND


def _plain(text: str) -> str:
    """The text without its markup; what was escaped twice is markup too."""
    return _MARKUP.sub(" ", html.unescape(_MARKUP.sub(" ", text)))
