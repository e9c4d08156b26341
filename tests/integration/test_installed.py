"""The wheel beside exactly what `requirements.lock` names: it serves, and holds no test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest

from proxy.cli.exits import Exit
from tests.integration import importing_alone
from tests.integration.cli_process import ROOT
from tests.integration.clients.environments import locked_environment
from tests.integration.installed_wheel import (
    Installed,
    installed_wheel,
    starts_admits_refuses_and_finds,
)

PACKAGES: Final = ("policy", "proxy", "storage", "telemetry")
# What others made, so that the process that is forked loads it once.
LOADED: Final = (
    *("aiohttp.web", "cryptography.fernet", "faiss", "lmdb", "msgspec", "numpy", "rfc8785"),
    *("opentelemetry.exporter.otlp.proto.common.trace_encoder", "opentelemetry.sdk.trace.export"),
    *("prometheus_client", "tokenizers"),
)
FOUND: Final = (
    "import importlib.util as u, sys; print([u.find_spec(n) is not None for n in sys.argv[1:]])"
)

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=1), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    python = locked_environment(ROOT / "requirements.lock")
    return installed_wheel(python, tmp_path_factory.mktemp("wheel"))


def modules_below(site: Path, packages: Sequence[str]) -> list[str]:
    files = [path for package in packages for path in sorted((site / package).rglob("*.py"))]
    names = [path.relative_to(site).with_suffix("").as_posix().replace("/", ".") for path in files]
    return [name.removesuffix(".__init__") for name in names]


def refused(
    done: subprocess.CompletedProcess[str],
) -> Mapping[str, str]:
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=dict[str, str])


def test_it_serves_and_names_the_command_of_a_clone_for_the_evaluation(
    installed: Installed, tmp_path: Path
) -> None:
    place = installed.place(tmp_path)
    starts_admits_refuses_and_finds(place)
    done = place.command("evaluate")
    assert (done.code, done.out) == (Exit.USAGE, "")
    assert done.err.endswith("from a clone of its source: make evaluate ARGS=--help\n")
    assert installed.said("-P", "-c", FOUND, "tests", "sentry_sdk", "proxy") == (
        "[False, False, True]\n"
    ), "no test and no extra is there, and the control is"


def test_each_module_is_imported_alone(installed: Installed) -> None:
    modules = modules_below(installed.site, PACKAGES)
    assert len(modules) > 500
    words = (importing_alone.__file__, ",".join(LOADED), ",".join(modules))
    told = refused(installed.ran("-P", *words, path=installed.path(), timeout_s=850))
    # The journal in PostgreSQL is an extra, and the only code that needs one.
    needing = ("storage.journal.database", "storage.journal.postgres")
    assert told == dict.fromkeys(needing, "ModuleNotFoundError: No module named 'asyncpg'")


def test_control_a_module_that_needs_what_another_one_loads_is_told(tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "first.py").write_text("import colorsys\n")
    # It works where `first` was imported before.
    second = "import sys\nsys.modules['colorsys'].hls_to_rgb\n"
    (tmp_path / "planted" / "second.py").write_text(second)
    modules = modules_below(tmp_path, ("planted",))
    here = Installed(python=Path(sys.executable), site=tmp_path)
    words = (importing_alone.__file__, "json", ",".join(modules))
    told = refused(here.ran("-P", *words, path=here.path()))
    assert told == {"planted.second": "KeyError: 'colorsys'"}
