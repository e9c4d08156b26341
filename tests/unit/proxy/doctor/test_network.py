"""Doctor's probes of listeners and memory servers that are closed, open, or half open."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from proxy.doctor.examine import examine
from proxy.doctor.finding import BackendTarget, DoctorTarget, Finding, ProbeRequest, ProbeResult
from proxy.doctor.network import probe_network
from proxy.doctor.past_gate import ESSENTIAL, probe_backend
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
    def malformed(*_request: object) -> tuple[int, bytes]:
        return 422, b"{}"

    with small_server(malformed) as url:
        found = _probe(url, tmp_path)

    assert found["admin.anonymous.POST"].verdict is ProbeResult.FAIL
    assert found["data.anonymous"].verdict is ProbeResult.FAIL


def test_a_memory_tool_that_no_map_takes_is_named_and_proves_nothing(tmp_path: Path) -> None:
    def unmapped(*_request: object) -> tuple[int, bytes]:
        return 200, b'{"mode": "enforce", "unmapped_tools": ["save_memory"]}'

    with small_server(unmapped) as url:
        found = _probe(url, tmp_path)["model.memory_tools"]
    assert found.verdict is ProbeResult.WARNED
    assert "save_memory" in found.got


def test_a_key_of_people_that_an_agent_uses_is_told(tmp_path: Path) -> None:
    for body, verdict in (
        (b'{"mode": "enforce", "people_with_agents": 1}', ProbeResult.WARNED),
        (b'{"mode": "enforce"}', ProbeResult.OK),
    ):

        def ready(*_request: object, body: bytes = body) -> tuple[int, bytes]:
            return 200, body

        with small_server(ready) as url:
            found = _probe(url, tmp_path)["keys.people"]
        assert found.verdict is verdict


def test_a_relay_of_a_uid_that_is_bound_to_nobody_is_told_with_what_to_write(
    tmp_path: Path,
) -> None:
    def unbound(*_request: object) -> tuple[int, bytes]:
        return 200, b'{"mode": "enforce", "unbound_uids": [1001]}'

    def bound(*_request: object) -> tuple[int, bytes]:
        return 200, b'{"mode": "enforce"}'

    with small_server(unbound) as url:
        found = _probe(url, tmp_path)["relay.uid"]
    assert found.verdict is ProbeResult.WARNED
    assert "uid 1001 is bound to no principal" in found.got
    assert "[[principals]]" in found.got
    assert found.got.endswith("uid = 1001")
    with small_server(bound) as url:
        assert _probe(url, tmp_path)["relay.uid"].verdict is ProbeResult.OK


def test_what_lets_in_more_than_as_shipped_is_named(tmp_path: Path) -> None:
    def wider(*_request: object) -> tuple[int, bytes]:
        return 200, b'{"mode": "enforce", "wider": ["ruleset: matrix.unknown.L1"]}'

    def as_shipped(*_request: object) -> tuple[int, bytes]:
        return 200, b'{"mode": "enforce"}'

    with small_server(wider) as url:
        found = _probe(url, tmp_path)["settings.wider"]
    assert (found.verdict, found.got) == (ProbeResult.WARNED, "ruleset: matrix.unknown.L1")
    with small_server(as_shipped) as url:
        assert _probe(url, tmp_path)["settings.wider"].verdict is ProbeResult.OK, "control"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("", ProbeResult.OK),
        (', "staging": "unlinked file"', ProbeResult.WARNED),
        (', "staging": ""', ProbeResult.WARNED),
    ],
)
def test_where_candidates_are_staged_is_told(
    said: str, verdict: ProbeResult, tmp_path: Path
) -> None:
    def answered(*_request: object) -> tuple[int, bytes]:
        return 200, f'{{"mode": "enforce"{said}}}'.encode()

    with small_server(answered) as url:
        found = _probe(url, tmp_path)["staging.undecided"]
    assert found.verdict is verdict
    assert ("unlinked file" in found.got) is ("unlinked file" in said)


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
            return 200, b'{"mode": "observe"}'
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


def test_a_key_the_sidecar_does_not_take_proves_nothing(tmp_path: Path) -> None:
    with small_server(_separated) as url:
        found = _probe(url, tmp_path, key="some-other-key")

    assert found["data.agent_key.L1"].verdict is ProbeResult.SKIPPED


def test_without_an_agent_key_the_write_is_skipped(tmp_path: Path) -> None:
    with small_server(_separated) as url:
        found = _probe(url, tmp_path, key=None)

    assert found["data.agent_key.L1"].verdict is ProbeResult.SKIPPED
    assert "admin.agent_key.GET" not in found


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
    tmp_path: Path, url: str, data_url: str, key: str | None = KEY, headers_file: Path | None = None
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
