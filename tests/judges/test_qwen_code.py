"""The real Qwen Code, run headless against a model on loopback: its hooks become attempts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.codegraph.capture.support import Traced, traced
from tests.codegraph.desks import agent
from tests.judges.install import QWEN
from tests.judges.model import Model, Turn, model
from tests.judges.support import node
from tests.support import run
from tracedesk.codegraph.capture import plugin
from tracedesk.jobs import in_thread

pytestmark = [pytest.mark.judge, pytest.mark.timeout(300)]

BOUND: Final = 120.0
COMMAND: Final = Path(sys.executable).with_name("tracedesk")
SECRET: Final = "sk-proj-" + "Zb7Qx9Lm2Kp4Rt6Vw8Yn" * 3


@dataclass(frozen=True, slots=True)
class Place:
    """A user's folder, a project and a desk's home, all new."""

    user: Path
    project: Path
    home: Path

    @property
    def settings(self) -> Path:
        return self.user / ".qwen" / "settings.json"

    def environment(self, **more: str) -> dict[str, str]:
        folders = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        return {"HOME": str(self.user), "PATH": folders, "TRACEDESK_HOME": str(self.home), **more}

    def tracedesk(self, *words: str) -> str:
        done = subprocess.run(
            [COMMAND, *words],
            cwd=self.project,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def qwen(self, *words: str, told: Model | None = None, **environment: str) -> str:
        """Run Qwen Code to its end."""
        where = environment if told is None else {"OPENAI_BASE_URL": told.url, **environment}
        script = QWEN.require("node_modules", "@qwen-code", "qwen-code", "cli-entry.js")
        done = subprocess.run(
            [node(), str(script), *words],
            cwd=self.project,
            env=self.environment(OPENAI_API_KEY="none", OPENAI_MODEL="stub", NO_COLOR="1", **where),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, prompt: str, turns: Sequence[Turn], **environment: str) -> tuple[str, Model]:
        """What Qwen Code answers to a prompt, and what it sent its model."""
        with model(turns) as told:
            words = ("--auth-type", "openai", "--yolo", "-p", prompt)
            return self.qwen(*words, told=told, **environment), told


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(*(tmp_path / name for name in ("user", "project", "home")))
    for folder in (made.user, made.project):
        folder.mkdir()
    return made


def turns(place: Place) -> list[Turn]:
    """A command, a file, a file that is not there, an answer."""
    app, missing = str(place.project / "app.py"), str(place.project / "missing.py")
    return [
        Turn(tool="run_shell_command", arguments={"command": f"echo {SECRET}", "is_background": False}),
        Turn(tool="write_file", arguments={"file_path": app, "content": "def greet():\n    return 'hi'\n"}),
        Turn(tool="read_file", arguments={"file_path": missing}),
        Turn("I added greet to app.py. It returns hi."),
    ]


def check(desk: Traced) -> None:
    """The attempt that those turns have become."""
    (name,) = desk.attempts()
    view = desk.attempt(name)
    assert name.startswith("qwen-code:")
    assert view.events[0].payload["query"] == "Add a greet function"
    assert view.events[-1].kind == "answer_rendered"
    assert view.events[-1].payload["content"] == "I added greet to app.py. It returns hi."
    assert [(call.tool, call.status, call.pairing) for call in view.tool_calls] == [
        ("run_shell_command", "ok", "exact"),
        ("write_file", "ok", "exact"),
        ("read_file", "error", "exact"),
    ]
    assert [(file.path, "changed" in file.roles) for file in view.files if file.path == "app.py"] == [
        ("app.py", True)
    ]
    assert SECRET not in json.dumps([dict(event.payload) for event in view.events], default=str)


def test_hooks_that_install_writes_make_a_session_an_attempt(place: Place) -> None:
    place.settings.parent.mkdir()
    place.settings.write_text('{\n  "ui": {"theme": "x"}\n}\n')
    place.tracedesk("install", "--client", "qwen-code", "--toolsets", "codegraph")
    answer, _ = place.ask("Add a greet function", turns(place))
    assert "It returns hi." in answer
    place.tracedesk("uninstall", "--client", "qwen-code")
    left = json.loads(place.settings.read_text())
    assert plugin.SCRIPT.name not in place.settings.read_text()
    assert left["ui"] == {"theme": "x"}
    assert not left.keys() & {"mcpServers", "hooks"}
    with traced(place.home) as desk:
        # The desk that Qwen Code itself started may have drained some of it already.
        assert desk.drain().aside == 0
        check(desk)


def test_the_extension_that_is_shipped_does_the_same(place: Place) -> None:
    place.qwen("extensions", "install", str(plugin.FOLDER), "--consent")
    manifest = place.user / ".qwen" / "extensions" / "tracedesk" / "qwen-extension.json"
    # Without its server no desk runs beside, so that the hooks alone are judged.
    told = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**told, "mcpServers": {}}))
    place.ask("Add a greet function", turns(place))
    with traced(place.home) as desk:
        done = desk.drain()
        assert (done.aside, done.duplicates) == (0, 0)
        assert done.edited == {str(place.project): {"app.py"}}
        check(desk)


def test_a_prompt_is_told_by_a_desk_what_was_tried_before(place: Place) -> None:
    place.tracedesk("install", "--client", "qwen-code", "--toolsets", "codegraph")
    told = json.loads(place.settings.read_text())
    place.settings.write_text(json.dumps({**told, "mcpServers": {}}))
    first = "Make the greeting of the login page polite"

    async def main() -> Any:
        async with agent(place.home, place.project) as desk:
            await in_thread(lambda: place.ask(first, [Turn("I could not find the login page.")]))
            capture = desk.atlas.capture
            assert capture is not None
            await capture.drain()
            _, asked = await in_thread(lambda: place.ask(f"{first} again", [Turn("Done.")]))
            return asked.requests[0]["messages"]

    messages = json.dumps(run(main()))
    assert "qwen:user-prompt-submit-context" in messages
    assert "Earlier attempts on record" in messages
    assert "I could not find the login page." in messages


def test_its_own_telemetry_becomes_an_attempt_without_any_hook(place: Place) -> None:
    place.settings.parent.mkdir()

    async def main() -> Any:
        async with agent(place.home, place.project) as desk:
            telemetry = {
                "enabled": True,
                "otlpProtocol": "http",
                "otlpTracesEndpoint": f"http://127.0.0.1:{desk.client.port}/v1/traces",
                "includeSensitiveSpanAttributes": True,
            }
            place.settings.write_text(json.dumps({"telemetry": telemetry}))
            headers = f"Authorization=Bearer%20{desk.client.token}"
            await in_thread(
                lambda: place.ask("Add a greet function", turns(place), OTEL_EXPORTER_OTLP_HEADERS=headers)
            )
            (brief,) = (await desk.call("etg_timeline"))["attempts"]
            return await desk.call("etg_get_attempt", attempt_id=brief["attempt_id"])

    found = run(main())
    assert [(call["name"], call["status"]) for call in found["tool_calls"]] == [
        ("run_shell_command", "ok"),
        ("write_file", "ok"),
        ("read_file", "error"),
    ]
    said = json.dumps(found)
    assert "Add a greet function" in said
    assert "It returns hi." in said
    assert SECRET not in said
