"""What the first start prints is pasted as it stands; what a start cannot do costs no key."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest

from tests.integration.cli_process import DEADLINE_S, ROOT, Place

LAST_LINES = ("export MNEMOGATE_OPERATOR_KEY=", "keys: ")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(root=tmp_path)


@contextmanager
def _read_by_a_person(
    place: Place, environment: dict[str, str] | None = None
) -> Generator[list[str]]:
    """`mnemogate run` on free ports, and the lines that it prints until it is ready."""
    with subprocess.Popen(
        [*place.program, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
        cwd="/",
        env=environment or place.environment() | {"PYTHONPATH": place.path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if line.strip().startswith(LAST_LINES):
                    break
            assert lines, process.communicate(timeout=DEADLINE_S)[1]
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=DEADLINE_S)


def _pasted(lines: list[str], place: str) -> list[str]:
    """The lines that a start prints below the heading of one place, to be pasted there."""
    at = next(n for n, line in enumerate(lines) if line.startswith(place))
    return [line.strip() for line in takewhile(lambda one: one.startswith("  "), lines[at + 1 :])]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_the_lines_that_the_first_start_prints_work_as_they_stand(place: Place) -> None:
    with _read_by_a_person(place) as lines:
        exports = _pasted(lines, "where the agent runs")
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
        mine = _pasted(lines, "in a shell of your own")
        # The state is not where a command without options looks, and is found all the same.
        asked = [*place.program, "key", "list", "--json"]
        found = subprocess.run(
            ["sh", "-c", "\n".join([*mine, " ".join(asked)])],
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(place.root), "PYTHONPATH": place.path},
            cwd="/",
            timeout=DEADLINE_S,
            check=True,
        )
    assert len(json.loads(found.stdout)["keys"]) == 2
    # No place is told both keys: with the operator's, an agent could release what was held of it.
    assert ["_AGENT_KEY" in line for line in exports] == [True]
    assert ["_OPERATOR_KEY" in line for line in mine][-1:] == [True]
    assert "_AGENT_KEY" not in "".join(mine)
    assert json.loads(told.stdout)["decision"] == "admit"
    assert json.loads(bare.stdout)["status"] == 401
    assert any(f"writes as uid:{os.geteuid()}; with the agent's key" in line for line in lines)
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


README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = Path(sys.executable).with_name("mnemogate")


def _shown() -> list[tuple[str, str]]:
    """The commands of the README's first screen, each with what it is shown to print."""
    block = README.partition("```console\n")[2].partition("```")[0].replace("\\\n", "")
    steps = [step.partition("\n") for step in block.split("$ ")[1:]]
    return [(command, output) for command, _, output in steps]


def _as_anybody_would_see(printed: str) -> str:
    """What a command prints, without what is another one each time."""
    return re.sub(r'("(?:candidate|trace)_id": )"[0-9a-f]{32}"', r"\1-", printed).strip()


@pytest.mark.skipif(
    shutil.which("curl") is None or not COMMAND.is_file(), reason="curl, or `make install`"
)
def test_the_readmes_first_hour_is_walked_in_an_empty_home(tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    place = Place(root=tmp_path, program=(str(COMMAND),))
    with _read_by_a_person(place, bare) as lines:
        exports = _pasted(lines, "where the agent runs")
        mine = _pasted(lines, "in a shell of your own")
        (data,) = [line.split()[1] for line in lines if line.startswith("  data  ")]

        def typed(command: str) -> str:
            # Nothing but the port is another than on the page: 7077 may be taken here.
            command = command.replace("http://127.0.0.1:7077", data)
            script = "\n".join([*(mine if command.startswith("mnemogate ") else exports), command])
            done = subprocess.run(
                ["sh", "-c", script],
                capture_output=True,
                text=True,
                env=bare,
                cwd=tmp_path,
                timeout=DEADLINE_S,
                check=False,
            )
            return done.stdout

        (export, _), *shown = _shown()
        assert any(line.startswith(export.partition("...")[0]) for line in exports)
        assert len(shown) == 2
        for command, printed in shown:
            assert _as_anybody_would_see(typed(command)) == _as_anybody_would_see(printed)

        # The table of first writes, each body in the place of the one that the page sends.
        (write, _), _ = shown
        body = re.search(r"-d '(.*?)'", write)
        assert body is not None
        rows = re.findall(r"^\| `(\{.*?\})` \| (\d+) `([a-z]+)`, (L\d) \|", README, re.MULTILINE)
        assert len(rows) == 5
        for sent, status, decision, memory_class in rows:
            said = json.loads(typed(write.replace(body[1], sent)))
            told = (str(said["status"]), said["decision"], said["memory_class"])
            assert told == (status, decision, memory_class)

        # What waits is seen by the command that the table names, found by the path as exported.
        assert "`mnemogate review list`" in README
        assert typed("mnemogate review list").splitlines()[-1] == "2 waiting"
        # Control: what was written is in the files that have nothing of what was refused.
        assert typed("grep -ra Lisbon ~/.local/state/mnemogate > found; echo $?") == "0\n"


# Every command that lists, as it is typed on a store that has nothing yet.
