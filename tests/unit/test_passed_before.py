"""What the full suite leaves out because the quick one has just shown it, and when it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.passed_before import REASON, ROOT, SAME_FILES, digest_of

CONFTEST: Final = """
import os
from pathlib import Path

import tests.passed_before as passed_before

passed_before.ROOT = Path(__file__).parent


def pytest_configure(config):
    heavy = os.environ.get("MNEMOGATE_HEAVY") == "1"
    config.pluginmanager.register(passed_before.PassedBefore(config, heavy=heavy), "passed_before")
"""
TESTS: Final = """
import pytest
from hypothesis import given, strategies


def test_same():
    pass


@given(strategies.integers())
def test_drawn(number):
    pass


@pytest.mark.skip
def test_that_did_not_run():
    pass
"""

SIZED: Final = """
import os

HEAVY = os.environ.get("MNEMOGATE_HEAVY") == "1"
SIZE = 2 if HEAVY else 1


def sized():
    return SIZE


def test_more():
    assert sized()


def test_alike():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Six tests in three files, and the conftest that notes what passed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_three.py").write_text(TESTS)
    (tmp_path / "test_sized.py").write_text(SIZED)
    (tmp_path / "test_done.py").write_text("def test_done():\n    pass\n")
    return tmp_path


def _run(project: Path, *arguments: str, heavy: bool) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MNEMOGATE_", "PYTEST_"))
    }
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", *arguments],
        cwd=project,
        env={**kept, "PYTHONPATH": str(ROOT), "MNEMOGATE_HEAVY": "1" if heavy else "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def test_what_passed_is_not_run_again_and_the_rest_is(project: Path) -> None:
    _run(project, "-n", "2", heavy=False)
    again = _run(project, "-n", "2", heavy=True)
    assert f"SKIPPED [1] test_three.py: {REASON}" in again
    assert f"SKIPPED [1] test_sized.py: {REASON}" in again
    assert "2 passed, 3 skipped" in again, "what draws examples or depends on HEAVY runs again"
    assert "nothing was repeated in 1 files" in again, "nothing of test_done.py was collected"


def test_one_changed_byte_and_everything_runs(project: Path) -> None:
    _run(project, heavy=False)
    (project / "page.md").write_text("x")
    assert "5 passed, 1 skipped" in _run(project, heavy=True)


def test_a_part_of_the_suite_says_nothing_about_the_whole(project: Path) -> None:
    _run(project, "-k", "same", heavy=False)
    _run(project, "test_three.py", heavy=False)
    assert "5 passed, 1 skipped" in _run(project, heavy=True)


def test_the_digest_covers_files_and_not_what_tools_leave_behind(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    before = digest_of(tmp_path, None)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "b").write_text("2")
    assert digest_of(tmp_path, None) == before
    assert digest_of(tmp_path, "/corpora") != before
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    assert digest_of(tmp_path, None) != before


def test_what_it_tells_the_workers_is_no_setting_of_the_product() -> None:
    sources = (path for name in ("proxy", "policy", "storage") for path in (ROOT / name).rglob("*"))
    for path in sources:
        assert path.suffix != ".py" or SAME_FILES not in path.read_text(encoding="utf-8")
