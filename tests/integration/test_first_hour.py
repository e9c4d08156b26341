"""What the first start prints is pasted as it stands; what a start cannot do costs no key."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.integration.cli_process import DEADLINE_S, Place

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LAST_LINE = "agent's user."


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(root=tmp_path)


@contextmanager
def _read_by_a_person(place: Place) -> Generator[list[str]]:
    """`mnemogate run` on free ports, and the lines that it prints until it is ready."""
    with subprocess.Popen(
        [*place.program, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
        cwd="/",
        env=place.environment() | {"PYTHONPATH": place.path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if line.strip() == LAST_LINE:
                    break
            assert lines, process.communicate(timeout=DEADLINE_S)[1]
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=DEADLINE_S)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_the_lines_that_the_first_start_prints_work_as_they_stand(place: Place) -> None:
    with _read_by_a_person(place) as lines:
        exports = [line for line in lines if line.startswith("  export ")]
        at = next(n for n, line in enumerate(lines) if line.startswith("  curl "))
        pasted = "\n".join([*exports, lines[at], lines[at + 1]])
        told = subprocess.run(
            ["sh", "-c", pasted],
            capture_output=True,
            text=True,
            env={"PATH": place.environment()["PATH"], "HOME": str(place.root)},
            timeout=DEADLINE_S,
            check=True,
        )
        # Control: without the lines above it the same command is refused.
        bare = subprocess.run(
            ["sh", "-c", "\n".join(lines[at : at + 2])],
            capture_output=True,
            text=True,
            env={"PATH": place.environment()["PATH"], "HOME": str(place.root)},
            timeout=DEADLINE_S,
            check=True,
        )
        (entry,) = [line for line in lines if line.startswith("  MCP:")]
    assert json.loads(told.stdout)["decision"] == "admit"
    assert json.loads(bare.stdout)["status"] == 401
    arguments = json.loads(entry.partition(":")[2])["mcpServers"]["memory"]["args"]
    assert arguments[:3] == ["mcp", "--state", str(place.state)]


def test_a_start_that_finds_its_port_taken_makes_no_keys_that_nobody_sees(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failed = place.command("run", "--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0")
    assert failed.code != 0
    assert "address already in use" in failed.err
    with place.running() as sidecar:
        assert {key["channel"] for key in sidecar.ready["first_keys"]} == {"agent", "operator"}
        assert sidecar.write(sidecar.key("agent"), text="The meeting is on Tuesday.")[0] == 201


def test_a_later_start_names_the_keys_there_are_and_how_to_get_one(place: Place) -> None:
    with place.running() as sidecar:
        made = {key["key_id"]: key["key"] for key in sidecar.ready["first_keys"]}
    with _read_by_a_person(place) as lines:
        (named,) = [line for line in lines if line.startswith("keys: ")]
        assert all(key_id in named for key_id in made)
        assert not any(key in "\n".join(lines) for key in made.values())
        fresh = place.command("key", "rotate", next(iter(made)), "--json")
    assert fresh.code == 0, fresh.err
