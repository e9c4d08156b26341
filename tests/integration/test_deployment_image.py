"""The image as an engine would run it: not root, nothing writable but its two volumes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from tests.integration.cli_process import Done
from tests.integration.image import Image, build, cannot_build
from tests.integration.manifests import KUBERNETES, read_yaml
from tests.integration.pod import ADDRESS, Container, Pod, pod, until

_REASON = cannot_build()
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.share(of=3, turn=2),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(_REASON is not None, reason=str(_REASON)),
]

SIDECAR_UID = 10001
AGENT_UID = 10002
AGENT_KEY = "agent-key-in-a-container-0123456789"
OPERATOR_KEY = "operator-key-in-a-container-0123456789"
STATE = "/var/lib/mnemogate"
COPY = "/var/lib/mnemogate-checkpoint"
PROBE = "import urllib.request as r; r.urlopen('http://%s:%d%s', timeout=2)"
READY = PROBE % (ADDRESS, 7079, "/readyz")
ASK = """
import http.client, json
method, address, path, headers, body = json.loads(%r)
connection = http.client.HTTPConnection(address, timeout=10)
connection.request(method, path, body=body, headers=headers)
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode()]))
"""


def _cache() -> Path:
    base = os.environ.get("MNEMOGATE_CACHE")
    return (Path(base) if base else Path.home() / ".cache" / "mnemogate") / "image"


@pytest.fixture(scope="module")
def image() -> Image:
    return build(_cache())


@pytest.fixture
def sidecar(image: Image, tmp_path: Path) -> Container:
    """The sidecar's container with its volumes and the two keys as mounted files."""
    # An orchestrator's volumes: root's, open to the sidecar's group.
    for name in ("state", "checkpoint", "keys"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, 0, SIDECAR_UID)
        (tmp_path / name).chmod(0o2770)
    for role, key in (("agent", AGENT_KEY), ("operator", OPERATOR_KEY)):
        file = tmp_path / "keys" / role
        file.write_text(key)
        os.chown(file, 0, SIDECAR_UID)
        file.chmod(0o440)
    return Container(
        image=image,
        uid=SIDECAR_UID,
        mounts={
            STATE: tmp_path / "state",
            COPY: tmp_path / "checkpoint",
            "/mnt": tmp_path / "keys",
        },
        environment={
            "MNEMOGATE_AGENT_KEY_FILE": "/mnt/agent",
            "MNEMOGATE_OPERATOR_KEY_FILE": "/mnt/operator",
            "MNEMOGATE_HEALTH": "0.0.0.0:7079",
        },
    )


@pytest.fixture
def agent(image: Image) -> Container:
    """The agent's container: another user, none of the sidecar's volumes."""
    return Container(image=image, uid=AGENT_UID)


def ask(
    pod_: Pod,
    agent: Container,
    path: str,
    body: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    address: str = "127.0.0.1:7077",
) -> tuple[int, str]:
    method = "GET" if body is None else "POST"
    sent = None if body is None else json.dumps(body)
    done = pod_.python(agent, ASK % json.dumps([method, address, path, headers or {}, sent]))
    assert done.code == 0, done.err
    status, text = json.loads(done.out)
    return int(status), str(text)


def doctor(pod_: Pod, agent: Container, *more: str) -> Done:
    return pod_.run(agent, "/app/bin/mnemogate", "doctor", "--json", *more)


def test_the_configuration_says_what_the_documents_promise(image: Image) -> None:
    config = image.config
    assert config.user == "10001:10001"
    assert set(config.volumes) == {STATE, COPY}
    assert set(config.exposed_ports) == {"7077/tcp"}
    assert config.stop_signal == "SIGTERM"
    assert config.entrypoint == ["/app/bin/mnemogate"]
    assert config.cmd == ["run", "--listen", "0.0.0.0:7077"]
    assert not any("KEY" in word or "ADMIN" in word for word in config.env)


def test_no_installer_and_no_source_tree_ship(image: Image) -> None:
    assert not (image.root / "src").exists()
    assert not list((image.root / "app" / "bin").glob("pip*"))
    assert not list((image.root / "app").rglob("hatchling"))


def test_nothing_in_the_image_is_the_sidecars_to_write(image: Image) -> None:
    own = [
        path
        for path in (image.root / "app", *(image.root / "app").rglob("*"))
        if path.lstat().st_uid != 0 or (path.lstat().st_mode & 0o022 and not path.is_symlink())
    ]
    assert own == []


def test_sidecar_serves_on_a_read_only_root_as_its_own_user(
    sidecar: Container, agent: Container
) -> None:
    with pod() as pod_, pod_.running(sidecar):
        until(READY, pod_, agent)
        # The health check of the image, and a kubelet's probe by the pod's address.
        kind, *check = sidecar.image.config.healthcheck.test
        assert kind == "CMD"
        assert pod_.run(sidecar, *check).code == 0
        assert ask(pod_, agent, "/healthz", address=f"{ADDRESS}:7079")[0] == 200

        memory = {"text": "Ada moved to Lisbon in March."}
        key = {"Authorization": f"Bearer {AGENT_KEY}", "Content-Type": "application/json"}
        assert ask(pod_, agent, "/v1/memories", memory)[0] == 401
        assert ask(pod_, agent, "/v1/memories", memory, key)[0] == 201
        # From outside the container the listener answers, but only to its own names.
        status, _ = ask(pod_, agent, "/v1/whoami", None, key, f"{ADDRESS}:7077")
        assert status == 421
        own = {**key, "Host": "localhost"}
        assert ask(pod_, agent, "/v1/whoami", None, own, f"{ADDRESS}:7077")[0] == 200
        # The admin listener is nowhere but on the loopback.
        refused = pod_.python(agent, PROBE % (ADDRESS, 7078, "/healthz"))
        assert "ConnectionRefusedError" in refused.err


def test_sidecar_can_write_to_its_volumes_and_nowhere_else(sidecar: Container) -> None:
    program = """
import errno, os
for place in ("/", "/app", "/app/lib", "/tmp", "/var/tmp", "/etc", "/home", "/run", "/usr/lib"):
    try:
        open(os.path.join(place, "x"), "w")
    except OSError as error:
        assert error.errno in (errno.EROFS, errno.EACCES), (place, error)
    else:
        raise SystemExit(place + " was written to")
for place in ("/var/lib/mnemogate", "/var/lib/mnemogate-checkpoint"):
    open(os.path.join(place, "x"), "w").close()
status = open("/proc/self/status").read()
assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status, status
assert "NoNewPrivs:\t1" in status, status
assert os.getuid() == os.geteuid() == 10001
"""
    with pod() as pod_:
        done = pod_.python(sidecar, program)
    assert done.code == 0, done.err


def test_the_state_outlives_the_container(sidecar: Container, agent: Container) -> None:
    key = {"Authorization": f"Bearer {AGENT_KEY}", "Content-Type": "application/json"}
    for expected in (1, 2):
        with pod() as pod_, pod_.running(sidecar):
            until(READY, pod_, agent)
            ask(pod_, agent, "/v1/memories", {"text": f"Shelf {expected} holds maps."}, key)
            _, page = ask(pod_, agent, "/v1/memories", None, key)
        assert json.loads(page)["total"] == expected


@pytest.fixture
def neighbour(image: Image, sidecar: Container) -> Container:
    """An agent in the worst of pods: it mounts the sidecar's volumes and sees its processes."""
    volumes = {place: sidecar.mounts[place] for place in (STATE, COPY)}
    return Container(
        image=image,
        uid=AGENT_UID,
        mounts=volumes,
        environment={"MNEMOGATE_AGENT_KEY": AGENT_KEY},
        sees_processes=True,
    )


def test_another_uid_alone_keeps_the_agent_out(sidecar: Container, neighbour: Container) -> None:
    seen = msgspec.structs.replace(sidecar, sees_processes=True)
    with pod() as pod_, pod_.running(seen):
        until(READY, pod_, neighbour)
        done = doctor(pod_, neighbour)
    verdicts = {finding["id"]: finding["verdict"] for finding in json.loads(done.out)["findings"]}
    assert done.code == 0, [v for v in verdicts.items() if v[1] != "ok"]
    for name in (
        *("identity.uid", "identity.capabilities", "state.list", "state.replace", "store.write"),
        *("secrets.token.key", "process.mem", "process.ptrace", "checkpoint.write"),
        *("admin.anonymous.POST", "admin.agent_key.POST", "data.agent_key.L1", "code.write"),
    ):
        assert verdicts[name] == "ok", name


@pytest.mark.parametrize("mistake", ["state", "uid"])
def test_doctor_is_red_when_the_agent_gets_the_state(
    sidecar: Container, neighbour: Container, mistake: str
) -> None:
    seen = msgspec.structs.replace(sidecar, sees_processes=True)
    with pod() as pod_, pod_.running(seen):
        until(READY, pod_, neighbour)
        wrong = neighbour
        if mistake == "uid":
            wrong = msgspec.structs.replace(neighbour, uid=SIDECAR_UID)
        volume = sidecar.mounts[STATE]
        given = [volume, *volume.rglob("*")] if mistake == "state" else []
        for path in given:
            os.chown(path, AGENT_UID, AGENT_UID)
        done = doctor(pod_, wrong)
        for path in given:
            os.chown(path, SIDECAR_UID, SIDECAR_UID)
    verdicts = {finding["id"]: finding["verdict"] for finding in json.loads(done.out)["findings"]}
    assert done.code == 1
    for name in ("state.list", "store.write", "secrets.token.key"):
        assert verdicts[name] == "FAIL", name


def test_agent_in_a_container_of_its_own_finds_nothing_to_aim_at(
    sidecar: Container, agent: Container
) -> None:
    with pod() as pod_, pod_.running(sidecar):
        until(READY, pod_, agent)
        done = doctor(pod_, agent)
    report = json.loads(done.out)
    # Nothing worked. But this agent runs the sidecar's own image, where a state directory is there
    # to be seen: not a gate's, and nobody can tell that from here.
    assert (done.code, report["separated"], report["proven"]) == (3, True, False)


def test_socket_of_the_pod_takes_the_agents_uid_as_its_credential(
    sidecar: Container, agent: Container, tmp_path: Path
) -> None:
    shared, config = tmp_path / "socket", tmp_path / "config"
    shared.mkdir()
    shared.chmod(0o777)
    config.mkdir()
    [example] = read_yaml((KUBERNETES / "sidecar-socket/config.yaml").read_text(encoding="utf-8"))
    text = example["data"]["mnemogate.toml"].replace("/run/mnemogate/", "/run/")
    (config / "mnemogate.toml").write_text(text, "utf-8")
    gate = msgspec.structs.replace(
        sidecar,
        mounts=sidecar.mounts | {"/run": shared, "/srv": config},
        environment=sidecar.environment | {"MNEMOGATE_CONFIG": "/srv/mnemogate.toml"},
    )
    program = """
import http.client, socket
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("/run/memory.sock")
connection.request("GET", "/v1/whoami")
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""
    with pod() as pod_, pod_.running(gate, "run"):
        until(READY, pod_, agent)
        connected = msgspec.structs.replace(agent, mounts={"/run": shared})
        said = pod_.python(connected, program).out
        assert said.startswith("200 ")
        assert '"assistant"' in said
        # Control: the same bytes from another uid.
        stranger = msgspec.structs.replace(connected, uid=10003)
        assert not pod_.python(stranger, program).out.startswith("200 ")
