"""The launcher of programs that read foreign code, with real programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import BOUND
from tracedesk.hosts import confined
from tracedesk.hosts.confined import KEPT, MIB, LimitReached, Limits

PLENTY = Limits(512 * MIB, seconds=BOUND)


def _python(code: str) -> list[str]:
    return [sys.executable, "-I", "-c", code]


def test_a_child_gets_what_it_needs_and_nothing_that_is_only_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("BINANCE_SECRET", "NODE_OPTIONS", "FOUNDRY_SOLC", "GIT_DIR", "PYTHONSTARTUP", "LD_PRELOAD_"):
        monkeypatch.setenv(name, "x")
    code = "import json, os; print(json.dumps([list(os.environ), os.getcwd(), os.listdir('.')]))"
    ended = confined.run(_python(code), PLENTY)
    names, folder, files = json.loads(ended.output)
    assert set(names) <= {*KEPT, "HOME", "PWD", "OLDPWD", "_", "SHLVL", "LC_CTYPE"}
    assert files == []
    assert not Path(folder).exists()


def test_input_output_errors_and_status_come_whole() -> None:
    code = (
        "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.exit(len(data) % 251)"
    )
    data = os.urandom(3 * MIB)
    ended = confined.run(_python(code), PLENTY, given=data)
    assert ended.output == data
    assert ended.status == len(data) % 251
    failed = confined.run(_python("raise SystemExit('why')"), PLENTY)
    assert (failed.status, failed.errors) == (1, "why")


def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(1000)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(1000)\n"
    )
    with pytest.raises(LimitReached, match=r"did not end within 2 s") as found:
        confined.run(_python(code), Limits(512 * MIB, seconds=2))
    assert found.value.limit == "time"
    if note.exists():  # the machine may be so busy that it never came so far
        assert _is_gone(int(note.read_text()))


def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    ended = confined.run(["/bin/sh", "-c", "sleep 1000 & echo $!"], PLENTY)
    assert ended.status == 0
    assert _is_gone(int(ended.output))


def _is_gone(pid: int) -> bool:
    """Whether a killed process ends, which takes the system a moment."""
    until = time.monotonic() + BOUND
    while not _has_ended(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return _has_ended(pid)


def _has_ended(pid: int) -> bool:
    """Whether it is gone, or waits as a zombie for init."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX" if sys.platform == "linux" else not _runs(pid)


def _runs(pid: int) -> bool:
    return subprocess.run(["ps", "-p", str(pid)], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a program may write to")
def test_memory_is_limited_and_said_so() -> None:
    with pytest.raises(LimitReached, match=r"reached its limit of 200 MiB of memory") as found:
        confined.run(_python("x = bytearray(1 << 30)"), Limits(200 * MIB, seconds=BOUND))
    assert found.value.limit == "memory"
    read = "import orjson; orjson.loads(b'1' * (60 << 20))"
    with pytest.raises(LimitReached, match="memory"):
        confined.run(_python(read), Limits(200 * MIB, seconds=BOUND))


def test_output_and_files_are_limited(tmp_path: Path) -> None:
    with pytest.raises(LimitReached, match="printed more than 1 MiB"):
        confined.run(["yes"], Limits(512 * MIB, seconds=BOUND, output=MIB))
    place = tmp_path / "large"
    code = f"open({str(place)!r}, 'wb').write(bytes(4 << 20))"
    assert confined.run(_python(code), Limits(512 * MIB, seconds=BOUND)).status != 0
    assert place.stat().st_size <= MIB


def test_a_program_that_is_not_there_is_an_error_of_its_own() -> None:
    with pytest.raises(FileNotFoundError):
        confined.run(["/nowhere/solc"], PLENTY)


def test_a_program_may_have_a_larger_limit_than_the_process_that_starts_it() -> None:
    code = (
        "import sys\n"
        "from tracedesk.hosts import confined\n"
        "confined.limit_own_memory(400 << 20)\n"
        "large = [sys.executable, '-I', '-c', 'x = bytearray(600 << 20); print(1)']\n"
        "print(confined.run(large, confined.Limits(900 << 20, seconds=60)).output.decode().strip())\n"
        "try:\n    bytearray(600 << 20)\nexcept MemoryError:\n    print('limited')\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=BOUND, check=True
    )
    assert done.stdout.split()[0] == "1"
    if sys.platform == "linux":
        assert done.stdout.split()[1] == "limited"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a program may write to")
def test_a_program_that_reserves_addresses_gets_them_from_a_process_that_is_limited() -> None:
    code = (
        "import sys\n"
        "from tracedesk.hosts import confined\n"
        "confined.limit_own_memory(400 << 20)\n"
        "told = 'import resource as r; print(r.getrlimit(r.RLIMIT_AS)[0], r.getrlimit(r.RLIMIT_DATA)[0])'\n"
        "limits = confined.Limits(900 << 20, seconds=60)\n"
        "print(confined.run([sys.executable, '-I', '-c', told], limits).output.decode().strip())\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=BOUND, check=True
    )
    assert done.stdout.split() == ["-1", str(900 << 20)]


def test_a_program_ends_with_the_process_that_started_it_however_that_ends() -> None:
    code = (
        "import time\n"
        "from tracedesk.hosts import confined\n"
        "limits = confined.Limits(512 << 20)\n"
        "talks = ['/bin/sh', '-c', 'echo $$; sleep 1000 & echo $!; wait']\n"
        "sleeps = confined.start(['sleep', '1000'], limits, cwd='/', stdin=None, stdout=None)\n"
        "print(sleeps.pid, flush=True)\n"
        "confined.start(talks, limits, cwd='/', stdin=None, stdout=None).wait()\n"
    )
    starter = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    with starter.stdout as said:
        pids = [int(said.readline()) for _ in range(3)]
        assert not any(map(_has_ended, pids))
        starter.kill()
        starter.wait()
        assert all(map(_is_gone, pids))
        assert said.read() == ""  # nothing is left that holds their output open


def test_a_program_that_waits_for_all_of_its_children_has_none_to_wait_for() -> None:
    code = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('none')"
    assert confined.run(_python(code), PLENTY).output.strip() == b"none"


def test_a_program_that_used_its_processor_time_is_said_to_have() -> None:
    limits = Limits(512 * MIB, seconds=0)
    process = confined.start(
        _python("while True: pass"), limits, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    found = confined.limit_reached(process.wait(), "", limits)
    confined.end(process)
    assert str(found) == "used its 1 s of processor time"
