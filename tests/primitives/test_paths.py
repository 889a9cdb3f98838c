import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.home import Home
from tracedesk.primitives.paths import Jail, Location, PathRefused

SECRET = b"the secret outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    inside = tmp_path / "root"
    (inside / "src").mkdir(parents=True)
    (inside / "src" / "main.py").write_bytes(b"print(1)\n")
    return inside


@pytest.fixture
def jail(root: Path) -> Jail:
    return Jail([root])


def reason_of(action: Callable[[], object]) -> str:
    with pytest.raises(PathRefused) as refusal:
        action()
    return refusal.value.reason


def read(jail: Jail, path: str, root: str | None = None) -> bytes:
    with jail.open_read(root, path) as file:
        return file.read()


def write(jail: Jail, path: str, body: bytes = b"new", *, overwrite: bool = False) -> None:
    with jail.create_file(None, path, overwrite=overwrite) as file:
        file.write(body)


def test_a_file_is_read_by_relative_and_by_absolute_path(jail: Jail, root: Path) -> None:
    assert read(jail, "src/main.py") == b"print(1)\n"
    assert read(jail, "./src//main.py") == b"print(1)\n"
    assert read(jail, str(root / "src" / "main.py")) == b"print(1)\n"
    assert read(jail, "main.py", str(root / "src")) == b"print(1)\n"


def test_a_resolved_path_is_real_and_relative_to_its_root(jail: Jail, root: Path) -> None:
    real = os.path.realpath(root)
    assert jail.resolve(None, "src/main.py") == Location(real, "src/main.py")
    assert jail.resolve(str(root), ".") == Location(real, ".")
    assert jail.resolve(None, ".").path == real
    assert jail.resolve(None, "src/not-yet.py").path == os.path.join(real, "src", "not-yet.py")


def test_the_home_of_a_desk_is_never_opened_whichever_root_it_lies_in(root: Path, tmp_path: Path) -> None:
    home = root / "deep" / "home"
    Home.open(home)
    (home / "token").write_text("td_secret")
    (root / "link").symlink_to(home / "token")
    for jail, base in ((Jail([root]), str(root)), (Jail([home]), str(home)), (Jail([tmp_path]), None)):
        for path in (str(home / "token"), str(home / "run" / "x"), str(root / "link"), str(home)):
            with pytest.raises(PathRefused) as refused:
                jail.resolve(base, path)
            assert refused.value.reason == "outside"
    assert Jail([home / "run"]).resolve(None, "x").relative == "x", "a desk writes below its own home"


def test_a_root_given_through_a_symlink_is_taken_by_its_real_path(root: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    jail = Jail([alias])
    assert jail.roots == (os.path.realpath(root),)
    assert read(jail, str(alias / "src" / "main.py")) == b"print(1)\n"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("a\0b", "nul"),
        ("..", "parent"),
        ("src/../../outside/secret.txt", "parent"),
        ("src/..", "parent"),
        ("..\\outside\\secret.txt", "parent"),
        ("C:\\Windows", "drive"),
        ("c:/x", "drive"),
        ("C:x", "drive"),
        ("\\\\server\\share", "drive"),
        ("//server/share", "drive"),
        ("\\/server", "drive"),
        ("/etc/passwd", "outside"),
        ("/", "outside"),
        ("\ud800", "encoding"),
        ("a" * 256, "too_long"),
        ("é" * 128, "too_long"),
        ("a/" * 2100, "too_long"),
        ("src/none.py", "missing"),
        ("src/main.py/x", "not_directory"),
        ("src", "not_regular"),
        (".", "not_regular"),
    ],
)
def test_a_bad_path_is_refused_with_its_reason(jail: Jail, path: str, reason: str) -> None:
    assert reason_of(lambda: jail.open_read(None, path)) == reason


def test_a_refusal_is_a_value_error_that_names_the_configured_roots(jail: Jail) -> None:
    with pytest.raises(ValueError, match="configured roots") as refusal:
        jail.open_read(None, "/etc/passwd")
    assert all(root in str(refusal.value) for root in jail.roots)


def test_a_refusal_does_not_repeat_an_endless_path(jail: Jail) -> None:
    with pytest.raises(PathRefused) as refusal:
        jail.resolve(None, "x" * 1_000_000)
    assert len(str(refusal.value)) < 1_000


def test_a_neighbour_whose_name_begins_like_the_root_is_outside(jail: Jail, root: Path) -> None:
    neighbour = root.with_name("root-two")
    neighbour.mkdir()
    (neighbour / "file").write_bytes(SECRET)
    assert reason_of(lambda: jail.open_read(None, str(neighbour / "file"))) == "outside"


def test_a_project_root_must_lie_in_the_jail(jail: Jail, root: Path, tmp_path: Path) -> None:
    assert reason_of(lambda: jail.resolve(str(tmp_path), "root/src/main.py")) == "outside"
    assert reason_of(lambda: jail.resolve("", "src")) == "empty"
    (root / "exit").symlink_to(tmp_path / "outside")
    assert reason_of(lambda: jail.resolve(str(root / "exit"), "secret.txt")) == "outside"


def test_a_path_may_not_leave_its_project_root_for_the_rest_of_the_jail(jail: Jail, root: Path) -> None:
    (root / "other.txt").write_bytes(b"other project")
    assert reason_of(lambda: jail.resolve(str(root / "src"), str(root / "other.txt"))) == "outside"


def test_without_a_project_root_an_absolute_path_finds_its_own(root: Path, tmp_path: Path) -> None:
    jail = Jail([root, tmp_path / "outside"])
    assert read(jail, str(tmp_path / "outside" / "secret.txt")) == SECRET
    assert reason_of(lambda: jail.open_read(None, "secret.txt")) == "missing"


def test_a_jail_needs_roots_that_exist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one root"):
        Jail([])
    assert reason_of(lambda: Jail([tmp_path / "none"])) == "missing"


def test_a_symlink_that_stays_inside_is_read_under_its_real_path(jail: Jail, root: Path) -> None:
    (root / "link.py").symlink_to("src/main.py")
    (root / "absolute.py").symlink_to(root / "src" / "main.py")
    (root / "folder").symlink_to("src")
    (root / "src" / "up").symlink_to("..")
    for path in ("link.py", "absolute.py", "folder/main.py", "src/up/link.py"):
        assert read(jail, path) == b"print(1)\n"
        assert jail.resolve(None, path).relative == "src/main.py"


def test_a_symlink_that_leads_outside_is_refused_without_telling_where(
    jail: Jail, root: Path, tmp_path: Path
) -> None:
    (root / "leak").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "leaks").symlink_to("../outside")
    (root / "absent").symlink_to(tmp_path / "outside" / "none")
    for path in ("leak", "leaks/secret.txt", "absent"):
        with pytest.raises(PathRefused) as refusal:
            jail.open_read(None, path)
        assert refusal.value.reason == "outside"
        assert "secret.txt" not in str(refusal.value).replace(path, "")


def test_a_symlink_loop_is_refused(jail: Jail, root: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "ping").symlink_to("pong")
    (root / "pong").symlink_to("ping")
    assert {reason_of(lambda name=name: jail.open_read(None, name)) for name in ("loop", "ping")} == {
        "symlink"
    }
    assert reason_of(lambda: jail.open_read(None, "loop/x")) in ("symlink", "not_directory")


def test_a_fifo_is_refused_without_waiting_for_its_writer(jail: Jail, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "to-pipe").symlink_to("pipe")
    assert reason_of(lambda: jail.open_read(None, "pipe")) == "not_regular"
    assert reason_of(lambda: jail.open_read(None, "to-pipe")) == "not_regular"
    assert reason_of(lambda: jail.create_file(None, "pipe", overwrite=True)) == "not_regular"


def test_a_socket_is_refused(jail: Jail, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        assert reason_of(lambda: jail.open_read(None, "sock")) == "not_regular"


def test_a_device_is_refused_even_below_a_root_that_holds_it() -> None:
    assert reason_of(lambda: Jail(["/dev"]).open_read(None, "null")) == "not_regular"
    assert reason_of(lambda: Jail(["/"]).open_read(None, "dev/zero")) == "not_regular"


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="this system has no /proc")
def test_files_of_proc_are_refused_although_they_call_themselves_regular() -> None:
    for path in ("proc/self/environ", "/proc/self/status"):
        with pytest.raises(PathRefused):
            Jail(["/"]).open_read("/", path).close()


def test_a_fifo_that_replaces_the_file_between_look_and_open_is_refused(
    jail: Jail, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_stat = os.stat

    def swap_after_look(*args: object, **options: object) -> os.stat_result:
        info = real_stat(*args, **options)  # pyright: ignore[reportArgumentType, reportCallIssue]
        if args[0] == "main.py":
            (root / "src" / "main.py").unlink()
            os.mkfifo(root / "src" / "main.py")
        return info

    monkeypatch.setattr(os, "stat", swap_after_look)
    assert reason_of(lambda: jail.open_read(None, "src/main.py")) == "not_regular"


@pytest.mark.parametrize("victim", ["src", "src/main.py"])
def test_a_symlink_swapped_in_between_check_and_open_does_not_escape(
    jail: Jail, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    (tmp_path / "outside" / "main.py").write_bytes(SECRET)
    target = tmp_path / "outside" / ("main.py" if victim.endswith(".py") else "")
    real = os.path.realpath

    def swap_after_check(path: str) -> str:
        answer = real(path)
        if answer.endswith("main.py"):
            (root / victim).rename(root / "moved")
            (root / victim).symlink_to(target)
        return answer

    monkeypatch.setattr(os.path, "realpath", swap_after_check)
    reason = reason_of(lambda: jail.open_read(str(root), "src/main.py"))
    assert reason in ("symlink", "not_directory")
    assert (root / victim).is_symlink()


def test_a_project_root_swapped_for_a_symlink_does_not_escape(
    jail: Jail, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside" / "main.py").write_bytes(SECRET)
    location = jail.resolve(str(root / "src"), "main.py")

    def resolve(*_: object) -> Location:
        return location

    monkeypatch.setattr(Jail, "resolve", resolve)
    (root / "src").rename(root / "moved")
    (root / "src").symlink_to(tmp_path / "outside")
    assert reason_of(lambda: jail.open_read(str(root / "src"), "main.py")) in ("symlink", "not_directory")


def test_a_storm_of_swaps_never_reads_or_writes_outside(jail: Jail, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside" / "main.py").write_bytes(SECRET)
    stop = threading.Event()

    def swap() -> None:
        (root / "honest").mkdir()
        (root / "honest" / "main.py").write_bytes(b"honest")
        (root / "evil").symlink_to(tmp_path / "outside")
        while not stop.is_set():
            for name in ("honest", "evil"):
                os.rename(root / name, root / "target")
                os.rename(root / "target", root / name)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set[bytes]()
    try:
        for number in range(1_500):
            try:
                seen.add(read(jail, "target/main.py"))
                write(jail, f"target/new-{number}")
            except PathRefused:
                continue
    finally:
        stop.set()
        swapper.join()
    assert seen <= {b"honest"}
    assert sorted(os.listdir(tmp_path / "outside")) == ["main.py", "secret.txt"]


def test_a_new_file_is_private_and_holds_what_was_written(jail: Jail, root: Path) -> None:
    write(jail, "src/report.lcov", b"SF:main\n")
    created = root / "src" / "report.lcov"
    assert created.read_bytes() == b"SF:main\n"
    assert stat.S_IMODE(created.stat().st_mode) == 0o600


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(jail: Jail, root: Path) -> None:
    assert reason_of(lambda: jail.create_file(None, "src/main.py")) == "exists"
    assert (root / "src" / "main.py").read_bytes() == b"print(1)\n"
    write(jail, "src/main.py", b"2", overwrite=True)
    assert (root / "src" / "main.py").read_bytes() == b"2"
    write(jail, "src/fresh.py", b"3", overwrite=True)
    assert (root / "src" / "fresh.py").read_bytes() == b"3"


@pytest.mark.parametrize("overwrite", [False, True])
def test_creating_never_writes_through_a_symlink(
    jail: Jail, root: Path, tmp_path: Path, overwrite: bool
) -> None:
    (root / "leak").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "inner").symlink_to("src/main.py")
    (root / "dangling").symlink_to(tmp_path / "outside" / "created.txt")
    for name in ("leak", "inner", "dangling"):
        assert reason_of(lambda name=name: jail.create_file(None, name, overwrite=overwrite)) in (
            "symlink",
            "exists",
        )
    assert (tmp_path / "outside" / "secret.txt").read_bytes() == SECRET
    assert (root / "src" / "main.py").read_bytes() == b"print(1)\n"
    assert not (tmp_path / "outside" / "created.txt").exists()


def test_creating_through_a_directory_symlink_stays_inside(jail: Jail, root: Path, tmp_path: Path) -> None:
    (root / "folder").symlink_to("src")
    (root / "exit").symlink_to(tmp_path / "outside")
    write(jail, "folder/new.py")
    assert (root / "src" / "new.py").exists()
    assert reason_of(lambda: jail.create_file(None, "exit/new.py")) == "outside"


def test_overwriting_spares_a_file_that_has_a_second_name(jail: Jail, root: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "secret.txt", root / "shared")
    assert reason_of(lambda: jail.create_file(None, "shared", overwrite=True)) == "hard_linked"
    assert (tmp_path / "outside" / "secret.txt").read_bytes() == SECRET


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("src/", "empty"),
        ("src/.", "empty"),
        (".", "empty"),
        ("", "empty"),
        ("../new", "parent"),
        ("new\0", "nul"),
        ("/tmp/new", "outside"),
        ("none/new", "missing"),
        ("src/main.py/new", "not_directory"),
        ("n" * 256, "too_long"),
    ],
)
def test_a_file_is_not_created_at_a_bad_path(jail: Jail, path: str, reason: str) -> None:
    assert reason_of(lambda: jail.create_file(None, path)) == reason


def test_a_directory_is_not_overwritten(jail: Jail) -> None:
    assert reason_of(lambda: jail.create_file(None, "src", overwrite=True)) == "not_regular"
    assert reason_of(lambda: jail.create_file(None, "src")) == "exists"


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_a_file_without_permission_is_denied(jail: Jail, root: Path) -> None:
    (root / "src" / "main.py").chmod(0)
    assert reason_of(lambda: jail.open_read(None, "src/main.py")) == "denied"


def test_no_descriptor_is_left_open_by_refusals(jail: Jail, root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe")
    os.link(tmp_path / "outside" / "secret.txt", root / "shared")
    probe = os.dup(0)
    os.close(probe)
    for path in ("src/none", "src/main.py/x", "pipe", "src", "none/x"):
        reason_of(lambda path=path: jail.open_read(None, path))
    for path in ("none/x", "src/main.py/x", "src", "pipe"):
        reason_of(lambda path=path: jail.create_file(None, path))
    reason_of(lambda: jail.create_file(None, "shared", overwrite=True))
    after = os.dup(0)
    os.close(after)
    assert after == probe


@given(st.text(max_size=40), st.booleans())
def test_no_path_whatever_resolves_outside_the_root(path: str, absolute: bool) -> None:
    jail = Jail([os.path.dirname(__file__)])
    try:
        location = jail.resolve(None, f"/{path}" if absolute else path)
    except PathRefused:
        return
    assert os.path.commonpath([location.path, jail.roots[0]]) == jail.roots[0]
