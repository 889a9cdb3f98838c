"""What an import statement takes, read from its text by each language's own grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tracedesk.codegraph.graph.model import Import

Taken = tuple[str, tuple[str, ...]]

_HASH_COMMENT = re.compile(r"#[^\n]*")
_SLASH_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PY_IMPORT = re.compile(r"\bimport\b")
_QUOTED = re.compile(r"""["'`]([^"'`\n]*)["'`]""")
_FROM = re.compile(r"""\bfrom\s*["']([^"'\n]*)["']""")
_BRACES = re.compile(r"\{([^{}]*)\}")
_DEFAULT = re.compile(r"import\s+(?:type\s+)?(?!type\b|from\b)\w+\s*(?:,|\bfrom\b)")
_REQUIRE = re.compile(
    rb"""(?m)^[ \t]*(?:(?:const|let|var)\s+(\w+|\{[^{}]*\})\s*=\s*)?require\(\s*["']([^"'\n]+)["']\s*\)"""
)
_RUST_TOKEN = re.compile(r"::|[{},*]|r#\w+|\w+")
_JAVA = re.compile(r"import\s+(static\s+)?(\w+(?:\.\w+)*)(\s*\.\s*\*)?")
_INCLUDE = re.compile(r"""include(?:_next)?\s*(?:"([^"\n]*)"|(<[^>\n]*>))""")
_CSHARP = re.compile(r"using\s+(?:static\s+|unsafe\s+)*(?:\w+\s*=\s*)?([\w.]+)")
_RUBY = re.compile(r"""(require|require_relative|load|autoload\s+:\w+,)\s*\(?\s*["']([^"'\n]+)["']""")
_SOURCE = re.compile(r"""(?:source|\.)\s+["']?([^\s"';]+)""")


def taken(language: str, statement: str, line: int) -> list[Import]:
    """Return the imports of one statement."""
    return [Import(module, names, line) for module, names in _READERS[language](statement) if module]


def required(text: bytes) -> Iterator[tuple[int, Taken]]:
    """Yield the CommonJS requires that begin a line, each with its place."""
    for found in _REQUIRE.finditer(text):
        names = found[1] or b""
        listed = names.decode("utf-8", "replace") if names.startswith(b"{") else ""
        yield found.start(2), (found[2].decode("utf-8", "replace"), _listed(listed.replace(":", " as ")))


def _python(statement: str) -> Iterator[Taken]:
    text = _HASH_COMMENT.sub("", statement).replace("\\\n", " ")
    found = _PY_IMPORT.search(text)
    if found and text.startswith("from"):
        names = (part.split() for part in text[found.end() :].strip("() \t\r\n").split(","))
        module = "".join(text[len("from") : found.start()].split())
        yield module, tuple(words[0] for words in names if words)
        return
    for part in text.removeprefix("import").split(","):
        words = part.split()
        yield words[0] if words else "", ()


def _ecmascript(statement: str) -> Iterator[Taken]:
    text = _SLASH_COMMENT.sub("", statement) if "/*" in statement or "\n" in statement else statement
    found = _FROM.search(text) or _QUOTED.search(text)
    if found is None:
        return
    names = _listed(text[: found.start()])
    if text.startswith("import") and _DEFAULT.match(text):
        names = ("default", *names)
    elif text.startswith("export") and "{" not in text[: found.start()]:
        names = ("*",)
    yield found[1], names


def _listed(text: str) -> tuple[str, ...]:
    """Return the first names inside braces: `{a, b as c, type D}` gives a, b and D."""
    braces = _BRACES.search(text)
    if braces is None:
        return ()
    words = ([word for word in part.split() if word != "type"] for part in braces[1].split(","))
    return tuple(found[0].lstrip(".") for found in words if found)


def _solidity(statement: str) -> Iterator[Taken]:
    text = _SLASH_COMMENT.sub("", statement) if "\n" in statement else statement
    found = _FROM.search(text) or _QUOTED.search(text)
    if found:
        yield found[1], _listed(text)


def _go(statement: str) -> Iterator[Taken]:
    if found := _QUOTED.search(statement):
        yield found[1], ()


def _rust(statement: str) -> Iterator[Taken]:
    text = _SLASH_COMMENT.sub("", statement)
    tokens = _RUST_TOKEN.findall(text)
    if "mod" in tokens and "use" not in tokens:
        yield "self::" + tokens[-1], ()
        return
    found: dict[str, list[str]] = {}
    for path in _rust_paths(tokens[tokens.index("use") + 1 :] if "use" in tokens else []):
        if path[-1] == "self":
            path = path[:-1]
            found.setdefault("::".join(path), [])
        elif len(path) == 1:
            found.setdefault(path[0], [])
        else:
            found.setdefault("::".join(path[:-1]), []).append(path[-1])
    for module, names in found.items():
        yield module, tuple(names)


def _rust_paths(tokens: list[str]) -> Iterator[list[str]]:
    """Expand a use tree into its whole paths; `as` names are dropped."""
    prefixes: list[list[str]] = []
    path: list[str] = []
    renamed = False
    for token in (*tokens, ","):
        if token == "{":
            prefixes.append(list(path))
        elif token in (",", "}"):
            if path and (not prefixes or len(path) > len(prefixes[-1])):
                yield path
            if token == "}" and prefixes:
                prefixes.pop()
                path = []
                renamed = False
                continue
            path, renamed = list(prefixes[-1]) if prefixes else [], False
        elif token == "as":
            renamed = True
        elif token != "::" and not renamed:
            path.append(token)


def _java(statement: str) -> Iterator[Taken]:
    if not (found := _JAVA.search(statement)):
        return
    module = found[2]
    if found[3]:
        yield module, ("*",)
    elif found[1]:
        owner, _, name = module.rpartition(".")
        yield owner, (name,)
    else:
        yield module, ()


def _include(statement: str) -> Iterator[Taken]:
    if found := _INCLUDE.search(statement):
        yield found[1] or found[2] or "", ()


def _csharp(statement: str) -> Iterator[Taken]:
    if found := _CSHARP.search(statement):
        yield found[1], ()


def _php(statement: str) -> Iterator[Taken]:
    if not statement.startswith("use"):
        if found := _QUOTED.search(statement):
            yield found[1], ()
        return
    words = statement.removeprefix("use").strip(" \t\r\n;").removeprefix("function ").removeprefix("const ")
    if braces := _BRACES.search(words):
        yield words[: braces.start()].strip().rstrip("\\"), _listed(words)
        return
    for part in words.split(","):
        name = part.split()
        yield name[0].lstrip("\\") if name else "", ()


def _ruby(statement: str) -> Iterator[Taken]:
    if found := _RUBY.match(statement):
        yield "./" + found[2] if found[1] == "require_relative" else found[2], ()


def _bash(statement: str) -> Iterator[Taken]:
    if found := _SOURCE.match(statement):
        yield found[1], ()


_READERS: dict[str, Callable[[str], Iterator[Taken]]] = {
    "bash": _bash,
    "c": _include,
    "cpp": _include,
    "csharp": _csharp,
    "go": _go,
    "java": _java,
    "javascript": _ecmascript,
    "php": _php,
    "python": _python,
    "ruby": _ruby,
    "rust": _rust,
    "solidity": _solidity,
    "tsx": _ecmascript,
    "typescript": _ecmascript,
    "vyper": _python,
}
