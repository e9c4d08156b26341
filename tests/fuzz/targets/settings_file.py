"""The settings file: settings, or an error that names one; nothing of a secret is quoted."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from proxy.settings.load import load_settings
from proxy.settings.table import SettingsError
from tests.fuzz.choices import MARK, words

WORDS = words(
    """
    listen admin unix_socket unix_uids tls_cert state checkpoint ruleset embedder
    quota_bytes allowed_hosts allowed_origins agent_key operator_key otel_endpoint
    log_level access_log body_bytes_max header_seconds connections_max
    [[principals]] id tenant uid mtls channel claims "user" "trusted" = [ ] true 1e400 inf
    nan 127.0.0.1:7077 client:8
    """
)
_MEMORY = Path("/dev/shm")  # noqa: S108 - the directory made in it is our own
_DIRECTORY = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
atexit.register(shutil.rmtree, _DIRECTORY, ignore_errors=True)
_FILE = _DIRECTORY / "mnemogate.toml"


def check(data: bytes) -> None:
    _FILE.write_bytes(data)
    environment = {"HOME": "/nonexistent"}
    try:
        settings = load_settings(environment=environment, config=_FILE, check_places=False)
    except SettingsError as error:
        _check_message(str(error))
        return
    again = load_settings(environment=environment, config=_FILE, check_places=False)
    assert again == settings


def _check_message(said: str) -> None:
    # The path and names of settings may be in it; what a secret was set to may not.
    assert said
    assert f"{MARK}-secret" not in said
