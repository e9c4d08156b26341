"""Ends the gates that a test's MCP wrappers started, which outlive them by design."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.gates import end_process, gates_below


@pytest.fixture(autouse=True)
def no_gate_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    for pid in gates_below(tmp_path_factory.getbasetemp()):
        end_process(pid)
