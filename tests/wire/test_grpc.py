"""The desk over gRPC: the same calls, errors and rights as over HTTP, seen by an ordinary gRPC client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc as _grpc  # pyright: ignore[reportMissingTypeStubs]
import pytest
from google.protobuf import empty_pb2

from tests.fixtures.echo import echo
from tests.fixtures.probe import probe
from tests.fixtures.ward import Ward, ward
from tests.support import BOUND, ROOT, run, until
from tracedesk.calls.history import newest
from tracedesk.config import Settings
from tracedesk.contract import Annotations, Arguments, Call, Tool, Toolset
from tracedesk.desk import Desk, open_desk
from tracedesk.errors import STANDARD, ToolError
from tracedesk.journal import Reader
from tracedesk.serve import build_guard
from tracedesk.wire import provider_pb2 as pb
from tracedesk.wire.auth import Tokens
from tracedesk.wire.grpc import serving
from tracedesk.wire.grpc_room import SERVICE, STRANGERS_CALLS, STRANGERS_STREAMS

grpc: Final[Any] = _grpc
Metadata = tuple[tuple[str, str], ...]


async def _say(args: Arguments, call: Call[None]) -> dict[str, Any]:
    return {"said": args}


async def _refuse(args: Arguments, call: Call[None]) -> dict[str, Any]:
    raise ToolError(args["code"], "field x is wrong; send another", {"field": "x"})


venue: Toolset[None] = Toolset("exchange", summary="A stand-in.", guide="call get_ticker.")
for name, handler in (("get_ticker", _say), ("get_order", _refuse)):
    venue.add(
        Tool(
            name=name,
            toolset="exchange",
            description="A tool.",
            input={"type": "object"},
            output=None,
            annotations=Annotations(read_only=True),
            scope="read",
            family=STANDARD,
            deadline=5,
            handler=handler,
        )
    )


@dataclass(slots=True)
class Client:
    """A desk that serves gRPC and a channel to it."""

    desk: Desk
    channel: Any
    port: int
    token: str

    async def call(self, method: str, request: Any, answer: Any, metadata: Metadata = ()) -> Any:
        stub = self.channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=_serialize,
            response_deserializer=answer.FromString,
        )
        return await stub(request, metadata=metadata, timeout=BOUND)

    async def invoke(self, tool: str, arguments: Any = None, metadata: Metadata = (), **more: str) -> Any:
        payload = pb.Json(value=json.dumps(arguments or {}).encode())
        request = pb.InvokeRequest(tool_name=tool, payload=payload, **more)
        answer = await self.call("Invoke", request, pb.InvokeResponse, metadata)
        assert answer.error == ""
        return json.loads(answer.result.value)

    def stream(self, topic: str, metadata: Metadata = ()) -> Any:
        stub = self.channel.unary_stream(
            f"/{SERVICE}/Stream",
            request_serializer=pb.StreamRequest.SerializeToString,
            response_deserializer=pb.CloudEvent.FromString,
        )
        return stub(pb.StreamRequest(topic=topic), metadata=metadata)

    @property
    def bearer(self) -> Metadata:
        return (("authorization", f"Bearer {self.token}"),)


def _serialize(message: Any) -> bytes:
    return message.SerializeToString()


@asynccontextmanager
async def grpc_desk(home: Path) -> AsyncGenerator[Client]:
    settings = Settings(home=home, toolsets=("desk",), check_output=True)
    async with open_desk(settings, extra=[echo, probe, ward, venue]) as desk:
        guard, token = build_guard(desk, "grpc://127.0.0.1")
        async with (
            serving(desk.kernel, guard, desk.clock, "127.0.0.1:0") as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            yield Client(desk, channel, port, token)


async def _failure(awaited: Any) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaited
    return caught.value


def _envelope(failure: Any) -> Any:
    return json.loads(dict(failure.trailing_metadata())["tracedesk-error-bin"])["error"]


# --- what is served


def test_the_capabilities_are_the_desks_tools_resources_and_prompts(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            listed = await client.call("ListCapabilities", empty_pb2.Empty(), pb.Capabilities)
            assert {tool.name for tool in listed.tools} == set(client.desk.registry.tools)
            touch = next(tool for tool in listed.tools if tool.name == "touch")
            assert touch.scope == "write"
            assert json.loads(touch.input_schema.value)["type"] == "object"
            bed = next(resource for resource in listed.resources if resource.uri_scheme == "ward")
            assert (bed.uri, bed.mime_type, bed.subscribable) == ("ward://bed/{bed}", "text/plain", True)
            consider = next(prompt for prompt in listed.prompts if prompt.name == "consider")
            assert json.loads(consider.args_schema.value)["required"] == ["symbol"]

    run(main())


def test_a_tool_is_invoked_with_its_exact_numbers(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            request = pb.InvokeRequest(tool_name="prices")
            answer = await client.call("Invoke", request, pb.InvokeResponse)
            plain = (await client.desk.dispatch.call("prices", {}, _origin())).body
            assert answer.result.value == plain

    run(main())


def _origin() -> Any:
    from tracedesk.wire.dispatch import Origin
    from tracedesk.wire.door import Silence

    return Origin("test", Silence())


@pytest.mark.parametrize("name", ["get_ticker", "binance.get_ticker"])
def test_a_tool_of_the_exchange_has_its_name_with_and_without_the_prefix(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            assert await client.invoke(name, {"symbol": "BTCUSDT"}) == {"said": {"symbol": "BTCUSDT"}}

    run(main())


def test_other_tools_have_no_prefix(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            failure = await _failure(client.invoke("binance.prices"))
            assert failure.code() == grpc.StatusCode.NOT_FOUND
            assert "ListCapabilities" in failure.details()

    run(main())


def test_a_text_is_a_json_string(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            assert isinstance(await client.invoke("plain_text"), str)

    run(main())


def test_the_correlation_id_is_the_attempt_of_the_calls_record(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            request = pb.InvokeRequest(tool_name="prices", correlation_id="gateway-7")
            stub = client.channel.unary_unary(
                f"/{SERVICE}/Invoke",
                request_serializer=pb.InvokeRequest.SerializeToString,
                response_deserializer=pb.InvokeResponse.FromString,
            )
            call = stub(request, metadata=client.bearer)
            await call
            ref = dict(await call.trailing_metadata())["tracedesk-call"]
            source = await client.invoke("get_source", {"ref": ref}, client.bearer)
            assert (source["body"]["tool"], source["body"]["attempt"]) == ("prices", "gateway-7")

    run(main())


def test_a_resource_is_read_by_its_toolsets_rules(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            request = pb.ResourceRequest(uri="WARD://BED/A3")
            read = await client.call("ReadResource", request, pb.ResourceResponse)
            assert (read.content, read.mime_type, read.error) == (b"bed a3", "text/plain", "")
            bad = pb.ResourceRequest(uri="ward://bed/")
            failure = await _failure(client.call("ReadResource", bad, pb.ResourceResponse))
            assert failure.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "Use ward://bed/{bed}" in failure.details()
            none = pb.ResourceRequest(uri="probe://none")
            failure = await _failure(client.call("ReadResource", none, pb.ResourceResponse))
            assert failure.code() == grpc.StatusCode.NOT_FOUND

    run(main())


def test_a_prompt_comes_with_its_arguments_filled_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            request = pb.PromptRequest(prompt_name="consider", arguments=pb.Json(value=b'{"symbol":"MSFT"}'))
            (message,) = (await client.call("GetPrompt", request, pb.PromptResponse)).messages
            assert (message.role, message.content) == ("user", "Consider MSFT.")
            for arguments in (b"{}", b'{"symbol":5}', b'{"symbol":"A","x":"y"}', b"[]", b"{"):
                bad = pb.PromptRequest(prompt_name="consider", arguments=pb.Json(value=arguments))
                failure = await _failure(client.call("GetPrompt", bad, pb.PromptResponse))
                assert failure.code() == grpc.StatusCode.INVALID_ARGUMENT, arguments

    run(main())


# --- errors


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("INVALID_PARAMETER", "INVALID_ARGUMENT"),
        ("INVALID_SYMBOL", "NOT_FOUND"),
        ("FILTER_FAILURE", "FAILED_PRECONDITION"),
        ("RATE_LIMITED", "RESOURCE_EXHAUSTED"),
        ("VENUE_UNAVAILABLE", "UNAVAILABLE"),
        ("OUTCOME_UNKNOWN", "UNKNOWN"),
    ],
)
def test_an_error_is_a_status_with_the_desks_envelope_beside_it(
    tmp_path: Path, code: str, status: str
) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            failure = await _failure(client.invoke("get_order", {"code": code}))
            assert failure.code().name == status
            assert failure.details() == "field x is wrong; send another"
            assert _envelope(failure) == {
                "code": code,
                "message": "field x is wrong; send another",
                "details": {"field": "x"},
            }

    run(main())


def test_an_error_is_also_in_the_answers_own_field(tmp_path: Path) -> None:
    """Some clients hand out the message beside the status; Python's does not, so look at the wire."""
    request = pb.InvokeRequest(tool_name="get_order", payload=pb.Json(value=b'{"code":"INVALID_SYMBOL"}'))

    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            data = await _on_the_wire(client.port, f"/{SERVICE}/Invoke", request.SerializeToString())
            expected = pb.InvokeResponse(error="field x is wrong; send another").SerializeToString()
            assert expected in data

    run(main())


async def _on_the_wire(port: int, path: str, message: bytes) -> bytes:
    """What a server answers to one call, in HTTP/2 frames."""

    def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
        return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body

    def header(name: str, value: str) -> bytes:
        return b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()

    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "127.0.0.1"}
    fields |= {"content-type": "application/grpc", "te": "trailers"}
    head = b"".join(header(name, value) for name, value in fields.items())
    body = b"\x00" + len(message).to_bytes(4, "big") + message
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    writer.write(frame(1, 4, 1, head) + frame(0, 1, 1, body))
    data = b""
    async with asyncio.timeout(BOUND):
        while b"tracedesk-error-bin" not in data:
            data += await reader.read(65536)
    writer.close()
    return data


def test_a_payload_that_is_not_json_or_breaks_the_contract_is_an_invalid_argument(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            bad = pb.InvokeRequest(tool_name="echo", payload=pb.Json(value=b"{"))
            failure = await _failure(client.call("Invoke", bad, pb.InvokeResponse))
            assert failure.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "payload is not JSON" in failure.details()
            failure = await _failure(client.invoke("aim", {"propertyPath": 5}))
            assert failure.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert _envelope(failure)["code"] == "INVALID_JSON_PATH"

    run(main())


def test_a_handlers_bug_is_internal_and_keeps_its_secret(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            request = pb.ResourceRequest(uri="probe://broken")
            failure = await _failure(client.call("ReadResource", request, pb.ResourceResponse))
            assert failure.code() == grpc.StatusCode.INTERNAL
            assert "secret inside" not in failure.details()

    run(main())


# --- who may


def test_without_a_token_one_may_read_and_with_it_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            assert (await client.invoke("who_am_i"))["scope"] == "anonymous"
            failure = await _failure(client.invoke("touch"))
            assert failure.code() == grpc.StatusCode.UNAUTHENTICATED
            await client.invoke("touch", {}, client.bearer)
            known = await client.invoke("who_am_i", {}, client.bearer)
            assert (known["scope"], known["holder"]) == ("principal:owner", "subject:owner")
            reader = Tokens(tmp_path).issue("reader", ["read"])
            failure = await _failure(client.invoke("touch", {}, (("authorization", f"Bearer {reader}"),)))
            assert failure.code() == grpc.StatusCode.PERMISSION_DENIED

    run(main())


@pytest.mark.parametrize(
    "metadata",
    [
        (("authorization", "Bearer td_wrong"),),
        (("authorization", "Basic x"),),
        (("authorization", "Bearer a"), ("authorization", "Bearer b")),
    ],
)
def test_a_wrong_token_is_refused_also_for_reading(tmp_path: Path, metadata: Metadata) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            failure = await _failure(client.invoke("prices", {}, metadata))
            assert failure.code() == grpc.StatusCode.UNAUTHENTICATED

    run(main())


# --- following


def test_a_stream_brings_a_cloud_event_for_each_change_until_the_client_leaves(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            state: Ward = client.desk.states["ward"]
            stream = client.stream("WARD://bed/3")
            await stream.initial_metadata()
            await until(lambda: len(state.watchers) == 1)
            await client.desk.notify_resource("ward://bed/3")
            event = await asyncio.wait_for(stream.read(), BOUND)
            assert (event.specversion, event.type) == ("1.0", "tracedesk.resource.updated")
            assert event.source == "urn:tracedesk:desk"
            assert event.time.endswith("Z")
            assert json.loads(event.data.value) == {"uri": "WARD://bed/3"}
            await client.desk.notify_resource("ward://bed/3")
            assert (await asyncio.wait_for(stream.read(), BOUND)).id != event.id
            stream.cancel()
            await until(lambda: not state.watchers)
            assert state.told == [("on", "ward://bed/3"), ("off", "ward://bed/3")]

    run(main())


@pytest.mark.parametrize(
    ("topic", "status"),
    [
        ("ward://bed/full", "FAILED_PRECONDITION"),
        ("ward://bed/", "INVALID_ARGUMENT"),
        ("probe://item/AAPL", "INVALID_ARGUMENT"),
        ("", "INVALID_ARGUMENT"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, topic: str, status: str) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            failure = await _failure(client.stream(topic).read())
            assert failure.code().name == status
            assert failure.details()

    run(main())


def test_connections_that_send_nothing_are_closed_and_shut_out_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracedesk.wire.grpc.HANDSHAKE_SECONDS", 0.5)

    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            silent = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(200)]
            request = pb.InvokeRequest(tool_name="say", payload=pb.Json(value=b"{}"))
            await client.call("Invoke", request, pb.InvokeResponse, client.bearer)
            # The server's own settings may come first; then its end of the connection.
            await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in silent)), 60)
            for _, writer in silent:
                writer.close()

    run(main())


def test_strangers_streams_leave_room_for_the_owner_and_for_health(tmp_path: Path) -> None:
    from grpc_health.v1 import health_pb2  # pyright: ignore[reportMissingTypeStubs]
    from grpc_reflection.v1alpha import reflection_pb2  # pyright: ignore[reportMissingTypeStubs]

    health: Any = health_pb2
    mirror: Any = reflection_pb2

    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            state: Ward = client.desk.states["ward"]
            bed = "ward://bed/3"
            opened = [client.stream(bed) for _ in range(300)]
            await until(lambda: sum(stream.done() for stream in opened) == 300 - STRANGERS_STREAMS)
            codes = {await stream.code() for stream in opened if stream.done()}
            assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert len(state.watchers) == STRANGERS_STREAMS
            for path, asked in (
                ("/grpc.health.v1.Health/Watch", health.HealthCheckRequest()),
                ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", None),
            ):
                kind = client.channel.unary_stream if asked is not None else client.channel.stream_stream
                stub = kind(path, request_serializer=_serialize, response_deserializer=bytes)
                call = stub(asked) if asked is not None else stub(iter([mirror.ServerReflectionRequest()]))
                assert await call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            await client.invoke("touch", {}, client.bearer)
            check = client.channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=_serialize,
                response_deserializer=health.HealthCheckResponse.FromString,
            )
            assert (await check(health.HealthCheckRequest(service=SERVICE))).status == 1
            own = client.stream(bed, client.bearer)
            await until(lambda: len(state.watchers) == STRANGERS_STREAMS + 1)
            for stream in (*opened, own):
                stream.cancel()
            await until(lambda: not state.watchers)
            again = client.stream(bed)
            await until(lambda: len(state.watchers) == 1)
            again.cancel()

    run(main())


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _unread_calls(count: int) -> bytes:
    """HTTP/2 of a client that asks for the capabilities so often and never has room for an answer."""
    fields = {
        ":path": f"/{SERVICE}/ListCapabilities",
        ":authority": "desk",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
    block = b"\x83\x86" + b"".join(
        b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in pairs
    )
    no_window = _frame(4, 0, 0, b"\x00\x04" + bytes(4))
    calls = (_frame(1, 4, 2 * n + 1, block) + _frame(0, 1, 2 * n + 1, bytes(5)) for n in range(count))
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + no_window + b"".join(calls)


def test_answers_that_strangers_never_take_have_a_bound_and_shut_out_no_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            ask = ("ListCapabilities", empty_pb2.Empty(), pb.Capabilities)

            async def is_served() -> bool:
                try:
                    await client.call(*ask)
                except grpc.aio.AioRpcError as refused:
                    if refused.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                        raise
                    return False
                return True

            _, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(_unread_calls(2 * STRANGERS_CALLS))
            async with asyncio.timeout(20):
                while await is_served():
                    pass
                for _ in range(5):
                    await client.call(*ask, client.bearer)
                writer.close()
                while not await is_served():
                    pass

    run(main())


# --- what stands beside it


def test_health_and_reflection_are_served(tmp_path: Path) -> None:
    from grpc_health.v1 import health_pb2  # pyright: ignore[reportMissingTypeStubs]
    from grpc_reflection.v1alpha import reflection_pb2  # pyright: ignore[reportMissingTypeStubs]

    health: Any = health_pb2
    mirror: Any = reflection_pb2

    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            check = client.channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health.HealthCheckRequest.SerializeToString,
                response_deserializer=health.HealthCheckResponse.FromString,
            )
            for service in ("", SERVICE):
                assert (await check(health.HealthCheckRequest(service=service))).status == 1
            ask = client.channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                request_serializer=mirror.ServerReflectionRequest.SerializeToString,
                response_deserializer=mirror.ServerReflectionResponse.FromString,
            )
            (answer,) = [a async for a in ask(iter([mirror.ServerReflectionRequest(list_services="")]))]
            assert SERVICE in {service.name for service in answer.list_services_response.service}

    run(main())


def test_the_generated_messages_are_what_protoc_makes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", "src", "tracedesk/wire/provider.proto"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True)
    for name in ("provider_pb2.py", "provider_pb2.pyi"):
        committed = (ROOT / "src/tracedesk/wire" / name).read_text(encoding="utf-8")
        own, made = committed.split("# type: ignore\n", 1)
        assert all(line.startswith("#") for line in own.splitlines())
        assert made == (tmp_path / "tracedesk/wire" / name).read_text(encoding="utf-8"), name


# --- malformed input


def _as_is(data: bytes) -> bytes:
    return data


async def _status_of(client: Client, method: str, data: bytes) -> Any:
    """The status of a call whose message is these bytes."""
    stub = client.channel.unary_stream(method, request_serializer=_as_is, response_deserializer=_as_is)

    async def read_all() -> None:
        async for _ in stub(data, timeout=BOUND):
            pass

    failure = await _failure(read_all())
    return failure.code(), failure.details()


@pytest.mark.parametrize(
    "method",
    [
        *(
            f"/{SERVICE}/{name}"
            for name in ("ListCapabilities", "Invoke", "ReadResource", "GetPrompt", "Stream")
        ),
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ],
)
def test_bytes_that_are_no_message_are_an_invalid_argument(tmp_path: Path, method: str) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            code, details = await _status_of(client, method, b"\xff\xff\xff\xff")
            assert code == grpc.StatusCode.INVALID_ARGUMENT
            assert details.startswith("The message is malformed")

    run(main())


@pytest.mark.parametrize("levels", [65, 300, 100_000])
def test_a_payload_that_nests_too_deeply_is_an_invalid_argument_and_a_record(
    tmp_path: Path, levels: int
) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            payload = pb.Json(value=b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}")
            request = pb.InvokeRequest(tool_name="get_ticker", payload=payload)
            failure = await _failure(client.call("Invoke", request, pb.InvokeResponse))
            assert failure.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert _envelope(failure)["code"] == "INVALID_PARAMETER"
            assert "64 levels" in failure.details()
            assert client.desk.calls.errors == 1
            client.desk.calls.stop()
            with Reader(client.desk.calls.path) as reader:
                (call,) = newest(reader, 10)
            assert (call.body["tool"], call.body["outcome"]) == ("get_ticker", "error")

    run(main())


def test_prompt_arguments_that_nest_too_deeply_are_an_invalid_argument(tmp_path: Path) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            deep = pb.Json(value=b'{"symbol":' + b"[" * 300 + b"]" * 300 + b"}")
            request = pb.PromptRequest(prompt_name="consider", arguments=deep)
            failure = await _failure(client.call("GetPrompt", request, pb.PromptResponse))
            assert failure.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "64 levels" in failure.details()

    run(main())
