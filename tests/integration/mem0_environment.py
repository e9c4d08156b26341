"""An environment of its own for an unmodified `mem0ai`, made once and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.clients.environments import python_environment

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "2.2.1"


def mem0_python() -> Path:
    """The interpreter of the environment; installs `mem0ai` on first use."""
    return python_environment("mem0ai", VERSION)
