"""Exported graphs before Jac itself: its checker takes them, and typed walkers go over them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.codegraph.jac.graphs import AWKWARD, ROOT, shop, whole
from tests.codegraph.jac.projects import tried, workshop
from tests.judges.install import JAC
from tracedesk.codegraph.jac.export import as_jac
from tracedesk.codegraph.jac.subgraph import bounded
from tracedesk.codegraph.jac.types import Draft, File, Project
from tracedesk.codegraph.jac.walk import Limits, Walked, WalkFailed, walk
from tracedesk.errors import ToolError

pytestmark = [
    pytest.mark.judge,
    pytest.mark.skipif(
        not JAC.is_installed, reason="jaclang needs Python 3.12; the export is checked without it"
    ),
]

EVERY_EDGE = """
import from graph {
    Project, File, Symbol, ContextChunk, Attempt, Event, ToolCall, Summary,
    project_has_file, project_has_attempt, file_has_symbol, file_has_context, symbol_in_context,
    symbol_references_symbol, file_imports_file, attempt_has_event, attempt_has_summary,
    event_invokes_tool, event_reads_file, event_links_context
}

walker Survey {
    has longer_than: int = 0;
    has seen: list[str] = [];
    has slow: list[float] = [];

    can begin with Project entry {
        visit [->:project_has_file:->];
        visit [->:project_has_attempt:->];
    }
    can on_file with File entry {
        imported = [other.path for other in [here ->:file_imports_file:->]];
        self.seen.append("File " + here.path + " imports " + str(imported));
        visit [->:file_has_symbol:->];
        self.seen += ["chunk of " + chunk.file_path for chunk in [here ->:file_has_context:->]];
    }
    can on_symbol with Symbol entry {
        if here.span.end - here.span.start > self.longer_than {
            self.seen.append("Symbol " + here.name);
        }
        self.seen += ["refers to " + other.name for other in [here ->:symbol_references_symbol:->]];
        for chunk in [here ->:symbol_in_context:->] {
            report chunk;
        }
    }
    can on_attempt with Attempt entry {
        self.seen.append("Attempt " + str(here.started_at.year));
        for summary in [here ->:attempt_has_summary:->] {
            report summary.text;
        }
        visit [->:attempt_has_event:->];
    }
    can on_event with Event entry {
        for call in [here ->:event_invokes_tool:->] {
            if call.duration_ms is not None {
                self.slow.append(call.duration_ms);
            }
        }
        self.seen += ["reads " + file.path for file in [here ->:event_reads_file:->]];
        self.seen += ["links " + chunk.file_path for chunk in [here ->:event_links_context:->]];
    }
}
"""
EXPECTED = [
    "File cart.py imports []",
    "chunk of cart.py",
    "File pay.py imports ['cart.py']",
    "chunk of pay.py",
    "Attempt 2023",
    "Symbol total",
    "refers to total",
    "reads cart.py",
    "links cart.py",
]


def _jac(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd / "home")}
    return subprocess.run(
        [JAC.require("venv", "bin", "jac"), *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def _file(folder: Path, source: str, name: str = "survey.jac") -> Path:
    path = folder / name
    path.write_text(source, encoding="utf-8")
    return path


def _walk(file: Path, **named: Any) -> Walked:
    return walk(shop(), file, python=JAC.python, **named)


def test_jac_checks_the_export_and_a_typed_walker_beside_it(tmp_path: Path) -> None:
    (tmp_path / "graph.jac").write_text("".join(as_jac(shop())), encoding="utf-8")
    _file(tmp_path, EVERY_EDGE)
    done = _jac("check", "graph.jac", "survey.jac", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_jac_refuses_a_walker_that_asks_for_a_field_that_no_node_has(tmp_path: Path) -> None:
    (tmp_path / "graph.jac").write_text("".join(as_jac(shop())), encoding="utf-8")
    wrong = EVERY_EDGE.replace("here.span.end -", "here.lines.end -")
    _file(tmp_path, wrong)
    assert _jac("check", "survey.jac", cwd=tmp_path).returncode != 0


def test_a_typed_walker_goes_over_every_kind_of_edge(tmp_path: Path) -> None:
    walked = _walk(_file(tmp_path, EVERY_EDGE), arguments={"longer_than": 3})
    assert sorted(walked.state["seen"]) == sorted(EXPECTED)
    assert walked.state["slow"] == [1823.25]
    assert walked.walker == "Survey"
    assert walked.reports == [
        "Rounding of totals: pytest failed",
        {"type": "ContextChunk", "file_path": "cart.py", "snippet": AWKWARD, "embedding": [0.5, -1.0]},
    ]


def test_the_exported_source_builds_the_same_graph_in_jac_alone(tmp_path: Path) -> None:
    (tmp_path / "graph.jac").write_text("".join(as_jac(shop())), encoding="utf-8")
    entry = "with entry { walked = Survey(longer_than=3) spawn build(); print(sorted(walked.seen)); }\n"
    source = EVERY_EDGE.replace("Project, File,", "build, Project, File,") + entry
    _file(tmp_path, source)
    done = _jac("run", "survey.jac", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(sorted(EXPECTED))
    walked = _walk(tmp_path / "survey.jac", arguments={"longer_than": 3})
    assert sorted(walked.state["seen"]) == sorted(EXPECTED), "the same file runs over a projection"


def test_what_a_walker_prints_is_kept_and_never_reaches_our_own_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = "can go with Project entry { print('loud'); report 'told'; }"
    walked = _walk(_file(tmp_path, f"import from graph {{ Project }}\nwalker Loud {{ {body} }}\n"))
    assert capfd.readouterr().out == ""
    assert walked.printed == "loud\ntold\n"
    assert walked.reports == ["told"]
    assert walked.printed_whole


def test_nothing_is_left_beside_the_walker(tmp_path: Path) -> None:
    helper = "def doubled(n: int) -> int { return 2 * n; }\n"
    _file(tmp_path, helper, "helper.jac")
    source = "import from graph { Project }\nimport from helper { doubled }\n"
    source += "walker Twice { can go with Project entry { report doubled(21); } }\n"
    assert _walk(_file(tmp_path, source, "my-walker.jac")).reports == [42]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["helper.jac", "my-walker.jac"]


def test_a_graph_hangs_from_nothing_and_is_gone_when_its_walk_has_ended(tmp_path: Path) -> None:
    source = "import from graph { Project, File, project_has_file }\n"
    source += "walker Count { can go with Project entry {\n"
    source += "report len([->:project_has_file:->]); report len([root-->]); } }\n"
    file = _file(tmp_path, source)
    assert [_walk(file).reports for _ in range(2)] == [[2, 0], [2, 0]]


def test_a_walker_that_never_ends_is_ended(tmp_path: Path) -> None:
    source = "import from graph { Project }\n"
    source += "walker Endless { can go with Project entry { while True { } } }\n"
    with pytest.raises(WalkFailed, match=r"more than 8 s and was ended"):
        _walk(_file(tmp_path, source), limits=Limits(seconds=8))


def test_a_result_that_is_too_large_is_refused(tmp_path: Path) -> None:
    source = "import from graph { Project }\n"
    source += "walker Large { can go with Project entry { report 'x' * 100000; } }\n"
    with pytest.raises(WalkFailed, match="larger than 50000 bytes"):
        _walk(_file(tmp_path, source), limits=Limits(result_bytes=50_000))


def test_printing_without_end_is_cut(tmp_path: Path) -> None:
    source = "import from graph { Project }\n"
    source += "walker Large { can go with Project entry { print('x' * 100000); } }\n"
    walked = _walk(_file(tmp_path, source), limits=Limits(printed_bytes=1_000))
    assert walked.printed == "x" * 1_000
    assert not walked.printed_whole


TWO = """import sys;
import from graph { Project }
walker One { has n: int = 1; can go with Project entry { report self.n; } }
walker Two { can go with Project entry { report 1 / 0; } }
walker Three { can go with Project entry { report sys; } }
"""


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, r"several walkers; name one of: One, Three, Two"),
        ({"walker": "Four"}, r"no walker Four; it declares: One, Three, Two"),
        ({"walker": "One", "arguments": {"m": 2}}, r"One has no field m; it has: n"),
        ({"walker": "Two"}, r"ZeroDivisionError: division by zero"),
        ({"walker": "Three"}, r"a module was reported, which has no JSON form"),
    ],
)
def test_a_walk_that_cannot_be_is_refused_with_its_remedy(
    tmp_path: Path, named: dict[str, Any], said: str
) -> None:
    with pytest.raises(WalkFailed, match=said):
        _walk(_file(tmp_path, TWO), **named)


def test_one_of_several_walkers_is_run_with_the_arguments_given(tmp_path: Path) -> None:
    assert _walk(_file(tmp_path, TWO), walker="One", arguments={"n": 7}).reports == [7]


@pytest.mark.parametrize(
    "source", ["walker {", "node Alone {}\n", "import from nowhere { x }\nwalker W {}\n"]
)
def test_a_file_without_a_walker_that_compiles_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ToolError) as refused:
        _walk(_file(tmp_path, source))
    assert refused.value.code == "WALKER_FAILED"


def test_five_thousand_nodes_are_walked_within_a_minute(tmp_path: Path) -> None:
    draft = Draft(Project(ROOT, ""))
    for n in range(5_000):
        draft.link("project_has_file", 0, draft.add(File(f"{n}.py", "python", "", ROOT)))
    source = "import from graph { Project, File, project_has_file }\nwalker Count { has n: int = 0;\n"
    source += "can go with Project entry { visit [->:project_has_file:->]; }\n"
    source += "can on_file with File entry { self.n += 1; } }\n"
    walked = walk(whole(draft), _file(tmp_path, source), python=JAC.python, limits=Limits(seconds=60))
    assert walked.state == {"n": 5_000}


def test_a_walker_learns_what_its_graph_leaves_out(tmp_path: Path) -> None:
    graph = shop()
    cut = replace(graph, coverage=replace(graph.coverage, edges_left_out={"file_imports_file": 2}))
    source = "import from graph { Project }\nwalker Idle { can go with Project entry { report 1; } }\n"
    walked = walk(cut, _file(tmp_path, source), python=JAC.python)
    assert walked.notes == ["file_imports_file: 2 edges lead to nodes that were left out"]


REAL = """
import from graph {
    Project, File, Symbol, Attempt, Event, project_has_file, project_has_attempt, file_has_symbol,
    symbol_references_symbol, attempt_has_event, event_reads_file
}

walker Touched {
    has names: list[str] = [];

    can begin with Project entry {
        visit [->:project_has_attempt:->];
    }
    can on_attempt with Attempt entry {
        visit [->:attempt_has_event:->];
    }
    can on_event with Event entry {
        visit [->:event_reads_file:->];
    }
    can on_file with File entry {
        for symbol in [here ->:file_has_symbol:->] {
            users = [user.name for user in [symbol <-:symbol_references_symbol:<-]];
            self.names.append(here.path + " " + symbol.name + " " + str(sorted(users)));
        }
    }
}
"""


def test_a_walker_follows_an_attempt_into_an_indexed_project(tmp_path: Path) -> None:
    with workshop(tmp_path) as shop:
        tried(shop)
        graph = bounded(shop.store, str(shop.root), now_ns=shop.clock.now_ns(), trace_file=shop.etg.path)
    walked = walk(graph, _file(tmp_path, REAL), python=JAC.python)
    assert sorted(walked.state["names"]) == [
        "shop/cart.py Cart ['charge']",
        "shop/cart.py pay ['charge']",
        "shop/cart.py total ['pay']",
        "shop/pay.py charge ['test_charge']",
    ]
