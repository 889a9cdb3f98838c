"""Orders planted in contracts, files, projects and corpora: no fuzz tool gives one as the desk's own."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.foreign import distinct, judged, spoken, tools_of
from tests.fixtures.injections import INJECTIONS, ORDERS
from tests.fuzz import desks
from tests.support import BOUND, run, until
from tracedesk.errors import ToolError
from tracedesk.foreign import quoted
from tracedesk.fuzz import config, corpus_files, foundry_toml, suite_report
from tracedesk.fuzz.building import options
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.foundry_settings import inline
from tracedesk.fuzz.result import verdict
from tracedesk.fuzz.suites import Outcome
from tracedesk.fuzz.told import Told

NAMES = ["".join(filter(str.isascii, order.title())).replace(" ", "_") for order in ORDERS[:9]]
PLAIN = ["".join(c for c in name if c.isalnum() or c == "_") for name in NAMES]


def _contract() -> str:
    """A contract whose every name and text is an order."""
    lines = ["# pragma version ~=0.4.0", f'"""{ORDERS[0]}"""', "x: uint256"]
    for name, order in zip(PLAIN, ORDERS, strict=False):
        lines += [f"event E{name}:", "    text: String[100]", ""]
        lines += [
            "@external",
            f"def {name}(a: uint256):",
            f'    """{order}"""',
            f'    log E{name}(text="{order}")',
        ]
        lines += [f'    assert a < 1000, "{order}"', "    self.x = a", ""]
        lines += ["@external", "@view", f"def say_{name}() -> String[100]:", f'    return "{order}"', ""]
        lines += ["@external", "@view", f"def echidna_{name}() -> bool:", "    return self.x != 13", ""]
    return "\n".join(lines)


def test_a_campaign_gives_no_orders_in_the_desks_voice(tmp_path: Path) -> None:
    found: list[Any] = []
    asked: set[str] = set()
    path = tmp_path / f"{PLAIN[0]}.vy"
    path.write_text(_contract())
    settings = tmp_path / "echidna.yaml"
    settings.write_text("".join(f"{json.dumps(order)}: 1\n" for order in INJECTIONS[::10]))

    async def main() -> None:
        async with desks.agent(tmp_path / "home", tmp_path, max_tokens=1_000_000) as agent:

            async def ask(tool: str, **arguments: Any) -> Any:
                asked.add(tool)
                return judged(tool, await agent.timely(tool, arguments), found)

            given = {"path": str(path), "config": str(settings), "seed": 7, "workers": 1, "timeout": 300}
            begun = await ask("start_campaign", **given, testLimit=desks.ENDLESS)
            assert begun["warnings"]
            await agent.until("read_logs", lambda a: a["totalCount"] >= 5)
            await agent.until("campaign_status", lambda a: str(a).count("failed") > 3 or "solved" in str(a))
            await ask("sample_function", functionSignature=f"{PLAIN[1]}(uint256)")
            for name in PLAIN:
                sequence = [f"{name}(13)", f"{name}(5000)"]
                ran = await ask("execute_sequence", sequence=sequence, trace=True)
                assert "transactions" in ran, ran
                await ask("execute_sequence", sequence=[f"say_{name}()"], trace=True)
                await ask("inject_transaction", sequence=sequence)
                await ask("prioritize_function", functionSignature=f"{name}(uint256)")
                await ask("avoid_function", functionSignature=f"say_{name}()")
                await ask("find_transaction_in_corpus", functionSignature=f"{name}(uint256)")
                await ask("get_reproducers", test=f"echidna_{name}", format="foundry")
                await ask("sample_function", functionSignature=f"say_{name}()")
                await ask("sample_function")
                await ask("show_coverage", contract=name)
            for tool in ("execute_sequence", "inject_transaction"):
                for call in ("nothing()", f"{PLAIN[0]}(1, 2)", f"{PLAIN[0]}(true)"):
                    echoes: list[Any] = []
                    judged(tool, await agent.timely(tool, {"sequence": [call]}), echoes)
                    # The call itself is the caller's own word.
                    found.extend(e for e in echoes if spoken({"": e[2].replace(call, "")}, {}))
            await ask("show_coverage", contract="none")
            await ask("get_reproducers", test="none")
            await ask("sample_function", functionSignature="none()")
            await agent.until("get_reproducers", lambda a: len(a["reproducers"]) >= 3)
            await ask("get_reproducers")
            for tool in ("target", "campaign_status", "read_logs", "show_coverage", "dump_lcov"):
                await ask(tool)
            await ask("get_corpus_size")
            await ask("inspect_corpus_transactions", limit=100)
            await ask("clear_priorities")
            events = (await agent.call("read_logs", eventType="PropertyFalsified"))["events"]
            assert events
            for each in events:
                for tool in ("get_source", "trace"):
                    judged(tool, await agent.raw(tool, {"ref": each["data"]["ref"]}), found)
            await ask("stop_campaign")
            await until(lambda: not list(desks.find(tmp_path / "home", desks.KIND)), BOUND)
            await ask("show_coverage")
            await ask("read_logs")

    with desks.no_host_left(tmp_path / "home"):
        run(main())
    assert distinct(found) == {}, "\n".join(map(str, distinct(found).items()))
    assert asked == tools_of("fuzz")


def _refused(found: list[Any], name: str, work: Any) -> None:
    with pytest.raises((ToolError, ValueError)) as refused:
        work()
    said = refused.value.message if isinstance(refused.value, ToolError) else str(refused.value)
    found += [(name, *each) for each in spoken({"message": said}, {})]


def test_a_hostile_project_is_refused_in_the_desks_own_words(tmp_path: Path) -> None:
    found: list[Any] = []
    for number, order in enumerate(INJECTIONS):
        text = json.dumps(order)
        for key in ("out", "libs", "remappings", "src", "evm_version"):
            folder = tmp_path / f"{number}{key}"
            folder.mkdir()
            value = f"[{text}]" if key in ("libs", "remappings") else text
            for given in (value, value.replace('"', '"/../../', 1)):
                (folder / "foundry.toml").write_text(f"[profile.default]\n{key} = {given}\n", "utf-8")
                try:
                    compile_project(folder)
                except ToolError as refused:
                    found += [(key, *each) for each in spoken({"message": refused.message}, {})]
        for toml in (f"[{text}]\n[{text}]\n", f"{text}.a = 1\n{text} = 2\n", f"a = 1\n[a.{text}]\n"):
            _refused(found, "toml", partial(_toml, tmp_path, toml))
        comment = "contract A {\n/// forge-config: default.fuzz.runs = -7\nfunction testFuzz_x() public {}\n}"
        _refused(found, "inline", partial(inline, comment, f"{order}.sol"))
        for kind, status in (("unit", "failed"), ("setup", "failed"), ("fuzz", "undecided")):
            reason = f"Error({text})" if kind == "unit" else f"the deployment failed: {quoted(order)}"
            row = {"name": "test_x()", "kind": kind, "status": status, "reason": reason}
            lines = list(suite_report.details(Outcome("a.t.sol:A", (row,), 0.1)))
            found += [("details", *each) for each in spoken({"text": lines}, {})]
        for reason in (f"Error({text})", f"AssertionFailed({text})", f"assertion failed: {order}"):
            said = verdict({"type": "property", "status": "failed", "reason": reason})
            found += [("verdict", *each) for each in spoken({"text": said}, {})]
        for value in (order, [order], {order: 1}):
            _refused(found, "told", Told(value, f"{order}.json", "a").number)
        for key in ("workers", "testMode", "deployer", "cryticArgs", "prefix", "coverage", "filterFunctions"):
            try:
                found += spoken_warnings(config.parse(f"{key}: {text}\n", "echidna.yaml", None))
            except ToolError as refused:
                found += [(key, *each) for each in spoken({"message": refused.message}, {})]
        found += spoken_warnings(config.parse(f"{text}: 1\n", "echidna.yaml", None))
        words = ("--optimize-runs", order)
        try:
            options(
                config.parse(f"cryticArgs: {json.dumps(words)}\n", "echidna.yaml", None).config, trusted=False
            )
        except ToolError as refused:
            found += [("cryticArgs", *each) for each in spoken({"message": refused.message}, {})]
        for row in ({"call": {"tag": order, "contents": order}}, {order: order}, order):
            try:
                corpus_files.read(json.dumps([row]).encode())
            except ValueError as refused:
                found += [("corpus", *each) for each in spoken({"message": str(refused)}, {})]
    assert distinct(found) == {}, "\n".join(map(str, distinct(found).items()))


def _toml(folder: Path, text: str) -> None:
    (folder / "foundry.toml").write_text(text, "utf-8")
    foundry_toml.read(folder)


def spoken_warnings(reading: config.Reading) -> list[tuple[str, str, str]]:
    return [("warnings", *each) for each in spoken({"warnings": list(reading.warnings)}, {})]
