"""`mnemogate doctor` as a real other user, against a real sidecar."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from proxy.cli.entry import main
from tests.integration.cli_process import Place, Running
from tests.unit.proxy.doctor.as_user import AGENT_UID, as_user, needs_root

pytestmark = needs_root


# An option of this command, and the option of `mnemogate run` that sets the same address.
_PORTS = {"--data": "--listen", "--admin": "--admin"}


class _Finding(msgspec.Struct):
    id: str
    verdict: str


class _Report(msgspec.Struct):
    findings: list[_Finding]


class Answer(msgspec.Struct):
    code: int
    out: str
    err: str

    def verdicts(self) -> dict[str, str]:
        report = msgspec.json.decode(self.out, type=_Report)
        return {finding.id: finding.verdict for finding in report.findings}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Generator[Place]:
    """Below a directory that every user may enter; the checkout the tests run from is set aside."""
    monkeypatch.setattr("proxy.doctor.files._program_files", lambda: iter(()))
    monkeypatch.chdir("/")
    # The agent's user may not be able to read Python's own files, so they are loaded before.
    importlib.import_module("proxy.cli.doctor")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Place(root=Path(name))


def _doctor(sidecar: Running, uid: int, *more: str, key: str | None = None) -> Answer:
    words = [
        *("doctor", "--json", "--state", str(sidecar.place.state)),
        *("--checkpoint", str(sidecar.place.checkpoint), "--pid", str(sidecar.pid)),
        *("--data", sidecar.ready["data"], "--admin", sidecar.ready["admin"], *more),
    ]

    def act() -> Answer:
        out, err = io.StringIO(), io.StringIO()
        os.environ.clear()
        os.environ["HOME"] = "/nonexistent"
        if key is not None:
            os.environ["MNEMOGATE_AGENT_KEY"] = key
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        return Answer(code, out.getvalue(), err.getvalue())

    return as_user(uid, act, Answer)


def test_an_agent_of_its_own_user_is_separated(place: Place) -> None:
    with place.running() as sidecar:
        answer = _doctor(sidecar, AGENT_UID, key=sidecar.key("agent"))
        trust = place.command("trust", "show", "agent", "--json").data["principals"]

    assert answer.code == 0, answer.out + answer.err
    verdicts = answer.verdicts()
    assert "FAIL" not in verdicts.values()
    for name in (
        *("identity.uid", "state.list", "store.write", "secrets.log.key", "admin.socket"),
        *("process.mem", "process.ptrace", "process.signal", "checkpoint.write"),
        *("admin.anonymous.POST", "admin.agent_key.POST", "data.anonymous", "data.agent_key.L1"),
    ):
        assert verdicts[name] == "ok", name
    assert sidecar.key("agent") not in answer.out
    assert trust[0]["violations_count"] == 0, "a model may name a class: that is no violation"


def test_a_port_that_the_system_chose_is_asked_for_and_not_guessed(place: Place) -> None:
    with place.running() as sidecar:
        unsaid = {option: _doctor(sidecar, AGENT_UID, option, "") for option in _PORTS}
        told = _doctor(sidecar, AGENT_UID)

    for option, answer in unsaid.items():
        assert answer.code == 2, answer.out
        assert answer.out == "", "nobody else's listener is tried"
        assert f"{_PORTS[option]} 127.0.0.1:0: only its own first lines say which" in answer.err
        assert f"{option} URL" in answer.err
    # Control: with both addresses the probes run.
    assert told.code == 0, told.out + told.err


def test_doctor_run_twice_costs_the_agent_no_trust(place: Place) -> None:
    with place.running() as sidecar:
        key = sidecar.key("agent")
        assert _doctor(sidecar, AGENT_UID, key=key).code == 0
        assert _doctor(sidecar, AGENT_UID, key=key).code == 0
        trust = place.command("trust", "show", "agent", "--json").data["principals"]

    assert trust[0]["violations_count"] == 0


def test_a_state_directory_in_the_agents_hands_is_found(place: Place) -> None:
    with place.running() as sidecar:
        for path in (place.state, *place.state.rglob("*")):
            os.chown(path, AGENT_UID, AGENT_UID)
        answer = _doctor(sidecar, AGENT_UID)
        for path in (place.state, *place.state.rglob("*")):
            os.chown(path, 0, 0)

    assert answer.code == 1
    verdicts = answer.verdicts()
    for name in ("state.list", "store.write", "secrets.token.key", "staging.keys", "gate.lock"):
        assert verdicts[name] == "FAIL", name


def test_root_is_told_that_it_cannot_be_kept_out(place: Place) -> None:
    with place.running() as sidecar:
        answer = _doctor(sidecar, 0)

    assert answer.code == 1
    assert answer.verdicts()["identity.uid"] == "FAIL"
    assert "runs as root" in answer.out


def test_the_operators_key_as_the_agents_is_found(place: Place) -> None:
    with place.running() as sidecar:
        answer = _doctor(sidecar, AGENT_UID, key=sidecar.key("operator"))

    assert answer.code == 1
    verdicts = answer.verdicts()
    assert verdicts["admin.agent_key.GET"] == "FAIL"
    assert verdicts["data.agent_key.L1"] == "FAIL"


def test_nothing_to_aim_at_is_not_proven(place: Place) -> None:
    with place.running() as sidecar:
        answer = _doctor(sidecar, AGENT_UID, "--state", str(place.root / "elsewhere"))

    assert answer.code == 3
    assert '"proven": false' in answer.out
