"""Small sources in every language, and short ways to ask what was read of them."""

from __future__ import annotations

from textwrap import dedent

from tracedesk.codegraph.graph.extract import extract
from tracedesk.codegraph.graph.model import Extract, Symbol


def read(language: str, text: str, path: str = "") -> Extract:
    """Extract an indented source text."""
    return extract(path or f"file.{language}", dedent(text).encode(), language)


def by_name(found: Extract) -> dict[str, Symbol]:
    """Return the symbols by their qualified names."""
    return {symbol.qualified: symbol for symbol in found.symbols}


def kinds(found: Extract) -> dict[str, str]:
    """Return the kind of each qualified name."""
    return {symbol.qualified: symbol.kind for symbol in found.symbols}


def exported(found: Extract) -> set[str]:
    """Return the qualified names that other files may use."""
    return {symbol.qualified for symbol in found.symbols if symbol.exported}


def uses(found: Extract, kind: str) -> set[str]:
    """Return the names of one kind of reference."""
    return {reference.name for reference in found.references if reference.kind == kind}


def taken(found: Extract) -> list[tuple[str, tuple[str, ...]]]:
    """Return the modules and names that a file imports."""
    return [(imported.module, imported.names) for imported in found.imports]


ONE_OF_EACH = {
    "bash": "# Builds.\nbuild() {\n  make all\n}\n",
    "c": "/* Adds. */\nint add(int a, int b) { return a + b; }\n",
    "cpp": "namespace n { class A { public: int run() { return 1; } }; }\n",
    "csharp": "namespace N { public class A { public int Run() { return 1; } } }\n",
    "go": "package a\n\n// Run runs.\nfunc Run() int { return 1 }\n",
    "java": "public class A { public int run() { return 1; } }\n",
    "javascript": "export function run() { return 1; }\n",
    "php": "<?php\nclass A { public function run() { return 1; } }\n",
    "python": 'def run():\n    """Run it."""\n    return 1\n',
    "ruby": "class A\n  def run\n    1\n  end\nend\n",
    "rust": "pub fn run() -> i32 { 1 }\n",
    "solidity": "contract A { function run() public returns (uint) { return 1; } }\n",
    "tsx": "export const App = () => <Box/>;\n",
    "typescript": "export const run = (): number => 1;\n",
    "vyper": "@external\ndef run() -> uint256:\n    return 1\n",
}
