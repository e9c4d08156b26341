"""The Kubernetes examples: valid for the versions they name, and separated as they say."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.settings.load import load_settings
from tests.integration.manifests import (
    KUBERNETES,
    Json,
    check_settings,
    containers_of,
    is_list,
    kubernetes_validate,
    pod_of,
    read_yaml,
    render,
    tool,
    write_yaml,
)

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=2), pytest.mark.timeout(600)]

OVERLAYS = (
    *("agent", "sidecar", "sidecar-socket", "gateway", "gateway-model", "shard", "injection"),
)
OLDEST, NEWEST = "1.29.0", "1.37.0"
VALID = [(name, NEWEST) for name in OVERLAYS] + [
    (name, OLDEST) for name in OVERLAYS if name != "injection"
]
PODS = (
    ("sidecar", "Deployment", "agent"),
    ("sidecar-socket", "Deployment", "agent"),
    ("gateway", "Deployment", "agent"),
    ("gateway", "StatefulSet", "mnemogate"),
    ("gateway-model", "Deployment", "agent"),
    ("gateway-model", "StatefulSet", "mnemogate"),
    ("shard", "Deployment", "agent"),
    ("shard", "Deployment", "mnemogate"),
)
AGENTS_VOLUMES = {"scratch", "mnemogate-socket"}


def _strict(documents: list[Json], version: str, at: Path) -> int:
    file = write_yaml(documents, at / "rendered.yaml")
    done = kubernetes_validate("kubernetes-validate", "--strict", "-k", version, str(file))
    assert "Couldn't find schema" not in done.out + done.err, done.out + done.err
    return done.code


@pytest.mark.parametrize(("overlay", "version"), VALID)
def test_rendered_example_passes_the_strict_schemas(
    overlay: str, version: str, tmp_path: Path
) -> None:
    assert _strict(render(KUBERNETES / overlay), version, tmp_path) == 0


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_misspelt_key_is_caught_in_every_document(overlay: str, tmp_path: Path) -> None:
    # The control: strict validation that passes everything would prove nothing.
    documents = render(KUBERNETES / overlay)
    for document in documents:
        section = "spec" if "spec" in document else "metadata"
        document[section]["securtyContext"] = {}
    file = write_yaml(documents, tmp_path / "spoilt.yaml")
    done = kubernetes_validate("kubernetes-validate", "--strict", "-k", NEWEST, str(file))
    assert done.code != 0
    assert (done.out + done.err).count("'securtyContext' was unexpected") == len(documents)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_our_rendering_is_what_kubectl_renders(overlay: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / overlay)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert _sorted(read_yaml(done.stdout)) == _sorted(render(KUBERNETES / overlay))


def _sorted(value: Any) -> Any:  # noqa: ANN401 - what YAML holds
    """Without the order of lists of maps: a merge may append or prepend."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in cast("Json", value).items()}
    if is_list(value):
        items = [_sorted(item) for item in value]
        maps = all(isinstance(item, dict) for item in items)
        return sorted(items, key=partial(json.dumps, sort_keys=True)) if maps else items
    return value


@pytest.mark.parametrize(("overlay", "kind", "name"), PODS)
def test_every_container_is_confined(overlay: str, kind: str, name: str) -> None:
    pod = pod_of(render(KUBERNETES / overlay), kind, name)
    assert pod["automountServiceAccountToken"] is False
    assert pod["shareProcessNamespace"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    uids: list[int] = []
    for container in containers_of(pod).values():
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        uids.append(own["runAsUser"])
    assert len(set(uids)) == len(uids)


@pytest.mark.parametrize("overlay", ["sidecar", "sidecar-socket"])
def test_sidecar_starts_first_and_alone_holds_keys_and_state(overlay: str) -> None:
    pod = pod_of(render(KUBERNETES / overlay), "Deployment", "agent")
    containers = containers_of(pod)
    [sidecar] = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["startupProbe"]["httpGet"]["path"] == "/readyz"
    assert {mount["name"] for mount in containers["agent"]["volumeMounts"]} <= AGENTS_VOLUMES
    held = {mount["name"] for mount in sidecar["volumeMounts"]}
    assert {"mnemogate-state", "mnemogate-checkpoint", "mnemogate-keys"} <= held
    named = json.dumps(containers["agent"])
    assert "mnemogate-operator-key" not in named
    assert "OPERATOR" not in named


@pytest.mark.parametrize(("overlay", "kind", "name"), [*PODS[:2], *PODS[3::2]])
def test_gate_is_configured_by_settings_that_exist(overlay: str, kind: str, name: str) -> None:
    gate = containers_of(pod_of(render(KUBERNETES / overlay), kind, name))["mnemogate"]
    given = {one["name"]: one["value"] for one in gate["env"]}
    given.pop("MNEMOGATE_CONFIG", None)
    check_settings(given)
    # The operator API is for nobody outside the container.
    assert "MNEMOGATE_ADMIN" not in given
    ports = {port["containerPort"] for port in gate.get("ports", [])}
    assert 7078 not in ports
    assert gate["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert gate["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("overlay", ["gateway", "shard"])
def test_policies_let_agents_reach_the_gate_and_only_the_gate_what_is_behind(overlay: str) -> None:
    policies = _policies(overlay)
    everybody = policies["nobody-unless-named"]
    assert everybody == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    reached = [peer for rule in policies["agents-to-the-gate"]["egress"] for peer in rule["to"]]
    roles = [_role(peer) for peer in reached if "namespaceSelector" not in peer]
    assert roles == ["gate"]
    [behind] = policies["behind-the-gate"]["ingress"]
    assert [_role(peer) for peer in behind["from"]] == ["gate"]
    assert all("7078" not in json.dumps(policy) for policy in policies.values())


def test_gates_of_a_shard_keep_nothing_and_may_do_nothing_in_the_cluster() -> None:
    documents = render(KUBERNETES / "shard")
    kinds = {document["kind"] for document in documents}
    assert not kinds & {"StatefulSet", "PersistentVolumeClaim"}
    assert not any("Role" in kind for kind in kinds)
    pod = pod_of(documents, "Deployment", "mnemogate")
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes.keys() == {"state", "checkpoint", "settings", "keys", "shard", "database"}
    assert all("emptyDir" in volumes[name] for name in ("state", "checkpoint"))
    named = {item["path"] for item in volumes["shard"]["secret"]["items"]}
    assert named == {"store.key", "log.key", "token.key", "journal.key"}
    [spread] = pod["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "DoNotSchedule"
    [budget] = [one for one in documents if one["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["minAvailable"] == 1


def test_gates_of_a_shard_alone_reach_each_other_and_the_database() -> None:
    gate = _policies("shard")["gate"]
    reached = {
        port["port"]: _role(peer)
        for rule in gate["egress"]
        for peer in rule["to"]
        for port in rule.get("ports", [])
        if "namespaceSelector" not in peer
    }
    assert reached == {7076: "gate", 5432: "database"}
    [peers] = [rule for rule in gate["ingress"] if rule["ports"] == [{"port": 7076}]]
    assert [_role(peer) for peer in peers["from"]] == ["gate"]


def test_settings_of_a_shard_are_ones_that_the_sidecar_takes(tmp_path: Path) -> None:
    documents = render(KUBERNETES / "shard")
    [found] = [one for one in documents if one["metadata"]["name"] == "mnemogate-settings"]
    dsn = tmp_path / "dsn"
    dsn.write_text("postgresql://gate:secret@database/memory?sslmode=verify-full")
    dsn.chmod(0o440)
    tmp_path.chmod(0o700)
    config = tmp_path / "mnemogate.toml"
    config.write_text(
        found["data"]["mnemogate.toml"].replace("/etc/mnemogate/database", str(tmp_path))
    )
    settings = load_settings(
        environment={"HOME": "/nonexistent"}, config=config, check_places=False
    )
    assert settings.shard is not None
    gate = containers_of(pod_of(documents, "Deployment", "mnemogate"))["mnemogate"]
    mounts = {mount["mountPath"] for mount in gate["volumeMounts"]}
    assert str(settings.shard.secrets) in mounts
    assert settings.shard.address.port in {port["containerPort"] for port in gate["ports"]}


def _policies(overlay: str) -> dict[str, Json]:
    return {
        document["metadata"]["name"]: document["spec"]
        for document in render(KUBERNETES / overlay)
        if document["kind"] == "NetworkPolicy"
    }


def _role(peer: Json) -> str:
    return str(peer["podSelector"]["matchLabels"]["mnemogate.dev/role"])


def _expressions(policy: Json) -> Iterator[str]:
    spec = policy["spec"]
    yield from (item["expression"] for item in (*spec["matchConditions"], *spec["variables"]))
    yield from (item["jsonPatch"]["expression"] for item in spec["mutations"])


_PARSE = """
import json, sys, celpy
for expression in json.load(sys.stdin):
    celpy.Environment().compile(expression)
"""


def test_injection_fails_closed_and_its_expressions_parse() -> None:
    policy, binding = render(KUBERNETES / "injection")
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert policy["spec"]["mutations"][-1]["patchType"] == "JSONPatch"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    expressions = list(_expressions(policy))
    assert (
        tool("cel-python", "0.5.0", "python", "-c", _PARSE, stdin=json.dumps(expressions)).code == 0
    )
    broken = json.dumps([expressions[-1].replace("]", "", 1)])
    assert tool("cel-python", "0.5.0", "python", "-c", _PARSE, stdin=broken).code != 0


def test_injected_sidecar_is_the_one_of_the_overlay() -> None:
    policy, _ = render(KUBERNETES / "injection")
    injected = list(_expressions(policy))[-1]
    pod = pod_of(render(KUBERNETES / "sidecar"), "Deployment", "agent")
    sidecar = containers_of(pod)["mnemogate"]
    for text in _leaves({key: sidecar[key] for key in sidecar if key != "resources"}):
        if text not in {"health", "7079"}:  # a named port there, its number here
            assert text in injected, text


def _leaves(value: Any) -> Iterator[str]:  # noqa: ANN401 - what YAML holds
    if isinstance(value, dict):
        for item in cast("Json", value).values():
            yield from _leaves(item)
    elif is_list(value):
        for item in value:
            yield from _leaves(item)
    else:
        yield str(value).lower() if isinstance(value, bool) else str(value)
