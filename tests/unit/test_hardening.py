"""What needs Linux is named by what is missing, and nothing is where all is there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from proxy.compose.hardening import fails_here

_WITHOUT = """
import os, socket, sys
del socket.SO_PEERCRED, os.memfd_create
sys.argv = ["mnemogate", "run", "--listen", "nowhere"]
from proxy.__main__ import main
sys.exit(main())
"""


def test_nothing_fails_on_linux_and_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fails_here() == ""
    monkeypatch.delattr(socket, "SO_PEERCRED")
    assert fails_here() == "operators' commands and unix_socket (SO_PEERCRED)"
    monkeypatch.delattr(os, "memfd_create")
    assert fails_here().endswith("; candidates in memory alone (memfd_create)")


def test_a_start_elsewhere_says_it_in_its_first_line() -> None:
    command = (sys.executable, "-P", "-c", _WITHOUT)
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env={"HOME": "/nowhere"}
    )
    first, *others = done.stderr.splitlines()
    assert first.startswith("this system is not Linux; what fails: operators' commands")
    assert done.returncode != 0
    assert others, "the reason why it did not start comes below"
