"""A collector on a real socket: takes OTLP over HTTP and keeps what it was sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Value = str | int | bool


class Received:
    """The requests that arrived so far. Server threads fill it; read it when the sender is done."""

    def __init__(self, status: int, len_max: int) -> None:
        self.status = status
        # After so many requests, another status.
        self.status_after: tuple[int, int] | None = None
        self.len_max = len_max
        self.url = ""
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []

    def status_for(self, body: bytes) -> int:
        if len(body) > self.len_max:
            return 413
        if self.status_after is not None and len(self.paths) >= self.status_after[0]:
            return self.status_after[1]
        return self.status

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def attributes(pairs: Any) -> dict[str, Value]:  # noqa: ANN401 - protobuf's repeated field
    listed: list[KeyValue] = list(pairs)
    return {pair.key: _plain(pair.value) for pair in listed}


def _plain(value: AnyValue) -> Value:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case other:
            raise AssertionError(other)


@contextmanager
def otlp_receiver(status: int = 200, len_max: int = 64 << 20) -> Generator[Received]:
    """A collector that answers with `status`, and 413 to a body longer than `len_max` bytes."""
    received = Received(status, len_max)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = received.status_for(body)
            received.headers.append({key.lower(): value for key, value in self.headers.items()})
            received.paths.append(self.path)
            if status == 200:
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                received.requests.append(request)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    received.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def black_hole() -> Generator[str]:
    """A collector that never says a word: the kernel takes the connection, and nobody reads."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def refused() -> Generator[str]:
    """An address on which no server listens, nor can listen while this context is open."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
