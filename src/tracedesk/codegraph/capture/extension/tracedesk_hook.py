"""A client's hook: drops what it was told into the desk's inbox, and tells a prompt what was tried before.

    python3 -I -S tracedesk_hook.py CLIENT EVENT [HOME]   (the event's JSON on standard input)

It stands alone (standard library, nothing of its package), so that it starts in a few hundredths of a
second. Whatever happens, it ends within a second with code 0 and prints nothing that is no answer.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing would take longer than the rest of this file
if TYPE_CHECKING:
    import socket
    from typing import Any

FORMAT = 1
SECONDS = 0.9
"""All the time there is, from the first line to the last."""
ASKING_SECONDS = 0.6
MOST_FILES = 4_096
"""Drops that may wait for a desk; later ones are counted as lost."""
MOST_BYTES = 256 << 10
"""Bytes of one drop; longer texts in it are cut until it fits."""
MOST_READ = 4 << 20
"""Bytes of an event that are kept; more could not be cut to fit in the time there is."""
LONGEST_TEXTS = (16_384, 2_048, 256, 32)
MOST_DESKS = 3
MOST_LOSSES = 16 << 10
LOSSES = ".lost"
unsaid: list[str] = []
"""The inbox, for as long as nothing was dropped into it."""
CUT = "… [cut by the hook: {0} characters]"


def main(words: list[str]) -> None:
    client, event = words[0], words[1]
    home = words[2] if len(words) > 2 else default_home()
    unsaid.append(os.path.join(home, "inbox"))
    body = read()
    drop(home, client, event, body)
    unsaid.clear()
    if event == "UserPromptSubmit":
        answer(home, client, body)


def default_home() -> str:
    """Where a desk keeps its files when nobody says otherwise; the desk's own rule, told again."""
    named = os.environ.get("TRACEDESK_HOME", "")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    if not os.path.isabs(data):
        mac = sys.platform == "darwin"
        data = os.path.expanduser("~/Library/Application Support" if mac else "~/.local/share")
    return os.path.join(data, "tracedesk")


def read() -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := os.read(0, 1 << 16):  # to the end: a client may not expect a closed pipe
        if size <= MOST_READ:
            parts.append(part)
        size += len(part)
    return b"".join(parts)


# --- the drop ----------------------------------------------------------------------------------


def drop(home: str, client: str, event: str, body: bytes) -> None:
    """One file, whole or not at all: a line of our own, then the client's words."""
    inbox = os.path.join(home, "inbox")
    os.makedirs(inbox, exist_ok=True)
    if len(os.listdir(inbox)) >= MOST_FILES:
        return lose(inbox, "full")
    if len(body) > MOST_BYTES:
        body = cut(body)
        if len(body) > MOST_BYTES:
            return lose(inbox, "large")
    now = time.time_ns()
    head = f'{{"format":{FORMAT},"client":"{client}","event":"{event}","received_ns":{now}}}\n'
    name = f"{now:020}-{os.getpid()}.json"
    fresh = os.path.join(inbox, "." + name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(head.encode() + body)
        os.rename(fresh, os.path.join(inbox, name))
    except OSError:
        if os.path.exists(fresh):
            os.unlink(fresh)
        raise


def lose(inbox: str, reason: str) -> None:
    """Note that a drop was not kept, so that a desk can say so."""
    path = os.path.join(inbox, LOSSES)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "ab") as file:
        if file.tell() < MOST_LOSSES:
            file.write(f"{reason}\n".encode())


def cut(body: bytes) -> bytes:
    """The same JSON with its long texts cut, as little as makes it fit."""
    if len(body) > MOST_READ:
        return body
    import json

    value = json.loads(body)
    for longest in LONGEST_TEXTS:
        body = json.dumps(shorten(value, longest), ensure_ascii=False).encode("utf-8", "replace")
        if len(body) <= MOST_BYTES:
            break
    return body


def shorten(value: Any, longest: int) -> Any:
    kind = value.__class__
    if kind is str and len(value) > longest:
        return value[:longest] + CUT.format(len(value) - longest)
    if kind is list:
        return [shorten(item, longest) for item in value]
    if kind is dict:
        return {key: shorten(item, longest) for key, item in value.items()}
    return value


# --- the answer --------------------------------------------------------------------------------


def answer(home: str, client: str, body: bytes) -> None:
    """Ask a desk that runs what was tried before, and hand its words to the client."""
    import json

    hook = json.loads(body)
    if not hook.get("prompt"):
        return
    request = json.dumps(
        {
            "id": 1,
            "method": "prompt",
            "params": {"client": client, "hook": hook},
            "timeout": ASKING_SECONDS,
        }
    ).encode()
    for path in sockets(os.path.join(home, "run")):
        text = ask(path, request)
        if text:
            told = {"hookEventName": "UserPromptSubmit", "additionalContext": text}
            os.write(1, json.dumps({"hookSpecificOutput": told}).encode() + b"\n")
            return


def sockets(folder: str) -> list[str]:
    """Where desks listen for hooks, the newest first."""
    import json

    names = [name for name in os.listdir(folder) if name.startswith("hooks-") and name.endswith(".json")]
    found: list[tuple[str, str]] = []
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                told = json.loads(file.read(1 << 16))
            found.append((told["startedAt"], told["socket"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return [path for _, path in sorted(found, reverse=True)[:MOST_DESKS]]


def ask(path: str, request: bytes) -> str | None:
    """The text that the desk at this socket answers with; None when it has none or does not answer."""
    import json
    import socket

    try:
        with socket.socket(socket.AF_UNIX) as desk:
            desk.settimeout(ASKING_SECONDS)
            desk.connect(path)
            desk.sendall(len(request).to_bytes(4, "big") + request)
            size = int.from_bytes(receive(desk, 4), "big")
            told = json.loads(receive(desk, min(size, MOST_BYTES)))
        return told["result"]["text"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def receive(desk: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = desk.recv(size - len(data))
        if not part:
            raise OSError("the desk left")
        data += part
    return data


def give_up(*_: object) -> None:
    try:
        for inbox in unsaid:
            lose(inbox, "late")
    finally:
        os._exit(0)


if __name__ == "__main__":
    try:
        os.umask(0o077)
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        main(sys.argv[1:])
    except BaseException:
        pass  # a client's work neither waits nor fails for us
    os._exit(0)
