"""The sidecar's credential for a memory server: in no byte that leaves the sidecar but to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proxy.compose.app import Composition
from tests.integration.memory_servers.recorder import Fault, recorder
from tests.integration.otlp_receiver import otlp_receiver
from tests.integration.running import AGENT_KEY, running
from tests.integration.test_backend_store import ALICE, GOOD, SECRET, Guarded
from tests.integration.test_incident_without_content import logged
from tests.unit.proxy.guarded import STEERING


async def answers(gate: Guarded) -> list[tuple[int, str]]:
    """Status, and all that the agent is told, of requests of every kind."""
    item: dict[str, Any] = {"namespace": ALICE, "key": "k1", "value": {"text": GOOD}}
    order = {**item, "key": "k2", "value": {"text": STEERING}}
    wrong: dict[str, Any] = {"namespace": []}
    told: list[tuple[int, str]] = []
    requests: tuple[tuple[str, str, Any], ...] = (
        ("PUT", "/store/items", item),
        ("PUT", "/store/items", order),
        ("PUT", "/store/items", wrong),
        ("GET", "/store/items?key=k1&namespace=memories.alice", None),
        ("POST", "/store/items/search", {"namespace_prefix": []}),
        ("POST", "/store/namespaces", {}),
        ("GET", "/info", None),
        ("POST", "/assistants", {}),
        ("GET", "/store/nowhere", None),
        ("DELETE", "/store/items", {"namespace": ALICE, "key": "k1"}),
    )
    for method, target, body in requests:
        async with gate.sidecar.client.request(
            method, gate.sidecar.url + target, json=body, headers={"x-api-key": AGENT_KEY}
        ) as response:
            said = (await response.read()).decode()
            told.append((response.status, f"{said}{dict(response.headers)}"))
    return told


async def test_the_credential_is_in_no_byte_to_the_agent_in_no_log_no_span_and_no_file(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "beside" / "headers"
    secret.parent.mkdir()
    secret.write_text(f"x-api-key: {SECRET}\n")
    secret.chmod(0o600)
    told: list[tuple[int, str]] = []
    base = tmp_path / "gate"
    base.mkdir()
    with otlp_receiver() as received, logged() as lines:
        async with recorder() as (server, url):
            tables = f'[[backend]]\nname = "store"\nadapter = "langgraph"\nurl = "{url}"\n'
            tables += f'headers_file = "{secret}"\n'
            flags = {"otel_endpoint": received.url}
            async with running(base, Composition(), flags, tables) as sidecar:
                gate = Guarded(sidecar, server)
                told += await answers(gate)
                assert [status for status, _ in told][:2] == [204, 403]
                server.fault = Fault.CUT
                told += await answers(gate)
                server.echoes = True
                told += await answers(gate)
                # Control: the server has the credential of each request, and tells it.
                assert all(one.headers["x-api-key"] == SECRET for one in server.seen)
                headers = {"x-api-key": SECRET}
                async with sidecar.client.get(f"{url}/info", headers=headers) as direct:
                    assert SECRET in await direct.text()
    # What the server tells so is not passed on at all.
    assert {status for status, _ in told[-10:]} <= {400, 403, 422, 502, 503}
    assert SECRET not in repr(told)
    assert SECRET not in lines.getvalue()
    assert received.requests
    assert all(SECRET.encode() not in one.SerializeToString() for one in received.requests)
    files = [path for path in base.rglob("*") if path.is_file()]
    assert files
    assert all(SECRET.encode() not in path.read_bytes() for path in files)
