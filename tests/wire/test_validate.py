"""Validation is linear in its input, never leaves the machine, and knows the contracts' formats."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.echo import echo
from tracedesk import contracts
from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.wire.validate import Validator, compile_schema

GOOD = echo.tools["echo"]


def test_a_pattern_that_would_backtrack_for_ever_is_matched_in_linear_time() -> None:
    schema = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}}
    validator = Validator(replace(GOOD, input=schema))
    with pytest.raises(ToolError):
        validator.accept({"s": "a" * 200_000 + "!"})


def test_patterns_that_need_backtracking_are_refused_when_compiled() -> None:
    with pytest.raises(Exception, match="regex"):
        compile_schema({"type": "string", "pattern": "(?=a)(b|c)\\1"})


def test_a_remote_reference_in_a_schema_is_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        asked = threading.Event()

        def watch() -> None:
            try:
                listener.accept()[0].close()
                asked.set()
            except TimeoutError:
                pass

        watcher = threading.Thread(target=watch)
        watcher.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        with pytest.raises(Exception, match=r"(?i)resolv|retriev|offline|unavailable|referenc"):
            compile_schema({"$ref": url})
        watcher.join()
    assert not asked.is_set()


@pytest.mark.parametrize("toolset", ["backtest", "fuzz", "codegraph", "trading", "desk"])
def test_every_contract_compiles_with_the_linear_engine(toolset: str) -> None:
    for name in contracts.names(toolset):
        contract = contracts.load(toolset, name)
        compile_schema(contract.input)
        compile_schema(contract.output)


@pytest.mark.parametrize(
    ("run", "fine"),
    [
        ("a1b2c3d4-e5f6-7890-abcd-ef1234567890", True),
        ("A1B2C3D4-E5F6-7890-ABCD-EF1234567890", True),
        ("a1b2c3d4e5f67890abcdef1234567890", False),
        ("{a1b2c3d4-e5f6-7890-abcd-ef1234567890}", False),
        ("x", False),
    ],
)
def test_a_run_id_is_checked_as_a_uuid(run: str, fine: bool) -> None:
    schema = contracts.load("backtest", "get_validation_errors").input
    assert compile_schema(schema).is_valid({"runId": run}) is fine


def test_a_date_time_without_a_zone_is_refused_where_the_contract_has_the_format() -> None:
    schema = contracts.load("codegraph", "etg_log_event").input
    event: dict[str, Any] = {"attempt_id": "a", "kind": "checkpoint", "payload": {}}
    assert compile_schema(schema).is_valid({**event, "timestamp": "2026-01-01T00:00:00Z"})
    assert not compile_schema(schema).is_valid({**event, "timestamp": "2026-01-01T00:00:00"})


def test_the_search_with_no_criterion_is_refused_with_the_criteria_named() -> None:
    contract = contracts.load("fuzz", "find_transaction_in_corpus")
    validator = Validator(replace(GOOD, name="find", input=contract.input, output=None))
    for arguments in ({}, {"campaign_id": "c"}):
        with pytest.raises(ToolError, match="Give at least one of: functionSignature"):
            validator.accept(arguments)


def test_a_value_in_a_message_is_redacted_and_short() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    with pytest.raises(ToolError) as caught:
        Validator(replace(GOOD, input=schema)).accept({"n": key})
    assert key not in caught.value.message
    with pytest.raises(ToolError) as caught:
        Validator(replace(GOOD, input=schema)).accept({"n": "x" * 100_000})
    assert len(caught.value.message) < 500


def test_defaults_are_not_shared_between_calls() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"tags": {"type": "array", "default": []}}}
    validator = Validator(replace(GOOD, input=schema))
    validator.accept({})["tags"].append("mine")
    assert validator.accept({}) == {"tags": []}


@pytest.mark.parametrize("written", ["10.0", "1e1", "10"])
def test_a_whole_number_is_an_integer_however_it_is_written(written: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}}
    accepted = Validator(replace(GOOD, input=schema)).accept(json.loads(b'{"n": %s}' % written.encode()))
    assert (accepted["n"], type(accepted["n"])) == (10, int)
