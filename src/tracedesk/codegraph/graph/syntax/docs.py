"""Author's words about a thing: the first sentence for people, the whole text for the search."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracedesk.codegraph.graph.syntax.source import Source, decoded

LIMIT = 200
_READ = 4096
_ROWS = 120

_STRING = re.compile(r"""^[a-zA-Z]{0,2}("{3}|'{3}|"|')(.*?)\1?$""", re.DOTALL)
_QUOTES = '"""'
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SENTENCE = re.compile(r"(?<=[^.\s])[.!?](?=\s|$)")
_MARKS = re.compile(r"(?m)^[ \t]*(?:/\*+!?|\*+/|\*+(?!/)|//+!?|#+[:!]?)[ \t]?|[ \t]*\*+/[ \t]*$")
_LEADING_TAG = re.compile(
    r"(?m)^[ \t]*[@\\](?:notice|title|dev|brief|summary|description|fileoverview|file)\b[ \t]*"
)
_TAG = re.compile(r"(?m)^[ \t]*[@\\][a-zA-Z]+|^[ \t]*:[a-z]+[ :]|<p>|</summary>")
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>|\{@\w+ ([^}]*)\}")
_LICENCE = re.compile(r"(?i)copyright|spdx|@?licen[sc]e|all rights reserved|-\*- coding")
_PRAGMA = re.compile(
    r"(?i)^(?:!|eslint|prettier|tslint|@?ts-|istanbul|pylint|noqa|type:|ruff|mypy|pragma|nolint|region\b|[@#]__\w+__)"
)
_ENDS = {
    False: re.compile(rb"//|#!?\[|[^\n]*\*/$").match,
    True: re.compile(rb"#").match,
}
"""How a line looks that may end a comment."""

_WORD = re.compile(r"\w\w")


class Doc(NamedTuple):
    """Documentation of one thing."""

    sentence: str
    """Its first sentence, in one line of at most 200 characters."""
    whole: str
    """All that is read of it, quotes or comment marks removed."""


NONE = Doc("", "")


def sentence(text: str) -> str:
    """Return the first sentence of a text, in one line of at most 200 characters."""
    paragraph = _PARAGRAPH.split(text.strip(), maxsplit=1)[0]
    line = " ".join(paragraph.split())
    if end := _SENTENCE.search(line):
        line = line[: end.end()]
    return line if len(line) <= LIMIT else line[: LIMIT - 1].rstrip() + "…"


def docstring(literal: bytes) -> Doc:
    """Return the documentation in a string literal, quotes and prefix removed."""
    text = decoded(literal[:_READ])
    if text.startswith(_QUOTES) and text.endswith(_QUOTES) and len(text) >= 2 * len(_QUOTES):
        inside = text[len(_QUOTES) : -len(_QUOTES)]
    elif found := _STRING.match(text):
        inside = found[2]
    else:
        return NONE
    inside = inside.lstrip()
    if "@" in inside or "\\" in inside:
        inside = _LEADING_TAG.sub("", inside, count=1)
    return Doc(sentence(inside), inside)


def comment_above(source: Source, row: int, hash_marks: bool, others: int = 3) -> Doc:
    """Return the documentation in the comment that ends on the line before a row.

    Above a comment for tools, or line comments below a block, so many other comments are looked at.
    """
    if row < 1 or others < 0:
        return NONE
    if hash_marks and source.text.find(b"#", source.starts[row - 1], source.starts[row]) < 0:
        return NONE
    if not _ENDS[hash_marks](source.line(row - 1)):
        return NONE
    lines: list[bytes] = []
    block = False
    above = 0
    for above, line in enumerate(source.rows_up(row)):
        if block:
            lines.append(line)
            # Behind a star it is text: a glob in an example.
            block = b"/*" not in line or line.startswith(b"*")
        elif line.endswith(b"*/"):
            if lines:
                break
            lines.append(line)
            block = b"/*" not in line
            if not block and not line.startswith(b"/*"):
                return NONE
        elif line.startswith((b"#[", b"#![")) and not hash_marks:
            continue
        elif line.startswith(b"#" if hash_marks else b"//"):
            lines.append(line)
        else:
            break
        if len(lines) >= _ROWS:
            return NONE
        if not block and line.startswith(b"/*"):
            above += 1
            break
    else:
        above = row
    if block or not lines:
        return NONE
    found = comment(b"\n".join(reversed(lines)))
    if hash_marks or (found.sentence and lines[0].endswith(b"*/")):
        return found
    return _with_notes(comment_above(source, row - above, hash_marks, others - 1), found)


def _with_notes(doc: Doc, notes: Doc) -> Doc:
    """Return the documentation in a block with that in the comment below it."""
    return Doc(doc.sentence or notes.sentence, "\n".join(filter(None, (doc.whole, notes.whole))))


def comment(text: bytes) -> Doc:
    """Return the documentation in a comment, its marks removed; no sentence when it is for tools."""
    plain = _LEADING_TAG.sub("", _MARKS.sub("", decoded(text[:_READ])).strip())
    if not _WORD.search(plain):
        return NONE
    if _PRAGMA.match(plain):
        return Doc("", plain)
    tag = _TAG.search(plain)
    first = (plain[: tag.start()] if tag else "").strip() or plain
    return Doc(sentence(_MARKUP.sub(r"\1", first)), _MARKUP.sub(r"\1", plain))


def head_comment(source: Source, hash_marks: bool) -> str:
    """Return the first sentence of the file's first comment that is not about its licence."""
    block: list[bytes] = []
    inside = False
    for row in range(min(source.lines, _ROWS)):
        line = source.line(row)
        if row == 0 and line.startswith((b"#!", b"<?php")):
            continue
        starts = line.startswith(b"#" if hash_marks else (b"//", b"/*"))
        if inside or starts:
            block.append(line)
            inside = b"*/" not in line if inside or line.startswith(b"/*") else False
            if inside or not line.endswith(b"*/"):
                continue
        if block:
            if text := _about(block):
                return text
            block = []
        if line and not starts and not line.endswith(b"*/"):
            return ""
    return _about(block)


def title(source: Source) -> str:
    """Return the first sentence of a text for people: its title, where it has one."""
    for row in range(min(source.lines, _ROWS)):
        plain = decoded(source.line(row)).strip("#=-*_ \t")
        if _WORD.search(plain):
            return sentence(plain)
    return ""


def _about(block: list[bytes]) -> str:
    text = b"\n".join(block)
    return "" if _LICENCE.search(decoded(text)) else comment(text).sentence
