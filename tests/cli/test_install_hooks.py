"""The hooks that `install` writes and `uninstall` removes: those, and not one byte more."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Shell
from tracedesk import jsontext
from tracedesk.clients import CLIENTS, Refusal, Target, drop_hooks, install, put_hooks, uninstall
from tracedesk.codegraph.capture import plugin
from tracedesk.snippets import Hooks

MARK = "our_hook.py"
OURS = Hooks({"Stop": f"python -I -S {MARK} Stop", "PreToolUse": f"python -I -S {MARK} Pre"}, MARK)
LOCAL = Target(command="/opt/tracedesk", arguments=("serve", "--stdio"))
OTHER = {"hooks": [{"type": "command", "command": "lint.sh"}]}


def groups(text: str) -> Any:
    return json.loads(text)["hooks"]


# --- the command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "file", "second"),
    [("qwen-code", ".qwen/settings.json", 1_000), ("claude-code", ".claude/settings.json", 1)],
)
def test_install_writes_hooks_that_run_and_uninstall_removes_them(
    shell: Shell, client: str, file: str, second: int
) -> None:
    path = shell.user / file
    path.parent.mkdir()
    mine = '"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]'
    before = f'{{\n  "mine": 1,\n  "hooks": {{\n    {mine}\n  }}\n}}\n'
    path.write_text(before)
    done = shell("install", "--client", client, "--toolsets", "codegraph", "--json")
    assert done.code == 0
    written = groups(path.read_text())
    assert set(written) == set(plugin.EVENTS)
    assert written["Stop"][0] == {"hooks": [{"type": "command", "command": "x"}]}
    hook = written["Stop"][1]["hooks"][0]
    assert (hook["type"], hook["timeout"]) == ("command", second)
    words = shlex.split(hook["command"])
    assert words[-3:] == [client, "Stop", str(shell.home)]
    body = json.dumps({"session_id": "s", "hook_event_name": "Stop"})
    ran = subprocess.run(hook["command"], shell=True, input=body, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert len(list((shell.home / "inbox").glob("[0-9]*.json"))) == 1
    assert shell("install", "--client", client, "--toolsets", "codegraph", "--json").json["changed"] is False
    assert shell("uninstall", "--client", client).code == 0
    assert path.read_text() == before


def test_claude_codes_two_files_are_both_reported(shell: Shell) -> None:
    done = shell("install", "--client", "claude-code", "--toolsets", "codegraph", "--json")
    assert done.json["file"] == str(shell.user / ".claude.json")
    assert done.json["hooks"] == {
        "file": str(shell.user / ".claude" / "settings.json"),
        "changed": True,
        "backup": None,
    }
    printed = shell("install", "--client", "claude-code", "--toolsets", "codegraph", "--print", "--json").json
    assert set(printed["hooks"]["document"]["hooks"]) == set(plugin.EVENTS)


@pytest.mark.parametrize(
    "words",
    [
        ["--client", "qwen-code", "--toolsets", "codegraph", "--no-hooks"],
        ["--client", "qwen-code", "--toolsets", "desk"],
        ["--client", "qwen-code", "--http", "https://desk.example/mcp"],
        ["--client", "cursor", "--toolsets", "codegraph"],
    ],
)
def test_without_codegraph_a_loopback_desk_or_a_wish_there_are_no_hooks(
    shell: Shell, words: list[str]
) -> None:
    assert shell("install", *words).code == 0
    assert not [path for path in shell.user.rglob("*.json") if plugin.SCRIPT.name in path.read_text()]


def test_a_desk_that_runs_on_this_machine_gets_hooks_too(shell: Shell) -> None:
    assert shell("install", "--client", "qwen-code", "--http", "http://127.0.0.1:3000/mcp").code == 0
    assert set(groups((shell.user / ".qwen/settings.json").read_text())) == set(plugin.EVENTS)


def test_claude_codes_own_variable_moves_its_hooks(tmp_path: Path) -> None:
    client = CLIENTS["claude-code"]
    assert client.hook_file("user", {"CLAUDE_CONFIG_DIR": "/c"}) == Path("/c/settings.json")
    assert client.hook_file("project", {"CLAUDE_CONFIG_DIR": "/c"}) == Path.cwd() / ".claude/settings.json"


def test_the_folder_of_the_extension_is_told_with_the_clients_own_command(shell: Shell) -> None:
    done = shell("install", "--client", "qwen-code", "--extension", "--json")
    assert done.json["folder"] == str(plugin.FOLDER)
    assert done.json["command"] == f"qwen extensions install {shlex.quote(str(plugin.FOLDER))}"
    assert "claude --plugin-dir" in shell("install", "--client", "claude-code", "--extension").out
    assert shell("install", "--client", "cursor", "--extension").code == 2
    assert not list(shell.user.iterdir())


# --- texts -------------------------------------------------------------------------------------


def test_a_moved_installation_replaces_its_own_hooks_and_no_others() -> None:
    text = put_hooks(json.dumps({"hooks": {"Stop": [OTHER]}}, indent=2), OURS, 1)
    moved = Hooks({event: f"/new/{command}" for event, command in OURS.commands.items()}, MARK)
    again = put_hooks(text, moved, 1)
    assert groups(again)["Stop"] == [OTHER, moved.group("Stop", 1)]
    assert put_hooks(again, moved, 1) == again


def test_a_hook_of_ours_among_others_is_taken_out_of_their_group() -> None:
    mixed = {"matcher": "*", "hooks": [*OTHER["hooks"], *OURS.group("Stop", 1)["hooks"]]}
    text = json.dumps({"hooks": {"Stop": [mixed, OTHER], "SessionEnd": []}})
    assert groups(drop_hooks(text, MARK)) == {"Stop": [{"matcher": "*", **OTHER}, OTHER], "SessionEnd": []}


@pytest.mark.parametrize("odd", ['{"hooks": 5}', '{"hooks": {"Stop": {}}}', '{"hooks": []}'])
def test_hooks_that_are_not_understood_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".qwen" / "settings.json"
    file.parent.mkdir()
    file.write_text(odd)
    with pytest.raises(Refusal, match="was left as it is"):
        install(CLIENTS["qwen-code"], "user", LOCAL, OURS)
    assert file.read_text() == odd
    assert [change.changed for change in uninstall(CLIENTS["qwen-code"], "user", MARK)] == [False]


@pytest.mark.parametrize(
    "command",
    [
        "/home/me/not_our_hook.py",
        "python -I -S /home/me/not_our_hook.py",
        "grep -v our_hook.py log",
        'python -I -S our_hook.py "unclosed',
    ],
)
def test_a_hook_that_only_speaks_of_ours_is_somebody_elses(command: str) -> None:
    group = {"hooks": [{"type": "command", "command": command}]}
    text = json.dumps({"hooks": {"Stop": [group]}})
    assert groups(put_hooks(text, OURS, 1))["Stop"] == [group, OURS.group("Stop", 1)]
    assert drop_hooks(text, MARK) == text


@pytest.mark.parametrize(
    "before",
    [
        *('{"a":1}', "{}", "{ }\n", '{\r\n\t"a": 1\r\n}\r\n', "  \n", None, '\ufeff{"a": 1}'),
        *('{"hooks": {}}', '{\n  "hooks": {\n    "PreToolUse": [ ]\n  }\n}', '{"mcpServers": {}}'),
    ],
)
@pytest.mark.parametrize("client", ["qwen-code", "claude-code"])
def test_after_uninstall_the_files_are_what_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, before: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    files = {CLIENTS[client].file("user"), CLIENTS[client].hook_file("user")}
    for file in files:
        file.parent.mkdir(exist_ok=True)
        if before is not None:
            file.write_bytes(before.encode())
    moved = Hooks({event: f"/old/{command}" for event, command in OURS.commands.items()}, MARK)
    install(CLIENTS[client], "user", LOCAL, moved)
    install(CLIENTS[client], "user", LOCAL, OURS)
    assert all(change.changed for change in uninstall(CLIENTS[client], "user", MARK))
    for file in files:
        left = file.read_bytes().decode() if file.exists() else None
        assert left == before


def test_what_was_written_since_the_installation_outlives_its_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".qwen" / "settings.json"
    file.parent.mkdir()
    file.write_text('{\n  "a": 1\n}')
    install(CLIENTS["qwen-code"], "user", LOCAL, OURS)
    file.write_text(file.read_text().replace('"a": 1', '"a": 2'))
    uninstall(CLIENTS["qwen-code"], "user", MARK)
    assert file.read_text() == '{\n  "a": 2\n}'


@pytest.mark.parametrize("order", [("entry", "hooks"), ("hooks", "entry")])
def test_when_one_of_two_files_cannot_be_edited_neither_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    client = CLIENTS["claude-code"]
    files = {"entry": client.file("user"), "hooks": client.hook_file("user")}
    files["hooks"].parent.mkdir()
    good, bad = (files[name] for name in order)
    good.write_text("{}")
    bad.write_text("{} // mine")
    with pytest.raises(Refusal, match="comments"):
        install(client, "user", LOCAL, OURS)
    assert (good.read_text(), bad.read_text()) == ("{}", "{} // mine")
    bad.write_text("{}")
    install(client, "user", LOCAL, OURS)
    installed = good.read_text()
    bad.write_text(bad.read_text() + "// mine")
    words = f"hooks that run {MARK}" if order[1] == "hooks" else "'tracedesk' from its 'mcpServers'"
    with pytest.raises(Refusal, match=f"Remove (the )?{words} by hand"):
        uninstall(client, "user", MARK)
    assert good.read_text() == installed


@pytest.mark.parametrize("before", [None, '{"a": 1}'])
def test_when_the_second_file_cannot_be_written_the_first_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    client = CLIENTS["claude-code"]
    if before is not None:
        client.file("user").write_text(before)
    # There is no such file, and nobody can make one there.
    client.hook_file("user").parent.mkdir()
    client.hook_file("user").symlink_to("/proc/none/settings.json")
    with pytest.raises(Refusal, match="cannot be written"):
        install(client, "user", LOCAL, OURS)
    entry = client.file("user")
    assert (entry.read_text() if entry.exists() else None) == before
    assert not [*tmp_path.glob("*.bak")]


_NAMES = st.sampled_from(["Stop", "PreToolUse", "SessionEnd", "other"])


def _group(commands: list[str], matcher: str) -> dict[str, Any]:
    hooks = [{"type": "command", "command": command} for command in commands]
    return {"matcher": matcher, "hooks": hooks} if matcher else {"hooks": hooks}


_COMMANDS = st.lists(st.sampled_from(["a", "b c", 'quote "x"']), min_size=1, max_size=2)
_GROUPS = st.lists(st.builds(_group, _COMMANDS, st.sampled_from(["", "*", "Bash"])), min_size=1, max_size=2)
_DOCUMENTS = st.fixed_dictionaries(
    {"hooks": st.dictionaries(_NAMES, _GROUPS, min_size=1)},
    optional={"theme": st.text(), "n": st.floats(0, 1)},
)


@given(_DOCUMENTS, st.sampled_from([None, 2, 4, "\t"]))
def test_what_install_adds_uninstall_removes_byte_for_byte(
    document: dict[str, Any], indent: int | str | None
) -> None:
    before = json.dumps(document, indent=indent, ensure_ascii=False)
    after = put_hooks(before, OURS, 7)
    assert groups(after) == {
        event: [
            *document["hooks"].get(event, []),
            *([OURS.group(event, 7)] if event in OURS.commands else []),
        ]
        for event in (*document["hooks"], *OURS.commands)
    }
    assert put_hooks(after, OURS, 7) == after
    assert drop_hooks(after, MARK) == before
    assert drop_hooks(before, MARK) == before


@given(_DOCUMENTS, st.sampled_from([None, 2]))
def test_an_item_pushed_to_a_list_can_be_cut_again(document: dict[str, Any], indent: int | None) -> None:
    before = json.dumps(document, indent=indent)
    event, listed = next(iter(document["hooks"].items()))
    after = jsontext.push(before, ("hooks", event), {"new": [1]})
    assert groups(after)[event] == [*listed, {"new": [1]}]
    assert jsontext.cut(after, ("hooks", event, len(listed))) == before
    without_first = json.loads(jsontext.cut(after, ("hooks", event, 0)))
    assert without_first["hooks"][event] == [*listed[1:], {"new": [1]}]


def test_a_list_in_a_blank_text_is_made_with_all_that_is_around_it() -> None:
    assert json.loads(jsontext.push("", ("a", "b"), 1)) == {"a": {"b": [1]}}
    assert jsontext.push('{"a": {"b": []}}', ("a", "b"), 1) == '{"a": {"b": [1]}}'
