"""Doctor's process probes against real processes of real users."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.compose.hardening import Shielding, shield
from proxy.doctor.examine import probe_environment, probe_identity, probe_process
from proxy.doctor.finding import Finding, ProbeResult
from proxy.doctor.locate import effective_uid, gates_of, option_of, running_sidecars
from tests.unit.proxy.doctor.as_user import AGENT_UID, SIDECAR_UID, as_user, become, needs_root

pytestmark = needs_root

_PR_SET_DUMPABLE = 4

INTO_MEMORY = (
    "process.environ",
    "process.maps",
    "process.mem",
    "process.fd",
    "process.ptrace",
)


@contextmanager
def _process(uid: int, environment: dict[str, str] | None = None) -> Generator[int]:
    """An ordinary program of a user; a system one, because the interpreter may be private."""
    with subprocess.Popen(
        ["/bin/sleep", "60"], user=uid, group=uid, extra_groups=[], env=environment or {}
    ) as running:
        try:
            yield running.pid
        finally:
            running.kill()


@contextmanager
def _forked(uid: int, *, shielded: bool) -> Generator[int]:
    """This interpreter as another user, dumpable as an ordinary program is, or shielded."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(uid)
            # Changing users made it not dumpable; an ordinary program is.
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
            if shielded:
                shield()
            os.write(writing, b"up")
            signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(reading, 2) == b"up"
        yield child
    finally:
        os.close(reading)
        os.close(writing)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _probe(uid: int, pid: int) -> dict[str, ProbeResult]:
    found = as_user(uid, lambda: list(probe_process(pid)), list[Finding])
    return {finding.id: finding.verdict for finding in found}


def test_another_users_process_is_closed() -> None:
    with _process(SIDECAR_UID) as pid:
        found = _probe(AGENT_UID, pid)

    assert set(found.values()) == {ProbeResult.OK}


def test_every_probe_works_on_a_process_of_ones_own() -> None:
    with _process(AGENT_UID) as pid:
        found = _probe(AGENT_UID, pid)

    assert set(found) >= {*INTO_MEMORY, "process.signal", "process.priority"}
    assert set(found.values()) == {ProbeResult.FAIL}


def test_a_shielded_process_is_closed_to_its_own_user_but_for_signals() -> None:
    with _forked(AGENT_UID, shielded=False) as pid:
        control = _probe(AGENT_UID, pid)
    with _forked(AGENT_UID, shielded=True) as pid:
        found = _probe(AGENT_UID, pid)

    assert {control[name] for name in INTO_MEMORY} == {ProbeResult.FAIL}
    assert {found[name] for name in INTO_MEMORY} == {ProbeResult.OK}
    assert found["process.signal"] is ProbeResult.FAIL


def test_shielding_reports_what_it_did() -> None:
    code = "from proxy.compose.hardening import shield; print(shield().value)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stdout.strip() == Shielding.ON.value


def test_a_process_that_is_gone_proves_nothing() -> None:
    with _process(SIDECAR_UID) as pid:
        pass

    assert set(_probe(AGENT_UID, pid).values()) == {ProbeResult.SKIPPED}


def test_root_and_the_sidecars_own_user_are_told_that_they_cannot_be_separated() -> None:
    def identity(uid: int) -> Finding:
        return as_user(uid, lambda: next(probe_identity(SIDECAR_UID)), Finding)

    root, own, agent = next(probe_identity(SIDECAR_UID)), identity(SIDECAR_UID), identity(AGENT_UID)

    assert root.verdict is ProbeResult.FAIL
    assert "root" in root.got
    assert own.verdict is ProbeResult.FAIL
    assert "sidecar's own" in own.got
    assert agent.verdict is ProbeResult.OK


def test_capabilities_are_found() -> None:
    def capabilities() -> Finding:
        found = {finding.id: finding for finding in probe_identity(SIDECAR_UID)}
        return found["identity.capabilities"]

    assert as_user(AGENT_UID, capabilities, Finding).verdict is ProbeResult.OK
    assert capabilities().verdict is ProbeResult.FAIL, "control: root holds them all"


def test_an_operators_key_in_any_readable_environment_is_found() -> None:
    key = {"MNEMOGATE_OPERATOR_KEY": "x" * 24}
    with _process(SIDECAR_UID, environment=key):
        found = as_user(AGENT_UID, probe_environment, Finding)
    assert found.verdict is ProbeResult.OK, "another user's environment cannot be read"

    with _process(AGENT_UID, environment=key) as pid:
        found = as_user(AGENT_UID, probe_environment, Finding)
    assert found.verdict is ProbeResult.FAIL
    assert str(pid) in found.got
    assert "x" * 24 not in found.got


def test_the_user_of_a_shielded_process_is_still_known() -> None:
    with _forked(SIDECAR_UID, shielded=True) as pid:
        assert effective_uid(pid) == SIDECAR_UID


def test_a_sidecar_is_known_by_its_command_line_and_user() -> None:
    with subprocess.Popen(
        ["/usr/local/bin/mnemogate", "-c", "echo up; read line", "run"],
        executable="/bin/sh",
        user=SIDECAR_UID,
        group=SIDECAR_UID,
        extra_groups=[],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        assert running.pid in running_sidecars(SIDECAR_UID)
        assert running.pid in running_sidecars(None)
        assert running.pid not in running_sidecars(AGENT_UID)
        running.kill()


@contextmanager
def _gate(state: Path) -> Generator[int]:
    """A process of the sidecar's that holds a state directory, and names none."""
    state.mkdir()
    code = (
        "import fcntl, os, sys; h = os.open(sys.argv[2], os.O_RDONLY);"
        "fcntl.flock(h, fcntl.LOCK_EX); print('up', flush=True); sys.stdin.readline()"
    )
    command = ["mnemogate", "-c", code, "run", str(state)]
    with subprocess.Popen(
        command,
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        yield running.pid
        running.kill()


def test_only_the_gate_of_the_state_in_question_is_found(tmp_path: Path) -> None:
    with _gate(tmp_path / "one") as one, _gate(tmp_path / "two") as two:
        assert {one, two} <= set(running_sidecars(0)), "control: both are gates of this user"
        assert gates_of(tmp_path / "one", 0) == (one,)
        assert gates_of(tmp_path / "two", 0) == (two,)
        assert gates_of(tmp_path / "three", 0) == ()


def test_where_locks_say_nothing_the_command_line_tells_whose_gate_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_: Path) -> tuple[int, ...]:
        return ()

    monkeypatch.setattr("proxy.doctor.locate.lock_holders", nobody)
    words = ["mnemogate", "-c", "echo up; read line", "run", "--state", str(tmp_path / "one")]
    with subprocess.Popen(
        words, executable="/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        assert gates_of(tmp_path / "one", 0) == (running.pid,)
        assert gates_of(tmp_path / "two", 0) == ()
        running.kill()


def test_where_a_gate_listens_is_read_off_its_own_command_line_alone() -> None:
    words = ["x", "--listen=127.0.0.1:1", "--listen", "127.0.0.1:2", "--", "--admin", "127.0.0.1:3"]
    program = [sys.executable, "-c", "print(flush=True); input()", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == b"\n", "it is what it was started as"
            assert option_of(running.pid, "--listen") == "127.0.0.1:2", "the last one counts"
            assert option_of(running.pid, "--admin") is None, "what it wraps is another program"
        finally:
            running.communicate(b"\n")
    assert option_of(running.pid, "--listen") is None


def test_where_no_line_names_a_state_the_only_gate_of_that_user_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an image the state is named by the environment, and locks by numbers of another layer."""
    found = "proxy.doctor.locate.running_sidecars"
    with _gate(tmp_path / "one") as one, _gate(tmp_path / "two") as two:
        monkeypatch.setattr(found, lambda _: (one,))
        assert gates_of(tmp_path / "three", 0) == (one,)
        assert gates_of(tmp_path / "three", None) == (), "nobody knows whose it is"
        monkeypatch.setattr(found, lambda _: (one, two))
        assert gates_of(tmp_path / "three", 0) == ()
