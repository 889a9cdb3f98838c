"""OpenTelemetry's own parts: its messages read our exports, and its SDK's exporter is understood by us."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.codegraph.capture.support import EVERY, drops, traced
from tests.codegraph.desks import agent
from tests.judges.install import LOCKS, OTLP, PROTO
from tests.judges.support import run_node
from tests.support import run
from tracedesk.codegraph.capture import otlp
from tracedesk.codegraph.capture.export import Attempt, export
from tracedesk.jobs import in_thread
from tracedesk.primitives import json as exact

pytestmark = [pytest.mark.judge, pytest.mark.timeout(180)]

SEND: Final = str(LOCKS / "otlp" / "send.mjs")
DECODE: Final = """import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

def translated(value):
    if isinstance(value, list):
        return [translated(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode()
        if key in ("traceId", "spanId", "parentSpanId")
        else translated(item)
        for key, item in value.items()
    }

document = translated(json.load(sys.stdin))
request = json_format.ParseDict(document, ExportTraceServiceRequest())
again = ExportTraceServiceRequest.FromString(request.SerializeToString())
assert again == request
spans = [
    {
        "trace": span.trace_id.hex(),
        "span": span.span_id.hex(),
        "parent": span.parent_span_id.hex() or None,
        "name": span.name,
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "error": span.status.code == 2,
        "attributes": sorted(pair.key for pair in span.attributes),
        "events": [event.name for event in span.events],
    }
    for resource in again.resource_spans
    for scope in resource.scope_spans
    for span in scope.spans
]
print(json.dumps(spans))
"""
"""Reads an export with OpenTelemetry's own messages. OTLP writes ids in hexadecimal where protobuf's JSON has
base64, so those alone are translated first; everything else must be as protobuf wants it."""


def decoded(document: dict[str, Any]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [PROTO.python, "-c", DECODE], input=exact.dumps(document), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", EVERY)
def test_opentelemetrys_messages_accept_an_export_and_read_the_same_spans(tmp_path: Path, name: str) -> None:
    with traced(tmp_path) as desk:
        desk.drop(*drops(name))
        desk.drain()
        for attempt in desk.attempts():
            document = export(Attempt.of(desk.attempt(attempt)))
            assert decoded(document) == [
                {
                    "trace": span.trace_id,
                    "span": span.span_id,
                    "parent": span.parent_id,
                    "name": span.name,
                    "start": span.start_ns,
                    "end": span.end_ns,
                    "error": span.is_error,
                    "attributes": sorted(span.attributes),
                    "events": [event.name for event in span.events],
                }
                for span in otlp.read(document).spans
            ]


def test_the_decoder_would_refuse_a_member_that_otlp_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no field named"):
        decoded({"resourceSpans": [{"scopeSpans": [{"spans": [{"titel": "x"}]}]}]})


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_the_sdks_exporter_sends_arrives_as_an_attempt(tmp_path: Path, compression: str) -> None:
    async def main() -> None:
        async with agent(tmp_path / "home") as desk:
            words = [str(OTLP.require()), f"http://127.0.0.1:{desk.client.port}/v1/traces", desk.client.token]
            ran = await in_thread(lambda: run_node(SEND, [*words, compression]))
            assert ran.code == 0, ran.err
            told = json.loads(ran.out)
            assert [result["code"] for result in told["results"]] == [0, 0, 0], ran.err
            found = await desk.call("etg_get_attempt", attempt_id=told["traceId"])
            kinds = [event["kind"] for event in found["events"]]
            assert sorted(kinds) == sorted(
                ["context_retrieved", *("tool_start", "tool_end") * 2, "answer_rendered"]
            )
            calls = {call["name"]: call["status"] for call in found["tool_calls"]}
            assert calls == {"read_file": "ok", "shell": "timeout"}

    run(main())


def test_the_sdks_exporter_is_told_when_its_token_is_wrong(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path / "home") as desk:
            url = f"http://127.0.0.1:{desk.client.port}/v1/traces"
            ran = await in_thread(lambda: run_node(SEND, [str(OTLP.require()), url, "wrong", "none"]))
            results = json.loads(ran.out)["results"]
            assert [result["code"] for result in results] == [1, 1, 1]

    run(main())
