"""Doctor's probes of a memory server, against small servers that are open, closed, or down."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from proxy.doctor.finding import BackendTarget, DoctorTarget, Finding, ProbeRequest, ProbeResult
from proxy.doctor.past_gate import ESSENTIAL, probe_backend
from tests.unit.proxy.doctor.small_server import small_server

KEY = "agent-key-for-the-tests"
NOBODY = "http://127.0.0.1:1"
OK, FAIL, SKIPPED = ProbeResult.OK, ProbeResult.FAIL, ProbeResult.SKIPPED


def gate(_method: str, path: str, credential: str | None, _body: bytes) -> tuple[int, bytes]:
    """A sidecar that reaches its server."""
    return (200 if path == "/info" and credential == f"Bearer {KEY}" else 401), b"{}"


def down(*_request: object) -> tuple[int, bytes]:
    """A sidecar whose server does not answer."""
    return 502, b"{}"


def wide_open(*_request: object) -> tuple[int, bytes]:
    return 422, b"{}"


def closed(*_request: object) -> tuple[int, bytes]:
    return 401, b"{}"


def probed(
    tmp_path: Path,
    url: str,
    data_url: str,
    key: str | None = KEY,
    headers_file: Path | None = None,
) -> dict[str, Finding]:
    target = BackendTarget(
        name="store",
        url=url,
        headers_file=headers_file,
        alive=ProbeRequest(method="GET", target="/info"),
        read=ProbeRequest(method="POST", target="/search", body=b'{"limit":1}'),
        write=ProbeRequest(method="PUT", target="/items", body=b"{}"),
    )
    aim = DoctorTarget(
        state=tmp_path,
        checkpoint=None,
        config=None,
        data_url=data_url,
        admin_url=NOBODY,
        agent_key=key,
        pids=(),
    )
    return {one.id: one for one in probe_backend(aim, target)}


def verdicts(found: dict[str, Finding]) -> set[ProbeResult]:
    return {one.verdict for one in found.values()}


def test_a_server_that_answers_without_the_sidecars_credential_fails_with_the_cure(
    tmp_path: Path,
) -> None:
    with small_server(gate) as data_url, small_server(wide_open) as url:
        found = probed(tmp_path, url, data_url)
    assert verdicts(found) == {FAIL}
    assert set(ESSENTIAL) < set(found)
    assert all("headers_file" in one.got and "network" in one.got for one in found.values())
    # Control: one that asks for a credential passes.
    with small_server(gate) as data_url, small_server(closed) as url:
        assert verdicts(probed(tmp_path, url, data_url)) == {OK}


def test_a_server_that_takes_the_agents_key_fails(tmp_path: Path) -> None:
    def takes(_method: str, _path: str, credential: str | None, _body: bytes) -> tuple[int, bytes]:
        return (200 if credential == f"Bearer {KEY}" else 401), b"{}"

    with small_server(gate) as data_url, small_server(takes) as url:
        found = probed(tmp_path, url, data_url)
    assert {name: one.verdict for name, one in found.items()} == {
        "backend.anonymous.read": OK,
        "backend.anonymous.write": OK,
        "backend.agent_key.read": FAIL,
        "backend.agent_key.write": FAIL,
    }


def test_a_server_that_cannot_be_reached_is_separated_only_if_the_gate_reaches_it(
    tmp_path: Path,
) -> None:
    with small_server(gate) as data_url:
        assert verdicts(probed(tmp_path, NOBODY, data_url)) == {OK}
        # Without the agent's key nobody can tell whether it runs.
        assert verdicts(probed(tmp_path, NOBODY, data_url, key=None)) == {SKIPPED}
    with small_server(down) as data_url:
        assert verdicts(probed(tmp_path, NOBODY, data_url)) == {SKIPPED}
    assert verdicts(probed(tmp_path, NOBODY, NOBODY)) == {SKIPPED}


def test_a_server_that_takes_the_connection_and_ends_it_was_reached(tmp_path: Path) -> None:
    with socket.socket() as listening, small_server(gate) as data_url:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)
        host, port = listening.getsockname()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("proxy.doctor.network._TIMEOUT_S", 0.05)
            found = probed(tmp_path, f"http://{host}:{port}", data_url)
    # It says nothing for now, and may say something to whoever asks better.
    assert verdicts(found) == {FAIL}


def test_a_credential_that_the_agent_may_read_fails(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("x-api-key: secret\n")
    with small_server(gate) as data_url:
        found = probed(tmp_path, NOBODY, data_url, headers_file=file)
        assert found["backend.credential"].verdict is FAIL
        file.unlink()
        found = probed(tmp_path, NOBODY, data_url, headers_file=file)
        assert found["backend.credential"].verdict is SKIPPED
