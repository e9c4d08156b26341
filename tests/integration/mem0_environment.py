"""An environment of its own for an unmodified `mem0ai`, made once and kept."""

from __future__ import annotations

from pathlib import Path

from tests.integration.clients.environments import python_environment

VERSION = "2.2.1"


def mem0_python() -> Path:
    """The interpreter of the environment; installs `mem0ai` on first use."""
    return python_environment("mem0ai", VERSION)
