"""The official Python client, in both eras, over every transport: each behaviour runs on all of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.fixtures.conformance import WATCHED, conformance
from tests.judges.support import ROOT, drive
from tracedesk.config import load
from tracedesk.desk import open_desk
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import Bind, serving

Transport = Literal["modern-http", "modern-stdio", "handshake-http", "handshake-stdio", "sse"]
TRANSPORTS: Final[tuple[Transport, ...]] = (
    "modern-http",
    "modern-stdio",
    "handshake-http",
    "handshake-stdio",
    "sse",
)


@dataclass(frozen=True, slots=True)
class Way:
    """One way for a client to reach a desk of its own."""

    transport: Transport
    home: Path

    @property
    def is_modern(self) -> bool:
        return self.transport.startswith("modern")

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[Client]:
        """A connected client; its desk lives as long as it does."""
        mode = "auto" if self.is_modern else "legacy"
        async with self.target() as target, Client(target, mode=mode, **options) as client:
            yield client

    @asynccontextmanager
    async def target(self) -> AsyncGenerator[Any]:
        if self.transport.endswith("stdio"):
            arguments = ["-m", "tests.fixtures.serve", "stdio", str(self.home), "conformance"]
            yield StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)
            return
        async with http_desk(self.home) as url:
            yield sse_client(f"{url}/mcp/sse") if self.transport == "sse" else f"{url}/mcp"


@asynccontextmanager
async def http_desk(home: Path) -> AsyncGenerator[str]:
    """A desk of this process on a real socket."""
    async with open_desk(load({"home": home}, {}), extra=[conformance]) as desk:
        bind = Bind(listen("127.0.0.1", 0))
        app, _ = build_app(desk, bind)
        async with serving(app, bind):
            yield bind.base


@pytest.fixture(params=TRANSPORTS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return Way(request.param, tmp_path / "home")


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


# --- discovery ----------------------------------------------------------------------------------


def test_the_desk_introduces_itself_and_lists_its_tools(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            assert client.protocol_version == ("2026-07-28" if way.is_modern else "2025-11-25")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"desk_status", "test_simple_text", "test_structured"} <= set(tools)
            assert tools["test_structured"].output_schema is not None
            assert client.server_info is not None
            assert client.server_info.name == "tracedesk"
            assert "conformance: call test_simple_text." in (client.instructions or "")

    drive(main())


def test_a_client_that_probes_the_deprecated_stream_falls_back_to_the_handshake(tmp_path: Path) -> None:
    async def main() -> None:
        async with Way("sse", tmp_path / "home").target() as target, Client(target, mode="auto") as client:
            assert client.protocol_version == "2025-11-25"
            assert text_of(await client.call_tool("test_simple_text")).startswith("This is a simple")

    drive(main())


def test_resources_and_templates_are_listed_and_read(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            assert WATCHED in {r.uri for r in (await client.list_resources()).resources}
            templates = (await client.list_resource_templates()).resource_templates
            assert "test://template/{id}/data" in {t.uri_template for t in templates}
            (content,) = (await client.read_resource("test://template/42/data")).contents
            assert isinstance(content, types.TextResourceContents)
            assert json.loads(content.text)["id"] == "42"

    drive(main())


def test_an_unknown_resource_is_an_error_that_names_it(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            with pytest.raises(MCPError) as refused:
                await client.read_resource("test://nothing")
            assert refused.value.error.code == (-32602 if way.is_modern else -32002)
            assert refused.value.error.data == {"uri": "test://nothing"}

    drive(main())


def test_a_prompt_is_listed_completed_and_filled_in(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            names = {prompt.name for prompt in (await client.list_prompts()).prompts}
            assert "test_prompt_with_arguments" in names
            reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
            found = await client.complete(reference, {"name": "arg1", "value": "par"})
            assert found.completion.values == ["paris", "party"]
            prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
            content = prompt.messages[0].content
            assert isinstance(content, types.TextContent)
            assert content.text == "Prompt with arguments: arg1='one', arg2='two'"

    drive(main())


# --- calls --------------------------------------------------------------------------------------


def test_a_call_answers_with_the_same_value_as_text_and_as_structure(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            result = await client.call_tool("test_structured", {"n": 1.5})
            assert result.is_error is False
            assert text_of(result) == '{"n":1.5}'
            assert result.structured_content == {"n": 1.5}

    drive(main())


def test_pictures_arrive_as_they_were_made(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            (block,) = (await client.call_tool("test_image_content")).content
            assert isinstance(block, types.ImageContent)
            assert block.mime_type == "image/png"

    drive(main())


def test_a_refusal_is_a_result_with_the_envelope_as_text_alone(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            result = await client.call_tool("test_error_handling")
            assert result.is_error is True
            assert result.structured_content is None
            assert json.loads(text_of(result))["error"]["code"] == "INTENDED"

    drive(main())


def test_arguments_against_the_schema_are_a_refusal_of_the_tool(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            result = await client.call_tool("test_structured", {"n": "one"})
            assert result.is_error is True
            assert json.loads(text_of(result))["error"]["code"] == "INVALID_PARAMETER"

    drive(main())


def test_an_unknown_tool_is_a_protocol_error_with_the_envelope_as_data(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("no_such_tool")
            assert refused.value.error.code == -32602
            assert refused.value.error.data["error"]["code"] == "TOOL_NOT_FOUND"

    drive(main())


def test_many_calls_in_flight_are_each_answered_with_their_own_result(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            calls = (client.call_tool("test_structured", {"n": n}) for n in range(50))
            results = await asyncio.gather(*calls)
            assert [result.structured_content for result in results] == [{"n": n} for n in range(50)]

    drive(main())


# --- while a call runs --------------------------------------------------------------------------


def test_progress_arrives_in_order_before_the_answer(way: Way) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def main() -> None:
        async with way.client() as client:
            result = await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
            assert text_of(result) == "Progress reported"
        assert seen == [(done, 100, f"Completed step {done} of 100") for done in (0, 50, 100)]

    drive(main())


def test_log_messages_reach_a_client_that_asked_for_them(way: Way) -> None:
    seen: list[Any] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        seen.append(params.data)

    async def main() -> None:
        async with way.client(logging_callback=on_log, log_level="info") as client:
            await client.call_tool("test_logging_tool")
        assert seen == ["A message that only a client that asked for it sees"]

    drive(main())


async def answer_with_a_name(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    (field,) = cast("dict[str, Any]", params.requested_schema["properties"])
    return types.ElicitResult(action="accept", content={field: f"my {field}"})


def test_a_question_reaches_the_user_and_its_answer_the_tool(way: Way) -> None:
    async def main() -> None:
        async with way.client(elicitation_callback=answer_with_a_name) as client:
            result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
            assert text_of(result) == 'User response: action=accept, content={"response":"my response"}'

    drive(main())


def test_a_second_question_may_follow_the_first_answer(way: Way) -> None:
    async def main() -> None:
        async with way.client(elicitation_callback=answer_with_a_name) as client:
            result = await client.call_tool("test_input_required_result_multi_round")
            assert text_of(result) == "my name likes my color."

    drive(main())


def test_a_prompt_may_ask_before_it_is_given(way: Way) -> None:
    async def main() -> None:
        async with way.client(elicitation_callback=answer_with_a_name) as client:
            prompt = await client.get_prompt("test_input_required_result_prompt")
            content = prompt.messages[0].content
            assert isinstance(content, types.TextContent)
            assert content.text == "Use the following context: my context"

    drive(main())


def test_a_client_that_cannot_be_asked_is_told_what_it_lacks(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            if way.is_modern:
                with pytest.raises(MCPError) as refused:
                    await client.call_tool("test_elicitation", {"message": "Who are you?"})
                assert refused.value.error.data == {"requiredCapabilities": {"elicitation": {}}}
            else:
                result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
                assert json.loads(text_of(result))["error"]["code"] == "CLIENT_UNSUPPORTED"

    drive(main())


def test_a_cancelled_call_stops_in_the_desk_and_the_connection_lives_on(way: Way) -> None:
    async def main() -> None:
        async with way.client() as client:
            hanging = asyncio.Event()

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                hanging.set()

            call = asyncio.create_task(client.call_tool("test_hang", progress_callback=on_progress))
            await hanging.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            result = await client.call_tool("test_await_cancelled")
            assert json.loads(text_of(result)) == {"cancelled": 1}

    drive(main())


# --- changes ------------------------------------------------------------------------------------


class Heard:
    """The notifications a handshake-era client was sent unasked."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[types.ServerNotification] = asyncio.Queue()

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ServerNotification):
            self._queue.put_nowait(message)

    async def next(self) -> types.ServerNotification:
        return await self._queue.get()


async def subscribe(client: Client) -> None:
    with pytest.warns(MCPDeprecationWarning):
        await client.subscribe_resource(WATCHED)  # pyright: ignore[reportDeprecated]


async def unsubscribe(client: Client) -> None:
    with pytest.warns(MCPDeprecationWarning):
        await client.unsubscribe_resource(WATCHED)  # pyright: ignore[reportDeprecated]


def test_a_subscriber_hears_that_its_resource_changed(way: Way) -> None:
    async def modern() -> None:
        async with way.client() as client, client.listen(resource_subscriptions=[WATCHED]) as changes:
            await client.call_tool("test_touch_watched")
            assert await anext(changes) == ResourceUpdated(uri=WATCHED)

    async def handshake() -> None:
        heard = Heard()
        async with way.client(message_handler=heard) as client:
            await subscribe(client)
            await client.call_tool("test_touch_watched")
            changed = await heard.next()
            assert isinstance(changed, types.ResourceUpdatedNotification)
            assert changed.params.uri == WATCHED

    drive(modern() if way.is_modern else handshake())


def test_a_client_that_left_its_subscription_hears_no_more(way: Way) -> None:
    async def modern() -> None:
        async with way.client() as client:
            async with client.listen(resource_subscriptions=[WATCHED]):
                pass
            async with client.listen(tools_list_changed=True) as changes:
                await client.call_tool("test_touch_watched")
                await client.call_tool("test_trigger_tool_change")
                assert await anext(changes) == ToolsListChanged()

    async def handshake() -> None:
        heard = Heard()
        async with way.client(message_handler=heard) as client:
            await subscribe(client)
            await unsubscribe(client)
            await client.call_tool("test_touch_watched")
            await client.call_tool("test_trigger_tool_change")
            assert isinstance(await heard.next(), types.ToolListChangedNotification)

    drive(modern() if way.is_modern else handshake())


def test_a_changed_list_is_announced(way: Way) -> None:
    async def modern() -> None:
        async with way.client() as client, client.listen(prompts_list_changed=True) as changes:
            await client.call_tool("test_trigger_prompt_change")
            assert await anext(changes) == PromptsListChanged()

    async def handshake() -> None:
        heard = Heard()
        async with way.client(message_handler=heard) as client:
            await client.call_tool("test_trigger_prompt_change")
            assert isinstance(await heard.next(), types.PromptListChangedNotification)

    drive(modern() if way.is_modern else handshake())
