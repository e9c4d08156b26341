"""The unit, the alerts, the dashboard and the model's settings of the examples: valid, and ours."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from telemetry.events import StoreGauges
from telemetry.metrics import Metrics
from telemetry.pipe import PipeCounts
from tests.integration.debian import unpacked
from tests.integration.manifests import COMPOSE, KUBERNETES, ROOT, read_yaml, render
from tests.unit.proxy.tabled import tables_of
from tests.unit.telemetry import sample

EXAMPLES = ROOT / "examples"
ALERTS = EXAMPLES / "prometheus" / "alerts.yaml"
DASHBOARD = EXAMPLES / "grafana" / "mnemogate.json"
METRIC = re.compile(r"\bmnemogate_[a-z_]+\b")


def _exposed() -> set[str]:
    """Every metric that `/metrics` names once each kind of event has happened."""
    metrics = Metrics()
    for event in (sample.ADMIT, sample.REJECT, sample.ERROR, sample.READ, sample.MODEL):
        metrics.observe(event)
    metrics.set_trust({"trusted": 1})
    metrics.watch_pipe("traces", lambda: PipeCounts(offered=0, delivered=0, dropped=0, waiting=0))
    metrics.set_store(
        StoreGauges(
            version=0,
            epoch=0,
            live_count=0,
            held_count=0,
            leaf_count=0,
            bytes_used=0,
            bytes_quota=1,
            writable=True,
        )
    )
    return set(METRIC.findall(metrics.render().decode()))


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() -> None:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    asked = {target["expr"] for panel in board["panels"] for target in panel["targets"]}
    asked.add(ALERTS.read_text("utf-8"))
    named = {name for expression in asked for name in METRIC.findall(expression)}
    assert len(named) > 10
    assert named - _exposed() == set()


@pytest.mark.timeout(600)
def test_the_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    promtool = unpacked("promtool", "prometheus")
    for words in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts.test.yaml")):
        done = _ran(promtool, ALERTS.parent, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    # Control: the same play fails against rules that never fire.
    never = ALERTS.read_text("utf-8").replace("mnemogate_store_writable == 0", "vector(0) > 1")
    (tmp_path / "alerts.yaml").write_text(never, "utf-8")
    shutil.copy(ALERTS.with_name("alerts.test.yaml"), tmp_path)
    assert _ran(promtool, tmp_path, "test", "rules", "alerts.test.yaml").returncode != 0


def _ran(program: Path, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *words],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = (EXAMPLES / "systemd" / "mnemogate.service").read_text("utf-8")
    # The command is not installed here, and the user is not made.
    unit = unit.replace("/usr/local/bin/mnemogate", "/bin/true")
    assert _complaints(tmp_path, unit) == []
    # Control: a misspelt line is one it complains of.
    assert _complaints(tmp_path, unit.replace("ProtectSystem=", "ProtectSistem="))


def _complaints(place: Path, unit: str) -> list[str]:
    file = place / "mnemogate.service"
    file.write_text(unit, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [line for line in done.stderr.splitlines() if "mnemogate.service" in line]


@pytest.mark.parametrize("where", ["systemd", "docker-compose"])
def test_the_settings_that_name_a_model_are_ones_that_are_taken(where: str) -> None:
    settings = tomllib.loads((EXAMPLES / where / "mnemogate.toml").read_text("utf-8"))
    assert [one.name for one in tables_of("model", settings["model"])] == ["anthropic"]


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_with_a_model_agents_have_no_way_to_it_but_through_the_gate() -> None:
    documents = render(KUBERNETES / "gateway-model")
    policies = {one["metadata"]["name"]: one for one in documents if one["kind"] == "NetworkPolicy"}
    outward = [
        name
        for name, policy in policies.items()
        if any("ipBlock" in to for way in policy["spec"].get("egress", []) for to in way["to"])
    ]
    assert outward == ["gate-to-the-model"]
    chosen = policies["gate-to-the-model"]["spec"]["podSelector"]["matchLabels"]
    assert chosen == {"mnemogate.dev/role": "gate"}
    [over] = read_yaml((COMPOSE / "compose.model.yaml").read_text("utf-8"))
    assert "model" in over["services"]["mnemogate"]["networks"]
    assert "networks" not in over["services"]["agent"]
