"""The health listener on a real sidecar: three paths without a key, and no way further."""

from __future__ import annotations

from pathlib import Path

from tests.integration.running import OPERATOR_KEY, running

HEALTH = {"health": "127.0.0.1:0"}


async def test_health_listener_serves_health_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path, flags=HEALTH) as sidecar:
        address = sidecar.sidecar.health
        assert address is not None
        url = f"http://{address.host}:{address.port}"
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        # Control: the operator's key opens what the health listener does not even have.
        async with sidecar.client.get(
            f"{sidecar.admin_url}/api/v1/status", headers=headers
        ) as answer:
            assert answer.status == 200
        for path, status in (
            *(("/healthz", 200), ("/readyz", 200), ("/readyz?strict=true", 200)),
            *(("/readyz?strict", 400), ("/metrics", 200)),
            *(("/api/v1/status", 404), ("/v1/memories", 404), ("/", 404)),
        ):
            async with sidecar.client.get(url + path, headers=headers) as answer:
                assert answer.status == status, path
        async with sidecar.client.post(f"{url}/api/v1/keys", headers=headers, json={}) as answer:
            assert answer.status == 403
        async with sidecar.client.get(f"{url}/metrics") as answer:
            assert 'listener="health",route="/readyz",status="200"' in await answer.text()


async def test_health_is_asked_by_the_pods_address_as_a_kubelet_does(tmp_path: Path) -> None:
    async with running(tmp_path, flags=HEALTH) as sidecar:
        address = sidecar.sidecar.health
        assert address is not None
        for host, status in (("10.0.0.7:7079", 200), ("attacker.example", 421)):
            async with sidecar.client.get(
                f"http://{address.host}:{address.port}/healthz", headers={"Host": host}
            ) as answer:
                assert answer.status == status


async def test_there_is_no_health_listener_unless_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        assert sidecar.sidecar.health is None
