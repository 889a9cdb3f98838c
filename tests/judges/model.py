"""A model's place on loopback: the chat-completions API, streaming, with its turns written beforehand."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast

USAGE: Final = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model does next: call a tool, or answer."""

    answer: str | None = None
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])

    def delta(self, number: int) -> dict[str, Any]:
        if self.answer is not None:
            return {"role": "assistant", "content": self.answer}
        function = {"name": self.tool, "arguments": json.dumps(self.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    @property
    def reason(self) -> str:
        return "tool_calls" if self.answer is None else "stop"


@dataclass(slots=True)
class Model:
    """The turns that are left, and what was asked for each."""

    url: str
    turns: list[Turn]
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def next(self, request: dict[str, Any]) -> tuple[int, Turn]:
        # Questions beside the conversation (titles, summaries) offer no tools and use up no turn.
        if not request.get("tools"):
            return 0, Turn("ok")
        self.requests.append(request)
        return len(self.requests), self.turns.pop(0) if self.turns else Turn("There is nothing left to do.")


@contextmanager
def model(turns: Sequence[Turn]) -> Generator[Model]:
    """A model that takes these turns, for as long as the body runs."""
    server = _Server(("127.0.0.1", 0), _Answers)
    told = server.model = Model(f"http://127.0.0.1:{server.server_port}/v1", list(turns))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    model: Model


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": []}), "application/json")

    def do_POST(self) -> None:
        request: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number, turn = cast("_Server", self.server).model.next(request)
        head = {"id": "c", "created": 1, "model": request["model"]}
        if not request.get("stream"):
            choice = {"index": 0, "message": turn.delta(number), "finish_reason": turn.reason}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": USAGE}
            self._send(json.dumps(whole), "application/json")
            return
        choices: tuple[list[dict[str, Any]], ...] = (
            [{"index": 0, "delta": turn.delta(number), "finish_reason": None}],
            [{"index": 0, "delta": {}, "finish_reason": turn.reason}],
        )
        chunks: list[dict[str, Any]] = [{**head, "choices": each} for each in choices]
        chunks.append({**head, "choices": [], "usage": USAGE})
        lines = [{**chunk, "object": "chat.completion.chunk"} for chunk in chunks]
        text = "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
        self._send(f"{text}data: [DONE]\n\n", "text/event-stream")

    def _send(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
