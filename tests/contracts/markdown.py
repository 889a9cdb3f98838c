"""Headings and fenced blocks of a markdown page."""

from __future__ import annotations

import re
from textwrap import dedent

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)\n(?P<body>.*?)^(?P=indent)```", re.M | re.S)


def sections(page: str, level: int) -> dict[str, str]:
    """Split a page at the headings of one level, in order; a deeper heading stays in its section."""
    parts = re.split(rf"^{'#' * level} (.+)$", page, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def fences(section: str, language: str) -> list[str]:
    """Return the bodies of the section's fenced blocks in one language."""
    return [dedent(match["body"]) for match in _FENCE.finditer(section) if match["language"] == language]
