"""A start on another system than Linux ends in one line, which names what is missing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Final

import pytest

from proxy.cli.exits import Exit
from proxy.compose.hardening import missing_here

_WITHOUT = """
import os, socket, sys
for name in sys.argv[1:]:
    delattr(socket if name.startswith("SO_") else os, name)
sys.argv = ["mnemogate", *os.environ["WORDS"].split()]
from proxy.__main__ import main
sys.exit(main())
"""


# What an interpreter on macOS does not have.
ELSEWHERE: Final = {
    "SO_PEERCRED": "a caller's uid (SO_PEERCRED)",
    "memfd_create": "files in memory alone (memfd_create)",
    "fdatasync": "data that is durable (fdatasync)",
}


def start_without(*names: str, words: str) -> tuple[int, list[str]]:
    environment = {"HOME": "/nowhere", "WORDS": words}
    command = (sys.executable, "-P", "-c", _WITHOUT, *names)
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env=environment
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("words", ["run --listen nowhere", "mcp -- cat", "mcp --store"])
def test_a_start_elsewhere_ends_in_one_line_that_names_what_is_missing(words: str) -> None:
    code, lines = start_without(*ELSEWHERE, words=words)
    wanted = f"the sidecar needs Linux; this system has no {', '.join(ELSEWHERE.values())}; "
    assert code == Exit.USAGE
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"mnemogate: {wanted}run it in a Linux container")


def test_control_where_all_is_there_the_same_start_comes_to_its_settings() -> None:
    assert missing_here() == ""
    code, lines = start_without(words="run --listen nowhere")
    assert code == Exit.USAGE
    assert lines[0].startswith("mnemogate: --listen: must be HOST:PORT")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_each_missing_part_is_named_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delattr(socket if name.startswith("SO_") else os, name)
    assert missing_here() == ELSEWHERE[name]
