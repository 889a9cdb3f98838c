"""Which file an import means: what a language's module names say about paths, and which of several it is.

A file has a trail, the path by which modules name it: `a/b` for `a/b.py` and `a/b/__init__.py`. An import
wants trails. The last part of a trail is its stem; only files with the wanted stem can be meant, so when a
file comes or goes, the imports to look at again are those that want its stem.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tracedesk.codegraph.graph.model import make

FAMILIES: Final[dict[str, int]] = {
    "python": 1, "vyper": 1,
    "javascript": 2, "typescript": 2, "tsx": 2, "jsx": 2,
    "go": 3, "rust": 4, "java": 5, "c": 6, "cpp": 6, "csharp": 7, "ruby": 8, "php": 9,
    "solidity": 10, "bash": 11,
}  # fmt: skip
"""Languages that can use each other's definitions."""

TEXT: Final = 99
PYTHON, SCRIPT, GO, RUST, JAVA, C, CSHARP, RUBY, PHP, SOLIDITY, BASH = range(1, 12)

_INDEXES: Final[dict[int, tuple[str, ...]]] = {PYTHON: ("__init__",), SCRIPT: ("index",), RUST: ("mod",)}
_SCRIPT_ENDS: Final = (".d.ts", ".tsx", ".ts", ".jsx", ".js", ".mjs", ".cjs", ".mts", ".cts")
_SOURCE_ROOTS: Final = frozenset({"src", "lib", "source", "python", "include", "contracts", "app"})
_MOST_PACKAGE_FILES: Final = 50


class Want(NamedTuple):
    """A trail that an import names, from the root (`exact`) or from some folder."""

    tail: str
    exact: bool = False

    @property
    def stem(self) -> str:
        return self.tail.rpartition("/")[2]


class Candidate(NamedTuple):
    """A file with a wanted stem."""

    id: int
    path: str
    trail: str
    family: int


def family_of(language: str) -> int:
    return FAMILIES.get(language, TEXT)


def trail_of(path: str, family: int) -> str:
    """The path by which modules name a file."""
    if family == GO:
        return posixpath.dirname(path)
    if family in (C, BASH, SOLIDITY):
        return path
    folder, name = posixpath.split(path)
    base = _without_end(name, family)
    return folder if base in _INDEXES.get(family, ()) else posixpath.join(folder, base)


def stem_of(path: str, family: int) -> str:
    return posixpath.basename(trail_of(path, family))


def _without_end(name: str, family: int) -> str:
    if family == SCRIPT:
        for end in _SCRIPT_ENDS:
            if name.endswith(end):
                return name[: -len(end)]
    return name.rpartition(".")[0] or name


def wants(family: int, path: str, module: str, names: Sequence[str]) -> tuple[Want, ...]:
    """The trails that an import in the file at `path` names."""
    rule = _RULES.get(family)
    if rule is None or not module:
        return ()
    return tuple(dict.fromkeys([want for want in rule(path, module, names) if _is_sound(want)]))


def _is_sound(want: Want) -> bool:
    tail, exact = want
    return not tail.startswith(("..", "/")) and (exact or bool(tail)) and len(tail) < 1_000


def _python(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    rest = module.lstrip(".")
    dots = len(module) - len(rest)
    tail = rest.replace(".", "/")
    if dots:
        tail = _climbed(posixpath.dirname(path), dots - 1, tail)
    found = [make(Want, (tail, dots > 0))]
    for name in names:
        if name != "*" and name == name.lower():
            found.append(make(Want, (posixpath.join(tail, name) if tail else name, dots > 0)))
    return found


def _climbed(folder: str, levels: int, tail: str) -> str:
    parts = folder.split("/") if folder else []
    if levels > len(parts):
        return ".."
    return "/".join((*parts[: len(parts) - levels], *([tail] if tail else [])))


def _script(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    if module.startswith("."):
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        yield Want(_script_trail(joined), exact=True)
        return
    parts = module.split("/")
    if module.startswith(("@/", "~/", "#/")):
        yield Want(_script_trail("/".join(parts[1:])))
    elif module.startswith("@") and len(parts) > 3:
        yield Want(_script_trail("/".join(parts[2:])))
    elif len(parts) > 1 and not module.startswith("@"):
        yield Want(_script_trail(module))


def _script_trail(path: str) -> str:
    folder, name = posixpath.split(path)
    base = _without_end(name, SCRIPT) if name.endswith(_SCRIPT_ENDS) else name
    found = folder if base == "index" else posixpath.join(folder, base)
    return "" if found == "." else found


def _slashed(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    """A path as it is written, from the file's folder where it starts with a dot."""
    if module.startswith("."):
        yield Want(posixpath.normpath(posixpath.join(posixpath.dirname(path), module)), exact=True)
    else:
        yield Want(posixpath.normpath(module))


def _c(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    return _slashed(path, module.strip("<>"), names)


def _ruby(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    return _slashed(path, module.removesuffix(".rb"), names)


def _go(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    yield Want(module)


def _rust(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    parts = [part for part in module.replace(" ", "").split("::") if part and part not in _RUST_ANCHORS]
    if len(parts) == 1:
        yield Want(posixpath.join(posixpath.dirname(path), parts[0]), exact=True)
        yield Want(posixpath.join(trail_of(path, RUST), parts[0]), exact=True)
    for length in (len(parts), len(parts) - 1):
        if length > 0:
            yield Want("/".join(parts[:length]))


_RUST_ANCHORS: Final = frozenset({"crate", "self", "super", "*"})


def _java(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    tail = module.replace(".", "/")
    yield Want(tail)
    if tail.count("/") > 1:
        yield Want(posixpath.dirname(tail))


def _php(path: str, module: str, names: Sequence[str]) -> Iterable[Want]:
    if "/" in module or module.endswith(".php"):
        yield from _slashed(path, module.removesuffix(".php"), names)
        return
    parts = module.strip("\\").split("\\")
    for skipped in range(min(2, len(parts))):
        yield Want("/".join(parts[skipped:]))


_RULES: Final = {
    PYTHON: _python, SCRIPT: _script, GO: _go, RUST: _rust, JAVA: _java, C: _c, RUBY: _ruby, PHP: _php,
    SOLIDITY: _slashed, BASH: _slashed,
}  # fmt: skip


def meant(
    want: Want, folder: str, family: int, candidates: Iterable[Candidate], but: str | None = None
) -> list[Candidate]:
    """The files that a want of a file in `folder` means: one, or those of one package.

    The order of the candidates is no matter. `but` is the wanting file, which never means itself.
    """
    fitting = [
        found
        for found in candidates
        if found.family == family and found.path != but and _fits(want, folder, family, found.trail)
    ]
    if not fitting:
        return []
    best = fitting[0]
    if len(fitting) > 1:
        best = min(fitting, key=lambda found: (*_distance(found.trail, folder, family), found.path))
    if family != GO:
        return [best]
    package = sorted((f for f in fitting if f.trail == best.trail), key=lambda f: f.path)
    return package[:_MOST_PACKAGE_FILES]


def may_fit(want: Want, trail: str) -> bool:
    """Whether a file with this trail can be meant by a want of any folder and family."""
    return trail == want.tail or trail.endswith("/" + want.tail) or want.tail.endswith("/" + trail)


def _fits(want: Want, folder: str, family: int, trail: str) -> bool:
    if want.exact or trail == want.tail:
        return trail == want.tail
    if family == GO:
        return bool(trail) and want.tail.endswith("/" + trail)
    if not trail.endswith("/" + want.tail):
        return False
    return "/" in want.tail or _is_near(trail[: -len(want.tail) - 1], folder, family)


def _is_near(place: str, folder: str, family: int) -> bool:
    """Whether a module of a single name is looked for at a place by the files of a folder."""
    if posixpath.basename(place) in _SOURCE_ROOTS:
        return True
    return family == C or (family != PYTHON and place == folder)


def _distance(trail: str, folder: str, family: int) -> tuple[int, int]:
    if family == GO:
        return -len(trail), 0
    shared = len(posixpath.commonprefix([trail.split("/")[:-1], folder.split("/") if folder else []]))
    return -shared, len(trail)
