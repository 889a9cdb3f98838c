"""`tracedesk install` and `uninstall` on real files."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Shell
from tracedesk import clients
from tracedesk.clients import CLIENTS, Change, Client, FileScope, Refusal, Target, starting
from tracedesk.toolsets import built

USER_FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "qwen-code": ".qwen/settings.json",
}
PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "qwen-code": ".qwen/settings.json",
}
SERVED = ",".join(built()) or "desk"
ARGUMENTS = ["serve", "--stdio", "--toolsets", SERVED]
LOCAL = Target(command="/opt/tracedesk", arguments=("serve", "--stdio"))


def install(client: Client, scope: FileScope, target: Target) -> Change:
    """The change of the one file that an entry goes to."""
    (change,) = clients.install(client, scope, target)
    return change


def uninstall(client: Client, scope: FileScope) -> Change:
    (change,) = clients.uninstall(client, scope)
    return change


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user folder and a project folder that this process believes to be its own."""
    for folder in ("user", "project"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "user"


# --- the command -------------------------------------------------------------------------------


def test_install_writes_an_entry_that_starts_this_very_command(shell: Shell) -> None:
    done = shell("install", "--client", "claude-code", "--no-hooks", "--json")
    file = shell.user / ".claude.json"
    assert done.code == 0
    change = {"file": str(file), "changed": True, "backup": None}
    assert done.json == {"client": "claude-code", **change, "hooks": None}
    assert json.loads(file.read_text()) == {
        "mcpServers": {
            "tracedesk": {
                "type": "stdio",
                "command": str(COMMAND),
                "args": [*ARGUMENTS, "--root", str(shell.project)],
                "env": {"TRACEDESK_HOME": str(shell.home)},
            }
        }
    }


def test_the_home_is_written_only_when_it_was_given(shell: Shell) -> None:
    shell("install", "--client", "cursor", TRACEDESK_HOME="")
    entry = json.loads((shell.user / ".cursor/mcp.json").read_text())["mcpServers"]["tracedesk"]
    assert entry == {"command": str(COMMAND), "args": [*ARGUMENTS, "--root", str(shell.project)]}


def test_print_writes_nothing(shell: Shell) -> None:
    done = shell("install", "--client", "vscode", "--scope", "project", "--toolsets", "desk", "--print")
    assert done.code == 0
    assert json.loads(done.out)["servers"]["tracedesk"]["args"][-1] == "desk"
    assert ".vscode/mcp.json" in done.err
    assert not list(shell.project.iterdir())


def test_a_file_with_comments_is_left_alone_and_the_text_to_add_is_told(shell: Shell) -> None:
    file = shell.project / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  // my servers\n  "servers": {},\n}\n')
    done = shell("install", "--client", "vscode", "--scope", "project", TRACEDESK_HOME="")
    assert done.code == 1
    assert f"{file} was left as it is: it has comments or trailing commas." in done.err
    assert f'"tracedesk": {{"type": "stdio", "command": "{COMMAND}"' in done.err
    assert file.read_text() == '{\n  // my servers\n  "servers": {},\n}\n'
    assert [p.name for p in file.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--client", "emacs"], "'emacs' is not one of"),
        (["--client", "cursor", "--toolsets", "nonsense"], "Unknown toolset 'nonsense'"),
        (["--client", "cursor", "--token", "t"], "--token goes with --http"),
        (["--client", "cursor", "--http", "localhost:3000"], "--http needs a URL like"),
        (["--client", "claude-desktop", "--http", "http://x/mcp"], "can only start commands"),
        (["--client", "cursor", "--http", "http://x", "--toolsets", "desk"], "goes without --http"),
    ],
)
def test_an_install_that_cannot_be_meant_exits_2(shell: Shell, words: list[str], sentence: str) -> None:
    done = shell("install", *words)
    assert done.code == 2
    assert sentence in done.err
    assert not list(shell.user.iterdir())


def test_uninstall_removes_the_entry_and_keeps_a_backup(shell: Shell) -> None:
    file = shell.user / ".qwen" / "settings.json"
    file.parent.mkdir()
    before = '{"theme": "x", "mcpServers": {"tracedesk": {"command": "x"}, "other": {"command": "y"}}}'
    file.write_text(before)
    done = shell("uninstall", "--client", "qwen-code", "--json")
    assert json.loads(file.read_text()) == {"theme": "x", "mcpServers": {"other": {"command": "y"}}}
    assert Path(done.json["backup"]).read_text() == before
    assert "Nothing to change" in shell("uninstall", "--client", "qwen-code").out


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(USER_FILES))
def test_each_clients_user_file_is_where_the_client_reads_it(user: Path, name: str) -> None:
    assert install(CLIENTS[name], "user", LOCAL).file == user / USER_FILES[name]
    document = json.loads((user / USER_FILES[name]).read_text())
    (holder,) = document
    assert holder == ("servers" if name == "vscode" else "mcpServers")
    assert document[holder]["tracedesk"]["command"] == "/opt/tracedesk"
    assert ("type" in document[holder]["tracedesk"]) == (name in ("vscode", "claude-code"))


@pytest.mark.parametrize("name", list(PROJECT_FILES))
def test_each_clients_project_file_is_in_the_current_folder(user: Path, name: str) -> None:
    assert install(CLIENTS[name], "project", LOCAL).file == Path.cwd() / PROJECT_FILES[name]


def test_claude_desktop_has_no_project_file(user: Path) -> None:
    with pytest.raises(Refusal, match="use --scope user"):
        install(CLIENTS["claude-desktop"], "project", LOCAL)


def test_on_a_mac_files_lie_in_application_support(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    support = user / "Library" / "Application Support"
    assert CLIENTS["vscode"].file("user") == support / "Code/User/mcp.json"
    assert CLIENTS["claude-desktop"].file("user") == support / "Claude/claude_desktop_config.json"
    assert CLIENTS["cursor"].file("user") == user / ".cursor/mcp.json"


def test_claude_codes_own_variable_moves_its_file(user: Path) -> None:
    assert CLIENTS["claude-code"].file("user", {"CLAUDE_CONFIG_DIR": "/c"}) == Path("/c/.claude.json")


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("claude-code", {"type": "http", "url": "http://d/mcp", "headers": {"Authorization": "Bearer t"}}),
        ("cursor", {"url": "http://d/mcp", "headers": {"Authorization": "Bearer t"}}),
        ("vscode", {"type": "http", "url": "http://d/mcp", "headers": {"Authorization": "Bearer t"}}),
        ("qwen-code", {"httpUrl": "http://d/mcp", "headers": {"Authorization": "Bearer t"}}),
    ],
)
def test_a_running_desk_is_named_as_each_client_expects(user: Path, name: str, entry: object) -> None:
    change = install(CLIENTS[name], "user", Target(url="http://d/mcp", token="t"))
    (servers,) = json.loads(change.file.read_text()).values()
    assert servers == {"tracedesk": entry}
    assert stat.S_IMODE(change.file.stat().st_mode) == 0o600


def test_installing_twice_changes_nothing_and_leaves_no_backup(user: Path) -> None:
    first = install(CLIENTS["cursor"], "user", LOCAL)
    before = first.file.stat()
    second = install(CLIENTS["cursor"], "user", LOCAL)
    assert (first.changed, second.changed, second.backup) == (True, False, None)
    assert second.file.stat() == before
    assert [p.name for p in first.file.parent.iterdir()] == ["mcp.json"]


def test_a_changed_file_keeps_its_mode_and_a_dated_backup_beside_it(user: Path) -> None:
    file = user / ".claude.json"
    file.write_text('{"projects": {}}')
    file.chmod(0o640)
    first = install(CLIENTS["claude-code"], "user", LOCAL)
    second = uninstall(CLIENTS["claude-code"], "user")
    assert first.backup is not None
    assert second.backup is not None
    assert first.backup.read_text() == '{"projects": {}}'
    assert first.backup.name.startswith(".claude.json.2")
    assert first.backup != second.backup
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert len(list(user.iterdir())) == 3


def test_what_a_link_points_at_is_changed_and_the_link_stays(user: Path) -> None:
    real = user / "dotfiles.json"
    real.write_text("{}")
    (user / ".claude.json").symlink_to(real)
    install(CLIENTS["claude-code"], "user", LOCAL)
    assert (user / ".claude.json").is_symlink()
    assert "tracedesk" in json.loads(real.read_text())["mcpServers"]


def test_an_empty_file_and_a_byte_order_mark_are_understood(user: Path) -> None:
    file = user / ".claude.json"
    file.write_text("")
    install(CLIENTS["claude-code"], "user", LOCAL)
    assert "tracedesk" in json.loads(file.read_text())["mcpServers"]
    file.write_text('\ufeff{"a": 1}', encoding="utf-8")
    install(CLIENTS["claude-code"], "user", LOCAL)
    assert file.read_text(encoding="utf-8").startswith('\ufeff{"a": 1,')


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b"[]", b'{"mcpServers": 1}'])
def test_a_file_that_is_not_understood_is_left_alone(user: Path, content: bytes) -> None:
    file = user / ".claude.json"
    file.write_bytes(content)
    with pytest.raises(Refusal, match="was left as it is"):
        install(CLIENTS["claude-code"], "user", LOCAL)
    assert file.read_bytes() == content
    assert [p.name for p in user.iterdir()] == [".claude.json"]


def test_a_file_that_another_program_just_saved_is_not_overwritten(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = user / ".claude.json"
    file.write_text('{"a": 1}')
    back_up = clients._back_up  # pyright: ignore[reportPrivateUsage]

    def meddle(real: Path) -> Path:
        backup = back_up(real)
        real.write_text('{"a": 2}')
        return backup

    monkeypatch.setattr(clients, "_back_up", meddle)
    with pytest.raises(Refusal, match="changed by another program"):
        install(CLIENTS["claude-code"], "user", LOCAL)
    assert file.read_text() == '{"a": 2}'
    assert not [p for p in user.iterdir() if p.name.startswith("..claude")]


def test_without_a_console_script_the_entry_starts_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/elsewhere/pytest"])
    monkeypatch.setattr("sys.executable", "/opt/python/bin/python3")
    target = starting(("desk",), Path("/h"))
    assert target.command == "/opt/python/bin/python3"
    assert target.arguments[:3] == ("-P", "-m", "tracedesk.cli")
    assert target.environment == {"TRACEDESK_HOME": "/h"}


@pytest.mark.parametrize("client", list(CLIENTS))
def test_the_entry_names_the_project_as_its_root_and_goes_with_it(shell: Shell, client: str) -> None:
    inner = shell.project / "src"
    inner.mkdir(parents=True)
    (shell.project / "pyproject.toml").touch()
    own = replace(shell, project=inner)
    done = own("--json", "install", "--client", client)
    assert done.code == 0, done.err
    file = Path(json.loads(done.out)["file"])
    text = file.read_text(encoding="utf-8")
    assert f'"--root", "{shell.project}"' in " ".join(text.split())
    assert own("uninstall", "--client", client).code == 0
    assert not file.exists() or "--root" not in file.read_text(encoding="utf-8")


def test_an_entry_names_the_roots_given_and_none_that_cannot_be_a_project(
    shell: Shell, tmp_path: Path
) -> None:
    given = shell("--json", "install", "--client", "cursor", "--print", "--root", str(tmp_path))
    assert f'"--root", "{tmp_path}"' in json.dumps(json.loads(given.out)["document"])
    home = replace(shell, project=shell.user)
    none = home("install", "--client", "cursor", "--print")
    assert "--root" not in none.out
    assert "is no project: name one with --root DIR" in none.err
    without = shell("--json", "install", "--client", "cursor", "--print", "--toolsets", "trading")
    assert "--root" not in without.out
