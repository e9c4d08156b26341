"""A rolling update of `examples/kubernetes/shard` loses nothing that was acknowledged (S-12).

The pods are machines in namespaces, with the arguments, variables and settings of the manifest; the
paths of its mounts alone are others. What a kubelet does is done in its order: a pod more than the
replicas is started, asked until it is ready, and then an old one gets SIGTERM. Agents write all the
while, each connection to any ready pod.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.cluster import Node, Pod, no_cluster_here, node
from tests.integration.manifests import KUBERNETES, Json, containers_of, pod_of, render
from tests.integration.shard_members import AGENT_KEY, OPERATOR_KEY, ROOT
from tests.postgres_server import serving

_REASON = no_cluster_here()
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(600),
    pytest.mark.skipif(_REASON is not None, reason=str(_REASON)),
]
WRITERS: Final = 4
PATIENCE_S: Final = 120.0
THROUGH: Final = ("--admin", "http://127.0.0.1:7078")


class Manifest:
    """What the example says of the pods of a gate."""

    def __init__(self) -> None:
        documents = render(KUBERNETES / "shard")
        self.spec: Json = _one(documents, "Deployment", "mnemogate")["spec"]
        pod = pod_of(documents, "Deployment", "mnemogate")
        gate = containers_of(pod)["mnemogate"]
        self.args: list[str] = gate["args"]
        self.environment = {one["name"]: one["value"] for one in gate["env"]}
        self.settings: str = _one(documents, "ConfigMap", "mnemogate-settings")["data"][
            "mnemogate.toml"
        ]
        self.ports = {one["name"]: one["containerPort"] for one in gate["ports"]}
        self.ready: str = gate["readinessProbe"]["httpGet"]["path"]
        self.grace_s: float = pod["terminationGracePeriodSeconds"]


def _one(documents: list[Json], kind: str, name: str) -> Json:
    [found] = [one for one in documents if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


class Gate:
    """A gate in a pod, with the mounts that the manifest gives it."""

    def __init__(self, manifest: Manifest, pod: Pod, shared: Path, *, shard: bool) -> None:
        self._manifest = manifest
        self.pod = pod
        home = shared / pod.name
        home.mkdir(mode=0o700)
        settings = home / "mnemogate.toml"
        settings.write_text(self._moved(manifest.settings, shared, home) if shard else "")
        settings.chmod(0o600)
        given = {
            name: self._moved(value, shared, home) for name, value in manifest.environment.items()
        }
        self.environment = {
            **given,
            "MNEMOGATE_CONFIG": str(settings),
            # What the image sets.
            "MNEMOGATE_STATE": str(home / "state"),
            "MNEMOGATE_CHECKPOINT": str(home / "checkpoint.txt"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
        }
        self.log = home / "log"
        with self.log.open("ab") as log:
            self._process = pod.begun(
                [sys.executable, "-P", "-m", "proxy", *manifest.args], self.environment, log
            )

    @staticmethod
    def _moved(text: str, shared: Path, home: Path) -> str:
        mounted = text.replace("/etc/mnemogate/", f"{shared}/mounted/")
        return mounted.replace("/var/lib/mnemogate", str(home))

    def is_ready(self) -> bool:
        """What the readiness probe finds."""
        try:
            status, _ = ask(self.pod.address, self._manifest.ports["health"], self._manifest.ready)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200

    def holds(self) -> bool:
        status, body = ask(self.pod.address, self._manifest.ports["health"], self._manifest.ready)
        return status == 200 and body["status"] == "ready"

    def command(self, *words: str) -> Any:  # noqa: ANN401 - what JSON holds
        """What a command prints that is run in the pod."""
        done = self.pod.run(
            [sys.executable, "-P", "-m", "proxy", *words, "--json"], self.environment
        )
        assert done.code == 0, (done, self.log.read_text()[-2_000:])
        return json.loads(done.out)

    def terminate(self) -> None:
        """Stop the pod as a kubelet does, which kills what outlives the grace period."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(self._manifest.grace_s) == 0, self.log.read_text()[-2_000:]

    def remove(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)


def ask(
    address: str, port: int, path: str, body: Json | None = None, nonce: str = ""
) -> tuple[int, Any]:
    """The status and the body of an answer to an agent's request."""
    connection = http.client.HTTPConnection(address, port, timeout=30)
    try:
        # The name by which agents address the Service.
        headers = {"Host": "mnemogate" if body or nonce else address}
        headers |= {"Authorization": f"Bearer {AGENT_KEY}", "Content-Type": "application/json"}
        headers |= {"Idempotency-Key": nonce} if nonce else {}
        sent = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, sent, headers)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    return answer.status, json.loads(data) if data.startswith(b"{") else None


class Agents:
    """Agents that write for as long as the block lasts; each writes again what got no answer."""

    def __init__(self, on: Node, port: int, ready: Callable[[], list[Gate]]) -> None:
        self._on = on
        self._port = port
        self._ready = ready
        self._over = threading.Event()
        self.acknowledged: list[str] = []
        self.unanswered = 0
        self._errors: list[Exception] = []

    @contextmanager
    def writing(self) -> Generator[None]:
        threads = [threading.Thread(target=self._write, args=(one,)) for one in range(WRITERS)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._over.set()
            for one in threads:
                one.join(PATIENCE_S)
        assert self._errors == []

    def _write(self, writer: int) -> None:
        try:
            self._on.enter()
            number = 0
            while not self._over.is_set():
                number += 1
                text = f"writer {writer} notes item {number}"
                nonce = os.urandom(12).hex()
                while not self._answered(text, nonce):
                    self.unanswered += 1
                    time.sleep(0.05)
                self.acknowledged.append(text)
        except Exception as error:  # noqa: BLE001 - shown by the main thread
            self._errors.append(error)

    def _answered(self, text: str, nonce: str) -> bool:
        gates = self._ready()
        if not gates:
            return False
        address = random.choice(gates).pod.address  # noqa: S311 - as the Service chooses
        try:
            status, body = ask(address, self._port, "/v1/memories", {"text": text}, nonce)
        except (OSError, http.client.HTTPException):
            return False
        if status in {429, 500, 502, 503, 504, 507}:
            return False
        assert status == 201, (status, body)
        return True


class Rollout:
    """A deployment of gates, and an update of it by the manifest's strategy."""

    def __init__(self, on: Node, shared: Path, *, shard: bool) -> None:
        self.manifest = Manifest()
        self._on, self._shared, self._shard = on, shared, shard
        self.gates: list[Gate] = []
        self._started = 0

    def begin(self) -> None:
        """Start one pod more, and wait until it is ready."""
        self._started += 1
        pod = self._on.pod(f"mnemogate-{self._started}")
        gate = Gate(self.manifest, pod, self._shared, shard=self._shard)
        deadline = time.monotonic() + PATIENCE_S
        while not gate.is_ready():
            assert time.monotonic() < deadline, gate.log.read_text()[-3_000:]
            time.sleep(0.2)
        self.gates = [*self.gates, gate]

    def remove(self) -> None:
        """Kill what is left."""
        for one in self.gates:
            one.remove()

    def update(self) -> None:
        """Replace each pod by a new one, the holder of the store first."""
        old = sorted(self.gates, key=Gate.holds, reverse=True)
        for one in old:
            self.begin()
            # Its address leaves the Service when it begins to stop, as agents find out.
            self.gates = [each for each in self.gates if each is not one]
            one.terminate()
            time.sleep(1.0)


def walked(root: Path, *, shard: bool) -> tuple[list[str], list[str], Agents]:
    """What was acknowledged during an update, what is stored after it, and who wrote."""
    mounted = root / "mounted"
    with ExitStack() as stack:
        server = stack.enter_context(serving())
        for name, data in _secrets(server.url()).items():
            (mounted / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (mounted / name).write_bytes(data)
            (mounted / name).chmod(0o440)
        on = stack.enter_context(node(root))
        _in_thread(on, lambda: None)
        rollout = Rollout(on, root, shard=shard)
        stack.callback(rollout.remove)
        agents = Agents(on, rollout.manifest.ports["memory"], lambda: rollout.gates)
        stored: list[str] = []

        def walk() -> None:
            for _ in range(rollout.manifest.spec["replicas"]):
                rollout.begin()
            with agents.writing():
                time.sleep(2.0)
                rollout.update()
                time.sleep(2.0)
            for one in rollout.gates if shard else rollout.gates[:1]:
                stored[:] = _texts(one)
            if shard:
                _commands(rollout.gates)

        _in_thread(on, walk)
    return agents.acknowledged, stored, agents


def _in_thread(on: Node, act: Callable[[], None]) -> None:
    """Do something in the node's network, which the thread of the tests does not enter."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            on.enter()
            act()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def _secrets(url: str) -> dict[str, bytes]:
    keys = {f"shard/{one}.key": os.urandom(32) for one in ("store", "log", "token", "journal")}
    return {
        **keys,
        "database/dsn": url.encode(),
        "keys/agent": AGENT_KEY.encode(),
        "keys/operator": OPERATOR_KEY.encode(),
    }


def _texts(gate: Gate) -> list[str]:
    """Every memory, as an operator in the pod reads them through whoever holds the store."""
    found: list[str] = []
    while True:
        page = gate.command(
            *("memory", "list", "--limit", "1000", "--offset", str(len(found)), *THROUGH)
        )
        if not page["memories"]:
            return found
        found += [str(one["text"]) for one in page["memories"]]


def _commands(gates: list[Gate]) -> None:
    """The commands of the README are answered in each pod, and report no problem."""
    for one in gates:
        assert one.command("check", *THROUGH)["problems"] == []


@pytest.fixture
def root() -> Generator[Path]:
    """A short path: the sockets of the states are below it."""
    with tempfile.TemporaryDirectory(prefix="mg-roll-") as place:
        yield Path(place)


def test_a_rolling_update_loses_no_acknowledged_write(root: Path) -> None:
    strategy = Manifest().spec["strategy"]["rollingUpdate"]
    assert strategy == {"maxUnavailable": 0, "maxSurge": 1}
    acknowledged, stored, agents = walked(root, shard=True)
    assert len(acknowledged) > 10 * WRITERS
    # Agents noticed the update, so that it was made under load.
    assert agents.unanswered > 0
    assert sorted(stored) == sorted(acknowledged)


def test_control_without_the_shard_the_same_update_loses_writes(root: Path) -> None:
    acknowledged, stored, _ = walked(root, shard=False)
    assert len(set(acknowledged) - set(stored)) > len(acknowledged) // 4
