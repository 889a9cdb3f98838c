"""The folder that is a Qwen Code extension and a Claude Code plugin at once."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tracedesk
from tests.support import ROOT
from tracedesk.clients import CLIENTS
from tracedesk.codegraph.capture import plugin
from tracedesk.codegraph.capture.doors import CLIENTS as POSTING


def read(name: str) -> dict[str, Any]:
    return json.loads((plugin.FOLDER / name).read_text(encoding="utf-8"))


def test_both_manifests_name_the_same_desk_in_its_version() -> None:
    qwen, claude = read("qwen-extension.json"), read(".claude-plugin/plugin.json")
    for manifest in (qwen, claude):
        assert (manifest["name"], manifest["version"]) == ("tracedesk", tracedesk.__version__)
    assert qwen["mcpServers"] == read(".mcp.json")["mcpServers"]
    assert qwen["mcpServers"]["tracedesk"] == {"command": "tracedesk", "args": ["serve", "--stdio"]}


@pytest.mark.parametrize(
    ("client", "file"), [("claude-code", "hooks/hooks.json"), ("qwen-code", "hooks/qwen-code.json")]
)
def test_each_clients_hooks_run_the_script_for_every_event_within_a_second(client: str, file: str) -> None:
    hooks = read(file)["hooks"]
    known = CLIENTS[client].hooks
    assert known is not None
    assert list(hooks) == list(plugin.EVENTS)
    for event, groups in hooks.items():
        command = f'python3 -I -S "${{CLAUDE_PLUGIN_ROOT}}/{plugin.SCRIPT.name}" {client} {event}'
        assert groups == [{"hooks": [{"type": "command", "command": command, "timeout": known.second}]}]
    assert read("qwen-extension.json")["hooks"] == "hooks/qwen-code.json"


def test_every_client_with_hooks_may_also_post_them_and_has_a_command() -> None:
    with_hooks = {name for name, client in CLIENTS.items() if client.hooks is not None}
    assert with_hooks == set(POSTING) == set(plugin.BY_CLIENT)


@pytest.mark.judge
def test_the_folder_is_in_the_wheel_whole(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    folder = "tracedesk/codegraph/capture/extension/"
    packed = {
        name.removeprefix(folder) for name in zipfile.ZipFile(wheel).namelist() if name.startswith(folder)
    }
    here = {str(path.relative_to(plugin.FOLDER)) for path in plugin.FOLDER.rglob("*") if path.is_file()}
    assert packed == {name for name in here if "__pycache__" not in name}
