"""The oldest versions that the metadata allow, together: the sidecar starts, judges and finds."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from proxy.cli.exits import Exit
from proxy.transport.connection import AIOHTTP_BELOW, AIOHTTP_FROM
from tests.integration.cli_process import Place
from tests.integration.clients.environments import exact_environment, interpreter_of, overlay
from tests.integration.installed_wheel import (
    Installed,
    installed_wheel,
    starts_admits_refuses_and_finds,
)

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The last of the minor version before, and the last before the bound.
TOO_OLD: Final = ("3.13.5", "3.14.3")
# The last before the one whose environments may be closed beside readers of other threads.
LMDB_TOO_OLD: Final = "1.8.1"
ASK_VERSIONS: Final = (
    "import importlib.metadata as m, json, sys; "
    "print(json.dumps([f'{name}=={m.version(name)}' for name in sys.argv[1:]]))"
)
# The command line of the project, but for the check of the installed aiohttp.
UNCHECKED: Final = (
    "import sys, proxy.compose.app; proxy.compose.app.check_aiohttp = lambda: None; "
    "from proxy.__main__ import main; sys.exit(main())"
)

# Without pytest, which the environment does not hold.
READS_BESIDE_WRITES: Final = (
    "import pathlib, sys; from tests.fault import test_reads_beside_writes as t; "
    "t.test_readers_never_see_a_mix_a_purged_memory_or_a_closed_store(pathlib.Path(sys.argv[1]))"
)

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=2), pytest.mark.timeout(900)]


def lowest(requirements: list[str]) -> tuple[str, ...]:
    pins: list[str] = []
    for requirement in map(Requirement, requirements):
        [bound] = [one.version for one in requirement.specifier if one.operator == ">="]
        pins.append(f"{requirement.name}=={bound}")
    return tuple(pins)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    oldest = interpreter_of(PROJECT["requires-python"].removeprefix(">="))
    python = exact_environment(oldest, lowest(PROJECT["dependencies"]))
    return installed_wheel(python, tmp_path_factory.mktemp("wheel"))


def reads_beside_writes(installed: Installed, state: Path, *before: Path) -> int:
    """How a process ends whose threads read while it commits, purges and compacts."""
    state.mkdir()
    # The project comes from the wheel, and from the tree its tests alone.
    path = f"{installed.path(*before)}:{ROOT}"
    return installed.ran("-P", "-c", READS_BESIDE_WRITES, state, path=path).returncode


def test_the_environment_holds_every_dependency_at_its_lower_bound(installed: Installed) -> None:
    pins = lowest(PROJECT["dependencies"])
    names = [pin.split("==")[0] for pin in pins]
    assert json.loads(installed.said("-c", ASK_VERSIONS, *names)) == list(pins)
    version = installed.said("-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    assert f">={version.strip()}" == PROJECT["requires-python"]


def test_the_metadata_allow_the_lowest_versions_and_no_older_aiohttp(installed: Installed) -> None:
    assert "No broken requirements found." in installed.said("-m", "pip", "check")
    for version in TOO_OLD:
        older = overlay(installed.python, f"aiohttp=={version}")
        said = installed.said("-m", "pip", "check", before=(older,))
        assert f"but you have aiohttp {version}" in said, said


def test_with_the_lowest_versions_one_write_is_admitted_one_refused_and_one_found(
    installed: Installed, tmp_path: Path
) -> None:
    starts_admits_refuses_and_finds(installed.place(tmp_path))


def test_with_the_lowest_versions_the_other_embedder_does_the_same(
    installed: Installed, tmp_path: Path
) -> None:
    [pin] = lowest(PROJECT["optional-dependencies"]["minilm"])
    weights = overlay(installed.python, pin)
    starts_admits_refuses_and_finds(installed.place(tmp_path, weights), "--embedder", "minilm")


def test_with_the_lowest_versions_readers_go_on_beside_commits_and_compactions(
    installed: Installed, tmp_path: Path
) -> None:
    ends = [reads_beside_writes(installed, tmp_path / str(number)) for number in range(3)]
    assert ends == [0, 0, 0]


def test_control_with_an_older_lmdb_the_process_dies_of_that(
    installed: Installed, tmp_path: Path
) -> None:
    older = overlay(installed.python, f"lmdb=={LMDB_TOO_OLD}")
    ends = [reads_beside_writes(installed, tmp_path / str(number), older) for number in range(3)]
    # A process that a signal ended; a failed claim would end it with 1.
    assert min(ends) < 0


@pytest.mark.parametrize("version", TOO_OLD)
def test_an_older_aiohttp_is_refused_at_the_start_in_one_line(
    installed: Installed, tmp_path: Path, version: str
) -> None:
    place = installed.place(tmp_path, overlay(installed.python, f"aiohttp=={version}"))
    done = place.command("run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert (done.code, done.out) == (Exit.USAGE, "")
    assert done.err == (
        f"mnemogate: aiohttp {version} is installed, and this program is not made for it: "
        f"install aiohttp>={AIOHTTP_FROM},<{AIOHTTP_BELOW}\n"
    )
    assert not place.state.exists()


def test_control_without_the_check_the_lowest_aiohttp_answers(
    installed: Installed, tmp_path: Path
) -> None:
    program = (str(installed.python), "-P", "-c", UNCHECKED)
    starts_admits_refuses_and_finds(Place(root=tmp_path, program=program, path=installed.path()))
