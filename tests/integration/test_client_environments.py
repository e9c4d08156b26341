"""What cannot be installed skips its test for one reason only."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.clients.environments import (
    exact_environment,
    node_environment,
    overlay,
    python_environment,
)

NOWHERE = "http://127.0.0.1:9/simple"
RUNNING = Path(sys.executable)

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOGATE_CACHE", str(tmp_path))
    for name in ("PIP_CONFIG_FILE", "NPM_CONFIG_USERCONFIG"):
        monkeypatch.setenv(name, "/dev/null")


def test_a_registry_that_cannot_be_reached_skips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    with pytest.raises(pytest.skip.Exception, match="registry cannot be reached"):
        python_environment("mem0ai", "2.2.1")
    with pytest.raises(pytest.skip.Exception, match="registry cannot be reached"):
        exact_environment(RUNNING, ("rfc8785==0.1.4",))
    with pytest.raises(pytest.skip.Exception, match="registry cannot be reached"):
        overlay(RUNNING, "rfc8785==0.1.4")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", NOWHERE)
    with pytest.raises(pytest.skip.Exception, match=r"cannot be reached|not installed"):
        node_environment("mem0ai", "3.3.1")
    # Nothing half made is taken for whole the next time.
    assert not list(tmp_path.glob("*/installed"))


def test_any_other_failed_installation_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('a broken interpreter')\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(pytest.fail.Exception, match="a broken interpreter"):
        python_environment("mem0ai", "2.2.1")
    assert not list(tmp_path.glob("*/installed"))


def test_a_version_that_the_registry_does_not_have_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "simple" / "rfc8785"
    listed.mkdir(parents=True)
    name = "rfc8785-0.1.4-py3-none-any.whl"
    (listed / "index.html").write_text(f'<a href="{name}">{name}</a>')
    monkeypatch.setenv("PIP_INDEX_URL", listed.parent.as_uri())
    with pytest.raises(pytest.fail.Exception, match=r"from versions: 0\.1\.4"):
        exact_environment(RUNNING, ("rfc8785==0.1.3",))
    assert not list(tmp_path.glob("*/installed"))
