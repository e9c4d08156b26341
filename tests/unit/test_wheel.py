"""The wheel holds the four packages with their data, and nothing else of the project."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("policy", "proxy", "storage", "telemetry")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this tree by the locked backend, with no network in between."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    [built] = out.glob("mnemogate-*-py3-none-any.whl")
    return built


def test_the_wheel_ships_every_file_of_the_four_packages_and_only_those(wheel: Path) -> None:
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert shipped == expected
    assert "policy/default.toml" in shipped


def test_the_installed_wheel_starts_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import policy, proxy; "
        "assert proxy.__file__.startswith(sys.argv[1]), proxy.__file__; "
        "from proxy.__main__ import main; sys.argv = ['mnemogate', '--help']; sys.exit(main())"
    )
    shown = subprocess.run(
        [sys.executable, "-P", "-c", program, str(tmp_path / "site")],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    assert "run" in shown.stdout


def test_the_wheel_names_the_command_and_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [entry_points] = [name for name in names if name.endswith("entry_points.txt")]
        assert "mnemogate = proxy.__main__:main" in archive.read(entry_points).decode()
        assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_asks_for_the_versions_that_the_project_declares(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        asked = BytesParser().parsebytes(archive.read(metadata)).get_all("Requires-Dist") or []
    extras = project["optional-dependencies"]
    declared = project["dependencies"] + [
        f'{one}; extra == "{extra}"' for extra in extras for one in extras[extra]
    ]
    assert {str(Requirement(one)) for one in asked} == {str(Requirement(one)) for one in declared}
