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

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

CHART: Final = ROOT / "examples" / "helm" / "mnemogate"
VERSIONS: Final = ("1.29.0", "1.37.0")
SIDECAR: Final[Json] = {"form": "sidecar", "agent": {"image": "registry.example/agent:1"}}
CONFIG: Final = '[[mcp]]\nname = "notes"\nurl = "https://mcp.example"\n'
VALUES: Final[dict[str, Json]] = {
    "gateway": {},
    "gateway, all set": {
        "config": CONFIG,
        "pageUrl": "https://review.example",
        "allowedHosts": ["memory.example"],
        "env": {"MNEMOGATE_OTEL_ENDPOINT": "http://collector:4318"},
        "storage": {"className": "fast"},
        "probes": {"liveness": {"periodSeconds": 20}},
    },
    "sidecar": SIDECAR,
    "sidecar, configured": {**SIDECAR, "config": CONFIG},
}
# What is missing or wrong, and what Helm answers.
WRONG: Final[dict[str, Json]] = {
    "form is gateway or sidecar": {"form": "daemon"},
    "the form sidecar needs agent.image": {"form": "sidecar"},
    "keys.operatorSecret names a Secret of yours": {"keys": {"operatorSecret": ""}},
}
# Helm's own engine, without its binary; it prints what it rendered, or what it objects to.
_HELM: Final = """
import json, sys
import helm_python as helm
chart, all_values = json.load(sys.stdin)
told = {"lint": helm.lint(chart), "texts": {}, "errors": {}}
with helm.Chart.load(chart) as loaded:
    for name, values in all_values.items():
        try:
            texts = loaded.render(values, name="memory", namespace="agents")
            told["texts"][name] = "\\n---\\n".join(texts.values())
        except helm.HelmError as error:
            told["errors"][name] = str(error)
print(json.dumps(told))
"""


class Told(msgspec.Struct, frozen=True):
    """What Helm says of the chart, what it renders of each set of values, or objects to."""

    lint: Json
    texts: dict[str, str]
    errors: dict[str, str]


@pytest.fixture(scope="module")
def told() -> Told:
    asked = json.dumps([str(CHART), {**VALUES, **WRONG}])
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
