"""Doctor's probes of listeners and memory servers that are closed, open, or half open."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from proxy.doctor.examine import examine
from proxy.doctor.finding import BackendTarget, DoctorTarget, Finding, ProbeRequest, ProbeResult
from proxy.doctor.network import ESSENTIAL, probe_backend, probe_network
from tests.unit.proxy.doctor.small_server import small_server

AGENT_KEY = "agent-key-for-the-tests"


def _separated(method: str, path: str, credential: str | None, body: bytes) -> tuple[int, bytes]:
    if path.startswith("/api/"):
        return (401 if credential is None else 403), b"{}"
    if credential != f"Bearer {AGENT_KEY}":
        return 401, b"{}"
    if method == "GET":
        return 200, b'{"incarnation": "abc-0"}'
    if b'"L1"' in body:
        return 403, b'{"reason": "source_class_forbidden"}'
    return 201, b"{}"


def _wide_open(*_request: object) -> tuple[int, bytes]:
    return 200, b"{}"


def _malformed(*_request: object) -> tuple[int, bytes]:
    return 422, b"{}"


def _probe(url: str, state: Path, key: str | None = AGENT_KEY) -> dict[str, Finding]:
    aim = DoctorTarget(
        state=state,
        checkpoint=None,
        config=None,
        data_url=url,
        admin_url=url,
        agent_key=key,
        pids=(),
    )
    return {finding.id: finding for finding in probe_network(aim)}


PROBES = (
    "admin.anonymous.GET",
    "admin.anonymous.POST",
    "admin.agent_key.GET",
    "admin.agent_key.POST",
    "data.anonymous",
    "data.agent_key.L1",
)


def test_listeners_that_refuse_are_green(tmp_path: Path) -> None:
    with small_server(_separated) as url:
        found = _probe(url, tmp_path)

    assert {name: found[name].verdict for name in PROBES} == dict.fromkeys(PROBES, ProbeResult.OK)


@pytest.mark.parametrize("name", PROBES)
def test_listeners_that_let_everything_through_are_red(name: str, tmp_path: Path) -> None:
    with small_server(_wide_open) as url:
        assert _probe(url, tmp_path)[name].verdict is ProbeResult.FAIL


def test_a_request_let_through_and_then_found_malformed_is_red(tmp_path: Path) -> None:
    with small_server(_malformed) as url:
        found = _probe(url, tmp_path)

    assert found["admin.anonymous.POST"].verdict is ProbeResult.FAIL
    assert found["data.anonymous"].verdict is ProbeResult.FAIL


ENFORCES = '{"status": "ready", "reason": null, "mode": "enforce"'
UNBOUND = "uid 1001 is bound to no principal"


@pytest.mark.parametrize(
    ("probe", "said", "names"),
    [
        ("model.memory_tools", ', "unmapped_tools": ["save_memory"]', ("save_memory",)),
        ("keys.people", ', "people_with_agents": 1', ()),
        ("relay.uid", ', "unbound_uids": [1001]', (UNBOUND, "[[principals]]", "uid = 1001")),
        ("settings.wider", ', "wider": ["ruleset: matrix.unknown.L1"]', ("matrix.unknown.L1",)),
        ("staging.undecided", ', "staging": "unlinked file"', ("unlinked file",)),
        ("staging.undecided", ', "staging": ""', ()),
    ],
)
def test_what_the_sidecar_reports_of_itself_is_a_warning_and_is_named(
    probe: str, said: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    for more, verdict in ((said, ProbeResult.WARNED), ("", ProbeResult.OK)):

        def ready(*_request: object, more: str = more) -> tuple[int, bytes]:
            return 200, f"{ENFORCES}{more}}}".encode()

        with small_server(ready) as url:
            found = _probe(url, tmp_path)[probe]
        assert found.verdict is verdict
        assert verdict is ProbeResult.OK or all(name in found.got for name in names)


def test_a_file_between_no_known_marks_is_red(tmp_path: Path) -> None:
    for more, verdict in (
        (', "unread_places": 2', ProbeResult.FAIL),
        ("", ProbeResult.OK),
    ):

        def ready(*_request: object, more: str = more) -> tuple[int, bytes]:
            return 200, f"{ENFORCES}{more}}}".encode()

        with small_server(ready) as url:
            found = _probe(url, tmp_path)["places.read"]
        assert found.verdict is verdict
        assert verdict is ProbeResult.OK or found.got.startswith("2 between no known marks")


def test_a_policy_write_that_lands_is_red(tmp_path: Path) -> None:
    def lands(method: str, path: str, credential: str | None, body: bytes) -> tuple[int, bytes]:
        status, answer = _separated(method, path, credential, body)
        return (201, b"{}") if answer.startswith(b'{"reason"') else (status, answer)

    with small_server(lands) as url:
        assert _probe(url, tmp_path)["data.agent_key.L1"].verdict is ProbeResult.FAIL


def test_in_observe_mode_no_policy_is_written_that_would_stay(tmp_path: Path) -> None:
    written: list[bytes] = []

    def observes(method: str, path: str, credential: str | None, body: bytes) -> tuple[int, bytes]:
        if path == "/readyz":
            return 200, b'{"status": "ready", "reason": null, "mode": "observe"}'
        if method == "POST" and path == "/v1/memories" and credential is not None:
            written.append(body)
            return 201, b"{}"
        return _separated(method, path, credential, body)

    with small_server(observes) as url:
        found = _probe(url, tmp_path)
    assert found["mode"].verdict is ProbeResult.FAIL
    assert found["data.agent_key.L1"].verdict is ProbeResult.SKIPPED
    assert written == []


def test_the_policy_write_counts_once_however_often_doctor_runs(tmp_path: Path) -> None:
    written: list[bytes] = []

    def records(method: str, path: str, credential: str | None, body: bytes) -> tuple[int, bytes]:
        if method == "POST" and path == "/v1/memories" and credential is not None:
            written.append(body)
        return _separated(method, path, credential, body)

    with small_server(records) as url:
        _probe(url, tmp_path)
        _probe(url, tmp_path)

    assert written[0] == written[1]
    assert msgspec.json.decode(written[0])["nonce"] == "abc-0:mnemogate-doctor"


@pytest.mark.parametrize("key", ["some-other-key", None])
def test_a_key_that_is_not_taken_or_not_there_proves_nothing(
    key: str | None, tmp_path: Path
) -> None:
    with small_server(_separated) as url:
        found = _probe(url, tmp_path, key=key)
    assert found["data.agent_key.L1"].verdict is ProbeResult.SKIPPED
    assert ("admin.agent_key.GET" in found) is (key is not None)


def test_nothing_there_is_skipped_and_never_called_proven(tmp_path: Path) -> None:
    aim = DoctorTarget(
        state=tmp_path / "none",
        checkpoint=None,
        config=None,
        data_url="http://127.0.0.1:9",
        admin_url="http://127.0.0.1:9",
        agent_key=None,
        pids=(),
    )

    found = examine(aim)

    by_id = {finding.id: finding.verdict for finding in found.findings}
    assert by_id["data.anonymous"] is ProbeResult.SKIPPED
    assert by_id["process.mem"] is ProbeResult.SKIPPED
    assert not found.proven


NOBODY = "http://127.0.0.1:1"
OK, FAIL, SKIPPED = ProbeResult.OK, ProbeResult.FAIL, ProbeResult.SKIPPED


def gate(_method: str, path: str, credential: str | None, _body: bytes) -> tuple[int, bytes]:
    """A sidecar that reaches its server."""
    return (200 if path == "/info" and credential == f"Bearer {AGENT_KEY}" else 401), b"{}"


def down(*_request: object) -> tuple[int, bytes]:
    """A sidecar whose server does not answer."""
    return 502, b"{}"


def closed(*_request: object) -> tuple[int, bytes]:
    return 401, b"{}"


def probed(
    tmp_path: Path,
    url: str,
    data_url: str,
    key: str | None = AGENT_KEY,
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
    with small_server(gate) as data_url, small_server(_malformed) as url:
        found = probed(tmp_path, url, data_url)
    assert verdicts(found) == {FAIL}
    assert set(ESSENTIAL) < set(found)
    assert all("headers_file" in one.got and "network" in one.got for one in found.values())
    # Control: one that asks for a credential passes.
    with small_server(gate) as data_url, small_server(closed) as url:
        assert verdicts(probed(tmp_path, url, data_url)) == {OK}


def test_a_server_that_takes_the_agents_key_fails(tmp_path: Path) -> None:
    def takes(_method: str, _path: str, credential: str | None, _body: bytes) -> tuple[int, bytes]:
        return (200 if credential == f"Bearer {AGENT_KEY}" else 401), b"{}"

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
