"""An environment of its own for an unmodified `mem0ai`, made once and kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VERSION = "2.2.1"


def mem0_python() -> Path:
    """The interpreter of the environment; installs `mem0ai` on first use.

    It lives under MNEMOGATE_CACHE (default: `~/.cache/mnemogate`).
    """
    root = os.environ.get("MNEMOGATE_CACHE") or Path.home() / ".cache" / "mnemogate"
    environment = Path(root) / f"mem0ai-{VERSION}"
    interpreter = environment / "bin" / "python"
    done = environment / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run(
            [interpreter, "-m", "pip", "install", "--quiet", f"mem0ai=={VERSION}"],
            check=True,
            env={**os.environ, "MEM0_TELEMETRY": "false"},
        )
        done.touch()
    return interpreter
