"""The native reader gives what Python gives, to the last column, or leaves a file to it."""

from __future__ import annotations

import ctypes
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.graph.projects import Desk
from tests.codegraph.graph.test_secrets import PLANTED, SECRETS
from tests.support import ROOT
from tracedesk.codegraph.graph import native
from tracedesk.codegraph.graph.extract import extract
from tracedesk.codegraph.graph.frames import outcome
from tracedesk.codegraph.graph.reading import Source, decoded
from tracedesk.codegraph.graph.rows import FileRows, Outcome, Task, file_rows
from tracedesk.codegraph.graph.secrets import without_secrets

pytest.importorskip("tracedesk_code", reason="the native reader is not built")

_WRITTEN = 1_700_000_000_123_456_789
_SECONDS = 20.0
_LARGE = 60_000
_MOST = 100
"""Files of a collection that are read, by lot."""

PARTS = (
    '"""What a module is for. And more."""',
    "#!/usr/bin/env python\n# Copyright someone.\n\n# What it does.",
    "__all__ = ['load', \"Store\"]",
    "import os, sys as system  # both\nfrom . import models, Model\n"
    "from ..sub.deep import (a, b as c,\n    d)",
    "from __future__ import annotations\nfrom .models import *\nimport a.b.c",
    "LIMIT = 3\nlimit: int = 4\n_hidden = lambda x: run(x)\nA, b = 1, 2\nx = y = 3",
    "# Says what it does.\n@decorated\n@app.route('/x', methods=[1])\n"
    "def load(path, *args, **kwargs) -> Store | None:\n"
    "    '''Loads. Then more.'''\n    local = 1\n    return parse(path)(*args, **kwargs)",
    "class Store(Base, mixin.Other[int], metaclass=Meta):\n"
    "    r\"\"\"\n    Keeps\n    things\n\n    for long\n    \"\"\"\n"
    "    field: dict[str, Any] = {}\n    NAME = 'x'\n\n    async def save(self): await self.run()\n\n"
    "    class Inner:\n        def deep(self):\n"
    "            def local(): return helper()\n            return local",
    "try:\n    pass\nexcept (OSError, ValueError) as e:\n    raise Problem from e\n"
    "except KeyError:\n    print('x', file=f)",
    "print 'old', x\nexec code in scope",
    "match command:\n    case [a, *rest] if rest: go(a)\n    case {'k': v, **other}: type(v)\n"
    "    case _: pass",
    "type Pair = tuple[A, B]\ntype = 3\nmatch = type(x)\nprint(type(match))",
    "def generic[T: int](x: T, /, *, y: Callable[[A], B] | C | None = None) -> list[T]: ...",
    "f'{a!r:>{width}} {{b}} {c(d)}' f\"{'n' if x else f'{y}'}\"\nb'\\x00' rb'\\' + u'\\N{DASH}'",
    "call(*[*a, *b], **{**c}, key=lambda *a, k=1, **kw: (yield), *(1, 2))\n"
    "for (a, b), *c in d: e[a:b, ..., ::2] = f",
    "with open(a) as b, (open(c)) as (d, e), (f, g):\n    del b, d\n    assert (x := 3), 'no'\n    global h",
    "if a:\n    pass\n# between\nelif not b is not c not in d:\n\tx = 1\nelse: y = 2; z = 3",
    "x = (\n    1,  # one\n\n    2,\n)\ny = [i async for i in j if k if l] or {m: n for m in o}",
    "def f(\n    a,  # first\n    b=(1, 2),\n):  # why\n    # not a doc\n    'no doc'\n    return",
    "parseHTMLText(HTTPServer, aB, XMLHttpRequest2, getURL)",
    "größe = 1\ndef naïve(): return größe",
    "# Größe — “was”?\ndef quoted():\n    '''Größe… ist wichtig! Ja.'''",
    "password = 'hunter2hunter2A9'\ntoken: str = 'ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'",
    "password = os.environ['PASSWORD']\ntoken = request.token",
    "x = 1 \\\n    + 2\nif x: \\\n    y()",
    "\x0c\nclass A: pass\n\x0c",
    "a.b.c.d().e[f].g(h).i",
    "def é(): pass",
)  # fmt: skip
"""Stretches of Python, of which most can stand after each other."""

ODD = {
    "nothing": b"",
    "a newline": b"\n",
    "blanks": b"  \t\n \n",
    "only a comment": b"# nothing else\n",
    "only a docstring": b'"""Nothing else."""\n',
    "a byte order mark": b"\xef\xbb\xbf# head\nimport os\ndef f(): pass\n",
    "windows lines": b"import os\r\n\r\n# c\r\nclass A:\r\n    '''D.\r\n\r\n    E.'''\r\n    x = 1\r\n",
    "old lines": b"import os\rx = 1\rdef f(): pass\r",
    "tabs": b"class A:\n\tdef f(self):\n\t\treturn g(1)\n        # mixed\n",
    "no last newline": b"def f():\n    return 1",
    "an error": b"def f(:\n    pass\nclass A(\n",
    "a stray indent": b"x = 1\n    y = 2\nz = 3\n",
    "an open string": b"x = '''abc\ndef f(): pass\n",
    "a NUL": b"x = 1\ndef f(): pass\n" + b"#" * 9_000 + b"\0\n",
    "signs of blanks": "x\u00a0=\u20031\ndef f():\u2028 pass\n".encode(),
    "separators": b"def f(a,\x1c b): pass\nx = 1\x1d\n",
    "a letter that folds": "class K\u212a: passwor\u212a = 'abcdefgh12'\nx\u0130 = 1\n".encode(),
    "a long line": b"x = [" + b"1, " * 1_600 + b"]\ndef f(): pass\n",
    "a long name": b"class " + b"A" * 500 + b":\n    def " + b"b" * 300 + b"(self): pass\n",
    "a long header": b"def f(\n" + b"".join(b"    a_%d: int = 0,\n" % n for n in range(200)) + b"): pass\n",
    "a long body": b"def f():\n" + b"    call()\n" * 400,
    "a long docstring": b'def f():\n    """' + b"word " * 2_000 + b'"""\n',
    "a docstring cut in a letter": b'def f():\n    """' + "é".encode() * 2_500 + b'"""\n',
    "a long comment": b"# line\n" * 130 + b"def f(): pass\n",
    "a comment of another language": b"/* x */\n# a */\ndef f(): pass\n",
    "tags": b'def f():\n    """\n    @brief Does it. @param x\n    """\ndef g():\n    "\\\\title Other."\n',
    "deep blocks": b"".join(b" " * n + b"if a:\n" for n in range(90)) + b" " * 90 + b"pass\n",
    "deeper blocks": b"".join(b" " * n + b"if a:\n" for n in range(700)) + b" " * 700 + b"pass\nx = 1\n",
    "strings in strings": b"f'{" * 300 + b"1" + b"}'" * 300 + b"\nx = 1\n",
    "deep classes": b"".join(b" " * n + b"class A%d:\n" % n for n in range(200)) + b" " * 200 + b"x = 1\n",
    "brackets": b"x = " + b"(" * 3_000 + b"1" + b")" * 3_000 + b"\n",
    "open brackets": b"(" * 5_000,
    "lists in lists": b"[" * 1_500 + b"a" + b"]" * 1_500 + b" = b\n",
    "a chain of names": b"a" + b".b" * 20_000 + b"\n",
    "a chain of sums": b"x = 1" + b" + 1" * 20_000 + b"\n",
    "a chain of nots": b"x = " + b"not " * 3_000 + b"1\n",
    "many statements": b"f()\n" * 20_000,
    "many printed": b"print (a)\n" * 500 + b"print(b)",
    "many stars": b"f(*a, **b)\n[*c, *d] = *e, f\n" * 200,
    "secrets": b"API = 'https://me:hunter2A9@host/'\n# AKIAIOSFODNN7EXAMPLQ\ndef f(): pass\n",
    "no secret after all": b"url = 'https://user:password@host/'\nx = 'Bearer token'\ndef f(): pass\n",
}  # fmt: skip


def _natively(data: bytes, path: str = "pkg/sub/module.py") -> Outcome | None:
    found = native.rows(Task(path, "python", None, None), Source(data, _WRITTEN), _SECONDS)
    return None if found is None else outcome(found)


def _in_python(data: bytes, text: str, path: str = "pkg/sub/module.py") -> FileRows:
    task = Task(path, "python", None, None)
    return file_rows(task, data, text, _WRITTEN, extract(path, data, "python", timeout_s=_SECONDS))


def _columns(rows: Outcome) -> list[Any]:
    """Everything that is stored; columns may be lists or tuples."""
    return [_plain(value) for value in rows]


def _plain(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    return [_plain(item) for item in cast("list[Any]", value)]


def _agree(data: bytes, path: str = "pkg/sub/module.py") -> bool:
    """Whether a file is read natively; what is read is the same in both ways."""
    found = _natively(data, path)
    if found is None:
        return False
    text = decoded(data)
    assert text is not None
    assert isinstance(found, FileRows)
    assert _columns(found) == _columns(_in_python(data, text, path)), path
    return True


def _taken(files: list[Path], root: Path) -> float:
    """How many of some files are read natively, all of them alike."""
    short = [file for file in files if file.stat().st_size < _LARGE]
    chosen = random.Random(3).sample(short, min(len(short), _MOST))
    read = [_agree(file.read_bytes(), file.relative_to(root).as_posix()) for file in chosen]
    return sum(read) / len(read)


def test_the_sources_of_this_project_are_read_alike() -> None:
    assert _taken(sorted((ROOT / "src").rglob("*.py")), ROOT) > 0.9


def test_the_standard_library_is_read_alike() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    assert _taken(sorted(root.glob("*.py")), root) > 0.9


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_read_alike_or_left_to_python(name: str) -> None:
    _agree(ODD[name])


@pytest.mark.parametrize("part", PARTS)
def test_each_form_of_the_language_is_read_alike_or_left_to_python(part: str) -> None:
    _agree(part.encode() + b"\n")


@pytest.mark.parametrize(
    "name", ["windows lines", "a byte order mark", "tabs", "a long header", "many stars", "many printed"]
)
def test_what_is_only_odd_is_read_natively(name: str) -> None:
    assert _agree(ODD[name])


@pytest.mark.parametrize(
    "text",
    ["def f(:\n", "größe = 1\n", "def f(): pass\nkey = 'ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'\n"],
)
def test_errors_foreign_letters_and_secrets_are_left_to_python(text: str) -> None:
    assert _natively(text.encode()) is None


@pytest.mark.parametrize("secret", [*SECRETS, *PLANTED])
@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u2003\u3000", "\x1f"])
@pytest.mark.parametrize("change", [str, str.upper, str.lower, str.title])
def test_no_secret_is_read_natively(secret: str, blank: str, change: Callable[[str], str]) -> None:
    text = f"def f(): pass\nx = '''\n{change(secret).replace(' ', blank)}\n'''\n"
    read = _natively(text.encode())
    assert read is None or without_secrets(text) == text
    if blank == " " and change is str:
        assert read is None


def test_text_that_is_not_utf8_is_left_to_python() -> None:
    assert _natively(b"x = '\xff'\n") is None


@pytest.mark.parametrize(
    "path", ["a.py", "__init__.py", "pkg/__init__.py", "größe/Ab/getURL.pyi", "x.tar.py", ".py"]
)
def test_a_file_has_its_stem_and_its_words_from_its_path(path: str) -> None:
    assert _agree(b"from . import a\nfrom .. import b, C\nfrom ...x.y import z\nimport q\n", path)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=8), st.sampled_from(("\n", "\r\n", "\n\n\n")), st.booleans())
def test_forms_after_each_other_are_read_alike(parts: list[str], newline: str, ends: bool) -> None:
    text = "\n".join(parts) + ("\n" if ends else "")
    _agree(text.replace("\n", newline).encode())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Some forms, in which a few places were written over."""
    text = "\n".join(draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))).encode()
    signs = st.text("()[]{}:,.*@#=\\'\"\n\t rfbx1é_", max_size=6).map(str.encode)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + draw(signs) + text[end:]
    return text


@settings(max_examples=250, deadline=None)
@given(damaged())
def test_damaged_files_are_read_alike_or_left_to_python(text: bytes) -> None:
    _agree(text)


@settings(max_examples=200, deadline=None)
@given(st.text("ab(),*=[]:.\n 1'#{}", max_size=60))
def test_any_signs_are_read_alike_or_left_to_python(text: str) -> None:
    _agree(text.encode())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_alike_or_left_to_python(data: bytes) -> None:
    _agree(data)


def test_a_file_that_takes_too_long_is_left_to_python() -> None:
    task = Task("a.py", "python", None, None)
    assert native.rows(task, Source(b"f(x)\n" * 100_000, 0), 1e-6) is None


# --- the whole


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        desk.write({f"pkg/m{n}.py": f"{part}\n" for n, part in enumerate(PARTS)})
        desk.write({f"odd/o{n}.py": data for n, data in enumerate(ODD.values()) if len(data) < 5_000})
        yield desk


def _blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tracedesk_code", None)
    native.reader.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    native.reader.cache_clear()


def test_a_project_has_the_same_graph_without_the_native_reader(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.index()
    by_both = desk.graph()
    _blocked(monkeypatch)
    assert native.reader("python") is None
    assert desk.rebuilt() == by_both


def test_a_grammar_of_an_unknown_form_is_read_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    native.reader.cache_clear()
    tables = ctypes.create_string_buffer(4096)

    def pointer(language: str) -> int:
        return ctypes.addressof(tables)

    monkeypatch.setattr("tracedesk.codegraph.graph.syntax.grammars.pointer", pointer)
    assert native.reader("python") is None
    assert native.rows(Task("a.py", "python", None, None), Source(b"x = 1\n", 0), 1.0) is None


def test_other_languages_are_read_in_python() -> None:
    assert native.reader("typescript") is None
    assert native.reader("vyper") is None


def test_an_edit_is_read_natively_too(desk: Desk) -> None:
    desk.index()
    desk.write({"pkg/m0.py": dedent('''
        """Other words."""
        def renamed(): return load()
    ''')})  # fmt: skip
    desk.update(["pkg/m0.py"])
    assert desk.graph() == desk.rebuilt()
