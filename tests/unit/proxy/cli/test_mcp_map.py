"""The skeleton of a map is a map: it loads, and takes more for a write than it may have to."""

from __future__ import annotations

from proxy.cli.mcp_map import skeleton_of, tools_named
from proxy.dialects.mcp.maps import parse_map
from proxy.ledger.unmapped_tools import UnmappedTool

SEEN = (
    UnmappedTool(tool="mcp__my.notes__save_memory", arguments=("note", "user-id", "tags")),
    UnmappedTool(tool="mcp__my.notes__forget", arguments=("id",)),
    UnmappedTool(tool="recall_memories", arguments=("query",)),
    UnmappedTool(tool="kb/upsert_memory"),
)


def test_a_skeleton_is_a_sound_map() -> None:
    found = parse_map(skeleton_of("My.Notes!", SEEN), "skeleton")
    assert found.name == "my-notes"
    kinds = {name: tool.kind.value if tool.kind else None for name, tool in found.tools.items()}
    assert kinds == {
        "save_memory": "write",
        "forget": "delete",
        "recall_memories": "read",
        "upsert_memory": "write",
    }
    assert found.tools["save_memory"].texts == ("note", "tags")


def test_a_name_is_a_tool_s_or_its_server_s() -> None:
    assert tools_named("recall_memories", SEEN) == (SEEN[2],)
    assert tools_named("my.notes", SEEN) == SEEN[:2]
    assert tools_named("kb", SEEN) == (SEEN[3],)
    assert tools_named("another", SEEN) == ()
    assert tools_named("", SEEN) == ()
