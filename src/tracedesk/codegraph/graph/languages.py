"""Which language a file is in, and the identity of the extractor that reads it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple

EXTRACTOR: str
"""The extractor's id: its own version, and a hash of its queries and of the installed grammars."""

_QUERIES = "tracedesk.codegraph.graph.queries"

VERSION = 2
"""Raised when the same queries and grammars begin to give other rows."""


class Wheel(NamedTuple):
    """Where a grammar comes from: distribution, module and function; and whether its own tags are used."""

    distribution: str
    module: str
    function: str = "language"
    shipped_tags: bool = False


WHEELS: dict[str, Wheel] = {
    "bash": Wheel("tree-sitter-bash", "tree_sitter_bash"),
    "c": Wheel("tree-sitter-c", "tree_sitter_c"),
    "cpp": Wheel("tree-sitter-cpp", "tree_sitter_cpp", shipped_tags=True),
    "csharp": Wheel("tree-sitter-c-sharp", "tree_sitter_c_sharp"),
    "go": Wheel("tree-sitter-go", "tree_sitter_go"),
    "java": Wheel("tree-sitter-java", "tree_sitter_java"),
    "javascript": Wheel("tree-sitter-javascript", "tree_sitter_javascript"),
    "php": Wheel("tree-sitter-php", "tree_sitter_php", "language_php", shipped_tags=True),
    "python": Wheel("tree-sitter-python", "tree_sitter_python"),
    "ruby": Wheel("tree-sitter-ruby", "tree_sitter_ruby", shipped_tags=True),
    "rust": Wheel("tree-sitter-rust", "tree_sitter_rust"),
    "solidity": Wheel("tree-sitter-solidity", "tree_sitter_solidity"),
    "tsx": Wheel("tree-sitter-typescript", "tree_sitter_typescript", "language_tsx"),
    "typescript": Wheel("tree-sitter-typescript", "tree_sitter_typescript", "language_typescript"),
    "vyper": Wheel("tree-sitter-python", "tree_sitter_python"),
}

SUPPORTED: tuple[str, ...] = tuple(sorted(WHEELS))
"""The languages whose definitions and references are read."""

_EXTENSIONS: dict[str, str] = {
    "python": "py pyi pyw",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "javascript": "js jsx mjs cjs",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c h",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp inl tpp",
    "csharp": "cs csx",
    "ruby": "rb rake gemspec ru",
    "php": "php phtml",
    "solidity": "sol",
    "vyper": "vy vyi",
    "bash": "sh bash zsh ksh bats",
    "markdown": "md markdown mdx",
    "restructuredtext": "rst",
    "text": "txt",
    "json": "json jsonc json5",
    "yaml": "yaml yml",
    "toml": "toml",
    "ini": "ini cfg conf properties",
    "html": "html htm xhtml jinja j2 vue svelte",
    "css": "css scss sass less",
    "xml": "xml xsd xsl",
    "sql": "sql",
    "graphql": "graphql gql",
    "protobuf": "proto",
    "terraform": "tf",
    "kotlin": "kt kts",
    "swift": "swift",
    "scala": "scala",
    "lua": "lua",
    "jac": "jac",
    "ada": "adb ads",
    "assembly": "asm s",
    "clojure": "clj cljc cljs edn",
    "cmake": "cmake",
    "coffeescript": "coffee",
    "crystal": "cr",
    "cuda": "cu cuh",
    "cython": "pxd pxi pyx",
    "dart": "dart",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fortran": "f f03 f08 f90 f95",
    "fsharp": "fs fsi fsx",
    "gleam": "gleam",
    "groovy": "gradle groovy",
    "haskell": "hs lhs",
    "julia": "jl",
    "lisp": "el lisp rkt scm",
    "matlab": "m",
    "mojo": "mojo",
    "move": "move cairo",
    "nim": "nim nims",
    "nix": "nix",
    "objective_c": "mm",
    "ocaml": "ml mli",
    "pascal": "pas",
    "perl": "pl pm",
    "powershell": "ps1 psm1",
    "r": "r",
    "shader": "glsl hlsl metal wgsl",
    "starlark": "bazel bzl star",
    "tcl": "tcl",
    "verilog": "sv v",
    "vhdl": "vhd vhdl",
    "visual_basic": "vb",
    "zig": "zig",
}

_NAMES: dict[str, str] = {
    "dockerfile": "dockerfile",
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "cmakelists.txt": "cmake",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "readme": "text",
    "license": "text",
    "changelog": "text",
    "authors": "text",
    "go.mod": "text",
    ".bashrc": "bash",
    ".profile": "bash",
}

_ALIASES: dict[str, str] = {
    "py": "python",
    "python3": "python",
    "ts": "typescript",
    "typescriptreact": "tsx",
    "js": "javascript",
    "jsx": "javascript",
    "javascriptreact": "javascript",
    "ecmascript": "javascript",
    "node": "javascript",
    "golang": "go",
    "rs": "rust",
    "c++": "cpp",
    "cxx": "cpp",
    "c#": "csharp",
    "cs": "csharp",
    "c_sharp": "csharp",
    "c-sharp": "csharp",
    "rb": "ruby",
    "sol": "solidity",
    "vy": "vyper",
    "sh": "bash",
    "shell": "bash",
    "shellscript": "bash",
    "zsh": "bash",
    "md": "markdown",
    "rst": "restructuredtext",
    "yml": "yaml",
    "plaintext": "text",
    "plain": "text",
    "txt": "text",
}

_BY_EXTENSION = {extension: language for language, line in _EXTENSIONS.items() for extension in line.split()}

TEXT_ONLY: tuple[str, ...] = tuple(sorted({*_EXTENSIONS, *_NAMES.values()} - set(WHEELS)))
"""Languages that are known and kept as text, without definitions."""

_PROSE = """
    markdown restructuredtext text json yaml toml ini html css xml sql graphql protobuf dockerfile makefile
"""
_DATA = """
    7z a avif avi bin bmp br bz2 class csv dat db dbf dll dylib eot exe geojson gif gz ico ipynb jar
    jpeg jpg jsonl lib lock log map min mo mov mp3 mp4 ndjson npy npz o obj ogg otf parquet pdf
    pickle pkl png po pot psd pyc pyd pyo rar shp shx snap so sqlite sqlite3 svg tar tgz tif tiff
    tsv ttf wasm wav webm webp whl woff woff2 xls xlsx xz zip zst
"""
DATA = frozenset(_DATA.split())
"""Extensions of files that are no source: they are not read."""


def extension_of(path: str) -> str:
    """Return a path's extension in lower case; empty without one, as for `.profile`."""
    head, _, extension = path.rpartition("/")[2].rpartition(".")
    return extension.lower() if head else ""


def is_unparsed(path: str, language: str) -> bool:
    """Return whether a file is source, as far as is known, of which only the text is kept."""
    return language not in WHEELS and (language_of(path) or "source") not in _PROSE.split()


_IDS = frozenset((*SUPPORTED, *TEXT_ONLY))


def language_of(path: str, hint: str | None = None) -> str | None:
    """Return the language id of a path, or of a hint where one is given; None when neither is known."""
    if hint is not None:
        name = hint.strip().lower()
        name = _ALIASES.get(name, name)
        return name if name in _IDS else None
    file = path.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    if file in _NAMES:
        return _NAMES[file]
    _, dot, extension = file.rpartition(".")
    return _BY_EXTENSION.get(extension) if dot else None


def aliases() -> dict[str, str]:
    """Return every name that a hint may use, with the language id it stands for."""
    return {**{name: name for name in sorted(_IDS)}, **_ALIASES}


def own_query(language: str) -> str:
    """Return our query for a language; empty where only the shipped tags are used."""
    names = {
        "vyper": ("python",),
        "typescript": ("ecmascript", "typescript"),
        "tsx": ("ecmascript", "typescript", "jsx"),
        "javascript": ("ecmascript", "javascript", "jsx"),
    }
    folder = resources.files(_QUERIES)
    return "\n".join(
        (folder / f"{name}.scm").read_text(encoding="utf-8") for name in names.get(language, (language,))
    )


def shipped_query(language: str) -> str:
    """Return the tags query that the grammar's wheel carries, where we use it."""
    wheel = WHEELS[language]
    if not wheel.shipped_tags:
        return ""
    return (resources.files(wheel.module) / "queries" / "tags.scm").read_text(encoding="utf-8")


@cache
def _extractor() -> str:
    digest = hashlib.sha256()
    for distribution in sorted({"tree-sitter", *(wheel.distribution for wheel in WHEELS.values())}):
        digest.update(f"{distribution}=={_version(distribution)}\n".encode())
    for file in sorted((resources.files(_QUERIES)).iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".scm"):
            digest.update(f"{file.name}\n".encode() + file.read_bytes())
    return f"tracedesk-{VERSION}-{digest.hexdigest()[:16]}"


def _version(distribution: str) -> str:
    # Parsers never ask, and would take longer to start for it.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "none"


def __getattr__(name: str) -> str:
    # Reading the wheels' versions costs milliseconds, so only who asks for the id pays.
    if name == "EXTRACTOR":
        return _extractor()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
