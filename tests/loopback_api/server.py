"""Serves a script over HTTP on 127.0.0.1, in threads of this process.

Closing it ends every reply that is still held: no thread outlives the server.
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.loopback_api import requests, stream
from tests.loopback_api.replies import Drop, Failure, Reply, Turn, Usage

Script = Callable[[requests.Request], Reply]

_GATE_POLL_S = 0.05


class LoopbackApi:
    """A running server: ``requests`` as they arrived, ``errors`` that a script raised."""

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self.script = script
        self.requests: list[requests.Request] = []
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.api = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> "LoopbackApi":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def wait_for_close(self) -> None:
        self._closed.wait()

    def answer(
        self, path: str, headers: dict[str, str], raw: bytes
    ) -> tuple[requests.Request, Reply]:
        """The request as it is kept, and what the script says to it."""
        with self._lock:
            number = len(self.requests) + 1
            request = requests.parse(
                number=number, path=path, headers=headers, raw=raw, at=time.time()
            )
            self.requests.append(request)
        try:
            return request, self.script(request)
        except Exception as error:  # noqa: BLE001 - a script's bug is the test's to report
            self.errors.append(error)
            return request, Failure(400, "invalid_request_error", f"script failed: {error!r}")

    def wait(self, reply: Reply) -> bool:
        """Sit out the reply's gate and delay; False when the server closed meanwhile."""
        if reply.gate is not None:
            reply.gate.hold(_GATE_POLL_S, self._closed)
        if isinstance(reply, Turn) and reply.delay_s:
            self._closed.wait(reply.delay_s)
        return not self._closed.is_set()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    api: LoopbackApi

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed in the middle of a reply is a part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        raw = self.rfile.read(length)
        if not self.path.startswith("/v1/messages"):
            self._send_json(404, {"type": "error", "error": {"type": "not_found_error"}}, {})
            return
        if self.path.startswith("/v1/messages/count_tokens"):
            self._send_json(200, {"input_tokens": max(1, len(raw) // 4)}, {})
            return
        request, reply = self.server.api.answer(self.path, dict(self.headers.items()), raw)
        if not self.server.api.wait(reply):
            self._abort()
            return
        match reply:
            case Turn():
                self._send_turn(request, reply)
            case Failure(status=status, kind=kind, message=message, headers=headers):
                body = {"type": "error", "error": {"type": kind, "message": message}}
                self._send_json(status, body, dict(headers))
            case Drop(mid_message=mid_message):
                if mid_message and request.wants_stream:
                    self._start_stream({})
                    self.wfile.write(stream.first_event(request.number, request.model, Usage()))
                self._abort()

    def do_HEAD(self) -> None:
        self._send_json(200, {}, {})

    def do_GET(self) -> None:
        self._send_json(404, {"type": "error", "error": {"type": "not_found_error"}}, {})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are kept as values, not printed."""

    def _send_turn(self, request: requests.Request, turn: Turn) -> None:
        if not request.wants_stream:
            message = stream.whole(request.number, request.model, turn)
            self._send_json(200, message, dict(turn.headers))
            return
        self._start_stream(dict(turn.headers))
        for event in stream.events(request.number, request.model, turn):
            self.wfile.write(event)
        self.wfile.flush()

    def _start_stream(self, headers: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def _send_json(self, status: int, body: object, headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.close_connection = True

    def _abort(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
