"""Tools that the mode withholds: every door says that there is no such tool, and what would make it one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import grpc as _grpc  # pyright: ignore[reportMissingTypeStubs]
import pytest

from tests.exchange.desks import PROFILE, agent
from tests.support import run
from tracedesk.serve import build_guard
from tracedesk.wire import provider_pb2 as pb
from tracedesk.wire.grpc import serving
from tracedesk.wire.grpc_room import SERVICE

grpc: Final[Any] = _grpc
READ_ONLY: Final = {"mode": "read_only", "profiles": {PROFILE: {"mode": "live", "file": "main.keys"}}}
REMEDY: Final = 'This desk is read-only: set exchange.mode to "sim" or "testnet".'


@pytest.mark.parametrize("tool", ["preview_order", "place_order", "cancel_order", "kill_switch"])
def test_a_withheld_tool_is_not_found_with_its_remedy_over_every_door(tmp_path: Path, tool: str) -> None:
    async def main() -> None:
        async with agent(tmp_path, READ_ONLY) as client:
            desk = client.client.desk
            assert tool not in desk.registry.tools
            owner = client.owner()
            error = (await owner.raw(tool)).json["error"]
            assert error["message"] == f"Unknown tool: {tool}. {REMEDY}"
            told = error["data"]["error"]
            assert (told["code"], told["message"]) == ("TOOL_NOT_FOUND", f"Tool {tool!r} not found. {REMEDY}")
            door = await owner.client.post(f"/tools/{tool}", {})
            assert (door.status, door.json["error"]) == (404, told)
            guard, _ = build_guard(desk, "grpc://127.0.0.1")
            async with (
                serving(desk.kernel, guard, desk.clock, "127.0.0.1:0") as port,
                grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
            ):
                invoke = channel.unary_unary(
                    f"/{SERVICE}/Invoke",
                    request_serializer=pb.InvokeRequest.SerializeToString,
                    response_deserializer=pb.InvokeResponse.FromString,
                )
                for name in (tool, f"binance.{tool}"):
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await invoke(pb.InvokeRequest(tool_name=name))
                    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
                    assert REMEDY in refused.value.details()

    run(main())


def test_a_tool_that_nobody_knows_has_no_such_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, READ_ONLY) as client:
            error = (await client.raw("no_such_tool")).json["error"]
            assert error["message"] == "Unknown tool: no_such_tool"
            assert error["data"]["error"]["message"].endswith(
                "Call tools/list for the names this desk serves."
            )

    run(main())
