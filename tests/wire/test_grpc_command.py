"""`tracedesk serve --grpc`: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any, Final

import grpc as _grpc  # pyright: ignore[reportMissingTypeStubs]
import pytest

from tests.cli.conftest import COMMAND, GRACE, Shell, make_shell
from tracedesk.toolsets import built
from tracedesk.wire import provider_pb2 as pb

grpc: Final[Any] = _grpc


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


def _invoke(address: str, tool: str, token: str | None = None) -> Any:
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(
            "/tracedesk.provider.v1.Provider/Invoke",
            request_serializer=pb.InvokeRequest.SerializeToString,
            response_deserializer=pb.InvokeResponse.FromString,
        )
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        answer = call(pb.InvokeRequest(tool_name=tool), metadata=metadata, timeout=GRACE)
        return json.loads(answer.result.value)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_where_it_serves_answers_there_and_a_signal_ends_it_with_0(
    shell: Shell, end: signal.Signals
) -> None:
    process = shell.start("serve", "--grpc", "--port", "0", "--json", "--toolsets", "desk")
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert facts.keys() == {"grpc", "token", "home", "toolsets"}
    assert _invoke(facts["grpc"], "desk_status")["scope"] == "anonymous"
    assert _invoke(facts["grpc"], "desk_status", facts["token"])["scope"] == "principal:owner"
    process.send_signal(end)
    assert process.communicate(timeout=GRACE) == ("", "")
    assert process.returncode == 0


def test_a_port_that_is_in_use_is_said_in_a_sentence(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = shell("serve", "--grpc", "--port", port, "--toolsets", "desk")
    assert done.code == 1
    assert f"127.0.0.1 port {port} is in use." in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--grpc", "--stdio"], "--grpc and --stdio exclude each other; choose one."),
        (["--grpc", "--sse"], "--grpc and --sse exclude each other; choose one."),
        (["--grpc", "--host", "0.0.0.0"], "--grpc serves this machine only; leave out --host 0.0.0.0"),
        (["--grpc", "--behind-proxy"], "--behind-proxy and --allow-host are for HTTP, not for --grpc."),
        (["--grpc", "--allow-host", "desk.test"], "are for HTTP, not for --grpc."),
        (["--stdio", "--port", "3000"], "--stdio serves over pipes and has no port; leave out --port."),
    ],
)
def test_what_cannot_be_meant_exits_2_and_names_the_remedy(
    shell: Shell, words: list[str], sentence: str
) -> None:
    done = shell("serve", *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in " ".join(done.err.split())


@pytest.mark.skipif("exchange" not in built(), reason="this version does not serve the exchange toolset")
def test_binance_provider_serves_the_exchange_over_grpc(shell: Shell) -> None:
    command = Path(COMMAND).with_name("binance-provider")
    process = subprocess.Popen(
        [command, "--grpc", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shell.environment(),
    )
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert facts["toolsets"] == ["desk", "exchange"]
    for name in ("provider_status", "binance.provider_status"):
        assert _invoke(facts["grpc"], name)["mode"] == "sim"
    process.terminate()
    process.communicate(timeout=GRACE)
    assert process.returncode == 0
