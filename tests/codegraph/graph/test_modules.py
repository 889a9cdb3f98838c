"""Which file an import means, language by language."""

from __future__ import annotations

import posixpath
import random

import pytest

from tracedesk.codegraph.graph.modules import Candidate, family_of, meant, stem_of, trail_of, wants


def _meant(language: str, path: str, module: str, names: tuple[str, ...], *files: str) -> set[str]:
    family = family_of(language)
    candidates = [Candidate(n, file, trail_of(file, family), family) for n, file in enumerate(files)]
    random.Random(len(files)).shuffle(candidates)
    return {
        found.path
        for want in wants(family, path, module, names)
        for found in meant(
            want,
            posixpath.dirname(path),
            family,
            [c for c in candidates if stem_of(c.path, family) == want.stem],
            but=path,
        )
    }


PYTHON: list[tuple[str, str, tuple[str, ...], tuple[str, ...], set[str]]] = [
    ("a/b.py", "a.c", (), ("a/c.py",), {"a/c.py"}),
    ("a/b.py", "a", ("c",), ("a/__init__.py", "a/c.py"), {"a/__init__.py", "a/c.py"}),
    ("a/b.py", ".c", ("Name",), ("a/c.py", "c.py"), {"a/c.py"}),
    ("a/b/d.py", "..c", (), ("a/c.py", "a/b/c.py"), {"a/c.py"}),
    ("a/b.py", ".", ("c",), ("a/__init__.py", "a/c.py"), {"a/__init__.py", "a/c.py"}),
    ("b.py", "...c", (), ("c.py",), set()),
    ("x/main.py", "pkg.mod", (), ("src/pkg/mod.py",), {"src/pkg/mod.py"}),
    ("x/main.py", "pkg", (), ("src/pkg/__init__.py",), {"src/pkg/__init__.py"}),
    ("a/main.py", "json", (), ("a/serializers/json.py",), set()),
    ("one/x.py", "pkg.mod", (), ("two/pkg/mod.py", "one/pkg/mod.py"), {"one/pkg/mod.py"}),
    ("a/b.py", "a.b", (), ("a/b.py",), set()),
]


@pytest.mark.parametrize(("path", "module", "names", "files", "expected"), PYTHON)
def test_python(
    path: str, module: str, names: tuple[str, ...], files: tuple[str, ...], expected: set[str]
) -> None:
    assert _meant("python", path, module, names, *files) == expected


OTHERS: list[tuple[str, str, str, tuple[str, ...], set[str]]] = [
    ("typescript", "web/a.ts", "./b", ("web/b.ts", "b.ts"), {"web/b.ts"}),
    ("typescript", "web/a.ts", "./b.js", ("web/b.ts",), {"web/b.ts"}),
    ("typescript", "web/a.ts", "../lib", ("lib/index.ts", "lib.d.json"), {"lib/index.ts"}),
    ("typescript", "web/x/a.ts", ".", ("web/x/index.ts",), {"web/x/index.ts"}),
    ("typescript", "web/a.ts", "@/ui/b", ("src/ui/b.tsx",), {"src/ui/b.tsx"}),
    ("typescript", "web/a.ts", "react", ("web/react.ts",), set()),
    ("go", "cmd/main.go", "example.org/x/pkg/util", ("pkg/util/a.go", "pkg/util/b.go", "util/c.go"),
     {"pkg/util/a.go", "pkg/util/b.go"}),
    ("rust", "src/main.rs", "self::net", ("src/net.rs",), {"src/net.rs"}),
    ("rust", "src/main.rs", "crate::net::http", ("src/net/http.rs", "src/net/mod.rs"),
     {"src/net/http.rs", "src/net/mod.rs"}),
    ("java", "src/a/B.java", "org.x.C", ("src/main/java/org/x/C.java",), {"src/main/java/org/x/C.java"}),
    ("c", "src/a.c", "util.h", ("include/util.h", "src/util.h"), {"src/util.h"}),
    ("cpp", "src/a.cpp", "<x/util.h>", ("include/x/util.h",), {"include/x/util.h"}),
    ("ruby", "lib/a.rb", "./b", ("lib/b.rb",), {"lib/b.rb"}),
    ("php", "src/A.php", "App\\Model\\User", ("src/Model/User.php",), {"src/Model/User.php"}),
    ("solidity", "src/A.sol", "./B.sol", ("src/B.sol",), {"src/B.sol"}),
    ("solidity", "src/A.sol", "@oz/token/T.sol", ("lib/@oz/token/T.sol",), {"lib/@oz/token/T.sol"}),
    ("bash", "bin/a.sh", "./b.sh", ("bin/b.sh",), {"bin/b.sh"}),
    ("csharp", "a.cs", "System.Text", ("System/Text.cs",), set()),
    ("text", "a.txt", "b", ("b.txt",), set()),
]  # fmt: skip


@pytest.mark.parametrize(("language", "path", "module", "files", "expected"), OTHERS)
def test_other_languages(
    language: str, path: str, module: str, files: tuple[str, ...], expected: set[str]
) -> None:
    assert _meant(language, path, module, (), *files) == expected


def test_a_file_of_another_language_is_never_meant() -> None:
    family = family_of("python")
    script = Candidate(1, "a/c.js", trail_of("a/c.js", family_of("javascript")), family_of("javascript"))
    (want,) = wants(family, "a/b.py", ".c", ())
    assert meant(want, "a", family, [script]) == []
