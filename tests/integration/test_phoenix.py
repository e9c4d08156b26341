"""A verdict's trace in a real backend: Arize Phoenix, in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from policy.checks import STEPS
from telemetry.exporter import SpanPipe
from telemetry.settings import TelemetrySettings
from telemetry.tracing import resource_of, spans_of
from tests.integration.browser import DESK, Browser, browser, why_no_browser
from tests.integration.cli_process import ROOT, Place
from tests.unit.telemetry import sample

VERSION = "20.26.1"
PROJECT = "mnemogate-test"
START_TIMEOUT_S = 120.0


def phoenix_command() -> Path:
    root = os.environ.get("MNEMOGATE_CACHE") or Path.home() / ".cache" / "mnemogate"
    environment = Path(root) / f"phoenix-{VERSION}"
    command = environment / "bin" / "phoenix"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run(
            [environment / "bin" / "pip", "install", "--quiet", f"arize-phoenix=={VERSION}"],
            check=True,
        )
    return command


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fetched(url: str) -> Any:  # noqa: ANN401 - another program's JSON
    """The JSON at a URL; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback, ours
            return msgspec.json.decode(answer.read())
    except (urllib.error.URLError, ConnectionError, msgspec.DecodeError):
        return None


def waited_for(url: str, wanted: int) -> list[dict[str, Any]]:
    """The `data` of an answer, once it has as many entries as wanted."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        answer = fetched(url)
        if answer is not None and len(answer["data"]) >= wanted:
            data: list[dict[str, Any]] = answer["data"]
            return data
        time.sleep(0.5)
    pytest.fail(f"no {wanted} entries at {url} in {START_TIMEOUT_S} s")


@contextmanager
def phoenix(working: Path) -> Generator[str]:
    command = phoenix_command()
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(working),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_WORKING_DIR": str(working),
    }
    with (working / "phoenix.log").open("wb") as log:
        process = subprocess.Popen(
            [command, "serve"], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            waited_for(f"{url}/v1/projects", 1)
            yield url
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.whole
@pytest.mark.timeout(1_200)
def test_a_reject_is_readable_in_phoenix_with_its_steps_below_it(tmp_path: Path) -> None:
    with phoenix(tmp_path) as url:
        settings = TelemetrySettings(
            endpoint=url, resource=(("openinference.project.name", PROJECT),)
        )
        assert settings.traces_url is not None
        spans = SpanPipe(settings, settings.traces_url, time.monotonic)
        context = msgspec.structs.replace(sample.CONTEXT, parent_span_id="")
        # The list has what is a week old at most.
        now_ns = time.time_ns()
        reject = msgspec.structs.replace(
            sample.REJECT, context=context, started_ns=now_ns, ended_ns=now_ns + 3_000_000
        )
        assert spans.offer(reject)
        spans.close(30.0)
        assert (spans.counts().delivered, spans.counts().dropped) == (1, 0)
        stored = waited_for(f"{url}/v1/projects/{PROJECT}/spans", 5)
        if why_no_browser() is None:
            _is_told_in_the_list(browser(tmp_path), url)
    built = {
        f"{span.context.span_id:016x}": span
        for span in spans_of(reject, resource_of(settings), 0.0)
        if span.context is not None
    }
    assert {span["context"]["span_id"] for span in stored} == set(built)
    root_id = sample.CONTEXT.span_id
    for span in stored:
        expected = built[span["context"]["span_id"]]
        assert span["name"] == expected.name
        assert span["context"]["trace_id"] == sample.CONTEXT.trace_id
        assert span["parent_id"] == (None if span["context"]["span_id"] == root_id else root_id)
        assert span["status_code"] == "UNSET"
        ours = dict(expected.attributes or {})
        # Phoenix shows this one as the kind of the span, and adds attributes of its own.
        assert ours.pop("openinference.span.kind") == span["span_kind"]
        assert ours.items() <= span["attributes"].items()


def _is_told_in_the_list(chromium: Browser, url: str) -> None:
    """A person who looks through a list of traces sees what was refused, and why."""
    projects = waited_for(f"{url}/v1/projects", 2)
    (project,) = (one["id"] for one in projects if one["name"] == PROJECT)
    page = f"{url}/projects/{project}/traces"
    document = chromium.shown(page, settle_ms=20_000)
    assert "create_memory reject" in document
    assert "reject: source_class_forbidden" in document
    chromium.picture(page, "traces", width=DESK, settle_ms=20_000)


PAGE = (ROOT / "docs" / "traces.md").read_text("utf-8")
LANDS = "The ferry leaves at nine."


def _shell_lines() -> tuple[str, ...]:
    """The commands of the page's two first blocks."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)[:2]
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return tuple(line.removeprefix("$ ") for line in lines)


@pytest.mark.whole
@pytest.mark.timeout(1_200)
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_the_commands_of_the_page_lead_to_a_verdict_seen_in_phoenix(tmp_path: Path) -> None:
    made, served, began, wrote, asked = _shell_lines()
    assert made.endswith("phoenix/bin/pip install arize-phoenix")
    assert "phoenix/bin/phoenix serve" in served
    given = shlex.split(began)[-1].removeprefix("ARGS=").split()
    place = Place(root=tmp_path / "sidecar")
    place.root.mkdir()
    (tmp_path / "phoenix").mkdir()
    with phoenix(tmp_path / "phoenix") as url:
        given = [word.replace("http://127.0.0.1:6006", url) for word in given]
        assert given == ["--otel-endpoint", url]
        with place.running(*given) as sidecar:
            key = sidecar.key("agent")
            assert sidecar.write(key, text=LANDS)[0] == 201
            written = json.loads(
                _shell(wrote.replace("http://127.0.0.1:7077", str(sidecar.ready["data"])), key)
            )
            assert written["decision"] == "hold"
        everything = waited_for(f"{url}/v1/projects/default/spans", 12)
        found = json.loads(_shell(asked.replace("http://127.0.0.1:6006", url), key))["data"]
        (filtered,) = re.findall(r"filter `(attributes[^`]*)`", PAGE)
        listed = _filtered(url, filtered)
    assert [(one["context"]["trace_id"], one["name"]) for one in found] == [
        (written["trace_id"], "create_memory hold")
    ]
    assert found[0]["attributes"]["mnemogate.reason"] == "class_floor"
    assert listed == ["create_memory hold"]
    # The control: what landed is there, and neither of the two finds it.
    assert "create_memory admit" in [one["name"] for one in everything]
    below = [one for one in everything if one["parent_id"] == found[0]["context"]["span_id"]]
    below.sort(key=lambda one: str(one["start_time"]))
    assert [one["name"].split()[2] for one in below] == [step.name for step in STEPS]


def _shell(line: str, key: str) -> str:
    environment = {"PATH": os.environ["PATH"], "MNEMOGATE_AGENT_KEY": key}
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout


def _filtered(url: str, condition: str) -> list[str]:
    """The names of the spans that the filter of Phoenix's own page lets through."""
    spans = "spans(first:50,filterCondition:$c){edges{node{name}}}"
    query = f"query($c:String!){{projects{{edges{{node{{{spans}}}}}}}}}"
    body = msgspec.json.encode({"query": query, "variables": {"c": condition}})
    request = urllib.request.Request(  # noqa: S310 - loopback, ours
        f"{url}/graphql", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback, ours
        projects = msgspec.json.decode(answer.read())["data"]["projects"]["edges"]
    return [
        one["node"]["name"] for project in projects for one in project["node"]["spans"]["edges"]
    ]
