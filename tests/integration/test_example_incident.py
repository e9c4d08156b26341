"""`examples/incident`, as a stranger runs it: a wrong answer, one feedback, and a right answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.integration.cli_process import DEADLINE_S, ROOT
from tests.integration.clients.environments import python_environment
from tests.integration.clients.process import run_client
from tests.integration.hosts.agents import OPENAI_SDK
from tests.integration.langgraph_environment import langgraph_python
from tests.integration.mem0_environment import mem0_python
from tests.integration.memory_servers.chroma import chroma_python
from tests.integration.test_first_hour import COMMAND

EXAMPLE: Final = ROOT / "examples" / "incident"
README: Final = (EXAMPLE / "README.md").read_text(encoding="utf-8")
_IDS: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{16}\b|[0-9a-f]{32}")
_LEAF: Final = re.compile(r" \d+$")


def _lines(printed: str) -> list[str]:
    """What is printed without padding, ids and numbers of leaves, which may be others each time."""
    return [
        _LEAF.sub("", " ".join(_IDS.sub("-", line).split()))
        for line in printed.strip().splitlines()
    ]


def _as_named(directory: Path) -> str:
    return os.path.relpath(COMMAND, directory)


async def _printed(home: Path, *words: str) -> list[str]:
    """The lines that the example prints, as a stranger runs it."""
    interpreter = python_environment("openai", OPENAI_SDK)
    assert f"openai=={OPENAI_SDK}\n" in README
    words = (*words, "--mnemogate", _as_named(home / "project"))
    code, out, errors = await run_client(interpreter, EXAMPLE / "incident.py", *words, home=home)
    assert code == 0, errors[-3_000:]
    return _lines(out)


def _shown(output: int) -> list[str]:
    """The lines of one of the two outputs in the README: 0 or 1."""
    return _lines(README.split("\n```\n")[2 + 3 * output])


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.skipif(not COMMAND.is_file(), reason="`make install-dev` puts `mnemogate` there")
async def test_one_feedback_hides_what_made_an_answer_wrong_as_the_readme_shows(
    tmp_path: Path,
) -> None:
    said = await _printed(tmp_path)
    assert said == _shown(0)
    # Control: the same question was answered wrongly before anybody said so, in two conversations.
    # After that it is right in a third one, and in the second, which sends its history again.
    assert said[0] == said[1] != said[-2] == said[-1]


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.skipif(not COMMAND.is_file(), reason="`make install-dev` puts `mnemogate` there")
async def test_a_registered_statement_alone_opens_the_incident_as_the_readme_shows(
    tmp_path: Path,
) -> None:
    said = await _printed(tmp_path, "--unasked")
    assert said == _shown(1)
    assert "Porto. (in what the model read: Porto 3 times)" in said[0], "control: it was shown"
    assert "Lisbon. (in what the model read: Porto 0 times)" in said[3]
    assert said[-1].endswith(" events, 0 words of the story in them")


# What is imported, and no program of its own.
LIBRARIES = {"langgraph/mnemogate_langgraph.py", "langgraph/server/server/graph.py"}
TRIED_ALONE = {"docker-compose/forward.py"}  # by `test_example_forward.py`
# Nothing listens at the discard port of this machine, and no browser or model would.
NOBODY = "http://127.0.0.1:9"
CASES: dict[str, tuple[list[str], dict[str, str], str]] = {
    "chat-agent/chat.py, no key": ([], {}, "OPENAI_API_KEY are not set"),
    "chat-agent/chat.py, no sidecar": (
        [],
        {"OPENAI_BASE_URL": NOBODY, "OPENAI_API_KEY": "x"},
        f"no answer of the model at {NOBODY}: ",
    ),
    "chat-agent/dialog.py, no secret": (["/nonexistent"], {}, "no dialog: "),
    "chroma/remember.py, no key": ([], {}, "MNEMOGATE_AGENT_KEY is not set"),
    "chroma/remember.py, no sidecar": (
        [],
        {"MNEMOGATE_AGENT_KEY": "x", "MNEMOGATE_PORT": "9"},
        "no collection at port 9: ",
    ),
    "incident/incident.py, no client": ([], {}, "openai is not installed here"),
    "langgraph/remember.py, no LangGraph": (
        [],
        {},
        " is not installed here: pip install langgraph",
    ),
    "langgraph/remember.py, no key": ([], {}, "MNEMOGATE_AGENT_KEY is not set"),
    "langgraph/remember.py, no sidecar": (
        [],
        {"MNEMOGATE_AGENT_KEY": "x", "MNEMOGATE_URL": NOBODY},
        f"no memory at {NOBODY}: ",
    ),
    "mem0/remember.py, no key": ([], {}, "MNEMOGATE_AGENT_KEY is not set"),
    "mem0/remember.py, no sidecar": (
        [],
        {"MNEMOGATE_AGENT_KEY": "x", "MNEMOGATE_URL": NOBODY, "MEM0_TELEMETRY": "false"},
        f"no memory at {NOBODY}: ",
    ),
    "mem0-server/remember.py, no key": ([], {}, "MNEMOGATE_AGENT_KEY is not set"),
    "mem0-server/remember.py, no sidecar": (
        [],
        {"MNEMOGATE_AGENT_KEY": "x", "MNEMOGATE_URL": NOBODY},
        f"no memory at {NOBODY}: ",
    ),
    "docker-compose/make_keys.py, no words": ([], {}, "GATE_DIR GATE_UID AGENT_DIR AGENT_UID"),
    "docker-compose/make_keys.py, no volume": (
        ["/nonexistent", "1", "/nonexistent", "2"],
        {},
        "no keys were made: ",
    ),
}


def _client(case: str) -> Callable[[], Path] | None:
    """What installs the client that a case needs; None where it needs none."""
    if case.endswith(", no LangGraph"):
        return None
    clients = {"chroma": chroma_python, "langgraph": langgraph_python, "mem0": mem0_python}
    return clients.get(case.partition("/")[0])


def test_every_program_of_the_examples_is_tried() -> None:
    there = {str(one.relative_to(ROOT / "examples")) for one in ROOT.glob("examples/**/*.py")}
    elsewhere = LIBRARIES | TRIED_ALONE
    assert there >= elsewhere
    assert there - elsewhere == {case.partition(",")[0] for case in CASES}


@pytest.mark.parametrize(
    "case",
    # Clients are installed for the heavy share alone.
    [pytest.param(case, marks=pytest.mark.heavy) if _client(case) else case for case in CASES],
)
def test_what_is_missing_is_said_in_one_line(tmp_path: Path, case: str) -> None:
    words, environment, says = CASES[case]
    program = case.partition(",")[0]
    installed = _client(case)
    python = sys.executable if installed is None else installed()
    done = subprocess.run(
        [str(python), str(ROOT / "examples" / program), *words],
        input="hello\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environment},
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
