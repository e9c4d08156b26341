"""`mnemogate doctor` in namespaces of its own: isolation is green, and a wrong aim is not."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.cli_process import DEADLINE_S, ROOT, Place, Running

_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def _available() -> bool:
    needed = ("unshare", "mount")
    return all(shutil.which(name) for name in needed) and (
        subprocess.run([*_NAMESPACES, "true"], capture_output=True, check=False).returncode == 0
    )


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not _available(), reason="namespaces of its own take root and unshare"
)


# All is loaded before the root is another one; then as the agent, in a root without anything.
_AS_AGENT = """
import codecs, contextlib, io, os, sys
from proxy.cli.entry import main
import proxy.doctor.files
from proxy.doctor import examine
for name in ("ascii", "idna", "latin-1"):
    codecs.lookup(name)
proxy.doctor.files._program_files = lambda: iter(())
looks_at, examine.DIRECTORIES_MAX = examine.DIRECTORIES_MAX, 1
with contextlib.redirect_stdout(io.StringIO()):
    main(["doctor", "--json", "--data", "http://127.0.0.1:9", "--admin", "http://127.0.0.1:9"])
examine.DIRECTORIES_MAX = looks_at
os.chroot(sys.argv[1])
os.chdir("/")
os.setgroups([])
os.setgid(65_534)
os.setuid(65_534)
sys.exit(main(sys.argv[2:]))
"""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's container: an empty root, and what of the gate's it is given by mistake."""

    root: Path
    state: Path | None = None
    own_processes: bool = True

    def doctor(self, sidecar: Running, *words: str) -> tuple[int, Any]:
        lines = ["set -e", "mount --make-rprivate /", f"mount -t proc proc {self.root}/proc"]
        if self.state is not None:
            lines.append(f"mount --bind {self.state} {self.root}/elsewhere")
        program = [
            *(sys.executable, "-P", "-B", "-c", _AS_AGENT, str(self.root)),
            *("doctor", "--json", "--state", str(sidecar.place.state)),
            *("--data", sidecar.ready["data"], "--admin", sidecar.ready["admin"], *words),
        ]
        lines.append(f"exec {shlex.join(program)}")
        namespaces = _NAMESPACES if self.own_processes else ("unshare", "--mount")
        done = subprocess.run(
            [*namespaces, "sh", "-c", "\n".join(lines)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            cwd="/",
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "PYTHONPATH": str(ROOT),
                "MNEMOGATE_AGENT_KEY": sidecar.key("agent"),
            },
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    root = tmp_path / "root"
    for name in ("proc", "elsewhere", "srv"):
        (root / name).mkdir(parents=True)
    return Cell(root=root)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(root=tmp_path / "gate")


def _verdicts(report: Any) -> dict[str, str]:  # noqa: ANN401 - what `--json` printed
    return {finding["id"]: finding["verdict"] for finding in report["findings"]}


def test_a_container_of_its_own_is_separated_by_isolation(place: Place, cell: Cell) -> None:
    with place.running() as sidecar:
        code, report = cell.doctor(sidecar)
    found = _verdicts(report)
    assert (code, report["separated"], report["isolated"]) == (0, True, True), report
    assert (found["state.list"], found["process.mem"]) == ("unseen", "unseen")
    assert (found["isolation.processes"], found["isolation.files"]) == ("ok", "ok")
    assert (found["data.anonymous"], found["data.agent_key.L1"]) == ("ok", "ok")


def test_without_a_gate_that_answers_isolation_proves_nothing(place: Place, cell: Cell) -> None:
    nobody = ("--data", "http://127.0.0.1:9", "--admin", "http://127.0.0.1:9")
    with place.running() as sidecar:
        code, report = cell.doctor(sidecar, *nobody)
    assert (code, report["proven"], report["isolated"]) == (3, False, False), report
    assert _verdicts(report)["state.list"] == "skipped"


def test_a_wrong_aim_beside_the_gates_process_proves_nothing(place: Place, cell: Cell) -> None:
    with place.running() as sidecar:
        beside = msgspec.structs.replace(cell, own_processes=False)
        code, report = beside.doctor(sidecar, "--pid", str(sidecar.pid))
    # There is a process to aim at, so a file that is not there is a wrong aim.
    assert (code, report["proven"], report["isolated"]) == (3, False, False), report
    assert _verdicts(report)["process.mem"] == "ok"


def test_the_state_under_another_name_is_found_if_it_can_be_listed(
    place: Place, cell: Cell
) -> None:
    with place.running() as sidecar:
        given = msgspec.structs.replace(cell, state=place.state)
        code, report = given.doctor(sidecar)
        assert (code, _verdicts(report)["isolation.files"]) == (0, "ok"), "control: mode 0700"
        place.state.chmod(0o755)
        code, report = given.doctor(sidecar)
        place.state.chmod(0o700)
    assert (code, report["separated"], report["isolated"]) == (1, False, False)
    assert _verdicts(report)["isolation.files"] == "FAIL"
