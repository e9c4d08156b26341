"""Where a gate keeps its state: nowhere that another user can take it away, or exchange it."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from proxy.settings.load import MARKER, load_settings
from proxy.settings.table import Settings, SettingsError
from tests.unit.proxy.doctor.as_user import as_user, needs_root

STRANGER = 1234


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A directory of another user, who can reach it."""
    for above in (tmp_path, *tmp_path.parents):
        if above.parent in (above, Path("/")):
            break
        above.chmod(above.stat().st_mode | 0o055)
    place = tmp_path / "theirs"
    place.mkdir()
    os.chown(place, STRANGER, STRANGER)
    return place


@pytest.fixture(autouse=True)
def in_time() -> Generator[None]:
    """Fail a test that blocks for ever."""
    signal.alarm(60)
    yield
    signal.alarm(0)


def load(tmp_path: Path, **flags: object) -> Settings:
    given = {name: str(value) for name, value in flags.items()}
    return load_settings(dict(given), environment={"HOME": str(tmp_path / "home")})


def used(state: Path) -> Path:
    state.mkdir(mode=0o700, parents=True)
    (state / MARKER).write_bytes(b"")
    return state


@needs_root
def test_a_state_below_another_users_directory_is_refused(tmp_path: Path, theirs: Path) -> None:
    state = used(theirs / "mine" / "state")
    with pytest.raises(SettingsError, match=f"^state: must be .*{theirs} belongs"):
        load(tmp_path, state=state)


@needs_root
def test_without_that_its_owner_moves_it_away_and_the_next_start_is_empty(
    tmp_path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allowed(_: Path) -> None:
        """The wall is off."""

    monkeypatch.setattr("proxy.settings.load.refuse_replaceable", allowed)
    state = used(theirs / "mine" / "state")
    assert load(tmp_path, state=state).state == state

    def move() -> bool:
        (theirs / "mine").rename(theirs / "moved")
        return True

    assert as_user(STRANGER, move, bool)
    assert not (load(tmp_path, state=state).state / MARKER).exists()
    with pytest.raises(SettingsError, match="expect_state says that there is one"):
        load(tmp_path, state=state, expect_state="true")


@needs_root
def test_another_users_state_and_checkpoint_are_refused(tmp_path: Path, theirs: Path) -> None:
    own = used(theirs / "state")
    os.chown(own, STRANGER, STRANGER)
    with pytest.raises(SettingsError, match=r"^state: must be"):
        load(tmp_path, state=own)
    (theirs / "link.txt").symlink_to(tmp_path / "copy.txt")
    with pytest.raises(SettingsError, match=r"^checkpoint: must be"):
        load(tmp_path, state=tmp_path / "state", checkpoint=theirs / "link.txt")


@needs_root
@pytest.mark.parametrize("name", ["ruleset", "agent_key_file", "tls_client_ca"])
def test_another_users_files_are_refused(tmp_path: Path, theirs: Path, name: str) -> None:
    file = theirs / "file"
    file.write_text("a-key-of-another-user-0123456789")
    file.chmod(0o600)
    pem = tmp_path / "pem"
    pem.write_text("pem", "utf-8")
    given = {"tls_cert": pem, "tls_key": pem} if name.startswith("tls") else {}
    for owner in (STRANGER, 0):  # theirs, and root's below a directory of theirs
        os.chown(file, owner, 0)
        with pytest.raises(SettingsError, match=f"^{name}: must be .*uid {STRANGER}"):
            load(tmp_path, **given, **{name: file}).ruleset_text()


_UNFIT = {
    "absent": "No such file or directory",
    "below/a/file": "Not a directory",
    "a directory": "a regular file, and ",
    "open": "`chmod ",
    # As a key; the others may be empty as far as their reader is concerned.
    "empty": "a file with one line, 20 to ",
}


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (name, what)
        for name in ("ruleset", "agent_key_file", "operator_key_file", "tls_client_ca", "config")
        for what in _UNFIT
        if what != "empty" or name.endswith("key_file")
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, name: str, what: str
) -> None:
    place, pem = tmp_path / what, tmp_path / "pem"
    for file, mode in (("open", 0o666), ("empty", 0o600), ("below", 0o600), ("pem", 0o600)):
        (tmp_path / file).touch(mode)
        (tmp_path / file).chmod(mode)
    (tmp_path / "a directory").mkdir()
    given = {"tls_cert": pem, "tls_key": pem} if name.startswith("tls") else {}

    def start() -> None:
        if name == "config":
            load_settings({}, environment={"HOME": str(tmp_path)}, config=place)
        else:
            load(tmp_path, **given, **{name: place}).ruleset_text()

    with pytest.raises(SettingsError) as caught:
        start()
    assert str(place) in str(caught.value)
    assert _UNFIT[what] in str(caught.value)


@pytest.mark.parametrize("name", ["ruleset", "agent_key_file", "config"])
@pytest.mark.parametrize("what", ["pipe", "endless"])
def test_a_pipe_or_a_device_stops_the_start_at_once(tmp_path: Path, name: str, what: str) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    place = tmp_path / "pipe" if what == "pipe" else Path("/dev/zero")

    def start() -> None:
        if name == "config":
            load_settings({}, environment={"HOME": str(tmp_path)}, config=place)
        else:
            load(tmp_path, **{name: place}).ruleset_text()

    with pytest.raises(SettingsError, match="a regular file"):
        start()


def test_a_ruleset_that_became_a_pipe_stops_no_reload(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("# mine", "utf-8")
    settings = load(tmp_path, ruleset=rules)
    assert settings.ruleset_text() == "# mine"
    rules.unlink()
    os.mkfifo(rules, 0o600)
    with pytest.raises(SettingsError, match="a regular file"):
        settings.ruleset_text()


def test_a_state_that_is_expected_and_there_starts(tmp_path: Path) -> None:
    state = used(tmp_path / "state")
    assert load(tmp_path, state=state, expect_state="true").expect_state
    (state / MARKER).unlink()
    with pytest.raises(SettingsError, match="there is no store in"):
        load(tmp_path, state=state, expect_state="true")
    assert load(tmp_path, state=state).state == state


@needs_root
def test_a_state_of_roots_is_refused_to_an_ordinary_user_with_the_command_that_helps(
    tmp_path: Path, theirs: Path
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o755)
    (volume / "roots").mkdir(mode=0o700)
    home = theirs / ".local" / "state"

    def act() -> list[str]:
        os.chdir("/")
        told: list[str] = []
        for state in (volume / "state", volume / "roots", home):
            try:
                load(theirs, state=state)
                told.append("taken")
            except SettingsError as error:
                told.append(str(error))
        return told

    below, roots, own = as_user(STRANGER, act, list[str])
    assert f"install -d -m 700 -o {STRANGER} {volume / 'state'}" in below
    assert f"chown -R {STRANGER} {volume / 'roots'}" in roots
    assert own == "taken"
