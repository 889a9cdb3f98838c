"""How the market stands among the other parts: light to import, closed to all but its public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import tracedesk.market
from tests.support import ROOT

SOURCE = ROOT / "src" / "tracedesk"
READERS = {"tracedesk.market.dataset", "tracedesk.market.bars", "tracedesk.market.view"}
"""The modules through which bars could be read without a view."""

_USE = """
import sys
import tracedesk.market as market
files = []
sys.addaudithook(lambda event, args: files.append(str(args[0])) if event == "open" else None)
clock = market.ReplayClock()
print([name for name in files if "data" in name.split("/")])
market.View(clock).quote("FB")
outside = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"tracedesk"}
print(sorted(name for name in outside if not name.startswith(("_", "sitecustomize"))))
print("zoneinfo" in sys.modules)
print(sorted({name.rpartition("/")[2] for name in files if "data" in name.split("/")}))
"""


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    sources = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return (
        named | {str(n.module) for n in sources} | {f"{n.module}.{a.name}" for n in sources for a in n.names}
    )


def test_no_part_of_the_product_reads_bars_past_the_view() -> None:
    others = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "market"]
    assert {path.name: found for path in others if (found := _imports(path) & READERS)} == {}
    texts = {path.name: path.read_text(encoding="utf-8") for path in others}
    assert [name for name, text in texts.items() if "market.dataset" in text or "EMBEDDED" in text] == []


def test_the_public_names_hold_no_whole_data() -> None:
    public = {name: getattr(tracedesk.market, name) for name in tracedesk.market.__all__}
    assert {"View", "ReplayClock", "Move", "Bar", "Bars", "Quote", "calendar"} <= set(public)
    assert [name for name, value in public.items() if hasattr(value, "manifest")] == []


def test_a_quote_needs_the_standard_library_its_own_file_and_no_time_zone_database() -> None:
    command = [sys.executable, "-I", "-c", _USE]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    before, outside, zone, files = done.stdout.splitlines()
    assert (before, outside, zone) == ("[]", "[]", "False")
    assert files == "['FB.bars', 'actions.csv', 'manifest.json']"


def test_the_page_of_the_market_tells_the_format_the_rules_and_the_licence() -> None:
    page = (ROOT / "docs" / "market.md").read_text(encoding="utf-8")
    for title in ("## Bars", "## Adjusted closes", "## Calendar", "## Replay clock", "## View", "## Licence"):
        assert title in page
    for name in tracedesk.market.__all__:
        assert f"`{name}" in page, name


def test_the_example_of_the_page_runs_and_says_what_it_gives() -> None:
    page = (ROOT / "docs" / "market.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    for line in code.splitlines():
        exec(line, names)
        statement, _, said = line.partition("# Decimal('")
        if said:
            assert eval(statement, names) == Decimal(said.split("'")[0])
    assert str(names["move"].closed[0]) == "2012-12-03"
