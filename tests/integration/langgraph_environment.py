"""An environment with LangGraph, the client of its server, and langmem; made once, and kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.integration.clients.environments import exact_environment

PINS: Final = (
    *("langgraph==1.2.22", "langgraph-sdk==0.4.14", "langmem==0.0.30", "hypothesis==6.170.15"),
)


def langgraph_python() -> Path:
    """Its interpreter; a registry that cannot be reached skips the test."""
    return exact_environment(Path(sys.executable), PINS)
