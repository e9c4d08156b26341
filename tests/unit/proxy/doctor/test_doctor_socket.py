"""The admin socket as the agent's user: refused by its mode, refused by the peer check, or open."""

from __future__ import annotations

import os
import socketserver
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from proxy.doctor.finding import DoctorTarget, Finding, ProbeResult
from proxy.doctor.network import probe_network
from tests.unit.proxy.doctor.as_user import AGENT_UID, as_user, needs_root

pytestmark = needs_root


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def _listening(status: int, mode: int) -> Generator[Path]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        with _Server(str(Path(name) / "admin.sock"), Handler) as server:
            (Path(name) / "admin.sock").chmod(mode)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield Path(name)
            finally:
                server.shutdown()
                thread.join()


def _probe(state: Path) -> Finding:
    aim = DoctorTarget(
        state=state,
        checkpoint=None,
        config=None,
        data_url="http://127.0.0.1:9",
        admin_url="http://127.0.0.1:9",
        agent_key=None,
        pids=(),
    )
    return as_user(AGENT_UID, lambda: next(probe_network(aim)), Finding)


def test_a_socket_of_another_users_mode_is_green() -> None:
    with _listening(200, 0o600) as state:
        assert _probe(state).verdict is ProbeResult.OK


def test_a_socket_that_refuses_the_peer_is_green() -> None:
    with _listening(403, 0o666) as state:
        assert _probe(state).verdict is ProbeResult.OK


def test_a_socket_that_answers_is_red() -> None:
    with _listening(200, 0o666) as state:
        assert _probe(state).verdict is ProbeResult.FAIL


def test_no_socket_is_skipped() -> None:
    assert os.geteuid() == 0
    with _listening(200, 0o600) as state:
        assert _probe(state / "none").verdict is ProbeResult.SKIPPED
