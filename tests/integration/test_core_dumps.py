"""No image of a gate's memory: told by the kernel, of a process of its own."""

from __future__ import annotations

import subprocess
import sys

_ASK = """
import ctypes, resource
from proxy.compose.hardening import shield
library = ctypes.CDLL(None)
def told():
    print(library.prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
_, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
library.prctl(4, 1, 0, 0, 0)
told()
shield()
told()
"""


def test_a_gate_leaves_no_core_dump() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _ASK], check=True, capture_output=True, text=True
    )
    before, after = done.stdout.split("\n")[:2]
    assert before.split()[0] == "1"  # control: it could be dumped
    assert after == "0 0"
