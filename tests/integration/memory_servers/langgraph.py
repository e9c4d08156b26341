"""LangGraph's own server, from PyPI, in an environment of its own, with one graph that does little.

`langgraph-api` and `langgraph-runtime-inmem` are under the Elastic License 2.0: tests alone use
them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.integration.clients.environments import exact_environment

PINS: Final = (
    "langgraph-cli[inmem]==0.4.40",
    "langgraph-api==0.16.7",
    "langgraph-runtime-inmem==0.36.7",
    "langgraph-sdk==0.4.14",
)
START_S: Final = 120.0
GRAPH: Final = """
from typing import TypedDict
from langgraph.graph import StateGraph

class State(TypedDict):
    text: str

def say(state: State) -> State:
    return {"text": state["text"]}

graph = StateGraph(State).add_node("say", say).set_entry_point("say").set_finish_point("say")
graph = graph.compile()
"""


def langgraph_python() -> Path:
    """The interpreter of the environment, which has server and SDK; installed on first use."""
    return exact_environment(Path(sys.executable), PINS)


@contextmanager
def langgraph_server(python: Path, folder: Path) -> Generator[str]:
    """The server's URL while the block runs; its data are below `folder`."""
    folder.mkdir()
    (folder / "graph.py").write_text(GRAPH)
    (folder / "langgraph.json").write_text(
        '{"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}'
    )
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = int(found.getsockname()[1])
    command = [str(python.parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
    environment = {
        "HOME": str(folder),
        "PATH": f"{python.parent}:{os.defpath}",
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _await(port, process, folder / "log")
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start\n{log.read_text()[-2_000:]}")
