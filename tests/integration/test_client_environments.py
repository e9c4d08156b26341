"""What cannot be installed skips its test for one reason only."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.clients.environments import (
    exact_environment,
    interpreter_of,
    node_environment,
    overlay,
    python_environment,
)
from tests.integration.debian import of_release, unpacked

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


def test_an_interpreter_that_is_not_there_or_not_whole_skips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(pytest.skip.Exception, match=r"no python3\.4 that can"):
        interpreter_of("3.4")
    found = tmp_path / "python3.4"
    found.write_text("#!/bin/sh\nexit 1\n")
    found.chmod(0o700)
    with pytest.raises(pytest.skip.Exception, match=r"no python3\.4 that can"):
        interpreter_of("3.4")
    # Control: one of that name that can is taken.
    found.write_text("#!/bin/sh\nexit 0\n")
    assert interpreter_of("3.4") == found


@pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("hello") is not None,
    reason="needs apt-get, and that `hello` is not installed",
)
def test_a_program_of_debian_is_unpacked_and_not_installed(tmp_path: Path) -> None:
    for _ in ("fetched", "kept"):
        program = unpacked("hello", "hello")
        assert program == tmp_path / "debian-hello" / "usr" / "bin" / "hello"
        said = subprocess.run((program,), capture_output=True, text=True, check=True, timeout=60)
        assert said.stdout == "Hello, world!\n"
    assert shutil.which("hello") is None
    # Control: one that is installed is taken as it is.
    assert unpacked("sh", "hello") == Path(str(shutil.which("sh")))


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get")
def test_a_program_of_another_release_leaves_this_machines_lists_alone(tmp_path: Path) -> None:
    def lists() -> list[str]:
        return sorted(path.name for path in Path("/var/lib/apt/lists").iterdir())

    before = lists()
    program = of_release("trixie", "hello", "usr/bin/hello")
    assert program == tmp_path / "debian-trixie-hello" / "usr" / "bin" / "hello"
    assert program.stat().st_mode & 0o111
    assert lists() == before
    with pytest.raises(pytest.skip.Exception, match="of Debian trixie, which cannot be fetched"):
        of_release("trixie", "no-such-package", "usr/bin/none")


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get")
def test_a_package_that_cannot_be_fetched_skips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "apt-get").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    with pytest.raises(pytest.skip.Exception, match="cannot be fetched"):
        unpacked("goodbye", "goodbye")
    assert not list(tmp_path.glob("*/installed"))
