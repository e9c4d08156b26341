"""The Helm chart: linted and rendered by Helm itself, valid for two versions, and confined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.integration.manifests import (
    ROOT,
    Json,
    check_settings,
    containers_of,
    kubernetes_validate,
    pod_of,
    read_yaml,
    tool,
    write_yaml,
)

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=1), pytest.mark.timeout(600)]

CHART: Final = ROOT / "examples" / "helm" / "mnemogate"
VERSIONS: Final = ("1.29.0", "1.37.0")
SIDECAR: Final[Json] = {
    "form": "sidecar",
    "agent": {"image": "registry.example/agent:1", "uid": 1_000_000},
}
# Indented as a block of YAML would not take it.
CONFIG: Final = '  [[mcp]]\nname = "notes"\n\turl = "https://mcp.example"\n'
VALUES: Final[dict[str, Json]] = {
    "gateway": {},
    "gateway, all set": {
        "config": CONFIG,
        "pageUrl": "https://review.example",
        "allowedHosts": ["memory.example"],
        "env": {"MNEMOGATE_OTEL_ENDPOINT": "http://collector:4318"},
        "storage": {"className": "true"},
        "probes": {"liveness": {"periodSeconds": 20}},
    },
    "sidecar": SIDECAR,
    "sidecar, configured": {**SIDECAR, "config": CONFIG},
}
# What is missing or wrong, and what Helm answers.
WRONG: Final[dict[str, Json]] = {
    "/form': value must be one of 'gateway', 'sidecar'": {"form": "daemon"},
    "the form sidecar needs agent.image": {"form": "sidecar"},
    "/keys/operatorSecret': '' does not match": {"keys": {"operatorSecret": ""}},
    "/keys/agentSecret': got number, want string": {"keys": {"agentSecret": 123}},
    "/pageUrl': 'https://x/\"} - {name: A": {"pageUrl": 'https://x/"} - {name: A, value: "1'},
    "invalid propertyName 'A, value: 1}": {"env": {"A, value: 1}\n  - {name: B": "x"}},
    # Helm reads 8589934592 as 8.589934592e+09, and 1.10 as 1.1.
    "/env/MNEMOGATE_QUOTA_BYTES': got number": {"env": {"MNEMOGATE_QUOTA_BYTES": 8589934592}},
    "/image/tag': got number, want string": {"image": {"tag": 1.10}},
    "/allowedHosts': got string, want array": {"allowedHosts": "memory.example"},
    "additional properties 'pageURL' not allowed": {"pageURL": "https://review.example"},
    # As the gate's own uid the agent could read the gate's files and its memory.
    "/agent/uid': 'not' failed": {**SIDECAR, "agent": {"image": "a", "uid": 10001}},
    "/agent/uid': minimum": {**SIDECAR, "agent": {"image": "a", "uid": 0}},
}
LONGEST: Final = "m" * 52
NAMES: Final = ("m" * 53, "m" * 70, "1memory", "a.b", "Memory")
# Helm's own engine, without its binary; it prints what it rendered, or what it objects to.
_HELM: Final = """
import json, sys
import helm_python as helm
chart, cases = json.load(sys.stdin)
told = {"lint": helm.lint(chart), "texts": {}, "errors": {}}
with helm.Chart.load(chart) as loaded:
    for case, (name, values) in cases.items():
        try:
            texts = loaded.render(values, name=name, namespace="agents")
            told["texts"][case] = "\\n---\\n".join(texts.values())
        except helm.HelmError as error:
            told["errors"][case] = str(error)
print(json.dumps(told))
"""


class Told(msgspec.Struct, frozen=True):
    """What Helm says of the chart, what it renders of each set of values, or objects to."""

    lint: Json
    texts: dict[str, str]
    errors: dict[str, str]


@pytest.fixture(scope="module")
def told() -> Told:
    cases: dict[str, tuple[str, Json]] = {
        **{case: ("memory", values) for case, values in {**VALUES, **WRONG}.items()},
        **{name: (name, {}) for name in NAMES},
        LONGEST: (LONGEST, {}),
        "another": ("another", {}),
    }
    asked = json.dumps([str(CHART), cases])
    done = tool("helm-python-sdk", "0.2.2", "python", "-c", _HELM, stdin=asked)
    assert done.code == 0, done.err
    return msgspec.json.decode(done.out.splitlines()[-1], type=Told)


def gate_of(documents: list[Json], form: str) -> Json:
    kind = "StatefulSet" if form.startswith("gateway") else "Deployment"
    gate: Json = containers_of(pod_of(documents, kind, "memory"))["mnemogate"]
    return gate


def test_helm_has_nothing_to_say_against_it_but_a_missing_icon(told: Told) -> None:
    assert told.lint["errors"] == []
    assert [one["error"] for one in told.lint["messages"]] == ["icon is recommended"]


def test_what_it_renders_passes_the_strict_schemas(told: Told, tmp_path: Path) -> None:
    documents = [one for name in VALUES for one in read_yaml(told.texts[name])]
    file = str(write_yaml(documents, tmp_path / "rendered.yaml"))
    for version in VERSIONS:
        done = kubernetes_validate("kubernetes-validate", "--strict", "-k", version, file)
        assert "Couldn't find schema" not in done.out + done.err, done.out + done.err
        assert done.code == 0, done.out + done.err
    for document in documents:
        section = "spec" if "spec" in document else "metadata"
        document[section]["securtyContext"] = {}
    spoilt = str(write_yaml(documents, tmp_path / "spoilt.yaml"))
    done = kubernetes_validate("kubernetes-validate", "--strict", "-k", VERSIONS[-1], spoilt)
    said = done.out + done.err
    assert said.count("'securtyContext' was unexpected") == len(documents), "control"


@pytest.mark.parametrize("name", VALUES)
def test_the_gate_has_its_settings_its_keys_from_secrets_and_its_probes(
    told: Told, name: str
) -> None:
    values = VALUES[name]
    documents = read_yaml(told.texts[name])
    gate = gate_of(documents, name)
    given: dict[str, Any] = {one["name"]: one["value"] for one in gate["env"]}
    assert given["MNEMOGATE_PAGE_URL"] == values.get("pageUrl", "http://127.0.0.1:7078")
    assert given.get("MNEMOGATE_CONFIG") == (
        "/etc/mnemogate/mnemogate.toml" if "config" in values else None
    )
    given.pop("MNEMOGATE_CONFIG", None)
    check_settings(given)
    assert "MNEMOGATE_ADMIN" not in given
    assert 7078 not in {port["containerPort"] for port in gate["ports"]}
    assert gate["startupProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert gate["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert gate["livenessProbe"]["httpGet"]["path"] == "/healthz"
    said = json.dumps(documents)
    for secret in ("mnemogate-agent-key", "mnemogate-operator-key"):
        assert secret in said


@pytest.mark.parametrize("name", VALUES)
def test_every_container_is_confined_and_the_agents_has_no_operator_key(
    told: Told, name: str
) -> None:
    kind = "StatefulSet" if name.startswith("gateway") else "Deployment"
    pod = pod_of(read_yaml(told.texts[name]), kind, "memory")
    assert pod["automountServiceAccountToken"] is False
    assert pod["shareProcessNamespace"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    containers = containers_of(pod)
    uids = {one["securityContext"]["runAsUser"] for one in containers.values()}
    assert len(uids) == len(containers)
    for one in containers.values():
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    if "agent" in containers:
        assert "operator" not in json.dumps(containers["agent"])
        assert {mount["name"] for mount in containers["agent"]["volumeMounts"]} == {"scratch"}


@pytest.mark.parametrize("named", WRONG)
def test_a_value_that_is_missing_or_wrong_is_named(told: Told, named: str) -> None:
    assert named in told.errors[named]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_cluster_would_take_is_refused_before_it_is_sent(
    told: Told, name: str
) -> None:
    assert "the release's name has at most 52" in told.errors[name]
    assert LONGEST in told.texts, "control"


def test_the_settings_file_arrives_as_it_is_and_a_changed_one_restarts_the_gate(
    told: Told,
) -> None:
    documents = read_yaml(told.texts["gateway, all set"])
    [map_of] = [one for one in documents if one["kind"] == "ConfigMap"]
    assert map_of["data"] == {"mnemogate.toml": CONFIG}
    sums: set[str] = set()
    for name in ("gateway", "gateway, all set"):
        [gate] = [one for one in read_yaml(told.texts[name]) if one["kind"] == "StatefulSet"]
        sums.add(gate["spec"]["template"]["metadata"]["annotations"]["checksum/config"])
    assert len(sums) == 2


def test_two_releases_in_one_namespace_have_nothing_in_common(told: Told) -> None:
    one, other = (read_yaml(told.texts[name]) for name in ("gateway", "another"))
    names = [
        {(each["kind"], each["metadata"]["name"]) for each in release} for release in (one, other)
    ]
    assert not names[0] & names[1]
    for release, name in ((one, "memory"), (other, "another")):
        for policy in (each for each in release if each["kind"] == "NetworkPolicy"):
            said = json.dumps(policy)
            assert said.count("mnemogate.dev/role") == said.count(f'"mnemogate.dev/gate": "{name}"')
        [gate] = [each for each in release if each["kind"] == "StatefulSet"]
        assert gate["spec"]["template"]["metadata"]["labels"]["mnemogate.dev/gate"] == name
