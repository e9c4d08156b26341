"""Doctor's file probes as two real users: green when separated, red when the directory is given."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from proxy.cli.doctor import shard_named
from proxy.doctor.files import probe_files
from proxy.doctor.finding import DoctorTarget, Finding, ProbeResult
from tests.unit.proxy.doctor.as_user import AGENT_UID, SIDECAR_UID, as_user, needs_root

pytestmark = needs_root

_FILES = (
    "store/data.mdb",
    "sessions/log",
    "store/lock.mdb",
    "staging/held/data.mdb",
    "staging/keys/held",
    "segments/1.seg",
    "secrets/store.key",
    "secrets/log.key",
    "secrets/token.key",
    "gate.lock",
)


@pytest.fixture
def state() -> Generator[Path]:
    """A state directory of the sidecar's user below directories that everybody may enter."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        root = Path(name)
        root.chmod(0o755)
        directory = root / "state"
        for file in _FILES:
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        (root / "copy").mkdir()
        (root / "copy" / "checkpoint.txt").write_bytes(b"x")
        (root / "conf").mkdir()
        (root / "conf" / "mnemogate.toml").write_bytes(b"")
        _give(root / "copy", SIDECAR_UID, 0o755)
        _give(directory, SIDECAR_UID, 0o700)
        yield directory


def _give(root: Path, uid: int, mode: int) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, uid, uid)
        path.chmod(mode if path.is_dir() else mode & 0o666)


def _probe(state: Path) -> dict[str, Finding]:
    aim = DoctorTarget(
        state=state,
        checkpoint=state.parent / "copy" / "checkpoint.txt",
        config=state.parent / "conf" / "mnemogate.toml",
        data_url="http://127.0.0.1:9",
        admin_url="http://127.0.0.1:9",
        agent_key=None,
        pids=(),
    )
    found = as_user(AGENT_UID, lambda: list(probe_files(aim)), list[Finding])
    return {finding.id: finding for finding in found}


ON_STATE = (
    "state.list",
    "state.create",
    "store.write",
    "store.lock",
    "store.read",
    "staging.write",
    "staging.keys",
    "segments.write",
    "sessions.write",
    "secrets.store.key",
    "secrets.log.key",
    "secrets.token.key",
    "gate.lock",
)


def test_nothing_works_from_another_user(state: Path) -> None:
    found = _probe(state)

    failed = {name for name, finding in found.items() if finding.verdict is ProbeResult.FAIL}
    # The checkout the tests run from may be anybody's; it has a test of its own.
    assert failed - {"code.write"} == set()
    assert all(found[name].verdict is ProbeResult.OK for name in ON_STATE)
    assert found["checkpoint.write"].verdict is ProbeResult.OK


@pytest.mark.parametrize("name", ON_STATE)
def test_every_probe_is_red_when_the_state_is_handed_over(name: str, state: Path) -> None:
    _give(state, AGENT_UID, 0o700)

    assert _probe(state)[name].verdict is ProbeResult.FAIL


def test_a_state_others_may_only_read_is_red_for_reading_alone(state: Path) -> None:
    _give(state, SIDECAR_UID, 0o755)

    found = _probe(state)

    for name in ("state.list", "store.read", "secrets.store.key", "staging.keys"):
        assert found[name].verdict is ProbeResult.FAIL, name
    for name in ("store.write", "state.create", "segments.write", "sessions.write", "gate.lock"):
        assert found[name].verdict is ProbeResult.OK, name


def test_a_writable_directory_above_lets_everything_be_replaced(state: Path) -> None:
    os.chown(state.parent, AGENT_UID, AGENT_UID)

    found = _probe(state)

    for name in ("state.replace", "checkpoint.replace", "config.replace"):
        assert found[name].verdict is ProbeResult.FAIL, name
    assert found["store.write"].verdict is ProbeResult.OK


@pytest.mark.parametrize(
    ("path", "probe", "closed", "opened"),
    [
        ("", "state.replace", 0o1777, 0o777),  # a sticky one protects what is not the agent's
        ("copy/checkpoint.txt", "checkpoint.write", 0o644, 0o666),
        ("conf/mnemogate.toml", "config.write", 0o644, 0o666),
    ],
)
def test_what_others_may_write_is_red(
    path: str, probe: str, closed: int, opened: int, state: Path
) -> None:
    for mode, verdict in ((closed, ProbeResult.OK), (opened, ProbeResult.FAIL)):
        (state.parent / path).chmod(mode)
        assert _probe(state)[probe].verdict is verdict


def test_a_path_that_is_not_there_proves_nothing(state: Path) -> None:
    found = _probe(state.parent / "elsewhere")

    assert found["state.list"].verdict is ProbeResult.SKIPPED


def test_writable_program_files_are_red(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Path] = []
    monkeypatch.setattr("proxy.doctor.files._program_files", lambda: iter(files))
    files.append(state.parent / "conf")
    assert _probe(state)["code.write"].verdict is ProbeResult.OK

    files.append(state.parent / "copy")
    (state.parent / "copy").chmod(0o777)
    assert _probe(state)["code.write"].verdict is ProbeResult.FAIL


def test_a_container_engines_socket_is_red(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = state.parent / "conf" / "docker.sock"
    socket.write_bytes(b"")
    socket.chmod(0o660)
    monkeypatch.setattr("proxy.doctor.files._ROOT_SOCKETS", (str(socket),))
    assert _probe(state)["host.root_socket"].verdict is ProbeResult.OK

    socket.chmod(0o666)
    assert _probe(state)["host.root_socket"].verdict is ProbeResult.FAIL


def test_a_probe_that_works_leaves_everything_as_it_was(state: Path) -> None:
    _give(state, AGENT_UID, 0o700)
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}

    _probe(state)

    after = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    assert after == before
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_what_authenticates_a_state_is_reported_if_it_shares_the_states_disk(state: Path) -> None:
    found = _probe(state)
    assert found["secrets.disk"].verdict is ProbeResult.SKIPPED, "out of this user's sight"
    assert found["checkpoint.disk"].verdict is ProbeResult.WARNED
    assert str(state.parent / "copy") in found["checkpoint.disk"].tried

    _give(state, SIDECAR_UID, 0o755)
    assert _probe(state)["secrets.disk"].verdict is ProbeResult.WARNED

    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        Path(elsewhere).chmod(0o755)
        shutil.rmtree(state / "secrets")
        (state / "secrets").symlink_to(elsewhere)
        assert _probe(state)["secrets.disk"].verdict is ProbeResult.OK


def _shard_of(config: Path) -> dict[str, Finding]:
    """The findings about the shard that a settings file names, as the agent's user."""

    def probed() -> list[Finding]:
        aim = DoctorTarget(
            state=config.parent,
            checkpoint=None,
            config=None,
            data_url="http://127.0.0.1:9",
            admin_url="http://127.0.0.1:9",
            agent_key=None,
            pids=(),
            shard=shard_named(str(config)),
        )
        return [one for one in probe_files(aim) if one.id.startswith("shard.")]

    return {one.id: one for one in as_user(AGENT_UID, probed, list[Finding])}


def test_a_shard_without_keys_is_warned_of_and_keys_that_the_agent_lists_are_red(
    state: Path,
) -> None:
    root, config = state.parent, state.parent / "conf" / "mnemogate.toml"
    for name in ("shared", "keys"):
        (root / name).mkdir()
        (root / name / "journal.key").write_bytes(b"x")
        _give(root / name, SIDECAR_UID, 0o700)
    table = f'[shard]\nname = "a"\nsecrets = "{root / "shared"}"\n'
    config.write_text(table)
    found = _shard_of(config)
    assert found["shard.secrets"].verdict is ProbeResult.OK
    assert found["shard.keys"].verdict is ProbeResult.WARNED
    assert "keep what purges and erasures took" in found["shard.keys"].got
    config.write_text(f'{table}keys = "{root / "keys"}"\n')
    assert _shard_of(config)["shard.keys"].verdict is ProbeResult.OK
    for name in ("shared", "keys"):
        _give(root / name, AGENT_UID, 0o700)
    assert {one.verdict for one in _shard_of(config).values()} == {ProbeResult.FAIL}
    # Settings that the agent cannot read, as it should be, are no settings of a shard.
    config.chmod(0o600)
    assert _shard_of(config) == {}
