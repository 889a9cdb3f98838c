"""Pairs of what a person says and the code it is said of, out of source files."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

CODE = 900
"""Characters of code kept of one definition."""
SAID = 320
"""Characters kept of what is said of it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`said` may be empty: then the code only teaches what code looks like."""

    said: str
    code: str


def pairs(path: str, text: str) -> Iterator[Pair]:
    """The pairs in one file, by the language its name tells."""
    if path.endswith((".py", ".pyi")):
        yield from python(text)
    elif path.endswith((".ts", ".tsx", ".js", ".jsx", ".mjs", ".java", ".sol", ".php", ".cs")):
        yield from commented(text, _BLOCK)
    elif path.endswith(".rs"):
        yield from commented(text, _SLASHES3)
    elif path.endswith((".go", ".c", ".h", ".cc", ".cpp", ".hpp")):
        yield from commented(text, _SLASHES)


def first_paragraph(doc: str) -> str:
    """The opening of a docstring, in one line."""
    lines: list[str] = []
    for line in textwrap.dedent(doc).strip().splitlines():
        bare = line.strip()
        if (not bare and lines) or bare.startswith(("@", ":param", ">>>", "---", "===")):
            break
        lines.append(bare)
    return " ".join(" ".join(lines).split())[:SAID]


def python(text: str) -> Iterator[Pair]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = text.splitlines()
    yield from _definitions(tree, lines, "")


def _definitions(node: ast.AST, lines: list[str], outer: str) -> Iterator[Pair]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield _definition(child, lines, outer)
            if isinstance(child, ast.ClassDef):
                yield from _definitions(child, lines, child.name)


def _definition(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, lines: list[str], outer: str
) -> Pair:
    doc = ast.get_docstring(node, clean=True) or ""
    kept = list(range(node.lineno - 1, node.end_lineno or node.lineno))
    if doc and len(node.body) > 1:
        said = node.body[0]
        kept = [n for n in kept if not said.lineno - 1 <= n <= (said.end_lineno or said.lineno) - 1]
    code = textwrap.dedent("\n".join(lines[n] for n in kept[:60] if n < len(lines)))
    where = f"{outer}\n" if outer else ""
    return Pair(first_paragraph(doc), (where + code)[:CODE])


_BLOCK = re.compile(
    r"/\*\*(?P<said>(?:[^*]|\*(?!/)){12,1200}?)\*/\s*\n(?P<code>[ \t]*[^\n/*@}][^\n]{4,}\n(?:[^\n]*\n){0,24})"
)
_SLASHES3 = re.compile(
    r"(?P<said>(?:^[ \t]*///[^\n]*\n){1,20})(?P<code>(?:^[ \t]*#\[[^\n]*\n)*"
    r"^[ \t]*(?:pub|fn|struct|enum|trait|impl|async)[^\n]*\n(?:[^\n]*\n){0,24})",
    re.M,
)
_SLASHES = re.compile(
    r"(?P<said>(?:^//[^\n]*\n){1,20})(?P<code>^[a-zA-Z][^\n]*\n(?:[^\n]*\n){0,24})",
    re.M,
)
_MARKS = re.compile(r"^[ \t]*(?:///?|\*)[ \t]?", re.M)
_NEXT = re.compile(r"\n[ \t]*(?:/\*\*|///)")


def commented(text: str, rule: re.Pattern[str]) -> Iterator[Pair]:
    """Definitions with the comment before them."""
    for found in rule.finditer(text):
        said = first_paragraph(_MARKS.sub("", found["said"]))
        code = textwrap.dedent(_NEXT.split(found["code"], maxsplit=1)[0])[:CODE]
        if "icense" not in said and "opyright" not in said:
            yield Pair(said, code)
