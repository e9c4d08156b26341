"""Each program among the examples, where something ordinary is missing: one line, and exit 1."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli_process import DEADLINE_S, ROOT
from tests.integration.langgraph_environment import langgraph_python
from tests.integration.mem0_environment import mem0_python
from tests.integration.memory_servers.chroma import chroma_python

# What is imported, and no program of its own.
LIBRARIES = {"langgraph/mnemogate_langgraph.py", "langgraph/server/server/graph.py"}
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
    assert there >= LIBRARIES
    assert there - LIBRARIES == {case.partition(",")[0] for case in CASES}


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
