"""Which tools a person is told of because no map takes them."""

from __future__ import annotations

import pytest

from proxy.dialects.model.memory_tools import Maps, OfferedTools
from proxy.dialects.model.memory_words import speaks_of_memory
from proxy.dialects.model.tools import DeclaredTool
from proxy.settings.tool_maps import maps_of_models


@pytest.mark.parametrize(
    "name",
    [
        "save_memory",
        "remember",
        "store_fact",
        "upsert_memory",
        "mcp__notes__rememberThis",
        "addFacts",
        "MEMORY_WRITE",
        "forget",
        "learn-preference",
    ],
)
def test_a_name_speaks_of_memory(name: str) -> None:
    assert speaks_of_memory(DeclaredTool(name=name))


@pytest.mark.parametrize("name", ["Bash", "write_file", "create_issue", "fact_check", "get_facts"])
def test_a_name_does_not(name: str) -> None:
    assert not speaks_of_memory(DeclaredTool(name=name, arguments=frozenset({"path", "text"})))


def test_a_schema_speaks_of_memory() -> None:
    said = frozenset({"memoryText", "user"})
    assert speaks_of_memory(DeclaredTool(name="upsert", arguments=said))
    assert not speaks_of_memory(DeclaredTool(name="resize", arguments=said))


def test_what_a_map_takes_is_not_unmapped() -> None:
    mapped = DeclaredTool(name="add_memory", arguments=frozenset({"text"}))
    other = DeclaredTool(name="save_memory", arguments=frozenset({"note"}))
    assert OfferedTools((mapped, other), maps_of_models(None)).unmapped == (other,)
    assert OfferedTools((mapped, other), Maps(maps=())).unmapped == (mapped, other)
    assert OfferedTools(None, maps_of_models(None)).unmapped == ()
