"""The first sentence of what the author wrote about a thing."""

from __future__ import annotations

import re

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
    r"(?i)^(?:!|eslint|prettier|tslint|@?ts-|istanbul|pylint|noqa|type:|ruff|mypy|pragma|nolint|region\b)"
)
_ENDS = {
    False: re.compile(rb"//|#!?\[|[^\n]*\*/$").match,
    True: re.compile(rb"#").match,
}
"""How a line looks that may end a comment."""

_WORD = re.compile(r"\w\w")


def sentence(text: str) -> str:
    """Return the first sentence of a text, in one line of at most 200 characters."""
    paragraph = _PARAGRAPH.split(text.strip(), maxsplit=1)[0]
    line = " ".join(paragraph.split())
    if end := _SENTENCE.search(line):
        line = line[: end.end()]
    return line if len(line) <= LIMIT else line[: LIMIT - 1].rstrip() + "…"


def docstring(literal: bytes) -> str:
    """Return the first sentence of a string literal, quotes and prefix removed."""
    text = decoded(literal[:_READ])
    if text.startswith(_QUOTES) and text.endswith(_QUOTES) and len(text) >= 2 * len(_QUOTES):
        inside = text[len(_QUOTES) : -len(_QUOTES)]
    elif found := _STRING.match(text):
        inside = found[2]
    else:
        return ""
    inside = inside.lstrip()
    return sentence(_LEADING_TAG.sub("", inside, count=1) if "@" in inside or "\\" in inside else inside)


def comment_above(source: Source, row: int, hash_marks: bool) -> str:
    """Return the first sentence of the comment that ends on the line before a row."""
    if row < 1:
        return ""
    if hash_marks and source.text.find(b"#", source.starts[row - 1], source.starts[row]) < 0:
        return ""
    if not _ENDS[hash_marks](source.line(row - 1)):
        return ""
    lines: list[bytes] = []
    block = False
    for line in source.rows_up(row):
        if block:
            lines.append(line)
            block = b"/*" not in line
        elif line.endswith(b"*/"):
            if lines:
                break
            lines.append(line)
            block = b"/*" not in line
            if not block and not line.startswith(b"/*"):
                return ""
        elif line.startswith((b"#[", b"#![")) and not hash_marks:
            continue
        elif line.startswith(b"#" if hash_marks else b"//"):
            lines.append(line)
        else:
            break
        if len(lines) >= _ROWS:
            return ""
        if not block and line.startswith(b"/*"):
            break
    return "" if block or not lines else comment(b"\n".join(reversed(lines)))


def comment(text: bytes) -> str:
    """Return the first sentence of a comment, its marks removed; empty when it says nothing to a reader."""
    plain = _LEADING_TAG.sub("", _MARKS.sub("", decoded(text[:_READ])).strip())
    if not _WORD.search(plain) or _PRAGMA.match(plain):
        return ""
    if tag := _TAG.search(plain):
        plain = plain[: tag.start()]
    return sentence(_MARKUP.sub(r"\1", plain))


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
    return "" if _LICENCE.search(decoded(text)) else comment(text)
